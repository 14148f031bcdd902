"""The owner of a cluster name: claims in a configuration store, and the PulsarClusters that they name."""

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
"""Attempts: a ZooKeeper server that stops loses an answer although the store is available."""


async def claimant_there(deps: Deps, claim: bytes | None, instance_id: str | None, owner: str) -> bool:
    """Whether the PulsarCluster that a claim with that INSTANCEID names exists and is not ``owner`` (namespace/name),
    in any instance, since several may share a store.

    Read from the API server; one in a Kubernetes namespace that the operator may not read counts as existing. Raises
    PortError.
    """
    other = claimant(claim, instance_id, owner) if instance_id is not None else None
    if other is None:
        return False
    try:
        return await deps.kube.get(CUSTOM[Kind.CLUSTER], *other) is not None
    except ForbiddenError:
        return True


async def registered_with(deps: Deps, cluster: Json, others: Sequence[Json]) -> list[Json]:
    """Returns which of some PulsarClusters are registered in a cluster's own metadata store, according to the claims
    there. A status is no proof, since users may write it. A store that does not answer twice has none."""
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
