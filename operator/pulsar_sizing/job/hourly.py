"""The hourly table: rows of landing files added up to one row a topic, broker and hour.

The rows of a topic and hour come to one task. Of two rows of the same topic and time the one with the highest cost
counts: a topic that just moved is reported by both brokers, and the one that lost it still reports old, decaying rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame

from pulsar_sizing.job.histogram import Array, counted
from pulsar_sizing.job.landing import AMOUNTS, MAXIMA, SUMS, Reading, named
from pulsar_sizing.job.snapshot import COLUMNS, HOURLY
from pulsar_sizing.job.weights import one

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

DUPLICATE: Final = "row_duplicate"
PACK_ROWS: Final = 1 << 19
"""Samples that are brought together by topic before they are sent on, about 100 MB."""
RESULT: Final = f"unit bigint, {COLUMNS[HOURLY]}"
"""Columns of the result; rows with a `reason` have the number of rows (`samples`) that do not count."""
SCHEMA: Final = pa.schema(
    [
        ("unit", pa.int64()),
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("position", pa.int64()),
        ("samples", pa.int64()),
        *((name, pa.int64()) for name in (*SUMS, *MAXIMA)),
        ("buckets", pa.list_(pa.int16())),
        ("counts", pa.list_(pa.int32())),
    ]
)
PACKED: Final = (
    "unit bigint, reason string, topic string, namespace string, broker string, position bigint, samples bigint, "
    "rows binary"
)
"""What goes from the tasks that read files to those that add up: of each topic, broker and hour its samples, 80 bytes
each (AMOUNTS as 64-bit numbers), or of each reason how many rows (`samples`) do not count."""
_NAMES: Final = ("topic", "namespace", "broker")
_PACKED_SCHEMA: Final = pa.schema(
    [
        ("unit", pa.int64()),
        ("reason", pa.string()),
        *((name, pa.string()) for name in _NAMES),
        ("position", pa.int64()),
        ("samples", pa.int64()),
        ("rows", pa.binary()),
    ]
)
_BYTES: Final = 8 * len(AMOUNTS)


def aggregated(files: DataFrame, reading: Reading, parts: int) -> DataFrame:
    """Rows of landing files (landing.files) as RESULT, added up by this number of tasks.

    The rows of a file are brought together by topic before they are sent on, since one long value is much cheaper to
    shuffle than many short rows.
    """

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        return packed(reading.tables(batches))

    return files.mapInArrow(pack, PACKED).repartition(parts, "unit", "topic").mapInArrow(aggregate, RESULT)


def packed(tables: Iterable[Any]) -> Iterator[Any]:
    """Judged rows as PACKED, PACK_ROWS of them or more together."""
    pending: list[Any] = []
    for table in tables:
        pending.append(table)
        if sum(each.num_rows for each in pending) >= PACK_ROWS:
            yield from _pack(pending)
            pending = []
    if pending:
        yield from _pack(pending)


def _pack(tables: Sequence[Any]) -> Iterator[Any]:
    rows = pa.concat_tables(tables).unify_dictionaries()
    good = compute.is_null(rows["reason"])
    if rows["reason"].null_count < rows.num_rows:
        bad = rows.select(["unit", "reason"]).filter(compute.invert(good))
        bad = bad.set_column(1, "reason", bad["reason"].cast(pa.string()))
        yield from _left_out(bad.group_by(["unit", "reason"]).aggregate([([], "count_all")]), _PACKED_SCHEMA)
        rows = rows.filter(good)
    if not rows.num_rows:
        return
    # Neighbours with all of these equal are one group. Rows of a topic are in the order of their files, by hour and
    # broker, so that a topic has few groups; where it has more they are brought together behind the shuffle.
    keys = [rows["position"].to_numpy(), rows["unit"].to_numpy(), *(_codes(rows[name]) for name in _NAMES)]
    order = np.argsort(keys[2], kind="stable")
    starts = np.flatnonzero(np.append(True, np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])))
    ends = np.append(starts, len(order))
    amounts = np.empty((len(order), len(AMOUNTS)), np.int64)
    for column, name in enumerate(AMOUNTS):
        amounts[:, column] = rows[name].to_numpy()[order]
    first = rows.select(["unit", "reason", *_NAMES, "position"]).take(pa.array(order[starts]))
    offsets = pa.py_buffer((ends * _BYTES).astype(np.int32))
    values = pa.Array.from_buffers(pa.binary(), len(starts), [None, offsets, pa.py_buffer(amounts)])
    columns = [first[name].cast(_PACKED_SCHEMA.field(name).type) for name in first.column_names]
    yield from pa.table([*columns, pa.array(np.diff(ends)), values], schema=_PACKED_SCHEMA).to_batches()


def aggregate(batches: Iterable[Any]) -> Iterator[Any]:
    """PACKED rows of whole topics and hours, in any order, as SCHEMA."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if tables:
        # Names are judged here, once for all samples of an hour.
        yield from _added(named(pa.concat_tables(tables))).to_batches()


