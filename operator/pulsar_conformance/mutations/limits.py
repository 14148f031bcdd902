"""What breaks the checks of limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin

GROUP = r"^resourcegroups/"
TYPES = r"/subscriptionTypesEnabled$"


def _of_the_first(call: Callable[..., Any], topic: str, *args: Any, **options: Any) -> Any:
    """A producer of the first namespace: those of one check differ in the number at their end."""
    namespace, _, _name = topic.rpartition("/")
    return call(f"{namespace[:-1]}0/a", *args, **options)


def _persistent(call: Callable[..., Any], topic: str, *args: Any, **options: Any) -> Any:
    return call(topic.replace("non-persistent://", "persistent://"), *args, **options)


MUTATIONS = (
    Mutation("limits.resource_group", "out", "the namespace is in no group", (drop_admin("POST", r"/resourcegroup/"),)),
    Mutation(
        "limits.resource_group",
        "unlimited",
        "the group has no limit",
        (change_admin("PUT", GROUP, lambda group: {**group, "publishRateInMsgs": -1}),),
    ),
    Mutation(
        "limits.resource_group",
        "all",
        "the topic outside the group is in it",
        (Rule("client", "create_producer", _of_the_first),),
    ),
    Mutation("limits.subscription_types", "open", "all types are allowed", (drop_admin("POST", TYPES),)),
    Mutation(
        "limits.subscription_types",
        "fewer",
        "Shared is not allowed either",
        (change_admin("POST", TYPES, lambda _types: ["Exclusive", "Failover"]),),
    ),
    Mutation(
        "limits.nonpersistent_off",
        "persistent",
        "clients ask for a persistent topic",
        (Rule("client", "create_producer", _persistent),),
    ),
    Mutation(
        "limits.nonpersistent_off",
        "consumer",
        "consumers ask for a persistent topic",
        (Rule("client", "subscribe", _persistent),),
    ),
)
