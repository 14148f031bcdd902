"""Traffic of a topic, a bundle or a broker, and what it costs in one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LARGEST_RATE = 1e12
"""Maximum rate of a topic. A figure above it is an error of its source and counts as 0, like one below 0 and as in the
sizing job: it would otherwise be all of the load."""


def figure(value: Any) -> float:
    """Returns a figure of a broker's statistics as a number; 0 for what is none, or none that traffic can have."""
    try:
        number = float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if 0 < number <= LARGEST_RATE else 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """Rates per second and counts; sums are meaningful. In = published, out = dispatched."""

    messages_in: float = 0.0
    messages_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    topics: int = 0
    sessions: int = 0
    """Producers and consumers."""


@dataclass(frozen=True)
class CostModel:
    """What a broker pays for traffic, in bytes per second: bytes moved and, for each message or topic, its overhead.

    The cost is linear on purpose: that of a bundle is the sum of its topics', whatever the cut. The defaults count a
    message like 1 KiB of payload and give an idle topic or session a small price, so that many idle ones spread too.
    """

    byte_in: float = 1.0
    byte_out: float = 1.0
    message_in: float = 1024.0
    message_out: float = 1024.0
    topic: float = 16.0
    session: float = 16.0

    def cost(self, load: Load) -> float:
        """Cost of a load, in byte-equivalents per second."""
        return self.of(load.messages_in, load.messages_out, load.bytes_in, load.bytes_out, load.topics, load.sessions)

    def of(
        self,
        messages_in: float,
        messages_out: float,
        bytes_in: float,
        bytes_out: float,
        topics: int,
        sessions: int,
    ) -> float:
        """Returns the same of a load's figures, where there are too many of them for a `Load` each."""
        return (
            self.byte_in * bytes_in
            + self.byte_out * bytes_out
            + self.message_in * messages_in
            + self.message_out * messages_out
            + self.topic * topics
            + self.session * sessions
        )
