"""Messages on a schedule of their own, and what their latencies come to. No I/O and no clock but those given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.objects.figures import percentile

MARGIN = 0.1
"""Seconds before the first message, so that it is not late already."""


@dataclass
class Answers:
    """When each message was due, and how long after that it was acknowledged.

    A latency begins when the message was due, not when it was sent: what waits behind a slow one counts too, so that
    nothing is left out of the figures because the sender was held up (no coordinated omission).
    """

    clock: Callable[[], float]
    due: list[float] = field(default_factory=list)
    took: dict[int, float] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    late: float = 0
    """Seconds that a message was sent after it was due, at most."""

    def answered(self, number: int, ok: bool) -> None:
        """A message was acknowledged, or refused."""
        self.took[number] = self.clock() - self.due[number]
        if not ok:
            self.failed.add(number)

    @property
    def complete(self) -> bool:
        """Whether there is an answer to every message."""
        return len(self.took) == len(self.due)

    def latencies(self) -> list[float]:
        """Seconds of each message. One without an answer has taken as long as it has waited so far."""
        now = self.clock()
        return [self.took.get(number, now - due) for number, due in enumerate(self.due)]


def publish(
    send: Callable[[int], None], answers: Answers, *, rate: float, count: int, sleep: Callable[[float], None]
) -> None:
    """Send ``count`` messages at ``rate`` a second, each when it is due whether earlier ones are answered or not.

    ``send`` must not wait for an answer. The messages that became due while it was held up are sent at once.
    """
    begin = answers.clock() + MARGIN
    for number in range(count):
        due = begin + number / rate
        while (wait := due - answers.clock()) > 0:
            sleep(wait)
        answers.due.append(due)
        answers.late = max(answers.late, answers.clock() - due)
        send(number)


def evenly(count: int, total: int) -> list[int]:
    """``count`` numbers below ``total`` at equal distances; all of them when there are fewer."""
    chosen = min(count, total)
    return [number * total // chosen for number in range(chosen)]


@dataclass(frozen=True)
class Spread:
    """A figure of several repetitions."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.middle:.1f} ({self.least:.1f} to {self.most:.1f})"


def spread(values: Sequence[float]) -> Spread:
    """Median, least and most of the repetitions. Raises ValueError without any."""
    if not values:
        raise ValueError("no repetition was made")
    return Spread(median(values), min(values), max(values))


def milliseconds(latencies: Sequence[float]) -> dict[str, float]:
    """The columns of one repetition."""
    found = {"p50_ms": percentile(latencies, 0.5), "p99_ms": percentile(latencies, 0.99), "max_ms": max(latencies)}
    return {name: round(seconds * 1000, 2) for name, seconds in found.items()}
