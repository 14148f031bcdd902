"""The numeric kernel of the table of namespaces: what all topics of a namespace cost together, as a histogram.

Hour by hour, the samples of its topics are added up by rank: the highest of each topic, the second highest, and so on.
So topics that are busy in the same hour count as busy in the same minute, and topics that are busy in different hours
do not count together. Of a namespace with one topic it is the histogram of that topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pulsar_sizing.job.histogram import Array, buckets_of, counted, values_of
from pulsar_sizing.job.merging import SCHEMA, added
from pulsar_sizing.job.weights import one

Key = tuple[int, str]
"""Hour since 1970 and namespace."""
RANKS: Final = "unit bigint, namespace string, sums array<bigint>"
"""Of an hour and namespace the cost of all topics, in SCALEths, the highest samples first."""
SCALE: Final = 64
COSTS: Final = np.floor(np.minimum(SCALE * values_of(np.arange(2048)), 2.0**57) + 0.5).astype(np.int64)
"""The cost of each bucket in whole SCALEths, so that sums do not depend on their order; at most 2 PB/s."""


def by_rank(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields RANKS, one row an hour and namespace of all batches, for ``mapInArrow``.

    From rows (unit, namespace, buckets, counts), one a topic, hour and broker. A sum of sums by rank is that of all
    their topics, so tasks may have any rows, and few of them are sent on.
    """
    found: dict[Key, Array] = {}
    for batch in batches:
        if batch.num_rows:
            _add(found, pa.Table.from_batches([batch]))
    if found:
        units, names = zip(*found, strict=True)
        columns = [pa.array(units), pa.array(names), pa.array(list(found.values()), pa.list_(pa.int64()))]
        yield from pa.table(columns, names=["unit", "namespace", "sums"]).to_batches()


def totals(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields rows of merging.SCHEMA, one a day and namespace (as `topic`), for ``mapInArrow``.

    From RANKS of whole namespaces and days.
    """
    found: dict[Key, Array] = {}
    for batch in batches:
        for unit, name, sums in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            _sum(found, (unit, name), np.array(sums, np.int64))
    if found:
        yield from added(_rows(found)).to_batches()


def _sum(found: dict[Key, Array], key: Key, more: Array) -> None:
    """Add sums by rank to those of an hour and namespace."""
    known = found.get(key)
    if known is None:
        found[key] = more.copy()
        return
    short, long = sorted((known, more), key=len)
    whole = long.copy()
    whole[: len(short)] += short
    found[key] = whole


def _add(found: dict[Key, Array], rows: Any) -> None:
    """Add rows to sums by rank, the highest sample first."""
    names = one(rows["namespace"].dictionary_encode())
    many = len(names.dictionary)
    pairs, keys = np.unique(rows["unit"].to_numpy() * many + names.indices.to_numpy(), return_inverse=True)
    buckets, counts = one(rows["buckets"]), one(rows["counts"])
    offsets = buckets.offsets.to_numpy()
    reached = np.append(0, np.cumsum(counts.flatten().to_numpy().astype(np.int64)))
    ends = reached[offsets - offsets[0]]
    samples = np.diff(ends)
    # Samples of a row ascend, and the last one has rank 0.
    ranks = np.repeat(ends[1:], samples) - 1 - np.arange(ends[-1])
    costs = np.repeat(COSTS.take(buckets.flatten().to_numpy(), mode="clip"), counts.flatten().to_numpy())
    width = int(samples.max(initial=0))
    sums = np.zeros((len(pairs), width), np.int64)
    np.add.at(sums.reshape(-1), np.repeat(keys * width, samples) + ranks, costs)
    most = np.zeros(len(pairs), np.int64)
    np.maximum.at(most, keys, samples)
    texts = names.dictionary.to_pylist()
    for row, (pair, length) in enumerate(zip(pairs.tolist(), most.tolist(), strict=True)):
        unit, name = divmod(pair, many)
        _sum(found, (unit, texts[name]), sums[row, :length])


def _rows(found: dict[Key, Array]) -> Any:
    """Rows of merging.SCHEMA, one an hour and namespace."""
    lengths = np.array([len(sums) for sums in found.values()])
    keys = np.repeat(np.arange(len(found)), lengths)
    ends, buckets, counts = counted(keys, buckets_of(np.concatenate(list(found.values())) / SCALE), len(found))
    columns = [
        pa.array([unit // 24 for unit, _ in found]),
        pa.array([name for _, name in found]),
        pa.array(np.zeros(len(found), np.int64)),
        pa.array(lengths),
        pa.ListArray.from_arrays(pa.array(ends), pa.array(buckets)),
        pa.ListArray.from_arrays(pa.array(ends), pa.array(counts)),
    ]
    return pa.table(columns, schema=SCHEMA)
