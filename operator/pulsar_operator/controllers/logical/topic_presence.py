"""What Pulsar has under the name of a topic that is to be deleted. Used by topic.py."""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope, partitions_of
from pulsar_operator.domain.logical.names import is_partition_of, topic_name
from pulsar_operator.domain.policies import Call


async def other_kind(scope: Scope, spec: PulsarTopicSpec, path: tuple[str, ...], clusters: Sequence[str]) -> str | None:
    """Why Pulsar's topic of that name does not belong to the object: it has partitions where none are declared, or the
    other way round. None where it may belong to it. Raises AdminUnreachableError where a cluster does not answer."""
    answers, unreachable = await scope.admin.everywhere(clusters, Call("GET", (*path, "partitions")))
    if unreachable:
        why = "; ".join(f"{each}: {scope.admin.why(each)}" for each in unreachable)
        raise AdminUnreachableError(f"nobody knows what topic {path[-1]} is ({why})")
    counts = {c: partitions_of(c, a, path[-1]) for c, a in answers.items() if a is not None}
    declared = spec.partitions is not None
    # A non-persistent topic is told to be there, without partitions, also where nobody has it.
    ours = declared and not spec.persistent
    if not counts or ours or any((count > 0) == declared for count in counts.values()):
        return None
    kind = "without partitions" if declared else "with partitions"
    return f"Pulsar has a topic {topic_name(spec.persistent, *path[1:])} {kind}, which this object never managed"


async def present_in(scope: Scope, spec: PulsarTopicSpec, path: tuple[str, ...], cluster: str) -> list[str]:
    """Local names of the topic, or of its partitions, that exist in a cluster. Raises AdminUnreachableError."""
    if not spec.persistent:
        return []
    topics = await scope.admin.listed(cluster, Call("GET", path[:3]))
    full = topic_name(spec.persistent, *path[1:])
    prefix = len(full) - len(path[-1])
    if spec.partitions is None:
        return [topic[prefix:] for topic in topics if topic == full]
    return sorted(topic[prefix:] for topic in topics if is_partition_of(topic, full))
