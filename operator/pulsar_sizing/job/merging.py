"""The numeric kernel that SQL cannot express: histograms of the same topic added up, bucket by bucket.

A histogram is two arrays, buckets ascending and counts. SQL could add them only by exploding a row into one for each
bucket: 25 times as many rows to shuffle. Here the rows of a task come as Arrow batches and are added up as they come,
so a task holds about as many rows as it has topics, however many hours or days they are from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pulsar_sizing.job.histogram import Histograms, merged
from pulsar_sizing.job.weights import one

COLUMNS: Final = "day bigint, topic string, position bigint, samples bigint, buckets array<smallint>, counts array<int>"
"""Columns of a row with a histogram, for Spark. `day` is since 1970, or 0 where days are added up."""
SCHEMA: Final = pa.schema(
    [
        ("day", pa.int64()),
        ("topic", pa.string()),
        ("position", pa.int64()),
        ("samples", pa.int64()),
        ("buckets", pa.list_(pa.int16())),
        ("counts", pa.list_(pa.int32())),
    ]
)
LEAST_ROWS: Final = 65_536
"""Rows that are held before they are added up."""


class Merger:
    """Adds up rows of SCHEMA by day and topic; memory follows the number of topics and not that of rows."""

    def __init__(self, least: int = LEAST_ROWS) -> None:
        """`least` rows are held before any are added up."""
        self._pending: list[Any] = [SCHEMA.empty_table()]
        self._least = self._usual = least
        self.rows = 0
        """Rows that are held."""

    def add(self, rows: Any) -> None:
        """Take a table with the columns of SCHEMA."""
        self._pending.append(rows.select(SCHEMA.names).cast(SCHEMA))
        self.rows += rows.num_rows
        if self.rows > self._usual:
            self._pending = [self.table()]
            self.rows = self._pending[0].num_rows
            self._usual = max(self._least, 3 * self.rows)

    def table(self) -> Any:
        """One row a day and topic of all that was taken."""
        return added(pa.concat_tables(self._pending))


def merge(batches: Iterable[Any]) -> Iterator[Any]:
    """Rows of SCHEMA, one a day and topic of all batches, for ``mapInArrow``."""
    merger = Merger()
    for batch in batches:
        merger.add(pa.Table.from_batches([batch]))
    yield from merger.table().to_batches()


def added(rows: Any) -> Any:
    """Rows of SCHEMA with those of the same day and topic added up."""
    if not rows.num_rows:
        return rows
    names = one(rows["topic"].dictionary_encode())
    # Names have codes from 0 on, so that a day and a code are one number.
    days, codes = rows["day"].to_numpy(), names.indices.to_numpy().astype(np.int64)
    pairs, first, keys = np.unique(days * len(names.dictionary) + codes, return_index=True, return_inverse=True)
    buckets, counts = one(rows["buckets"]), one(rows["counts"])
    offsets = buckets.offsets.to_numpy()
    found = merged(keys, offsets - offsets[0], buckets.flatten().to_numpy(), counts.flatten().to_numpy(), len(pairs))
    samples = np.zeros(len(pairs), np.int64)
    np.add.at(samples, keys, rows["samples"].to_numpy())
    ends, of_bucket, of_count = sparse(found)
    columns = [
        pa.array(days[first]),
        names.dictionary.take(pa.array(codes[first])),
        pa.array(rows["position"].to_numpy()[first]),
        pa.array(samples),
        pa.ListArray.from_arrays(pa.array(ends), pa.array(of_bucket)),
        pa.ListArray.from_arrays(pa.array(ends), pa.array(of_count)),
    ]
    return pa.table(columns, schema=SCHEMA)


def sparse(found: Histograms) -> tuple[Any, Any, Any]:
    """Offsets of each key, buckets that hold anything, and counts."""
    places = np.flatnonzero(found.counts)
    ends = np.searchsorted(places, found.starts)
    first = np.repeat(found.least - found.starts[:-1], np.diff(ends))
    return ends.astype(np.int32), (places + first).astype(np.int16), found.counts[places].astype(np.int32)
