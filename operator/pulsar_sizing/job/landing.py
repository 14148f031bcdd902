"""Rows of landing files: read by Arrow in the tasks, judged, and turned into whole numbers.

A task gets names of files, not rows: passing sixty million rows from Java to Python costs more than reading them here
(docs/sizing-benchmarks.md). What is the same for all samples of a topic (its name's CRC-32, its namespace) is judged
once for each of their names, which come as codes into a dictionary.

Amounts are whole numbers (bytes, messages in thousandths), because a sum of floating-point numbers depends on the order
in which they are added, and the same traffic must give the same answer to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.arrow import parquet
from pulsar_sizing.job.histogram import Array, buckets_of
from pulsar_sizing.job.request import LARGEST_RATE
from pulsar_sizing.job.weights import one
from pulsar_sizing.store import Place, Store

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

HOUR_MS: Final = 3_600_000
BAD_NUMBER: Final = "row_bad_number"
WRONG_HOUR: Final = "row_wrong_hour"
WRONG_POSITION: Final = "row_wrong_position"
UNKNOWN_NAMESPACE: Final = "row_unknown_namespace"
REASONS: Final = (BAD_NUMBER, WRONG_HOUR, WRONG_POSITION, UNKNOWN_NAMESPACE)
"""Why a row does not count: the first that holds."""
RATES: Final = ("messages_in", "messages_out", "bytes_in", "bytes_out")
COUNTS: Final = ("producers", "consumers", "backlog", "storage_bytes")
NAMES: Final = ("topic", "namespace", "broker", "bundle")
REPEATED: Final = ("namespace", "broker", "bundle")
"""Names that are read as codes into a dictionary. A dictionary of topics costs more than their rows."""
SUMS: Final = ("messages_in", "messages_out", "bytes_in", "bytes_out", "sessions", "cost")
"""Amounts that are added up."""
MAXIMA: Final = ("backlog", "storage_bytes")
"""Amounts of which the largest is kept."""
AMOUNTS: Final = ("time", *SUMS, *MAXIMA, "bucket")
"""Whole numbers of a row: milliseconds since 1970, amounts, and the bucket of its cost in the log histogram."""
READ_ROWS: Final = 1 << 19
"""Rows of one file that are in memory together, about 70 MB."""
FILES: Final = "path string, unit bigint"
COLUMNS: Final = ("sample_time", "position", *NAMES, *RATES, *COUNTS)
"""What is read of a landing file."""


@dataclass(frozen=True)
class Reading:
    """How tasks read landing files."""

    place: Place
    model: CostModel
    time: int | None = None
    """Only rows of this sample time, in milliseconds since 1970; None for all."""
    positions: Mapping[int, Array] = field(default_factory=dict)
    """Of an hour that is in it only rows at these positions, ascending."""

    def rounds(self, path: str) -> Any:
        """Returns the rows of one file, with the columns that are added up; topics are plain strings."""
        with Store(self.place.root, s3=self.place.s3).open(path) as stream:
            file = parquet.ParquetFile(stream, read_dictionary=["namespace", "broker"])
            return file.read([name for name in COLUMNS if name != "bundle"], use_threads=False)

    def tables(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Returns the rows of the files in batches of FILES, as :func:`judged` does, at most READ_ROWS together."""
        store = Store(self.place.root, s3=self.place.s3)
        for batch in batches:
            for path, unit in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                with store.open(path) as stream:
                    file = parquet.ParquetFile(stream, read_dictionary=list(REPEATED))
                    for part in self._parts(file, unit):
                        yield judged(pa.Table.from_batches([part]), unit, self.model)

    def _parts(self, file: Any, unit: int) -> Iterator[Any]:
        groups = [number for number in range(file.num_row_groups) if self._may_have(file, number, unit)]
        for part in file.iter_batches(READ_ROWS, row_groups=groups, columns=list(COLUMNS), use_threads=False):
            counted = part
            if self.time is not None:
                moment = pa.scalar(self.time, pa.timestamp("ms", tz="UTC"))
                counted = counted.filter(compute.equal(counted["sample_time"], moment))
            if unit in self.positions:
                counted = counted.filter(pa.array(self._has_position(counted["position"], unit)))
            yield counted

    def _may_have(self, file: Any, number: int, unit: int) -> bool:
        return self._may_have_time(file, number) and (
            unit not in self.positions
            or bool(self._has_position(file.read_row_group(number, ["position"], use_threads=False)[0], unit).any())
        )

    def _has_position(self, column: Any, unit: int) -> Array:
        some, positions = self.positions[unit], whole_numbers(column)
        found: Array = some[np.searchsorted(some[:-1], positions)] == positions
        return found

    def _may_have_time(self, file: Any, number: int) -> bool:
        if self.time is None:
            return True
        index = file.schema_arrow.names.index("sample_time")
        span = file.metadata.row_group(number).column(index).statistics
        if span is None or not span.has_min_max:
            return True
        return bool(span.min.timestamp() * 1000 <= self.time <= span.max.timestamp() * 1000)


def files(spark: SparkSession, paths: Mapping[int, Sequence[str]], tasks: int) -> DataFrame:
    """FILES, one row a landing file below the store's root; files of a broker and hour in neighbouring tasks."""
    rows = [(path, unit) for unit in sorted(paths) for path in sorted(paths[unit])]
    return spark.createDataFrame(rows, FILES).repartitionByRange(max(1, min(tasks, len(rows))), "path")


