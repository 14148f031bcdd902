"""A topic's own lists of clusters as they were before its deletion ended the replication, in the status of its object.

They are recorded before the first list is written, so that an operator that is restarted can restore them. Used by
topic.py; see topic_apart.TopicDeletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic import OwnClusterList, PulsarTopicSpec, PulsarTopicStatus
from pulsar_operator.controllers.logical.deletion_results import keep
from pulsar_operator.controllers.logical.logical_pass import LogicalPass

TopicPass = LogicalPass[PulsarTopicSpec, PulsarTopicStatus]


def own_lists(p: TopicPass) -> dict[str, Sequence[str]]:
    """The recorded lists by cluster; an empty list stands for a topic that had none of its own."""
    return {each.name: each.replication_clusters for each in p.before.replication_before_deletion or ()}


async def record_own_lists(p: TopicPass, lists: Mapping[str, Sequence[str]]) -> None:
    """Write the lists into the status if they differ from the recorded ones. Raises PortError."""
    if dict(lists) == own_lists(p):
        return
    rows = [OwnClusterList(name=name, replication_clusters=list(found)) for name, found in sorted(lists.items())]
    await p.store({"replication_before_deletion": rows or None})


def unrestored(p: TopicPass) -> str | None:
    """What to say of a topic that waits without the replication it had before its deletion."""
    lists = own_lists(p)
    if not lists:
        return None
    return (
        f"Until then the topic is not replicated from {', '.join(sorted(lists))}: its deletion has ended that. To keep "
        f"the topic and have the operator restore its replication: {keep(Kind.TOPIC, p.obj)}"
    )