def _added(rows: Any) -> Any:
    found = []
    good = compute.is_null(rows["reason"])
    if rows["reason"].null_count < rows.num_rows:
        bad = rows.filter(compute.invert(good)).group_by(["unit", "reason"]).aggregate([("samples", "sum")])
        found += _left_out(bad, SCHEMA)
        rows = rows.filter(good)
    if not rows.num_rows:
        return pa.Table.from_batches(found, SCHEMA)
    once, doubles = _once(_unpacked(rows))
    if doubles.num_rows:
        many = doubles.group_by("unit").aggregate([([], "count_all")])
        many = many.append_column("reason", pa.array([DUPLICATE] * many.num_rows)).select(
            ["unit", "reason", "count_all"]
        )
        found += _left_out(many, SCHEMA)
    return pa.concat_tables([pa.Table.from_batches(found, SCHEMA), _topics(once)])


def _left_out(counts: Any, schema: Any) -> list[Any]:
    """Batches of a schema from a table of units, reasons and how many rows do not count."""
    known = dict(zip(("unit", "reason", "samples"), counts.columns, strict=True))
    columns = [
        known[field.name].cast(field.type) if field.name in known else pa.nulls(counts.num_rows, field.type)
        for field in schema
    ]
    batches: list[Any] = pa.table(columns, schema=schema).to_batches()
    return batches


def _unpacked(rows: Any) -> Any:
    """The samples of PACKED rows, one a row."""
    numbers = np.frombuffer(b"".join(map(memoryview, _values(rows["rows"]))), np.int64).reshape(-1, len(AMOUNTS))
    which = pa.array(np.repeat(np.arange(rows.num_rows), rows["samples"].to_numpy()))
    words = {name: one(rows[name].dictionary_encode()).take(which) for name in ("topic", "broker")}
    return pa.table(
        {
            "unit": one(rows["unit"]).take(which),
            **words,
            "position": one(rows["position"]).take(which),
            **{name: np.ascontiguousarray(numbers[:, column]) for column, name in enumerate(AMOUNTS)},
        }
    )


def _values(column: Any) -> Iterator[Any]:
    """The bytes of a binary column, chunk by chunk."""
    for chunk in column.chunks:
        _, offsets, data = chunk.buffers()
        ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        yield data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _once(rows: Any) -> tuple[Any, Any]:
    """Rows by topic, hour and time; of those of the same three the one with the highest cost, of equal ones the largest
    amounts. And the other rows."""
    keys = [rows["time"].to_numpy(), rows["unit"].to_numpy(), _codes(rows["topic"])]
    order = np.lexsort(keys)
    again = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
    if again.any():
        least_first = [name for name in (*MAXIMA, *SUMS) if name != "cost"]
        amounts = [rows[name].to_numpy() for name in ("cost", *least_first)]
        order = np.lexsort([_ranks(rows["broker"]), *reversed(amounts), *keys])
        again = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
    last = np.append(~again, True)
    return rows.take(pa.array(order[last])), rows.take(pa.array(order[~last]))


def _topics(rows: Any) -> Any:
    """One row of SCHEMA a topic, broker and hour."""
    brokers = _codes(rows["broker"]) + 1
    other = (np.diff(_codes(rows["topic"])) != 0) | (np.diff(rows["unit"].to_numpy()) != 0)
    keys = np.append(0, np.cumsum(other)) * (int(brokers.max()) + 1) + brokers
    if (np.diff(keys) < 0).any():
        # A topic moved between brokers and back.
        order = np.argsort(keys, kind="stable")
        rows, keys = rows.take(pa.array(order)), keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    first = rows.take(pa.array(starts))
    samples = np.diff(starts, append=rows.num_rows)
    offsets, buckets, counts = counted(
        np.repeat(np.arange(len(starts)), samples), rows["bucket"].to_numpy(), len(starts)
    )
    columns = {
        **{name: first[name] for name in ("unit", "topic", "broker", "position")},
        "reason": pa.nulls(len(starts), pa.string()),
        "samples": pa.array(samples),
        **{name: pa.array(np.add.reduceat(rows[name].to_numpy(), starts)) for name in SUMS},
        **{name: pa.array(np.maximum.reduceat(rows[name].to_numpy(), starts)) for name in MAXIMA},
        "buckets": pa.ListArray.from_arrays(pa.array(offsets), pa.array(buckets)),
        "counts": pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts)),
    }
    return pa.table(columns).select(SCHEMA.names).cast(SCHEMA)


def _ranks(column: Any) -> Array:
    """A number for each distinct name, ascending as the names are; -1 for null."""
    found = one(column.dictionary_encode())
    ranks = np.append(np.argsort(np.argsort(found.dictionary.to_pylist())), -1)
    placed: Array = ranks[compute.fill_null(found.indices, len(ranks) - 1).to_numpy()]
    return placed


def _codes(column: Any) -> Array:
    """A number for each distinct value, -1 for null."""
    found = one(column.dictionary_encode()).indices
    codes: Array = compute.fill_null(found, -1).to_numpy().astype(np.int64)
    return codes
