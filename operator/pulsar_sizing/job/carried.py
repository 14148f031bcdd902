"""What each broker carried: the cost of the heavy topics by broker, each topic with all of its partitions.

Partitions of a topic have the same producers, settings and subscriptions, so what one of them costs the others cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pulsar_sizing.arrow import parquet
from pulsar_sizing.job.histogram import Array
from pulsar_sizing.job.weights import partitioned_name
from pulsar_sizing.store import Place, Store

LEAST: Final = 2048
"""A topic is heavy that has this part of the cost of what is read together, and of its hour: no more than so many are.
Where pieces are ranges of positions and topics have no partitions, the heavy ones of an hour are the same however it
was cut; else one may count as light that is at the edge."""
CARRIED_SCHEMA: Final = pa.schema([("topic", pa.string()), ("broker", pa.string()), ("cost", pa.int64())])
"""State: one row a heavy topic and broker of an hour; costs are sums over samples."""


@dataclass(frozen=True)
class Hour:
    """The heavy topics of an hour, as lists of one length."""

    unit: int
    """Hours since 1970."""
    topics: Sequence[str]
    brokers: Sequence[str]
    costs: Sequence[int]


def carried(names: Sequence[str], topic: Array, brokers: Sequence[str], broker: Array, cost: Array) -> Any:
    """Table of CARRIED_SCHEMA of rows, by topic and broker: indexes of `names` and `brokers` and the cost of each.

    A broker that has no name counts for nobody.
    """
    bases: dict[str, int] = {}
    of = np.array([bases.setdefault(partitioned_name(name), len(bases)) for name in names], np.int64)
    known = broker < len(brokers)
    keys = of[topic[known]] * max(len(brokers), 1) + broker[known]
    # A topic stays with its broker, so runs are long.
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(starts):
        return CARRIED_SCHEMA.empty_table()
    pairs, at = np.unique(keys[starts], return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, at, np.add.reduceat(cost[known], starts))
    base, owner = np.divmod(pairs, len(brokers))
    totals = np.zeros(len(bases), np.int64)
    np.add.at(totals, base, sums)
    heavy = np.flatnonzero(totals[base] * LEAST >= sums.sum())
    texts = list(bases)
    columns = {
        "topic": [texts[code] for code in base[heavy].tolist()],
        "broker": [brokers[code] for code in owner[heavy].tolist()],
        "cost": sums[heavy],
    }
    return pa.table(columns, schema=CARRIED_SCHEMA).sort_by([("topic", "ascending"), ("broker", "ascending")])


def read(place: Place, hours: Iterable[tuple[int, int, str]]) -> list[Hour]:
    """The heavy topics of some hours; each is its number, its cost and its folder below the store's root."""
    store = Store(place.root, s3=place.s3)
    return [_read(store, *hour) for hour in hours]


def _read(store: Store, unit: int, cost: int, folder: str) -> Hour:
    tables = [CARRIED_SCHEMA.empty_table()]
    for name in store.names(folder):
        with store.open(f"{folder}/{name}") as stream:
            tables.append(parquet.ParquetFile(stream).read(use_threads=False).cast(CARRIED_SCHEMA))
    rows = pa.concat_tables(tables).group_by(["topic", "broker"]).aggregate([("cost", "sum")])
    totals: dict[str, int] = {}
    pairs = list(zip(*(rows[name].to_pylist() for name in ("topic", "broker", "cost_sum")), strict=True))
    for topic, _, part in pairs:
        totals[topic] = totals.get(topic, 0) + part
    kept = sorted(row for row in pairs if totals[row[0]] * LEAST >= cost)
    return Hour(unit, *([row[column] for row in kept] for column in range(3)))
