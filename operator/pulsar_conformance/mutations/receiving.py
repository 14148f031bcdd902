"""What breaks the checks of receiving without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, drop


def _is(text: bytes) -> Callable[..., bool]:
    return lambda data, *_args, **_options: bytes(data) == text


def _lost(text: bytes) -> Rule:
    """A message is not sent."""
    return Rule("producer", "send", lambda _call, *_args, **_options: None, _is(text))


def _swapped() -> Rule:
    """One message is sent only after the next one."""
    delayed: list[bytes] = []

    def change(call: Callable[..., Any], data: bytes, **options: Any) -> None:
        if data == b"m3":
            delayed.append(data)
            return
        call(data, **options)
        while delayed:
            call(delayed.pop(), **options)

    return Rule("producer", "send", change)


MUTATIONS = (
    Mutation("receive.asynchronous", "lost", "one message is not sent", (_lost(b"m7"),)),
    Mutation("receive.asynchronous", "swapped", "one message is sent after the next one", (_swapped(),)),
    Mutation("receive.listener", "lost", "one message is not sent", (_lost(b"m7"),)),
    Mutation("receive.listener", "swapped", "one message is sent after the next one", (_swapped(),)),
    Mutation("receive.listener", "never", "the listener is not paused", (drop("consumer", "pause_message_listener"),)),
    Mutation(
        "receive.listener", "for_ever", "the listener is not resumed", (drop("consumer", "resume_message_listener"),)
    ),
)
