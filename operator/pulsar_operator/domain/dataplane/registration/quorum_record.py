"""Determines the default quorums that ledgers of a cluster have had so far. Pure.

The operator calculates the quorums once, at the first bring-up, and records them in the ConfigMap with the instance id
(metadata.py), which exists as long as the volumes. A later change of ``spec.bookkeeper.ensemble`` is recorded before a
broker gets it. The quorums are those of the first of these sources that has them:

1. The record, unless it contradicts the configuration of the brokers. A change of ``spec.bookkeeper.ensemble`` that is
   not applied to the brokers yet is no contradiction. Otherwise the record was restored from an old backup, or edited.
2. The configuration of the brokers.
3. The status.
4. The number of bookies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH, Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.registration.metadata import recorded_quorum
from pulsar_operator.domain.render import Quorum, QuorumError, resolve_quorum
from pulsar_operator.domain.render.common import config_hash
from pulsar_operator.domain.render.config import OVERRIDES_FILE
from pulsar_operator.domain.render.quorum import BROKER_KEYS, default_quorum


def known_quorum(
    keeper: BookKeeper, live: Live, *, record: Mapping[str, str], status: PulsarClusterStatus, volumes: bool
) -> Quorum | None:
    """Returns the quorums in force; None if nothing of the cluster was brought up yet.

    ``record`` is the data of the ConfigMap, empty if there is none; ``volumes``: whether a bookie has one. Without
    bookies, volumes and brokers, nothing was written with any quorum, and a record does not count.
    """
    if not (volumes or live.stateful_set(Component.BROKER) or live.stateful_set(Component.BOOKIE)):
        return None
    try:
        found = recorded_quorum(record)
    except ValueError:
        found = None  # said by whoever reads the whole record
    if found is not None:
        return found if _explained(keeper, found, _of_brokers(live, proved=True)) else _of_brokers(live)
    return _of_brokers(live) or _of_status(status) or _of_bookies(keeper, live)


def _explained(keeper: BookKeeper, recorded: Quorum, given: Quorum | None) -> bool:
    """Whether a record equals what brokers have, or what the specification makes of that."""
    if given is None or recorded == given:
        return True
    # By the specification alone: where it asks for more bookies than there are to be, it is refused elsewhere.
    most = max(keeper.replicas, given.ensemble_size, recorded.ensemble_size)
    try:
        return resolve_quorum(keeper.ensemble, most, given) == recorded
    except QuorumError:
        return False


def _of_brokers(live: Live, *, proved: bool = False) -> Quorum | None:
    """Returns the quorums in the configuration of the brokers' pods. ``proved``: only if the configuration equals its
    rendering, by the hash in the template; an edited one is reverted and does not count."""
    workload = live.stateful_set(Component.BROKER)
    template = workload["spec"]["template"] if workload is not None else {"spec": {}}
    return _mounted(live, template, proved=proved)


def default_ensemble(live: Live, rendered: int) -> Widest:
    """Returns the largest default ensemble of the running brokers, of those that their StatefulSet creates, and of
    future ones (``rendered``).

    A change reaches brokers with their rollout, and the running ones need as many bookies until then. A broker whose
    configuration is not known counts as needing every bookie.
    """
    found = [Widest(rendered, "the default of managed ledgers")]
    made = _of_brokers(live)
    if made is not None:
        found.append(
            Widest(made.ensemble_size, "the default of managed ledgers that brokers use until they are restarted")
        )
    bookies = live.facts(Component.BOOKIE)
    for pod in live.pods(Component.BROKER):
        name, mounted = pod["metadata"]["name"], _mounted(live, pod)
        if mounted is not None:
            whose = f"broker pod {name}, which uses that default until the pod is replaced,"
            found.append(Widest(mounted.ensemble_size, whose))
        elif bookies is not None and bookies.desired is not None:
            whose = f"broker pod {name}, whose configuration is unknown until the pod is replaced,"
            found.append(Widest(bookies.desired, whose))
    return max(found, key=lambda each: each.size)


def _mounted(live: Live, pod: Mapping[str, Any], *, proved: bool = False) -> Quorum | None:
    """Returns the quorums in the configuration that a pod, or a template, mounts."""
    hashed = ((pod.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION_CONFIG_HASH)
    volumes = pod["spec"].get("volumes") or ()
    for name in (str(volume["configMap"].get("name")) for volume in volumes if "configMap" in volume):
        data = (live.get("ConfigMap", name) or {}).get("data") or {}
        if proved and config_hash(data) != hashed:
            continue
        text = str(data.get(OVERRIDES_FILE, ""))
        values = dict(line.partition("=")[::2] for line in text.splitlines())
        if all(key in values for key in BROKER_KEYS):
            return _parsed(*(values[key] for key in BROKER_KEYS))
    return None


def _of_status(status: PulsarClusterStatus) -> Quorum | None:
    known = status.ensemble
    if known is None:
        return None
    return _parsed(*map(str, (known.ensemble_size, known.write_quorum, known.ack_quorum)))


def _of_bookies(keeper: BookKeeper, live: Live) -> Quorum | None:
    """Returns the quorums that an operator without a record calculated for the existing bookies, regardless of the
    desired number."""
    facts = live.facts(Component.BOOKIE)
    if facts is None or not facts.desired:
        return None
    try:
        return resolve_quorum(keeper.ensemble, facts.desired)
    except QuorumError:
        return default_quorum(facts.desired)


def _parsed(*values: str) -> Quorum | None:
    try:
        return Quorum.parse("/".join(values))
    except ValueError:
        return None
