"""From kubectl apply of a PulsarCluster to the first message through its proxies: the stages, and whose time they are.

Read from what Kubernetes records: creation of the cluster and of its StatefulSets, start of containers, pods Ready, and
the cluster's condition. These times are whole seconds, so a stage is right within one second and the sum is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition

Json = dict[str, Any]
TIERS = ("zookeeper", "bookie", "broker", "proxy")
"""In the order in which the operator brings them up; each waits for those before it."""
COMPONENT, CLUSTER = "app.kubernetes.io/component", "pulsaroperator.io/owner-name"
OPERATOR, KUBERNETES, PULSAR, CLIENT = "operator", "Kubernetes", "Pulsar", "client"


@dataclass(frozen=True)
class Stage:
    """A part of the way."""

    name: str
    whose: str
    """Who is waited for."""
    seconds: float


def stages_of(cluster: Json, stateful_sets: Sequence[Json], pods: Sequence[Json], message: datetime) -> list[Stage]:
    """The stages of a cluster that is Ready, until ``message``, when the first message was received.

    A stage lasts from the end of the one before; what ended earlier than that was not waited for and took 0 s.
    """
    out: list[Stage] = []
    now = _time(cluster["metadata"]["creationTimestamp"])
    for name, whose, end in (*_ends(cluster, stateful_sets, pods), ("the first message", CLIENT, message)):
        out.append(Stage(name, whose, max(0.0, (end - now).total_seconds())))
        now = max(now, end)
    return out


def table_of(stages: Iterable[Stage]) -> str:
    """The stages, their sum, and the share of each who was waited for."""
    stages = list(stages)
    total = sum(stage.seconds for stage in stages)
    by_whom: defaultdict[str, float] = defaultdict(float)
    for stage in stages:
        by_whom[stage.whose] += stage.seconds
    rows = [(stage.name, stage.whose, stage.seconds) for stage in stages]
    rows += [("apply to the first message", "all", total), *(("of that", who, part) for who, part in by_whom.items())]
    return "\n".join(
        f"  {name:<44}{who:<12}{seconds:>7.1f} s{100 * seconds / (total or 1.0):>5.0f} %" for name, who, seconds in rows
    )


def read_stages(kubectl: Kubectl, namespace: str, name: str, message: datetime) -> list[Stage]:
    """The stages of a running cluster."""
    cluster = kubectl.get("pulsarcluster", namespace, name)
    assert cluster is not None, f"PulsarCluster {namespace}/{name} is gone"
    owned = [kubectl.items(kind, namespace, f"{CLUSTER}={name}") for kind in ("statefulsets", "pods")]
    return stages_of(cluster, owned[0], owned[1], message)


def _ends(cluster: Json, stateful_sets: Sequence[Json], pods: Sequence[Json]) -> Iterator[tuple[str, str, datetime]]:
    """Name, whose and end of each stage until the cluster is Ready."""
    for tier in TIERS:
        made = [_time(each["metadata"]["creationTimestamp"]) for each in _of(tier, stateful_sets)]
        its = _of(tier, pods)
        if not made or not its:
            continue
        yield f"StatefulSet of {tier} is created", OPERATOR, max(made)
        yield f"containers of {tier} run", KUBERNETES, max(map(_started, its))
        yield f"pods of {tier} are Ready", PULSAR, max(map(_ready, its))
    yield "PulsarCluster is Ready", OPERATOR, _ready(cluster)


def _of(tier: str, objects: Sequence[Json]) -> list[Json]:
    return [each for each in objects if (each["metadata"].get("labels") or {}).get(COMPONENT) == tier]


def _started(pod: Json) -> datetime:
    return max(_time(each["state"]["running"]["startedAt"]) for each in pod["status"]["containerStatuses"])


def _ready(obj: Json) -> datetime:
    return _time(condition(obj, "Ready")["lastTransitionTime"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
