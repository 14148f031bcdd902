"""Sends and what became of them: answers to asynchronous sends, entries of a topic, headers of a stored message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pulsar
from pulsar.exceptions import PulsarException

from pulsar_conformance.context import Context
from pulsar_conformance.java.protocol import JavaError
from pulsar_conformance.model import CheckFailed

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What one asynchronous send came to."""

    number: int
    """Of the send, from 0 on."""
    result: Any
    """A pulsar.Result."""
    id: Any
    """Of the message; nothing of use when the result is not Ok."""


@dataclass
class Answers:
    """The answers to asynchronous sends, in the order in which they came."""

    got: list[Answer] = field(default_factory=list)
    _more: threading.Condition = field(default_factory=threading.Condition)
    _sent: int = 0

    def send(self, producer: Any, data: bytes, **options: Any) -> None:
        """Begin one send; keyword arguments as pulsar.Producer.send_async."""
        number = self._sent
        self._sent += 1

        def answered(result: Any, found: Any) -> None:
            with self._more:
                self.got.append(Answer(number, result, found))
                self._more.notify_all()

        producer.send_async(data, answered, **options)

    def wait(self, count: int, within: float = 20) -> list[Answer]:
        """The answers once there are ``count``. Raises CheckFailed when there are fewer after ``within`` seconds."""
        with self._more:
            if not self._more.wait_for(lambda: len(self.got) >= count, within):
                raise CheckFailed(f"{len(self.got)} of {count} sends were answered within {within:.0f} s")
            return list(self.got)

    def ids(self, count: int, within: float = 20) -> list[Any]:
        """The ids in the order of the answers. Raises CheckFailed when one is missing or a send went wrong."""
        answers = self.wait(count, within)
        wrong = [answer for answer in answers if answer.result != pulsar.Result.Ok]
        if wrong:
            raise CheckFailed(f"{len(wrong)} of {len(answers)} sends failed, the first with {wrong[0].result}")
        return [answer.id for answer in answers]


def place(found: Any) -> tuple[int, int, int]:
    """Ledger, entry and place in the batch of a message id (-1 without a batch): ids of a partition sort by it."""
    return found.ledger_id(), found.entry_id(), found.batch_index()


def accepted(call: Callable[[], T], what: str) -> T:
    """What the call returns. Raises CheckFailed with ``what`` when Pulsar or its client refuses it."""
    try:
        return call()
    except (PulsarException, JavaError, ValueError) as error:
        raise CheckFailed(f"{what}: {error}") from None


def entries(ctx: Context, topic: str) -> int:
    """How many entries the topic's ledgers hold."""
    return int(ctx.internal_stats(topic)["numberOfEntries"])


def stored(ctx: Context, topic: str, position: int = 1, subscription: str = "sub") -> Mapping[str, str]:
    """Returns what the broker reports of the entry at this offset from the subscription's position, by lower-case
    header.

    Admin REST, peekNthMessage: x-pulsar-compression, x-pulsar-sequence-id, x-pulsar-num-batch-message and others.
    """
    return ctx.admin.headers(f"{ctx.path(topic)}/subscription/{subscription}/position/{position}")


def heads(messages: list[Any]) -> set[bytes]:
    """First four bytes of each: their number, where a check numbers them."""
    return {bytes(message.data())[:4] for message in messages}


def all_of(count: int, before: set[bytes], messages: list[Any]) -> bool:
    """Whether this number of different messages arrived, including those from before."""
    return len(before | heads(messages)) >= count
