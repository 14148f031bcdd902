"""Facts of each hour of the hourly table: a few numbers an hour and broker, which the snapshot holds for the driver.

Busiest hours, the profile, completeness and the evidence of the regression are worked out from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class BrokerHour(_Model):
    """One broker in one hour."""

    expected: int = 0
    """Samples that should be there."""
    answered: int = 0
    cost: int = 0
    """Sum over its rows that count, in byte-equivalents per second."""
    told: int = 0
    """Number of samples that report its CPU; 0 in hours that an older job computed."""
    cpu: int = 0
    """Sum of the shares of its CPU, in millionths."""


class HourState(_Model):
    """One hour of the hourly table."""

    digest: str
    """Of the landing files that its rows were made from."""
    batch: str = ""
    """Batch that wrote its rows; empty when no row counted."""
    samples: int = 0
    """Rows that count."""
    duplicates: int = 0
    cost: int = 0
    """Sum over the samples, in byte-equivalents per second."""
    rejected: dict[str, int] = Field(default_factory=dict)
    expected: int = 0
    """Broker samples that should be there."""
    answered: int = 0
    announced: int = 0
    """Rows that the answers had."""
    due: int = 0
    """Number of broker samples of an hour with all its rounds; 0 if the collector did not report its interval."""
    rounds: int = 0
    brokers: dict[str, BrokerHour] = Field(default_factory=dict)
    placed: bool = False
    """Whether its last round's bundles were checked."""
    carried: bool = False
    """Whether a topic was heavy in it, and brokers reported their CPU."""


def completeness(hours: Iterable[HourState]) -> float:
    """Share of the traffic of some hours that is there, by the markers of who answered with how much."""
    found = tuple(hours)
    expected, answered = (sum(getattr(hour, name) for hour in found) for name in ("expected", "answered"))
    announced = sum(hour.announced for hour in found)
    # A broker's answer whose file is gone or damaged, or whose rows were rejected, is no answer.
    there = sum(min(hour.samples + hour.duplicates, hour.announced) for hour in found)
    # All of nothing is there where brokers answered that they have no topics.
    share = there / announced if announced else float(not any(hour.samples for hour in found))
    return (answered / expected if expected else 0.0) * share


@dataclass(frozen=True)
class Coverage:
    """Hours of the window with nearly all the samples that they should have."""

    covered: int
    required: int
    """Below it nothing is recommended."""
    least: float
    """Share of its samples from which an hour is covered."""
    shares: Mapping[int, float]
    """Of its samples that each hour has, by hours since 1970; those of which nothing is known are absent."""


def coverage(hours: Mapping[int, HourState], least: float, required: int) -> Coverage:
    """How much of some hours, by hours since 1970, is there."""
    found = {unit: share for unit, share in zip(hours, shares(list(hours.values())), strict=True) if share is not None}
    return Coverage(sum(share >= least for share in found.values()), required, least, found)


def shares(hours: Sequence[HourState]) -> list[float | None]:
    """Share of the broker samples that each hour should have; None where no broker was asked.

    An hour in which the collector was away for some time has fewer rounds than are due, and one that is not over too.
    Where the interval of the collector is not known, an hour should have as many rounds as the upper quartile of hours.
    """
    rounds = sorted(hour.rounds for hour in hours if hour.rounds)
    usual = rounds[ceil(0.75 * (len(rounds) - 1))] if rounds else 0
    return [hour.answered / _due(hour, usual) if hour.expected else None for hour in hours]


def _due(hour: HourState, usual: int) -> float:
    return hour.due or hour.expected * max(usual / max(hour.rounds, 1), 1.0)
