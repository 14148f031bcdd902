"""Metric faults: figures of brokers that are wrong in ways real clusters produce, the same for every strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.simulator.state import Randomness

SPIKE = 0.35
"""Of its limit: what a spike adds to a broker's CPU, as a full garbage collection does, for one minute."""
NOISE = 0.2
"""Standard deviation of the factor of noise."""
SCALE = 100.0
"""Between a share and a percent."""
DRIFT = 0.02
"""Of its limit and an hour: what a drifting figure gains."""
SHRINK = 0.3
"""Of the true figure: what is left of a shrinking one after a day."""
SKEW = 10
"""Minutes by which a broker's clock is behind."""
SILENCE = range(300, 780)
"""Minutes in which the silent broker reports nothing: eight hours."""
DAY = 1440


class MetricFault(Protocol):
    """What becomes of the figures of one broker in one minute; asked once for each, in order."""

    def cpu(self, minute: int, broker: str, used: float) -> float | None:
        """The CPU figure that the broker reports instead of ``used``, 1 = all of its limit; None if it reports none."""
        ...

    def silent(self, minute: int, broker: str) -> bool:
        """Whether the broker reports nothing at all."""
        ...

    def clock(self, minute: int, broker: str) -> int:
        """The minute by the broker's own clock."""
        ...


@dataclass
class Faulty:
    """A fault of the CPU figure alone, of all brokers or of one."""

    figure: Callable[[int, str, float], float | None]
    only: str | None = None
    """The one broker; None = all."""

    def cpu(self, minute: int, broker: str, used: float) -> float | None:
        """As MetricFault."""
        return self.figure(minute, broker, used) if self.only in (None, broker) else used

    def silent(self, minute: int, broker: str) -> bool:
        """As MetricFault."""
        return False

    def clock(self, minute: int, broker: str) -> int:
        """As MetricFault."""
        return minute


@dataclass
class Skewed(Faulty):
    """One broker's clock is behind: its reports are stamped with an earlier minute and have the CPU of then."""

    figure: Callable[[int, str, float], float | None] = lambda minute, broker, used: used
    past: list[float] = field(default_factory=list)

    def cpu(self, minute: int, broker: str, used: float) -> float | None:
        """As MetricFault."""
        if broker != self.only:
            return used
        self.past.append(used)
        return self.past[max(len(self.past) - 1 - SKEW, 0)]

    def clock(self, minute: int, broker: str) -> int:
        """As MetricFault."""
        return minute - SKEW if broker == self.only else minute


@dataclass
class Silent(Faulty):
    """One broker reports nothing for hours, and serves its clients."""

    figure: Callable[[int, str, float], float | None] = lambda minute, broker, used: used

    def silent(self, minute: int, broker: str) -> bool:
        """As MetricFault."""
        return broker == self.only and minute in SILENCE


def _spikes(chance: Randomness, share: float) -> Faulty:
    return Faulty(lambda minute, broker, used: used + SPIKE * (chance.random() < share))


def _noise(chance: Randomness) -> Faulty:
    return Faulty(lambda minute, broker, used: max(0.0, used * (1 + chance.gauss(0, NOISE))))


def _frozen(only: str | None) -> Faulty:
    first: dict[str, float] = {}
    return Faulty(lambda minute, broker, used: first.setdefault(broker, used), only)


ONE = "broker-2:8080"
"""The broker that is not as the others."""
KINDS: dict[str, Callable[[Randomness], MetricFault]] = {
    "none": lambda chance: Faulty(lambda minute, broker, used: used),
    "spikes 2 %": lambda chance: _spikes(chance, 0.02),
    "spikes 5 %": lambda chance: _spikes(chance, 0.05),
    "spikes 15 %": lambda chance: _spikes(chance, 0.15),
    "noise 20 %": _noise,
    "frozen": lambda chance: _frozen(None),
    "frozen, one": lambda chance: _frozen(ONE),
    "missing": lambda chance: Faulty(lambda minute, broker, used: None),
    "missing, one": lambda chance: Faulty(lambda minute, broker, used: None, ONE),
    "x 100": lambda chance: Faulty(lambda minute, broker, used: used * SCALE),
    "x 100, one": lambda chance: Faulty(lambda minute, broker, used: used * SCALE, ONE),
    "/ 100": lambda chance: Faulty(lambda minute, broker, used: used / SCALE),
    "/ 100, one": lambda chance: Faulty(lambda minute, broker, used: used / SCALE, ONE),
    "drift up, one": lambda chance: Faulty(lambda minute, broker, used: used + DRIFT * minute / 60, ONE),
    "drift down, one": lambda chance: Faulty(
        lambda minute, broker, used: used * (1 - (1 - SHRINK) * minute / DAY), ONE
    ),
    "drift up": lambda chance: Faulty(lambda minute, broker, used: used + DRIFT * minute / 60),
    "clock skew, one": lambda chance: Skewed(only=ONE),
    "silent, one": lambda chance: Silent(only=ONE),
}
"""By name; each makes a fresh fault from its own chance."""
