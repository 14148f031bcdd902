"""What breaks the checks of single messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pulsar
from pulsar.exceptions import PulsarException

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop, drop_admin, override, without

LATE_SECONDS = 1.0


def _late(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The send returns immediately and happens later; never, if the check has ended by then."""

    def send() -> None:
        with contextlib.suppress(PulsarException):
            call(*args, **options)

    timer = threading.Timer(LATE_SECONDS, send)
    timer.daemon = True
    timer.start()
    return pulsar.MessageId.earliest


def _longer(call: Callable[..., Any], data: bytes, **options: Any) -> Any:
    return call(data + b"x", **options)


def _first_byte_changed(call: Callable[..., Any], data: bytes, **options: Any) -> Any:
    return call(b"\0" + data[1:], **options)


def _is(text: bytes) -> Callable[..., bool]:
    return lambda data, *_args, **_options: bytes(data) == text


def _delayed() -> Rule:
    """One message is sent only after the next one."""
    delayed: list[tuple[Callable[..., Any], Any, Any]] = []

    def change(call: Callable[..., Any], *args: Any, **options: Any) -> None:
        if bytes(args[0]) == b"m10":
            delayed.append((call, args, options))
            return
        call(*args, **options)
        while delayed:
            late, late_args, late_options = delayed.pop()
            late(*late_args, **late_options)

    return Rule("producer", "send_async", change)


MUTATIONS = (
    Mutation("size.largest", "one_more", "the message is one byte larger", (Rule("producer", "send", _longer),)),
    Mutation("size.largest", "changed", "one byte arrives changed", (Rule("producer", "send", _first_byte_changed),)),
    Mutation("size.largest", "warm", "the topic is not unloaded", (drop_admin("PUT", r"/unload$"),)),
    Mutation(
        "size.too_big",
        "chunked",
        "the producer chunks what is too large",
        (override("client", "create_producer", chunking_enabled=True),),
    ),
    Mutation(
        "size.too_big",
        "one_less",
        "the message is one byte smaller",
        (Rule("producer", "send", lambda call, data, **options: call(data[1:], **options)),),
    ),
    Mutation("size.topic_policy", "unset", "the policy is not set", (drop_admin("POST", r"/maxMessageSize$"),)),
    Mutation(
        "size.topic_policy",
        "larger",
        "the policy allows more",
        (change_admin("POST", r"/maxMessageSize$", lambda limit: limit * 4),),
    ),
    Mutation(
        "send.sync",
        "lost",
        "one message is answered with an old id and not sent",
        (Rule("producer", "send", lambda _call, *_args, **_options: pulsar.MessageId.earliest, _is(b"m7")),),
    ),
    Mutation(
        "send.sync",
        "unanswered",
        "send returns before the message is stored",
        (Rule("producer", "send", _late),),
    ),
    Mutation(
        "send.async",
        "lost",
        "one message is not sent",
        (Rule("producer", "send_async", lambda *_a, **_o: None, _is(b"m7")),),
    ),
    Mutation("send.async", "held_back", "one message is sent after the next one", (_delayed(),)),
    Mutation(
        "send.async",
        "refused",
        "some sends fail, the queue being too short",
        (override("client", "create_producer", max_pending_messages=10),),
    ),
    Mutation("send.flush", "dropped", "nothing is flushed", (drop("producer", "flush"),)),
    Mutation(
        "send.flush",
        "off",
        "messages do not wait in a batch",
        (override("client", "create_producer", batching_enabled=False),),
    ),
    Mutation(
        "send.queue_full",
        "longer",
        "the queue has more room",
        (override("client", "create_producer", max_pending_messages=100),),
    ),
    Mutation(
        "send.queue_full",
        "blocks",
        "the producer blocks; its batch goes out soon",
        (override("client", "create_producer", block_if_queue_full=True, batching_max_publish_delay_ms=100),),
    ),
    Mutation(
        "send.queue_blocks",
        "fails",
        "the producer does not block",
        (override("client", "create_producer", block_if_queue_full=False),),
    ),
    Mutation(
        "send.queue_blocks",
        "longer",
        "the queue has more room",
        (override("client", "create_producer", max_pending_messages=100),),
    ),
    *(
        Mutation(
            "send.carried", f"{method}_{name}", f"{name} is left out of {method}", (without("producer", method, name),)
        )
        for method in ("send", "send_async")
        for name in ("properties", "partition_key", "ordering_key", "event_timestamp")
    ),
    Mutation(
        "send.carried",
        "anonymous",
        "the producers have no name",
        (without("client", "create_producer", "producer_name"),),
    ),
    Mutation(
        "send.publish_time", "late", "the message is published after send returned", (Rule("producer", "send", _late),)
    ),
    Mutation(
        "send.sequence_ids",
        "from_zero",
        "the producer begins at 0",
        (without("client", "create_producer", "initial_sequence_id"),),
    ),
    Mutation(
        "send.sequence_ids", "not_given", "the message is not given one", (without("producer", "send", "sequence_id"),)
    ),
)
