"""What breaks the checks of topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.mutations.storage import lost
from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop, drop_admin, override


def _other_topic(change: Callable[[str], str]) -> tuple[Rule, ...]:
    """Producers and consumers use another topic than the check names."""

    def with_other(call: Callable[..., Any], topic: str, *args: Any, **kwargs: Any) -> Any:
        return call(change(topic), *args, **kwargs)

    return (Rule("client", "create_producer", with_other), Rule("client", "subscribe", with_other))


def _persistent(topic: str) -> str:
    return topic.replace("non-persistent://", "persistent://")


def _forced(call: Callable[..., Any], method: str, path: str, body: Any = None, **_query: Any) -> Any:
    return call(method, path, body, force=True)


def _all_topics(call: Callable[..., Any], method: str, path: str, body: Any = None, **_query: Any) -> Any:
    return call(method, path, body, includeSystemTopic=True)


def _deletes(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "DELETE" and path.startswith("persistent/")


def _lists(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "GET" and path.startswith("persistent/") and path.count("/") == 2


ONE_PARTITION = override(
    "client", "create_producer", message_routing_mode=pulsar.PartitionsRoutingMode.UseSinglePartition
)
_REPLACED = _other_topic(lambda topic: topic if topic.rsplit("/", 1)[-1] else f"{topic}named")

MUTATIONS = (
    Mutation("topic.names", "accepted", "a name that is none is taken for another", _REPLACED),
    Mutation("topic.names", "lost", "one of the topics loses its message", (drop("producer", "send"),)),
    Mutation(
        "topic.auto_creation",
        "on",
        "the policy is never off",
        (
            change_admin(
                "POST",
                r"/autoTopicCreation$",
                lambda body: {"topicType": "non-partitioned", **body, "allowAutoTopicCreation": True},
            ),
        ),
    ),
    Mutation(
        "topic.auto_creation",
        "plain",
        "no policy is set",
        (drop_admin("POST", r"/autoTopicCreation$"),),
    ),
    Mutation(
        "topic.default",
        "elsewhere",
        "the short name means another topic",
        _other_topic(lambda topic: topic if "://" in topic else f"{topic}-elsewhere"),
    ),
    Mutation("topic.partitioned", "one", "all messages go to one partition", (ONE_PARTITION,)),
    Mutation("topic.partitioned", "lost", "a message is lost", (lost("17"),)),
    Mutation("topic.grow", "kept", "no partition is added", (drop_admin("POST", r"/partitions$"),)),
    Mutation("topic.grow", "lost", "a message is lost", (lost("40"),)),
    Mutation("topic.shrink", "grown", "the topic grows", (change_admin("POST", r"/partitions$", lambda _body: 4),)),
    Mutation("topic.nonpersistent", "persistent", "the topic is persistent", _other_topic(_persistent)),
    Mutation("topic.nonpersistent", "lost", "a message to a connected consumer is lost", (lost("m5"),)),
    Mutation("topic.nonpersistent_partitioned", "one", "all messages go to one partition", (ONE_PARTITION,)),
    Mutation("topic.nonpersistent_partitioned", "persistent", "the topic is persistent", _other_topic(_persistent)),
    Mutation("topic.system", "none", "the topic has no policy", (drop_admin("POST", r"/maxConsumers$"),)),
    Mutation("topic.system", "shown", "lists show system topics", (Rule("admin", "call", _all_topics, _lists),)),
    Mutation("topic.stats", "lost", "a message is not stored", (lost("m9"),)),
    Mutation(
        "topic.stats",
        "unacknowledged",
        "no acknowledgement leaves",
        (Rule("consumer", "acknowledge", lambda _call, *_args, **_kwargs: None),),
    ),
    Mutation(
        "topic.stats",
        "unnamed",
        "producers are not named",
        (override("client", "create_producer", producer_name=None),),
    ),
    Mutation("topic.reads", "kept", "the topic is never unloaded", (drop_admin("PUT", r"/unload$"),)),
    Mutation("topic.reads", "lost", "an old message is lost", (lost("m150"),)),
    Mutation(
        "topic.reads",
        "latest",
        "the reader does not start at the earliest message",
        (
            Rule(
                "client",
                "create_reader",
                lambda call, topic, _start, **options: call(topic, pulsar.MessageId.latest, **options),
            ),
        ),
    ),
    Mutation("topic.delete", "forced", "every deletion is forced", (Rule("admin", "call", _forced, _deletes),)),
    Mutation("topic.delete", "kept", "forced deletions do nothing", (drop_admin("DELETE", r"/forced$"),)),
)
