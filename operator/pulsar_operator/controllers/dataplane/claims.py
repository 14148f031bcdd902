"""Whose a cluster name is: claims in a configuration store, beside the PulsarClusters that they name."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.registration import claimant
from pulsar_operator.ports import CUSTOM, Deps, ForbiddenError


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
