"""The sizing result of the Spark job from recorded traffic, for users and for the operator.

It is one versioned JSON document per cluster, written atomically. Weights are byte equivalents per second (see
`load.CostModel`), at the configured percentile, multiplied by the configured growth. Since its readers act on it,
impossible traffic or invalid boundaries are refused when it is read (pydantic's ValidationError), not in a plan.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from pulsar_operator.balance.model.ranges import boundary_points

RESULT_VERSION: Final = 1
MOST_AHEAD: Final = 25 * 3600.0
"""Maximum seconds by which the record may end after now: a job includes the day that begins within an hour, with all
hours recorded by a collector whose clock was ahead."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Earliest valid time. Calculations with some times of the year 1 fail."""
LARGEST_WEIGHT: Final = 1e19
"""Maximum byte equivalents per second. A larger figure is an error of the writer, since the job uses integers of 64
bits."""
LARGEST_COUNT: Final = 0xFFFFFFFF
"""Maximum number of topics or bundles: the number of positions in a namespace."""


def _of_a_namespace(texts: tuple[str, ...]) -> tuple[str, ...]:
    if texts:
        boundary_points(texts)
    return texts


Weight = Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)]
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Boundary = Annotated[str, Field(pattern=r"^0x[0-9a-f]{8}$")]
"""A boundary in Pulsar's format."""
Boundaries = Annotated[tuple[Boundary, ...], AfterValidator(_of_a_namespace)]
"""Boundaries of a whole namespace, from 0x00000000 to 0xffffffff; empty if they are unknown."""


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


class CellWeight(_Model):
    """The topics at one position of a namespace's hash space, or several adjacent ones where they are very many."""

    position: Annotated[int, Field(ge=0, le=0xFFFFFFFF)]
    weight: Weight
    topics: Annotated[int, Field(ge=1, le=LARGEST_COUNT)] = 1


class NamespaceSizing(_Model):
    """One namespace: how many bundles it needs and exactly where to cut."""

    namespace: Annotated[str, Field(pattern=r"^[^/]+(/[^/]+){1,2}$")]
    """The older form of three parts too: the job counts what brokers report."""
    bundles_now: Count
    """0 if not known."""
    boundaries: Boundaries
    """Recommended boundaries, as Pulsar writes them; they refine the existing ones, since bundles are never merged."""
    boundaries_now: Boundaries = ()
    """Boundaries of the newest round, as far as brokers reported topics: none is removed while the namespace exists. If
    empty, they are not known, or the job is older and did not report them."""
    fresh_boundaries: Boundaries
    """Boundaries recommended for a namespace that is created again."""
    weight: Weight
    hottest_topic: str
    hottest_weight: Weight
    cells: tuple[CellWeight, ...]
    """Ascending by position, each once."""
    reason: str

    @model_validator(mode="after")
    def _ascending(self) -> NamespaceSizing:
        for left, right in pairwise(self.cells):
            if left.position >= right.position:
                raise ValueError(
                    f"a cell at {right.position} follows a cell at {left.position}, but positions must ascend"
                )
        return self


class PartitionAdvice(_Model):
    """A topic hotter than a broker should be: bundles cannot help, partitions can."""

    topic: str
    weight: Weight
    partitions_now: int
    partitions: int
    reason: str


class BrokerSizing(_Model):
    """One broker as observed."""

    broker: str
    weight: Weight
    utilization: float
    """Weight relative to its capacity, divided by that of all brokers together: 1 is a fair load."""
    capacity: Annotated[float, Field(gt=0)] = 1.0
    """Capacity, 1 on average."""


class HottestTopic(_Model):
    """The topic, or partition of one, with the highest weight, and the capacity of the largest broker."""

    topic: str
    weight: Weight
    carries: Annotated[float, Field(gt=0)]
    """Capacity of the largest broker as a weight."""
    target: Annotated[float, Field(gt=0)]
    """Target share of that."""

    @model_validator(mode="after")
    def _amount(self) -> HottestTopic:
        if not 0 < self.carries * self.target < inf:
            raise ValueError(f"{self.target} of {self.carries} is not a valid target load of a broker")
        return self


