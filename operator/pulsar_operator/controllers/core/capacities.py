"""The relative capacities of the brokers of a PulsarCluster, from its pods and its specification."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.balance.model.capacity import capacities_of, cpus_of
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.render import selector_text
from pulsar_operator.domain.render.cluster import CAPACITIES_KEY, capacities_name
from pulsar_operator.ports import CONFIG_MAPS, PODS, Deps, Json


async def broker_capacities(deps: Deps, cluster: Json, brokers: Iterable[str]) -> dict[str, float]:
    """Returns the capacity of each broker by its id, relative to a mean of 1; empty if all are equal. Raises
    PortError."""
    selector = selector_text(owner_of(cluster, part_of=""), Component.BROKER)
    pods = await deps.kube.list(PODS, cluster["metadata"]["namespace"], selector=selector)
    declared = ((cluster.get("spec") or {}).get("loadBalancing") or {}).get("capacities")
    return capacities_of(brokers, pods, declared)


def capacities_text(live: Live, spec: PulsarClusterSpec) -> str:
    """Returns ``NAME=CPU,...`` by the name of a pod; empty if all pods are equal."""
    found = live.facts(Component.BROKER)
    if found is None or not (found.all_ready and found.up_to_date):
        # Between two pods of a roll to another CPU the brokers differ for minutes: not worth a word.
        there = live.get(CONFIG_MAPS.kind, capacities_name(live.owner.name)) or {}
        return str((there.get("data") or {}).get(CAPACITIES_KEY) or "")
    cpus = cpus_of(live.pods(Component.BROKER), spec.load_balancing.capacities)
    if len(set(cpus.values())) < 2:
        return ""
    return ",".join(f"{name}={cpus[name]:g}" for name in sorted(cpus))
