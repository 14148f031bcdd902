"""The cost of topics, learned from the tables: evidence of the hours, factors for the weights, text for the result.

A broker in an hour is evidence if nearly all its samples report its CPU. Brokers near their limit show less than the
cost of topics, and hours in which nearly all CPU is the brokers' own show nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, log
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.sizing.result import CostSizing, TopicCost
from pulsar_sizing.job.histogram import Array
from pulsar_sizing.job.hours import HourState
from pulsar_sizing.job.inventory import MILLION
from pulsar_sizing.job.regression import MIN_HOURS, Evidence, Learned, learn
from pulsar_sizing.job.snapshot import CARRIED, Snapshot, Tables
from pulsar_sizing.job.weights import compute, partitioned_names

LEAST: Final = 2048
"""Share of an hour's cost from which a topic, with all its partitions, is heavy, which also limits the number of heavy
topics. Partitions of a topic have the same producers, settings and subscriptions, so they have the same cost."""
MOST_HOURS: Final = 14 * 24
"""Hours that are learned from, the newest: what the driver holds does not grow with the window."""
MOST_TOPICS: Final = 256
"""Topics with their own factors, the heaviest; the others are one group."""
MOST_REPORTED: Final = 20
"""Topics in the result: those whose factor changes most."""
NEARLY_ALL: Final = 0.8
"""Share of its samples with CPU that an hour of a broker must have."""
BUSY: Final = 0.9
"""Share of its CPU from which a broker shows nothing: more traffic would not make it use more."""
IDLE: Final = 0.1
"""Mean share of CPU up to which an hour shows nothing; the live half has the same bound for a broker (learned.py)."""


@dataclass(frozen=True)
class Factors:
    """What topics count for, times what their traffic says."""

    topics: Mapping[str, float] = field(default_factory=dict)
    """By name without partition."""
    others: float = 1.0


@dataclass(frozen=True)
class Hour:
    """The heavy topics of an hour, as lists of one length."""

    unit: int
    """Hours since 1970."""
    topics: Sequence[str]
    brokers: Sequence[str]
    costs: Sequence[int]


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
    spark: SparkSession, tables: Tables, snapshot: Snapshot, units: Sequence[int], capacities: Mapping[str, float]
) -> Learned:
    """Factors from some hours of the snapshot. `capacities`: see :func:`observed`.

    The regression runs on the driver: of each broker and hour a few numbers, and the costs of MOST_TOPICS topics.
    """
    newest = sorted(units)[-MOST_HOURS:]
    hours = {unit: brokers for unit in newest if (brokers := observed(snapshot.hours[unit], capacities))}
    if len(hours) < MIN_HOURS:
        return learn(evidence(hours, [])) if hours else Learned()
    samples = [(unit, name, one.answered) for unit, brokers in hours.items() for name, one in brokers.items()]
    known = F.broadcast(spark.createDataFrame(samples, "unit bigint, broker string, answered bigint"))
    heavy = [unit for unit in hours if snapshot.hours[unit].carried]
    carried = tables.read(spark, CARRIED, tables.hours(snapshot, CARRIED, heavy))
    parts = carried.join(known, on=["unit", "broker"], how="inner")
    total = F.sum(F.col("cost") / F.col("answered")).alias("total")
    heaviest = parts.groupBy("topic").agg(total).orderBy(F.desc("total"), "topic").limit(MOST_TOPICS)
    rows = parts.join(F.broadcast(heaviest), on="topic", how="left_semi").select("unit", "topic", "broker", "cost")
    found: dict[int, list[tuple[str, str, int]]] = {}
    for row in sorted(rows.toArrow().to_pylist(), key=lambda row: (row["unit"], row["topic"], row["broker"])):
        found.setdefault(row["unit"], []).append((row["topic"], row["broker"], row["cost"]))
    return learn(evidence(hours, [Hour(unit, *map(list, zip(*found[unit], strict=True))) for unit in found]))


def observed(hour: HourState, capacities: Mapping[str, float]) -> dict[str, Observed]:
    """Returns the brokers of an hour that are evidence, none if fewer than two are. `capacities` are those of the
    brokers, 1 on average; empty if they are equal. A broker that is missing in it is no evidence.
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


def factors_for(topics: Any, factors: Factors) -> Array:
    """The factor of each topic of an Arrow array of names."""
    names, times = list(factors.topics), np.array([*factors.topics.values(), factors.others])
    # Of a name that has no factor the index is null, and then the last one.
    index = compute.index_in(partitioned_names(topics), value_set=pa.array(names, pa.string()))
    found: Array = times[compute.fill_null(index, len(names)).to_numpy(zero_copy_only=False)]
    return found


def section(learned: Learned) -> CostSizing | None:
    """Returns the section of the result; None if no broker was evidence."""
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
            TopicCost(topic=topic, factor=each.factor, error=each.error) for topic, each in strongest[:MOST_REPORTED]
        ),
    )
