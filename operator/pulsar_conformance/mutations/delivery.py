"""What breaks the checks of deduplication and delayed delivery."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin, override, without


def renamed() -> Rule:
    """Every producer gets its own name."""
    numbers = count()

    def change(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return call(*args, **{**options, "producer_name": f"{options['producer_name']}-{next(numbers)}"})

    return Rule("client", "create_producer", change)


def switched(active: bool) -> Rule:
    """The namespace's policy for delayed delivery says the opposite."""

    def change(policies: Any) -> Any:
        return {**policies, "delayed_delivery_policies": {"active": active, "tickTime": 1000}}

    return change_admin("PUT", r"^namespaces/[^/]+/[^/]+$", change)


def faded(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The delay is lost on the way."""
    return call(*args, **{name: value for name, value in options.items() if not name.startswith("deliver_")})


def shortened(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A third of the delay is left; the time is moved 3.3 s ahead."""
    if "deliver_after" in options:
        options["deliver_after"] /= 3
    if "deliver_at" in options:
        options["deliver_at"] -= 3300
    return call(*args, **options)


UNSET = drop_admin("POST", "/deduplication$")
EXCLUSIVE = override("client", "subscribe", consumer_type=pulsar.ConsumerType.Exclusive)

MUTATIONS = (
    Mutation("deduplication.stored_once", "off", "the namespace's policy is not set", (UNSET,)),
    Mutation(
        "deduplication.stored_once",
        "numbered",
        "the client restarts its sequence ids",
        (without("producer", "send", "sequence_id"),),
    ),
    Mutation("deduplication.after_reconnect", "off", "the namespace's policy is not set", (UNSET,)),
    Mutation("deduplication.after_reconnect", "renamed", "each producer has another name", (renamed(),)),
    Mutation("delayed.after", "faded", "the delay is lost", (Rule("producer", "send", faded),)),
    Mutation("delayed.after", "short", "a third of the delay is sent", (Rule("producer", "send", shortened),)),
    Mutation("delayed.after", "exclusive", "the subscription is Exclusive", (EXCLUSIVE,)),
    Mutation("delayed.at", "faded", "the time is lost", (Rule("producer", "send", faded),)),
    Mutation("delayed.at", "early", "the time is 3.3 s too early", (Rule("producer", "send", shortened),)),
    Mutation("delayed.order", "faded", "the delays are lost", (Rule("producer", "send", faded),)),
    Mutation("delayed.order", "off", "the namespace has delayed delivery off", (switched(False),)),
    Mutation(
        "delayed.exclusive",
        "shared",
        "the subscription is Shared",
        (override("client", "subscribe", consumer_type=pulsar.ConsumerType.Shared),),
    ),
    Mutation("delayed.policy_off", "on", "the namespace has delayed delivery on", (switched(True),)),
)
