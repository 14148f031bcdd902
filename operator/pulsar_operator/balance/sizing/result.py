"""The sizing result: what the Spark job concludes from recorded traffic, for people and for the operator.

One JSON document per cluster, versioned, written whole or not at all. Weights are byte-equivalents per second (see
`load.CostModel`), already at the wanted percentile and grown by the wanted factor.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

RESULT_VERSION: Final = 1


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class CellWeight(_Model):
    """The topics at one position of a namespace's hash space, or several neighbours where they are very many."""

    position: Annotated[int, Field(ge=0, le=0xFFFFFFFF)]
    weight: Annotated[float, Field(ge=0)]
    topics: Annotated[int, Field(ge=1)] = 1


class NamespaceSizing(_Model):
    """One namespace: how many bundles it needs and exactly where to cut."""

    namespace: str
    bundles_now: int
    boundaries: tuple[str, ...]
    """Recommended, as Pulsar writes them; a refinement of today's boundaries, since bundles are never merged."""
    fresh_boundaries: tuple[str, ...]
    """Recommended if the namespace were created anew."""
    weight: float
    hottest_topic: str
    hottest_weight: float
    cells: tuple[CellWeight, ...]
    reason: str


class PartitionAdvice(_Model):
    """A topic hotter than a broker should be: bundles cannot help, partitions can."""

    topic: str
    weight: float
    partitions_now: int
    partitions: int
    reason: str


class BrokerSizing(_Model):
    """One broker as observed."""

    broker: str
    weight: float
    utilization: float
    """Weight for what it can carry, over that of all brokers together: 1 is a fair load."""
    capacity: Annotated[float, Field(gt=0)] = 1.0
    """What it can carry, 1 on average."""


class Verdict(_Model):
    """Whether there are too few, too many or enough brokers."""

    verdict: Literal["UnderProvisioned", "OverProvisioned", "RightSized", "Unknown"]
    brokers_now: int
    brokers: int
    reason: str


class ExpectedBalance(_Model):
    """Busiest over mean utilization: as it is, as the result promises, and what no bundles can beat."""

    before: float
    after: float
    bound: float


class TopicCost(_Model):
    """What a topic with all its partitions costs brokers, by the CPU that they used."""

    topic: str
    factor: float
    """Times what its traffic says; 1 is what the cluster's traffic costs on average."""
    error: float
    """Standard error."""


class CostSizing(_Model):
    """How well the cost of the traffic explains the CPU that brokers used, and what was learned from it."""

    brokers: int
    """That told their CPU."""
    observations: int
    """Brokers times hours."""
    deviation: float | None = None
    """By how much, on average, a broker's share of the CPU is off its share of the cost, in hours that were not learned
    from; 0.30 = 30 %. None = too little was recorded to say."""
    learned: float | None = None
    """The same with the factors; equal where none are used."""
    factors: int = 0
    """Topics with a factor of their own that is used."""
    others: float = 1.0
    """Factor of all other topics, so that the total stays what it is."""
    topics: tuple[TopicCost, ...] = ()
    """Those whose weight changes most, at most 20."""


class SizingResult(_Model):
    """What the job concluded about one cluster."""

    version: Literal[1] = RESULT_VERSION
    instance: str
    cluster: str
    generated_time: datetime
    from_time: datetime
    to_time: datetime
    samples: int
    completeness: Annotated[float, Field(ge=0, le=1)]
    """Share of the expected broker samples that answered."""
    percentile: float
    growth: float
    namespaces: tuple[NamespaceSizing, ...]
    partitions: tuple[PartitionAdvice, ...]
    brokers: tuple[BrokerSizing, ...]
    verdict: Verdict
    balance: ExpectedBalance
    rejected: dict[str, int] = Field(default_factory=dict)
    """Rows and files left out, by reason."""
    cost: CostSizing | None = None
    """None = no broker's CPU was recorded, or by a job that did not look at it."""
