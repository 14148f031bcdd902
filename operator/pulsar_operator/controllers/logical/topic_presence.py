"""Finds what Pulsar has under the name of a topic. Used by topic.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope, partitions_of
from pulsar_operator.domain.logical.pulsar_names import is_partition_of, topic_name
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import Json, RefusedError


@dataclass(frozen=True)
class Presence:
    """A topic in the clusters of its namespace."""

    clusters: Mapping[str, int | None]
    """Number of partitions for each cluster that answered; None if it has no such topic, 0 if the topic is not
    partitioned."""
    unreachable: tuple[str, ...]
    """Clusters that did not answer."""
    properties: Mapping[str, Json] = field(default_factory=dict)
    """All properties of the topic, for each cluster whose answer contains them."""


async def find_topic(scope: Scope, path: tuple[str, ...], clusters: Collection[str]) -> Presence:
    """Requests the number of partitions from each cluster. The answer contains the properties of a partitioned topic,
    but not always those of a non-partitioned one. Raises AdminUnreachableError if an answer is not a number."""
    answers, unreachable = await scope.admin.everywhere(clusters, Call("GET", (*path, "partitions")))
    counts = {c: None if answer is None else partitions_of(c, answer, path[-1]) for c, answer in answers.items()}
    reported = {c: answer.get("properties") for c, answer in answers.items() if answer is not None}
    return Presence(counts, unreachable, {c: each for c, each in reported.items() if each and isinstance(each, dict)})


async def read_back_topic(
    scope: Scope, path: tuple[str, ...], clusters: Collection[str], made_with: Mapping[str, str]
) -> Presence:
    """Finds a non-partitioned topic that was just created with these properties, by one request to each cluster.

    If a cluster returns the properties, it has the topic that was created. Any other answer is inconclusive, and the
    cluster is asked as by find_topic. Raises AdminUnreachableError.
    """
    try:
        answers, unreachable = await scope.admin.everywhere(clusters, Call("GET", (*path, "properties")))
    except RefusedError:
        answers, unreachable = {}, ()
    reported = {c: each for c, each in answers.items() if isinstance(each, dict) and each.items() >= made_with.items()}
    rest = sorted(set(clusters) - {*reported, *unreachable})
    found = await find_topic(scope, path, rest) if rest else Presence({}, ())
    return Presence(
        {**dict.fromkeys(reported, 0), **found.clusters},
        (*unreachable, *found.unreachable),
        {**reported, **found.properties},
    )


async def other_kind(scope: Scope, spec: PulsarTopicSpec, path: tuple[str, ...], clusters: Sequence[str]) -> str | None:
    """Returns why Pulsar's topic of that name does not belong to the object: it has partitions and none are declared,
    or vice versa. None if it may belong to it. Raises AdminUnreachableError if a cluster does not answer."""
    answers, unreachable = await scope.admin.everywhere(clusters, Call("GET", (*path, "partitions")))
    if unreachable:
        why = "; ".join(f"{each}: {scope.admin.why(each)}" for each in unreachable)
        raise AdminUnreachableError(f"the type of topic {path[-1]} is not known ({why})")
    counts = {c: partitions_of(c, a, path[-1]) for c, a in answers.items() if a is not None}
    declared = spec.partitions is not None
    # Pulsar reports a non-persistent topic without partitions also where no client has it open.
    ours = declared and not spec.persistent
    if not counts or ours or any((count > 0) == declared for count in counts.values()):
        return None
    kind = "without partitions" if declared else "with partitions"
    return f"Pulsar has a topic {topic_name(spec.persistent, *path[1:])} {kind}, which this object never managed"


async def present_in(scope: Scope, spec: PulsarTopicSpec, path: tuple[str, ...], cluster: str) -> list[str]:
    """Returns the local names of the topic, or of its partitions, that exist in a cluster. Raises
    AdminUnreachableError."""
    if not spec.persistent:
        return []
    topics = await scope.admin.listed(cluster, Call("GET", path[:3]))
    full = topic_name(spec.persistent, *path[1:])
    prefix = len(full) - len(path[-1])
    if spec.partitions is None:
        return [topic[prefix:] for topic in topics if topic == full]
    return sorted(topic[prefix:] for topic in topics if is_partition_of(topic, full))
