"""Rows of recorded traffic: judged, turned into exact integers, and added up to one row a topic.

All amounts are added as integers (bytes, messages in thousandths), because the sum of floating-point numbers depends on
the order in which they are added, and the same traffic must give the same answer to the last bit.

What is the same for all samples of a topic (its name's CRC-32, its namespace) is judged once a topic: names come as
codes into a dictionary. Rows that are sorted by topic and time, as compaction leaves them, need no sorting here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job.carried import carried
from pulsar_sizing.job.histogram import Array, buckets_of, counted

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

HOUR_MS: Final = 3_600_000
LARGEST_RATE: Final = 1e12
"""A second; more is a broken counter, and sums of it would leave the range of 64 bits."""

BAD_NUMBER: Final = "row_bad_number"
WRONG_HOUR: Final = "row_wrong_hour"
WRONG_POSITION: Final = "row_wrong_position"
UNKNOWN_NAMESPACE: Final = "row_unknown_namespace"
REASONS: Final = (BAD_NUMBER, WRONG_HOUR, WRONG_POSITION, UNKNOWN_NAMESPACE)
"""The first that holds is the one that is counted."""

RATES: Final = ("messages_in", "messages_out", "bytes_in", "bytes_out")
COUNTS: Final = ("producers", "consumers", "backlog", "storage_bytes")
WORDS: Final = ("topic", "namespace", "broker", "bundle")
COLUMNS: Final = ("sample_time", "position", *WORDS, *RATES, *COUNTS)
"""What is read of a traffic file."""
SUMMED: Final = ("messages_in", "messages_out", "bytes_in", "bytes_out", "sessions", "cost")
"""Amounts of a row that are added up; messages in thousandths a second."""
LARGEST: Final = ("backlog", "storage_bytes")
"""Amounts of which the largest is kept."""
TOPICS_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("position", pa.int64()),
        ("hour_of_day", pa.int32()),
        ("samples", pa.int64()),
        *((name, pa.int64()) for name in (*SUMMED, *LARGEST)),
        ("buckets", pa.list_(pa.int16())),
        ("counts", pa.list_(pa.int32())),
    ]
)
"""State: one row a topic and hour, with sums over its samples and the histogram of their costs."""
PLACEMENT_SCHEMA: Final = pa.schema(
    [("namespace", pa.string()), ("bundle", pa.string()), ("broker", pa.string()), ("topics", pa.int64())]
)
"""State: which broker reported which bundle in the hour's last round, and with how many topics."""


@dataclass(frozen=True)
class Reduced:
    """What the rows of one hour, or of a part of it, come to."""

    topics: Any
    """Table of TOPICS_SCHEMA, ascending by position and name."""
    placement: Any
    """Table of PLACEMENT_SCHEMA."""
    carried: Any
    """Table of CARRIED_SCHEMA."""
    samples: int = 0
    duplicates: int = 0
    costs: dict[str, int] = field(default_factory=dict)
    """By broker, sums over its samples."""
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Rows that count, as arrays of one length."""

    names: Sequence[str]
    topic: Array
    """Index of `names`."""
    time: Array
    amounts: dict[str, Array]
    bucket: Array
    words: dict[str, tuple[Sequence[str], Array]]

    def take(self, which: Array) -> Rows:
        return Rows(
            self.names,
            self.topic[which],
            self.time[which],
            {name: values[which] for name, values in self.amounts.items()},
            self.bucket[which],
            {name: (words, codes[which]) for name, (words, codes) in self.words.items()},
        )


def reduced(table: Any, unit: int, model: CostModel, last_round: int | None) -> Reduced:
    """Add up rows with COLUMNS of one hour (`unit`, hours since 1970).

    `last_round` is the sample time, in milliseconds, at which bundles are placed. Of two rows of the same topic and
    time the one with the highest cost counts: a topic that just moved is reported by both brokers, and the one that
    lost it still tells old, decaying rates.
    """
    rows, rejected = judged(table, unit, model)
    rows = _in_order(rows)
    fresh = _fresh(rows)
    doubled = not fresh.all()
    once = _once(rows) if doubled else rows
    return Reduced(
        _topics(once, unit),
        _placement(once, last_round),
        carried(once.names, once.topic, *once.words["broker"], once.amounts["cost"]),
        samples=len(once.topic),
        duplicates=len(rows.topic) - len(once.topic),
        costs=_costs(once),
        rejected=rejected,
    )


def judged(table: Any, unit: int, model: CostModel) -> tuple[Rows, dict[str, int]]:
    """The rows with COLUMNS that count in an hour (`unit`), in their order, and how many others there are by reason."""
    words = {name: word_codes(table[name]) for name in WORDS}
    names, topic = words["topic"]
    rates = {name: _floats(table[name]) for name in RATES}
    counts = {name: _whole_numbers(table[name]) for name in COUNTS}
    time = _whole_numbers(table["sample_time"].cast(pa.int64()))
    good = np.ones(table.num_rows, np.bool_)
    for rate in rates.values():
        # False for NaN.
        good &= (rate >= 0) & (rate <= LARGEST_RATE)
    for count in counts.values():
        good &= count >= 0
    # A topic that is null has the last code, which no name has.
    crcs = np.array([*(crc32(name.encode()) for name in names), -2], np.int64)
    verdicts = (
        good,
        time // HOUR_MS == unit,
        _whole_numbers(table["position"]) == crcs[topic],
        _in_namespace(names, topic, *words["namespace"]),
    )
    rejected: Counter[str] = Counter()
    counts_ = np.ones(table.num_rows, np.bool_)
    for reason, verdict in zip(REASONS, verdicts, strict=True):
        rejected[reason] += int(np.count_nonzero(counts_ & ~verdict))
        counts_ &= verdict
    if not counts_.all():
        topic, time = topic[counts_], time[counts_]
        words = {name: (each, codes[counts_]) for name, (each, codes) in words.items()}
        rates = {name: values[counts_] for name, values in rates.items()}
        counts = {name: values[counts_] for name, values in counts.items()}
    sessions = counts["producers"] + counts["consumers"]
    cost = (
        rates["bytes_in"] * model.byte_in
        + rates["bytes_out"] * model.byte_out
        + rates["messages_in"] * model.message_in
        + rates["messages_out"] * model.message_out
        + sessions * model.session
        + model.topic
    )
    amounts = {
        "messages_in": _rounded(rates["messages_in"] * 1000),
        "messages_out": _rounded(rates["messages_out"] * 1000),
        "bytes_in": _rounded(rates["bytes_in"]),
        "bytes_out": _rounded(rates["bytes_out"]),
        "sessions": sessions,
        "cost": _rounded(cost),
        "backlog": counts["backlog"],
        "storage_bytes": counts["storage_bytes"],
    }
    return Rows(names, topic, time, amounts, buckets_of(cost), words), {k: n for k, n in rejected.items() if n}


def word_codes(column: Any) -> tuple[Sequence[str], Array]:
    """The distinct words of a column and the index of each row's; null has the index after the last."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks > 1:
        column = column.unify_dictionaries()
    words = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    parts = [compute.fill_null(part.indices.cast(pa.int32()), len(words)).to_numpy() for part in column.chunks]
    return words, np.concatenate(parts) if parts else np.empty(0, np.int32)