class Verdict(_Model):
    """Whether there are too few, too many or enough brokers."""

    verdict: Literal["UnderProvisioned", "OverProvisioned", "RightSized", "Unknown"]
    brokers_now: int
    brokers: int
    reason: str
    hottest: HottestTopic | None = None
    """None if the capacity of a broker is not known, or the job is older and did not report it."""


class ExpectedBalance(_Model):
    """Busiest over mean utilization: at present, as the result predicts, and the lower bound for any bundles."""

    before: float
    after: float
    bound: float


class TopicCost(_Model):
    """The cost of a topic with all its partitions, by the CPU that brokers used."""

    topic: str
    factor: float
    """Factor to the cost of its traffic; 1 is the cluster's average."""
    error: float
    """Standard error."""


class CostSizing(_Model):
    """How well the cost of the traffic explains the CPU that brokers used, and what was learned from it."""

    brokers: int
    """Number of brokers that reported their CPU."""
    observations: int
    """Brokers times hours."""
    deviation: float | None = None
    """Mean deviation of a broker's share of the CPU from its share of the cost, in hours that were not learned from;
    0.30 means 30 %. None if too little was recorded."""
    learned: float | None = None
    """The same with the factors; equal if none are used."""
    factors: int = 0
    """Number of topics with their own factor in use."""
    others: float = 1.0
    """Factor of all other topics, so that the total is unchanged."""
    topics: tuple[TopicCost, ...] = ()
    """Topics whose weight changes most, at most 20."""


HOURS: Final = {"Day": 24, "Week": 168}
"""Hours of each period of a profile."""


class TrafficProfile(_Model):
    """Traffic of the cluster hour by hour, as it repeats."""

    period: Literal["Day", "Week"]
    hours: Annotated[tuple[Weight, ...], Field(max_length=168)]
    """Mean cost of all topics, as recorded: neither a percentile nor grown nor learned. The first is that of 00:00 to
    01:00 UTC, in a week of Monday's."""
    recorded: Count
    """Number of recorded hours in it."""
    filled: Count = 0
    """Number of `hours` without a record: they are interpolated from adjacent ones."""

    @model_validator(mode="after")
    def _whole(self) -> TrafficProfile:
        if len(self.hours) != HOURS[self.period]:
            raise ValueError(f"a {self.period} has {HOURS[self.period]} hours, not {len(self.hours)}")
        return self


class SizingOutlook(_Model):
    """The part of a result that decisions on the number of brokers use: a few numbers, for any number of bundles."""

    version: Literal[1] = RESULT_VERSION
    """Of the whole document. It stays while older readers can read what newer jobs write: they ignore what they do not
    know, and what they know stays."""
    instance: str
    cluster: str
    """Name inside Pulsar."""
    to_time: Annotated[AwareDatetime, Field(ge=EPOCH)]
    """End of the record."""
    verdict: Verdict
    profile: TrafficProfile | None = None
    """None if too little was recorded, or the job is older and did not report it."""


def clock_problem(ahead: float) -> str | None:
    """Returns why a record that ends some seconds from now does not count, as a message. None if it counts. A record of
    next year would otherwise count as new until then."""
    if ahead <= MOST_AHEAD:
        return None
    return (
        f"ends {ahead / 3600:.1f} h in the future, so the clock of the collector, the sizing job or the operator is "
        "wrong"
    )


class SizingResult(SizingOutlook):
    """The conclusions of the job about one cluster. The fields of an outlook are written first, so that reading its
    beginning suffices."""

    generated_time: AwareDatetime
    from_time: AwareDatetime
    samples: int
    completeness: Annotated[float, Field(ge=0, le=1)]
    """Share of the expected broker samples that answered."""
    percentile: float
    growth: float
    namespaces: tuple[NamespaceSizing, ...]
    partitions: tuple[PartitionAdvice, ...]
    brokers: tuple[BrokerSizing, ...]
    balance: ExpectedBalance
    rejected: dict[str, int] = Field(default_factory=dict)
    """Rows and files left out, by reason."""
    cost: CostSizing | None = None
    """None if no broker's CPU was recorded, or the job is older and did not record it."""

    @model_validator(mode="after")
    def _once(self) -> SizingResult:
        names: set[str] = set()
        for each in self.namespaces:
            if each.namespace in names:
                raise ValueError(f"namespace {each.namespace} is listed twice")
            names.add(each.namespace)
        return self
