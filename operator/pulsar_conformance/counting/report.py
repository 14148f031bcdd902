"""What a counting run found, as data, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Pause:
    """The longest time without an event: ``seconds`` long, beginning ``at`` seconds after the first send.

    ``key`` is named where the pause is that of one key. Nothing ever is shorter than the spacing of the messages.
    """

    seconds: float = 0.0
    at: float = 0.0
    key: int | None = None


@dataclass(frozen=True)
class Example:
    """One message of a group worth a look; ``at`` is seconds after the first send, None where it never came."""

    producer: int
    key: int
    number: int
    at: float | None = None

    def __str__(self) -> str:
        where = f"producer {self.producer} key {self.key} number {self.number}"
        return where if self.at is None else f"{where} at {self.at:.1f} s"


@dataclass(frozen=True)
class Operation:
    """Something done to the cluster, in seconds after the first send.

    ``settled`` is when everything sent before the end had an outcome and was received, None if that was not seen.
    """

    name: str
    began: float
    ended: float | None = None
    settled: float | None = None


@dataclass(frozen=True)
class Latency:
    """Seconds from publishing to the first arrival; the percentiles are exact to 2 %."""

    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0


@dataclass(frozen=True)
class Progress:
    """The counts while a run continues. ``behind`` is confirmed and not yet received; pauses include a running one."""

    seconds: float
    sent: int
    confirmed: int
    received: int
    behind: int
    publish_pause: float
    delivery_pause: float

    def line(self) -> str:
        """One line for a terminal."""
        return (
            f"{self.seconds:7.1f} s  sent {self.sent:>9}  confirmed {self.confirmed:>9}  received {self.received:>9}"
            f"  behind {self.behind:>6}  longest pause: publish {self.publish_pause:.2f} s,"
            f" delivery {self.delivery_pause:.2f} s"
        )


@dataclass(frozen=True)
class Report:
    """The accounts of a run.

    sent = confirmed + unconfirmed; confirmed = received - unconfirmed_received + lost.

    confirmed             the broker acknowledged the send
    unconfirmed           the send failed or has no answer: the message may or may not be in the topic
    received              different messages that arrived
    unconfirmed_received  those of them whose send was not confirmed
    lost                  confirmed and never received
    duplicated            arrivals of a message that had arrived before, without the broker's redelivery count
    stored_twice          those of them at another position of the topic: published again after a lost confirmation
    unprovoked            those of them that no declared operation explains, see ``violations``
    redelivered           arrivals with a redelivery count; only Shared and Key_Shared ever have one
                          (apache/pulsar issue 15836), and a broker forgets it when it ends (issue 8722)
    out_of_order          first arrivals, not redelivered, of a number below one already seen of that producer and key
    foreign               messages of another run or of no run
    errors                failed sends, receives and acknowledgements, and threads that ended, by reason
    ordered               whether the subscription type promises order in a key: all but Shared
    send_timeout          seconds after which the client fails a send, 0 for never
    """

    run: str
    topic: str
    seconds: float
    sent: int
    confirmed: int
    unconfirmed: int
    received: int
    unconfirmed_received: int
    lost: int
    duplicated: int
    stored_twice: int
    unprovoked: int
    redelivered: int
    out_of_order: int
    foreign: int
    publish_rate: float
    delivery_rate: float
    publish_pause: Pause
    delivery_pause: Pause
    key_publish_pause: Pause
    key_delivery_pause: Pause
    latency: Latency
    operations: tuple[Operation, ...]
    send_timeout: float
    ordered: bool
    errors: Mapping[str, int]
    out_of_order_keys: Mapping[int, int]
    lost_examples: tuple[Example, ...]
    duplicated_examples: tuple[Example, ...]
    unprovoked_examples: tuple[Example, ...]

    def violations(self) -> list[str]:
        """What at-least-once delivery does not allow, as sentences; empty where the run is as promised.

        A second delivery is allowed when a connection or an owner changed: the producer publishes again what had no
        confirmation yet, and a consumer receives again what it had not acknowledged for good. So a duplicate is
        a violation before the first operation began, and when its message was sent after the last one had settled.
        """
        found = []
        if self.lost:
            found.append(f"{self.lost} confirmed messages were not received, first {_listed(self.lost_examples)}")
        if self.unprovoked:
            found.append(
                f"{self.unprovoked} messages came again while nothing was done to the cluster, first "
                f"{_listed(self.unprovoked_examples)}"
            )
        return found

    def failures(self) -> list[str]:
        """All that went wrong, as sentences: what ``violations`` has and what an application would have felt.

        For operations of which it is claimed that nothing fails. A send without a confirmation, a client that received
        an error, an operation that did not settle, messages out of order, or no message at all are failures here; so is
        a pause in publishing as long as the send timeout, of which longer silence is only a matter of luck.

        What a reconnect explains is none: duplicates while an operation is at work, redeliveries, shorter pauses. Order
        in a key outlives it, since a producer sends again in sequence, and a subscription goes back, never ahead;
        Shared does not promise it. Foreign messages are a failure since the counts then are not of this run alone: on a
        topic that others publish to use ``violations``.
        """
        found = self.violations()
        if not self.sent:
            found.append("nothing was sent")
        if not self.received:
            found.append("nothing was received")
        if self.unconfirmed:
            found.append(f"{self.unconfirmed} of {self.sent} sends were not confirmed")
        if self.out_of_order and self.ordered:
            found.append(f"{self.out_of_order} messages were out of order, {_by_key(self.out_of_order_keys)}")
        if self.foreign:
            found.append(f"{self.foreign} messages of others arrived")
        if 0 < self.send_timeout <= self.publish_pause.seconds:
            found.append(
                f"no send was confirmed for {self.publish_pause.seconds:.3f} s from {self.publish_pause.at:.1f} s on, "
                f"and the send timeout is {self.send_timeout:g} s"
            )
        for operation in self.operations:
            if operation.ended is None:
                found.append(f"operation {operation.name} did not end")
            elif operation.settled is None:
                found.append(f"operation {operation.name} did not settle")
        found += [f"{name}: {count} times" for name, count in sorted(self.errors.items())]
        return found

    def as_json(self) -> dict[str, Any]:
        """The same as plain data for json.dumps."""
        return {**asdict(self), "violations": self.violations(), "failures": self.failures()}

    def text(self) -> str:
        """An aligned table for people."""
        rows = [
            ("sent", str(self.sent), f"in {self.seconds:.1f} s"),
            ("confirmed", str(self.confirmed), f"{self.publish_rate:.1f}/s"),
            ("unconfirmed", str(self.unconfirmed), f"{self.unconfirmed_received} of them received"),
            ("received", str(self.received), f"{self.delivery_rate:.1f}/s with duplicates"),
            ("lost", str(self.lost), _listed(self.lost_examples)),
            (
                "duplicated",
                str(self.duplicated),
                f"{self.stored_twice} stored twice, {self.unprovoked} unprovoked  {_listed(self.duplicated_examples)}",
            ),
            ("redelivered", str(self.redelivered), ""),
            ("out of order", str(self.out_of_order), _by_key(self.out_of_order_keys)),
            ("foreign", str(self.foreign), ""),
            _pause_row("longest publish pause", self.publish_pause, f", send timeout {self.send_timeout:g} s"),
            _pause_row("  of one key", self.key_publish_pause),
            _pause_row("longest delivery pause", self.delivery_pause),
            _pause_row("  of one key", self.key_delivery_pause),
            ("latency p50", f"{self.latency.p50:.3f} s", ""),
            ("latency p99", f"{self.latency.p99:.3f} s", ""),
            ("latency max", f"{self.latency.max:.3f} s", ""),
        ]
        rows += [_operation_row(operation) for operation in self.operations]
        rows += [(name, str(count), "") for name, count in sorted(self.errors.items())]
        names = max(len(name) for name, _, _ in rows)
        values = max(len(value) for _, value, _ in rows)
        lines = [f"counting run {self.run} on {self.topic}"]
        lines += [f"  {name:<{names}}  {value:>{values}}  {note}".rstrip() for name, value, note in rows]
        violations = self.violations()
        lines += [f"VIOLATION: {sentence}" for sentence in violations]
        lines += [f"FAILED: {sentence}" for sentence in self.failures() if sentence not in violations]
        return "\n".join(lines)


def _listed(examples: tuple[Example, ...]) -> str:
    return "; ".join(str(example) for example in examples[:3])


def _by_key(counts: Mapping[int, int]) -> str:
    most = sorted(counts.items(), key=lambda item: -item[1])[:5]
    return ", ".join(f"key {key}: {count}" for key, count in most)


def _pause_row(name: str, pause: Pause, note: str = "") -> tuple[str, str, str]:
    key = "" if pause.key is None else f", key {pause.key}"
    return name, f"{pause.seconds:.3f} s", f"at {pause.at:.1f} s{key}{note}"


def _operation_row(operation: Operation) -> tuple[str, str, str]:
    if operation.ended is None:
        return f"operation {operation.name}", "", f"began at {operation.began:.1f} s and did not end"
    settled = "did not settle" if operation.settled is None else f"settled at {operation.settled:.1f} s"
    length = f"{operation.ended - operation.began:.1f} s"
    return f"operation {operation.name}", length, f"{operation.began:.1f} s to {operation.ended:.1f} s, {settled}"
