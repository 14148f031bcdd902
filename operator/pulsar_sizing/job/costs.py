"""What topics cost, learned from the state: evidence of the hours in, factors for the weights and words for the result.

A broker in an hour is evidence where nearly all its samples tell its CPU. Brokers near their limit tell less than what
topics cost, and hours in which nearly all CPU is the brokers' own tell nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum, log
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import SparkContext

from pulsar_operator.balance.sizing.result import CostSizing, TopicCost
from pulsar_sizing.job.carried import LEAST, Hour, read
from pulsar_sizing.job.inventory import MILLION
from pulsar_sizing.job.regression import MIN_HOURS, Evidence, Learned, learn
from pulsar_sizing.job.state import CARRIED, HourState, Manifest, State
from pulsar_sizing.job.weights import Weights, compute, partitioned_names
from pulsar_sizing.store import Store

MOST_TOPICS: Final = 256
"""Topics with factors of their own, the heaviest; the others are one group."""
MOST_TOLD: Final = 20
"""Topics in the result: those whose factor changes most."""
NEARLY_ALL: Final = 0.8
"""Of its samples that an hour of a broker must tell the CPU in."""
BUSY: Final = 0.9
"""Share of its CPU from which a broker tells nothing: more traffic would not make it use more."""
IDLE: Final = 0.1
"""Mean share of CPU up to which an hour tells nothing; the live half has the same bound for a broker (learned.py)."""


@dataclass(frozen=True)
class Factors:
    """What topics count for, times what their traffic says."""

    topics: Mapping[str, float] = field(default_factory=dict)
    """By name without partition."""
    others: float = 1.0


@dataclass(frozen=True)
class Observed:
    """A broker in an hour."""

    cpu: float
    """CPU that it used, 1 = all of an average broker's."""
    cost: float
    """Mean of what it carried, in byte-equivalents per second."""
    answered: int
    """Samples."""


def learned(
    spark: SparkContext,
    store: Store,
    state: State,
    manifest: Manifest,
    units: Sequence[int],
    capacities: Mapping[str, float],
) -> Learned:
    """Factors from some hours of the manifest. `capacities`: see :func:`observed`."""
    hours = {unit: told for unit in units if (told := observed(manifest.hours[unit], capacities))}
    wanted = [(unit, manifest.hours[unit].cost, state.folders(manifest, CARRIED, [unit])[0]) for unit in sorted(hours)]
    if not wanted:
        return Learned()
    if len(wanted) < MIN_HOURS:
        return learn(evidence(hours, []))
    count = min(len(wanted), spark.defaultParallelism)
    parts = spark.parallelize([wanted[n::count] for n in range(count)], count)
    # Of an hour no more topics than carried.LEAST.
    found = parts.flatMap(partial(read, store.place)).collect()
    return learn(evidence(hours, sorted(found, key=lambda hour: hour.unit)))


def observed(hour: HourState, capacities: Mapping[str, float]) -> dict[str, Observed]:
    """The brokers of an hour that tell something, none where fewer than two do.

    `capacities` are those of the brokers, 1 on average; empty = they are equal. One that is not in it tells nothing.
    """
    shares = {
        name: broker.cpu / broker.told / MILLION
        for name, broker in hour.brokers.items()
        if broker.cost > 0 and broker.answered and broker.told >= NEARLY_ALL * broker.answered
    }
    found = {
        name: Observed(share * capacities.get(name, 1.0), broker.cost / broker.answered, broker.answered)
        for name, share in sorted(shares.items())
        if share < BUSY and (not capacities or name in capacities) and (broker := hour.brokers[name])
    }
    return found if len(found) > 1 and fsum(shares.values()) >= IDLE * len(shares) else {}


def evidence(hours: Mapping[int, Mapping[str, Observed]], carried: Sequence[Hour]) -> Evidence:
    """Observations of brokers in hours, and of their cost that of the heaviest topics."""
    keys = [(unit, name) for unit in sorted(hours) for name in hours[unit]]
    rows = {key: row for row, key in enumerate(keys)}
    each = [hours[unit][name] for unit, name in keys]
    parts = [
        (topic, rows[hour.unit, broker], cost / hours[hour.unit][broker].answered)
        for hour in carried
        for topic, broker, cost in zip(hour.topics, hour.brokers, hour.costs, strict=True)
        if (hour.unit, broker) in rows
    ]
    total = fsum(one.cost for one in each)
    weights: dict[str, float] = {}
    for topic, _, cost in parts:
        weights[topic] = weights.get(topic, 0.0) + cost
    heavy = sorted((topic for topic in weights if weights[topic] * LEAST >= total), key=lambda t: (-weights[t], t))
    names = tuple(heavy[:MOST_TOPICS])
    columns = {name: column for column, name in enumerate(names)}
    topics = np.zeros((len(keys), len(names)))
    for topic, row, cost in parts:
        if topic in columns:
            topics[row, columns[topic]] += cost
    brokers = {name: number for number, name in enumerate(sorted({name for _, name in keys}))}
    return Evidence(
        np.array([unit for unit, _ in keys], np.int64),
        np.array([brokers[name] for _, name in keys], np.int64),
        np.array([one.cpu for one in each]),
        np.array([one.cost for one in each]),
        names,
        topics,
    )


def factors_of(learned: Learned) -> Factors:
    """What weights are multiplied with."""
    return Factors({topic: each.factor for topic, each in learned.factors.items()}, learned.others)


def applied(found: Weights, factors: Factors) -> Weights:
    """Weights with their factors, in whole byte-equivalents per second."""
    if factors == Factors():
        return found
    names, times = list(factors.topics), np.array([*factors.topics.values(), factors.others])
    # Of a name that has no factor the index is null, and then the last one.
    index = compute.index_in(partitioned_names(found.topics), value_set=pa.array(names, pa.string()))
    which = compute.fill_null(index, len(names)).to_numpy(zero_copy_only=False)
    weights = np.floor(found.weights * times[which] + 0.5).astype(np.int64)
    return Weights(found.topics, found.positions, weights)


def section(learned: Learned) -> CostSizing | None:
    """What the result says of it; None where no broker told anything."""
    if not learned.observations:
        return None
    strongest = sorted(learned.factors.items(), key=lambda item: (-abs(log(item[1].factor)), item[0]))
    return CostSizing(
        brokers=learned.brokers,
        observations=learned.observations,
        deviation=learned.before,
        learned=learned.after,
        factors=len(learned.factors),
        others=learned.others,
        topics=tuple(
            TopicCost(topic=topic, factor=each.factor, error=each.error) for topic, each in strongest[:MOST_TOLD]
        ),
    )
