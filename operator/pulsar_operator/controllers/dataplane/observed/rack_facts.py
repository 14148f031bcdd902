"""The rack of each bookie, from the specification, the labels of its pod, or those of its node. Only reads."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.api.v1alpha1.racks import Racks
from pulsar_operator.domain.bookkeeper.bookie_racks import COPIED_BY_KUBERNETES, KnownRacks, by_ordinal, rack_of
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import PodFacts, pods_of
from pulsar_operator.ports import NODES, Deps, ForbiddenError, PortError


async def known_racks(deps: Deps, keeper: BookKeeper, live: Live) -> KnownRacks | None:
    """Returns the known racks; None if the specification names none. A node that cannot be read is reported in a
    message."""
    racks, there = keeper.racks, live.stateful_set(Component.BOOKIE)
    if racks is None:
        return None
    if racks.by_ordinal is not None:
        have = int(there["spec"].get("replicas", 1)) if there is not None else 0
        return by_ordinal(racks.by_ordinal, range(max(have, keeper.replicas)))
    pods = pods_of(there, live.pods(Component.BOOKIE)) if there is not None else ()
    return await _by_label(deps, racks, [pod for pod in pods if not pod.terminating])


async def _by_label(deps: Deps, racks: Racks, pods: list[PodFacts]) -> KnownRacks:
    key = str(racks.topology_key)
    of: dict[int, str] = {}
    unknown: dict[int, str] = {}
    pending: set[int] = set()
    for pod in pods:
        node = (pod.raw.get("spec") or {}).get("nodeName")
        rack = rack_of(pod.raw["metadata"].get("labels") or {}, key)
        if rack is not None:
            of[pod.ordinal] = rack
        elif not node:
            pending.add(pod.ordinal)
        else:
            rack, why = await _of_node(deps, str(node), key)
            if rack is not None:
                of[pod.ordinal] = rack
            else:
                unknown[pod.ordinal] = (
                    f"The rack of pod {pod.name} is not known, because the pod has no label {key}{_newer(key)} and "
                    f"{why}"
                )
    return KnownRacks(of, unknown, frozenset(pending))


def _newer(key: str) -> str:
    """Returns why a pod may lack its rack."""
    return " (Kubernetes 1.35 and newer copy this label from the node)" if key in COPIED_BY_KUBERNETES else ""


async def _of_node(deps: Deps, name: str, key: str) -> tuple[str | None, str]:
    """Returns the rack in a node's labels; or why it is not there, as a message."""
    try:
        node = await deps.kube.get(NODES, "", name)
    except ForbiddenError:
        return None, (
            "the operator has no permission to read the node of the pod. Set rbac.readNodes in the operator's "
            "chart, or set the racks in spec.bookkeeper.racks.byOrdinal"
        )
    except PortError as error:
        return None, f"node {name} of the pod could not be read: {error}"
    labels = (node["metadata"].get("labels") or {}) if node is not None else {}
    rack = rack_of(labels, key)
    return rack, f"node {name} of the pod has no such label either. Label the node, or choose another topologyKey"
