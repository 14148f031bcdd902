"""Weights of topics, and the hours of the day that they are weighed in.

**Weight of a topic**: the wanted percentile of its cost in the busiest hours of the day of the cluster as a whole
(three by default), grown by the wanted factor. A cluster must be balanced when it is busy: then a hot broker has no
room left. At its quiet hours any placement has room, so a topic that is busy only then must not push others apart at
the peak; its small price for existing still spreads it. Percentiles of all hours together would instead mix day and
night, and percentiles of each topic's own busiest hour would add up peaks that never meet. A topic with no sample in
those hours (it is new, or a batch that only runs at night) takes its percentile in all hours that it was seen in. A
sample in which a topic was not seen says nothing: its broker may not have answered.

**Cap of a namespace**: the same percentile of what its topics cost together, hour by hour (totals.py), grown alike.
Where its topics of the busy hours weigh more, since they are busy in different hours, all of them are scaled down to
it. So clients that switch from one topic to another count once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pulsar_sizing.job.histogram import Array, merged, quantiles
from pulsar_sizing.job.hours import HourState

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

BUSY_HOURS: Final = 3
SHARE_OF_ADVICE: Final = 0.5
"""A topic above this share of a broker's fair share may need more partitions."""
PARTITION: Final = re.compile(r"-partition-\d+$")
NAMESPACE: Final = "://([^/]*/[^/]*)/"
"""The part of a topic's name that is its namespace."""


@dataclass(frozen=True)
class Weights:
    """Topics of one task."""

    topics: Any
    """Arrow array of their names."""
    positions: Array
    weights: Array
    busy: Array
    """Whether they are from the busy hours."""


def busiest_hours(hours: Mapping[int, HourState], count: int = BUSY_HOURS) -> tuple[int, ...]:
    """Hours of the day at which the cluster costs most, ascending: mean cost of all topics over all rounds.

    What a broker did not answer is made up for by its own share: in an hour in which it answered at times by its mean
    then, else by its part of the traffic in the hours in which all answered at times. Keys are hours since 1970.
    """
    cost: dict[int, float] = {}
    rounds: dict[int, float] = {}
    for unit, whole in whole_costs(hours).items():
        if hours[unit].samples:
            cost[unit % 24] = cost.get(unit % 24, 0.0) + whole
            rounds[unit % 24] = rounds.get(unit % 24, 0.0) + hours[unit].rounds
    order = sorted(cost, key=lambda hour: (-cost[hour] / rounds[hour], hour))
    return tuple(sorted(order[:count]))


def whole_costs(hours: Mapping[int, HourState]) -> dict[int, float]:
    """Cost of all topics in each hour in which a broker answered, summed over its rounds, as if all had answered."""
    shares = _shares(hours.values())
    return {unit: _whole_cost(hour, shares) for unit, hour in hours.items() if hour.answered and hour.rounds}


def _means(hour: HourState) -> dict[str, float]:
    """Cost of each broker that answered, over all its samples of an hour."""
    return {name: b.cost * max(b.expected / b.answered, 1.0) for name, b in hour.brokers.items() if b.answered}


def _absent(hour: HourState) -> set[str]:
    return {name for name, broker in hour.brokers.items() if broker.expected and not broker.answered}


def _shares(hours: Any) -> dict[str, float]:
    """Part of the traffic of each broker where it is known: cost over that of its hours, of whole hours alone."""
    own: dict[str, float] = {}
    of: dict[str, float] = {}
    for hour in hours:
        means = {} if _absent(hour) else _means(hour)
        total = sum(means.values())
        for name, cost in means.items():
            own[name] = own.get(name, 0.0) + cost
            of[name] = of.get(name, 0.0) + total
    return {name: cost / of[name] for name, cost in own.items() if of[name]}


def _whole_cost(hour: HourState, shares: Mapping[str, float]) -> float:
    total = sum(_means(hour).values())
    # Rows of brokers that no marker knows count as they are.
    total += sum(b.cost for b in hour.brokers.values() if not b.answered)
    absent = _absent(hour)
    # A broker that was never seen together with all others has the share of a mean broker.
    mean = 1 / max(len(hour.brokers), 1)
    # It is missing in the rounds in which it should have been there: in the others its topics were on other brokers.
    missing = sum(shares.get(name, mean) * min(hour.brokers[name].expected / hour.rounds, 1.0) for name in absent)
    return total / (1 - missing) if missing < 1 else total


def topic_weights(busy: Any, quiet: Any, percentile: float, growth: float) -> Weights:
    """Weights of topics, in whole byte-equivalents per second, from rows with the columns of merging.SCHEMA.

    `quiet` are those of the other hours, for topics that the busy hours do not know.
    """
    alone = compute.invert(compute.is_in(quiet["topic"], busy["topic"]))
    rows = pa.concat_tables([busy, quiet.filter(alone)])
    names = one(rows["topic"].dictionary_encode())
    keys, many = names.indices.to_numpy(), len(names.dictionary)
    buckets, counts = one(rows["buckets"]), one(rows["counts"])
    offsets = buckets.offsets.to_numpy()
    histograms = merged(keys, offsets - offsets[0], buckets.flatten().to_numpy(), counts.flatten().to_numpy(), many)
    costs = quantiles(histograms, percentile / 100)
    positions = np.zeros(many, np.int64)
    positions[keys] = rows["position"].to_numpy()
    is_busy = np.zeros(many, bool)
    is_busy[keys[: busy.num_rows]] = True
    return Weights(names.dictionary, positions, np.floor(costs * growth + 0.5).astype(np.int64), is_busy)


def one(column: Any) -> Any:
    """A column as one array."""
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def partitioned_name(topic: str) -> str:
    """The name that all partitions of a topic share."""
    return PARTITION.sub("", topic)


def partitioned_names(topics: Any) -> Any:
    """The same of an Arrow array of names."""
    return compute.replace_substring_regex(topics, PARTITION.pattern, "")
