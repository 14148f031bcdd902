"""Traffic of a topic, a bundle or a broker, and what it costs in one number."""

from __future__ import annotations

from dataclasses import dataclass


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
        return (
            self.byte_in * load.bytes_in
            + self.byte_out * load.bytes_out
            + self.message_in * load.messages_in
            + self.message_out * load.messages_out
            + self.topic * load.topics
            + self.session * load.sessions
        )
