"""Whose a cluster name is: claims in a configuration store, beside the PulsarClusters that they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.clusters import owner_text, pulsar_name
from pulsar_operator.controllers.core.stores import metadata_store
from pulsar_operator.domain.dataplane.registration.deregistration import is_claim_of
from pulsar_operator.domain.dataplane.registration.registration import claim_path, claimant
from pulsar_operator.ports import CUSTOM, Deps, ForbiddenError, Json, PortError

ATTEMPTS: Final = 2
"""A server that went takes an answer with it, not the store."""


async def claimant_there(deps: Deps, claim: bytes | None, instance_id: str | None, owner: str) -> bool:
    """Whether the PulsarCluster that a claim with that INSTANCEID names is there and is another than ``owner``
    (namespace/name): of whatever instance, for several may have one store. Asked of the API server; one in a Kubernetes
    namespace that the operator may not read counts as there. Raises PortError."""
    other = claimant(claim, instance_id, owner) if instance_id is not None else None
    if other is None:
        return False
    try:
        return await deps.kube.get(CUSTOM[Kind.CLUSTER], *other) is not None
    except ForbiddenError:
        return True


async def registered_with(deps: Deps, cluster: Json, others: Sequence[Json]) -> list[Json]:
    """Those of some PulsarClusters that are registered in a cluster's own metadata store, as their claims there say; no
    status does, for anybody may write that of his own. A store that gives no answer, twice, has none."""
    store = metadata_store(cluster)
    if store is None or not others:
        return []
    for _ in range(ATTEMPTS):
        try:
            session = await deps.zookeeper.session(*store)
            nodes = [await session.get(claim_path(pulsar_name(each))) for each in others]
        except PortError:
            continue
        claims = [node.data if node is not None else None for node in nodes]
        return [
            each
            for each, claim in zip(others, claims, strict=True)
            if claim is not None and is_claim_of(claim, owner_text(each))
        ]
    return []
