"""What breaks the checks of retry letters and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop, drop_admin


def _without_subscription(call: Callable[..., Any], *args: Any, dead_letter: Any, **kwargs: Any) -> Any:
    """The dead letter policy has no initial subscription."""
    policy = {name: value for name, value in dead_letter.items() if name != "initial_subscription_name"}
    return call(*args, dead_letter=policy, **kwargs)


def _by_subscription(call: Callable[..., Any], topic: str, *args: Any, dead_letter: Any, **kwargs: Any) -> Any:
    """The topics have the names of Pulsar 2.7, which do not hold the topic's."""
    namespace = topic.rsplit("/", 1)[0]
    old = {"retry_letter_topic": f"{namespace}/sub-RETRY", "dead_letter_topic": f"{namespace}/sub-DLQ"}
    return call(topic, *args, dead_letter={**dead_letter, **old}, **kwargs)


def _one_dead(call: Callable[..., Any], topic: str, *args: Any, dead_letter: Any, **kwargs: Any) -> Any:
    """Both topics have the dead letters of the first one."""
    where = f"{topic.rsplit('/', 1)[0]}/one-dead"
    return call(topic, *args, dead_letter={**dead_letter, "dead_letter_topic": where}, **kwargs)


MUTATIONS = (
    Mutation(
        "retry.default_names",
        "by_subscription",
        "the topics are named after the subscription alone",
        (Rule("java.client", "consumer", _by_subscription),),
    ),
    Mutation("retry.default_names", "lost", "messages are not put off", (drop("java.consumer", "reconsume_later"),)),
    Mutation(
        "retry.declared_names",
        "by_subscription",
        "both topics have one retry letter topic",
        (Rule("java.client", "consumer", _by_subscription),),
    ),
    Mutation(
        "retry.declared_names",
        "one_dead",
        "both topics have one dead letter topic",
        (Rule("java.client", "consumer", _one_dead),),
    ),
    Mutation(
        "dead_letter.no_auto_subscription",
        "allowed",
        "clients may make subscriptions",
        (
            change_admin(
                "POST", r"/autoSubscriptionCreation$", lambda body: {**body, "allowAutoSubscriptionCreation": True}
            ),
        ),
    ),
    Mutation(
        "dead_letter.no_auto_subscription",
        "none",
        "no initial subscription is declared",
        (Rule("java.client", "consumer", _without_subscription),),
    ),
    Mutation(
        "dead_letter.no_auto_subscription",
        "other",
        "another subscription is made",
        (drop_admin("PUT", r"/subscription/later$"),),
    ),
)
