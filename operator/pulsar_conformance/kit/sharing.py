"""Several consumers of one subscription: what each of them got."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pulsar_conformance.context import Context
from pulsar_conformance.model import CheckFailed

TURN = 0.02
"""Seconds to listen to one consumer before the next one's turn."""


def gather(
    ctx: Context,
    consumers: Mapping[str, Any],
    count: int,
    *,
    within: float = 30,
    ack: bool = True,
    extra: float = 0.5,
) -> dict[str, list[Any]]:
    """Returns the messages of each consumer until ``count`` arrived in all, and no further one for ``extra`` seconds
    each.

    Raises CheckFailed when there are fewer or more.
    """
    got: dict[str, list[Any]] = {name: [] for name in consumers}
    deadline = time.monotonic() + within
    total = 0
    while total < count:
        if time.monotonic() > deadline:
            raise CheckFailed(f"{total} of {count} messages within {within:.0f} s: {sizes(got)}")
        for name, consumer in consumers.items():
            while (message := ctx.next(consumer, TURN)) is not None:
                got[name].append(message)
                total += 1
                if ack:
                    consumer.acknowledge(message)
                if total > count:
                    break
    for name, consumer in consumers.items():
        ctx.nothing(consumer, extra, f"{name} must get no further message, {count} messages were there")
    if total > count:
        raise CheckFailed(f"more than {count} messages: {sizes(got)}")
    return got


def sizes(got: Mapping[str, Sequence[Any]]) -> str:
    """How many messages each consumer got, as a message."""
    return ", ".join(f"{name} {len(messages)}" for name, messages in got.items())


def expect_once(ctx: Context, got: Mapping[str, Sequence[Any]], sent: Sequence[str]) -> None:
    """Every text that was sent came to exactly one consumer, once."""
    counted = Counter(text for messages in got.values() for text in ctx.texts(list(messages)))
    wrong = sorted(text for text in {*counted, *sent} if counted[text] != 1 or text not in sent)
    ctx.expect(not wrong, f"not exactly once: {[(text, counted[text]) for text in wrong[:5]]}; {sizes(got)}")


def keys_of(got: Mapping[str, Sequence[Any]]) -> dict[str, set[str]]:
    """The consumers that got messages of each key."""
    found: dict[str, set[str]] = {}
    for name, messages in got.items():
        for message in messages:
            found.setdefault(message.partition_key(), set()).add(name)
    return found


def expect_ordered(ctx: Context, got: Mapping[str, Sequence[Any]]) -> None:
    """Every key came to one consumer, in the order sent; texts are ``key/number``."""
    shared = {key: sorted(names) for key, names in keys_of(got).items() if len(names) > 1}
    ctx.expect(not shared, f"keys with more than one consumer: {dict(list(shared.items())[:4])}")
    for name, messages in got.items():
        last: dict[str, int] = {}
        for text in ctx.texts(list(messages)):
            key, number = text.rsplit("/", 1)
            ctx.expect(int(number) > last.get(key, -1), f"{name} got {text} after {key}/{last.get(key)}")
            last[key] = int(number)