def judged(table: Any, unit: int, model: CostModel) -> Any:
    """Rows with COLUMNS of a landing file of an hour (`unit`, hours since 1970), with a `reason` by their numbers.

    Columns: unit, reason (null for sound numbers), NAMES, position (-1 where it is missing) and AMOUNTS, which say
    nothing of rows that do not count.
    """
    numbers, amounts = amounts_of(table, model)
    time = whole_numbers(table["sample_time"].cast(pa.int64()))
    columns = {
        "unit": np.full(table.num_rows, unit, np.int64),
        "reason": _first({BAD_NUMBER: numbers, WRONG_HOUR: time // HOUR_MS == unit}),
        **{name: table[name] for name in NAMES},
        "position": whole_numbers(table["position"]),
        "time": time,
        **amounts,
    }
    return pa.table(columns)


def amounts_of(table: Any, model: CostModel) -> tuple[Array, dict[str, Array]]:
    """Returns whether the numbers of each row are sound, and AMOUNTS by name but the time; others are of zeros."""
    rates = {name: table[name].to_numpy().astype(np.float64, copy=False) for name in RATES}
    counts = {name: whole_numbers(table[name]) for name in COUNTS}
    numbers = np.ones(table.num_rows, np.bool_)
    for rate in rates.values():
        # False for NaN.
        numbers &= (rate >= 0) & (rate <= LARGEST_RATE)
    for count in counts.values():
        numbers &= count >= 0
    if not numbers.all():
        rates = {name: np.where(numbers, rate, 0.0) for name, rate in rates.items()}
        counts = {name: np.where(numbers, count, 0) for name, count in counts.items()}
    sessions = counts["producers"] + counts["consumers"]
    cost = (
        rates["bytes_in"] * model.byte_in
        + rates["bytes_out"] * model.byte_out
        + rates["messages_in"] * model.message_in
        + rates["messages_out"] * model.message_out
        + sessions * model.session
        + model.topic
    )
    return numbers, {
        "messages_in": _rounded(rates["messages_in"] * 1000),
        "messages_out": _rounded(rates["messages_out"] * 1000),
        "bytes_in": _rounded(rates["bytes_in"]),
        "bytes_out": _rounded(rates["bytes_out"]),
        "sessions": sessions,
        "cost": _rounded(cost),
        "backlog": counts["backlog"],
        "storage_bytes": counts["storage_bytes"],
        "bucket": buckets_of(cost).astype(np.int64),
    }


def named(table: Any) -> Any:
    """Judged rows, or groups of them with the same names, with a `reason` where their names are not sound."""
    topics, topic = _codes(table["topic"])
    # A topic that is null has the last code, which no name has.
    crcs = np.array([*(crc32(name.encode()) for name in topics), -2], np.int64)
    spaces = _in_namespace(topics, topic, *_codes(table["namespace"]))
    found = _first({WRONG_POSITION: table["position"].to_numpy() == crcs[topic], UNKNOWN_NAMESPACE: spaces})
    reasons = compute.coalesce(table["reason"].cast(pa.string()), found.cast(pa.string()))
    return table.set_column(table.column_names.index("reason"), "reason", reasons)


def _first(checks: Mapping[str, Array]) -> Any:
    """The first word of each row whose check does not hold, as codes; null where all hold."""
    words = list(checks)
    found = np.select([~passed for passed in checks.values()], np.arange(len(words), dtype=np.int8), np.int8(-1))
    return pa.DictionaryArray.from_arrays(pa.array(found, mask=found < 0), pa.array(words, pa.string()))


def _codes(column: Any) -> tuple[Sequence[str], Array]:
    """The distinct words of a column and the index of each row's; null has the index after the last."""
    found = one(column if pa.types.is_dictionary(column.type) else column.dictionary_encode())
    words: Sequence[str] = found.dictionary.to_pylist()
    return words, compute.fill_null(found.indices.cast(pa.int32()), len(words)).to_numpy()


def whole_numbers(column: Any) -> Array:
    """-1 for null."""
    filled = compute.fill_null(column, -1) if column.null_count else column
    found: Array = filled.to_numpy()
    return found.astype(np.int64, copy=False)


def _rounded(amounts: Array) -> Array:
    found: Array = (amounts + 0.5).astype(np.int64)
    return found


def _in_namespace(names: Sequence[str], topic: Array, namespaces: Sequence[str], namespace: Array) -> Array:
    """Whether each row's topic is of its namespace: ``domain://namespace/...``."""
    by_name = {name: code for code, name in enumerate(namespaces)}
    expected = np.array([*(by_name.get(_usual(name), -1) for name in names), -2], np.int64)
    found: Array = namespace == expected[topic]
    # Names of other forms, such as those of Pulsar 1 with a cluster in them, are rare: these rows one by one.
    odd = np.flatnonzero(~found & (topic < len(names)) & (namespace < len(namespaces)))
    pairs = {(t, n) for t, n in zip(topic[odd].tolist(), namespace[odd].tolist(), strict=True)}
    fits = {pair: _fits(names[pair[0]], namespaces[pair[1]]) for pair in pairs}
    found[odd] = [fits[t, n] for t, n in zip(topic[odd].tolist(), namespace[odd].tolist(), strict=True)]
    return found


def _usual(name: str) -> str:
    tenant, _, rest = name.removeprefix("non-").removeprefix("persistent://").partition("/")
    return f"{tenant}/{rest.partition('/')[0]}" if "/" in rest and "persistent://" in name[:16] else ""


def _fits(name: str, namespace: str) -> bool:
    return name.removeprefix("non-").startswith(f"persistent://{namespace}/")
