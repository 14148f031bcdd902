"""What is asked of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pulsar_operator.api.v1alpha1.quantities import quantity
from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job.histogram import RELATIVE_ERROR

TABLE_LAYOUT = "tables-1"
"""Columns of the tables; another word makes the job make all hours again."""
LARGEST_RATE = 1e12
"""A second; more is a broken counter, and sums of it would leave the range of 64 bits."""


class RequestError(ValueError):
    """The question cannot be answered; the message names the field, its value and the remedy."""


@dataclass(frozen=True)
class Request:
    """One question to the job."""

    instance: str
    cluster: str
    start: datetime | None = None
    """First hour that counts; None for the whole window."""
    end: datetime | None = None
    """Hours from here on do not count; None if all that is recorded."""
    percentile: float = 95.0
    """Of a topic's cost in the busy hours."""
    growth: float = 1.2
    """Factor for the traffic to come."""
    window_days: int = 7
    """Days that count, up to the last recorded one."""
    full: bool = False
    """Make every hour of the tables again."""
    capacity: float | None = None
    """Byte-equivalents a second that an average broker can carry; None if not known."""
    capacities: Mapping[str, str] = field(default_factory=dict)
    """CPU of brokers of different size, by the name of a pod, a host or a broker's id. Where one of them is not known
    they count as equal."""
    target: float = 0.7
    """Wanted utilization of that."""
    tolerance: float = 0.05
    """The busiest broker may be this much above the bound."""
    min_completeness: float = 0.8
    """Share of the recorded traffic that must be there for a recommendation."""
    min_coverage_hours: int = 24
    """Hours with that share of the samples they should have, below which nothing is recommended: a cut is without
    end."""
    batch_hours: int = 256
    """Hours at most that one batch makes: what a run that is killed repeats."""
    model: CostModel = field(default_factory=CostModel)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("percentile", 0.0, 100.0),
            ("growth", 0.1, 100.0),
            ("window_days", 1, 366),
            ("target", 0.01, 1.0),
            ("tolerance", 0.001, 10.0),
            ("min_completeness", 0.0, 1.0),
            ("min_coverage_hours", 0, 366 * 24),
            ("batch_hours", 1, 366 * 24),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise RequestError(f"{name} is {value}: must be between {low} and {high}")
        if self.capacity is not None and not self.capacity > 0:
            raise RequestError(f"capacity is {self.capacity}: must be above 0, in bytes per second")
        for name, text in self.capacities.items():
            cpu = quantity(text)
            if not name or cpu is None or cpu <= 0:
                raise RequestError(f"capacities has {name}={text}: must be NAME=CPU, an amount of CPU above 0")
        for name, moment in (("from", self.start), ("to", self.end)):
            if moment is not None and (moment.tzinfo is None or moment.timestamp() % 3600):
                raise RequestError(f"{name} is {moment.isoformat()}: must be a whole hour with time zone")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise RequestError(f"from is {self.start.isoformat()}: must be before to, {self.end.isoformat()}")

    @property
    def parameters(self) -> str:
        """Of what the tables are made with: with other values all hours are made again."""
        return f"{TABLE_LAYOUT} {RELATIVE_ERROR} {LARGEST_RATE} {self.model}"