def _floats(column: Any) -> Array:
    """NaN for null."""
    found: Array = column.to_numpy()
    return found.astype(np.float64, copy=False)


def _whole_numbers(column: Any) -> Array:
    """-1 for null."""
    filled = compute.fill_null(column, -1) if column.null_count else column
    found: Array = filled.to_numpy()
    return found.astype(np.int64, copy=False)


def _rounded(amounts: Array) -> Array:
    return (amounts + 0.5).astype(np.int64)


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


def _in_order(rows: Rows) -> Rows:
    """Rows with those of a topic together, by time."""
    begins = np.diff(rows.topic, prepend=-1) != 0
    firsts = rows.topic[begins]
    together = len(firsts) == np.count_nonzero(np.bincount(firsts, minlength=1))
    if together and not ((np.diff(rows.time) < 0) & ~begins[1:]).any():
        return rows
    return rows.take(np.lexsort((rows.time, rows.topic)))


def _fresh(rows: Rows) -> Array:
    """Whether each row of those in order is of another topic or time than the one before it."""
    found: Array = (np.diff(rows.topic, prepend=-1) != 0) | (np.diff(rows.time, prepend=-1) != 0)
    return found


def _once(rows: Rows) -> Rows:
    """Of the rows of the same topic and time the one with the highest cost, and of equal ones the largest amounts."""
    least_first = [name for name in (*LARGEST, *SUMMED) if name != "cost"]
    keys = [rows.amounts[name] for name in reversed(least_first)]
    ordered = rows.take(np.lexsort((*keys, rows.amounts["cost"], rows.time, rows.topic)))
    last = np.append(_fresh(ordered)[1:], True)
    return ordered.take(np.flatnonzero(last))


def _topics(rows: Rows, unit: int) -> Any:
    if not len(rows.topic):
        return TOPICS_SCHEMA.empty_table()
    starts = np.flatnonzero(np.diff(rows.topic, prepend=-1))
    names = [rows.names[code] for code in rows.topic[starts].tolist()]
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows.topic)))
    offsets, buckets, counts = counted(group, rows.bucket, len(starts))
    columns = {
        "topic": pa.array(names, pa.string()),
        "position": pa.array([crc32(name.encode()) for name in names], pa.int64()),
        "hour_of_day": pa.array(np.full(len(names), unit % 24, np.int32)),
        "samples": pa.array(np.diff(starts, append=len(rows.topic)), pa.int64()),
        **{name: pa.array(np.add.reduceat(rows.amounts[name], starts)) for name in SUMMED},
        **{name: pa.array(np.maximum.reduceat(rows.amounts[name], starts)) for name in LARGEST},
        "buckets": pa.ListArray.from_arrays(pa.array(offsets), pa.array(buckets)),
        "counts": pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts)),
    }
    table = pa.table(columns, schema=TOPICS_SCHEMA)
    return table.sort_by([("position", "ascending"), ("topic", "ascending")])


def _costs(rows: Rows) -> dict[str, int]:
    brokers, codes = rows.words["broker"]
    if not len(codes):
        return {}
    # A topic stays with its broker, so runs are long; sums of whole numbers, which weights of bincount would not be.
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    sums = np.zeros(len(brokers) + 1, np.int64)
    np.add.at(sums, codes[starts], np.add.reduceat(rows.amounts["cost"], starts))
    seen = np.unique(codes[starts]).tolist()
    return {brokers[code]: int(sums[code]) for code in seen if code < len(brokers)}


def _placement(rows: Rows, last_round: int | None) -> Any:
    which = np.flatnonzero(rows.time == (-1 if last_round is None else last_round))
    if not len(which):
        return PLACEMENT_SCHEMA.empty_table()
    words = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(rows.words[name][1][which]), pa.array([*rows.words[name][0], None], pa.string())
        ).cast(pa.string())
        for name in ("namespace", "bundle", "broker")
    }
    found = pa.table(words).group_by(list(words)).aggregate([([], "count_all")])
    return pa.table({name: found[name] for name in words} | {"topics": found["count_all"]}, schema=PLACEMENT_SCHEMA)
