"""What the brokers of a PulsarCluster can carry, as its pods and its specification say."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_operator.api.constants import Component
from pulsar_operator.balance.model.capacity import capacities_of
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.domain.render import selector_text
from pulsar_operator.ports import PODS, Deps, Json


async def broker_capacities(deps: Deps, cluster: Json, brokers: Iterable[str]) -> dict[str, float]:
    """Capacity of each broker by its id, 1 on average; empty where they are equal. Raises PortError."""
    selector = selector_text(owner_of(cluster, part_of=""), Component.BROKER)
    pods = await deps.kube.list(PODS, cluster["metadata"]["namespace"], selector=selector)
    declared = ((cluster.get("spec") or {}).get("loadBalancing") or {}).get("capacities")
    return capacities_of(brokers, pods, declared)
