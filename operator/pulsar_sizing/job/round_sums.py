"""Sums of one broker and hour, file by file: the kernel of folding.py.

A topic keeps its place in the arrays. While files have the same topics in the same order, adding one is a sum of whole
columns, without a lookup of names.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job import hourly
from pulsar_sizing.job.histogram import Array
from pulsar_sizing.job.landing import HOUR_MS, MAXIMA, SUMS, amounts_of, named, whole_numbers
from pulsar_sizing.job.weights import one

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

CONFLICT: Final = "conflict"
SCHEMA: Final = pa.schema([*hourly.SCHEMA, ("first", pa.int64()), ("last", pa.int64())])


def one_round(rows: Any) -> str | None:
    """The broker of the rows of a file, if all are of one broker and one sample time; otherwise None."""
    times, brokers = compute.min_max(rows["sample_time"]).as_py(), rows["broker"]
    names = {name for chunk in brokers.chunks for name in chunk.dictionary.to_pylist()}
    single = len(names) == 1 and not brokers.null_count and not rows["sample_time"].null_count
    return names.pop() if single and times["min"] == times["max"] else None


class RoundSums:
    """Adds up the rounds of a broker in an hour."""

    def __init__(self, unit: int, broker: str, model: CostModel) -> None:
        """`unit` is the hour since 1970."""
        self.broker: Final = broker
        self._unit = unit
        self._model = model
        self._topics = self._namespaces = pa.array([], pa.string())
        self._positions = np.zeros(0, np.int64)
        self._amounts = {name: np.zeros(0, np.int64) for name in (*SUMS, *MAXIMA)}
        self._samples, self._first, self._last = (np.zeros(0, np.int64) for _ in range(3))
        self._buckets: list[Array] = []
        """Of each round, by topic; -1 where it has no sample."""
        self._conflicts: list[Array] = []
        """Positions."""
        self._time = -1
        self._previous: tuple[Any, Any, Array] | None = None
        """Topics, namespaces and positions of the file before."""
        self._fits: Array = np.zeros(0, np.bool_)
        self._places: Any = slice(0, 0)
        """Of the rows of the file before: whether each fits, and where those that fit are added."""

    def add(self, rows: Any) -> None:
        """Add the rows of a file; the sample times of files ascend."""
        positions = whole_numbers(rows["position"])
        time = whole_numbers(rows["sample_time"].cast(pa.int64())).max(initial=-1)
        if one_round(rows) != self.broker or time // HOUR_MS != self._unit or time <= self._time:
            self._conflicts.append(positions)
            return
        self._time = time
        self._align(rows["topic"], rows["namespace"], positions)
        sound, amounts = amounts_of(rows, self._model)
        fits, places = self._fits, self._places
        if not sound.all():
            fits = fits & sound
            places = np.arange(len(self._positions))[places][sound[self._fits]]
        if not fits.all():
            self._conflicts.append(positions[~fits])
            amounts = {name: each[fits] for name, each in amounts.items()}
        for name in SUMS:
            self._amounts[name][places] += amounts[name]
        for name in MAXIMA:
            most = self._amounts[name]
            most[places] = np.maximum(most[places], amounts[name])
        buckets = np.full(len(self._positions), -1, np.int16)
        buckets[places] = amounts["bucket"]
        self._buckets.append(buckets)
        first = self._first[places]
        self._first[places] = np.where(self._samples[places] > 0, first, time)
        self._last[places] = time
        self._samples[places] += 1

    def _align(self, topics: Any, namespaces: Any, positions: Array) -> None:
        """Find the places of the rows of a file, if they differ from those of the file before."""
        if self._previous is not None:
            same_topics, same_namespaces, same_positions = self._previous
            if (
                np.array_equal(positions, same_positions)
                and topics.equals(same_topics)
                and namespaces.equals(same_namespaces)
            ):
                return
        self._previous = topics, namespaces, positions
        names, spaces = one(topics), one(namespaces.cast(pa.string()))
        index = compute.index_in(names, value_set=self._topics)
        new = compute.and_(compute.is_null(index), compute.is_valid(names))
        places = compute.fill_null(index, -1).to_numpy().astype(np.int64)
        rows = np.flatnonzero(new.to_numpy(zero_copy_only=False))
        if len(rows):
            added = names.take(pa.array(rows)).dictionary_encode()
            codes = added.indices.to_numpy()
            places[rows] = len(self._positions) + codes
            _, first = np.unique(codes, return_index=True)
            self._grow(added.dictionary, spaces.take(pa.array(rows[first])), positions[rows[first]])
        known = places >= 0
        # A topic that a file has twice is in conflict with itself.
        once = np.bincount(places[known], minlength=len(self._positions)) == 1
        same = compute.equal(spaces, self._namespaces.take(pa.array(places, mask=~known)))
        fits = known & once[places] & (self._positions[places] == positions)
        self._fits = fits & compute.fill_null(same, False).to_numpy(zero_copy_only=False)
        places = places[self._fits]
        whole = len(places) == len(self._positions) and bool((np.diff(places) == 1).all())
        self._places = slice(None) if whole else places

    def _grow(self, topics: Any, namespaces: Any, positions: Array) -> None:
        more = np.zeros(len(positions), np.int64)
        self._topics = pa.concat_arrays([self._topics, topics])
        self._namespaces = pa.concat_arrays([self._namespaces, namespaces])
        self._positions = np.append(self._positions, positions)
        self._amounts = {name: np.append(each, more) for name, each in self._amounts.items()}
        self._samples, self._first, self._last = (
            np.append(each, more) for each in (self._samples, self._first, self._last)
        )

    def table(self) -> Any:
        """The rows of SCHEMA: one a topic, and one a position of a conflict."""
        sums = self._rows()
        # Names are judged here, once for all samples of the hour.
        wrong = compute.is_valid(named(sums)["reason"])
        conflicts = [*self._conflicts, sums["position"].filter(wrong).to_numpy()]
        positions = np.unique(np.concatenate(conflicts))
        left = {"unit": np.full(len(positions), self._unit), "position": positions}
        columns = [
            pa.array([CONFLICT] * len(positions), field.type)
            if field.name == "reason"
            else pa.array(left[field.name], field.type)
            if field.name in left
            else pa.nulls(len(positions), field.type)
            for field in SCHEMA
        ]
        return pa.concat_tables([sums.select(SCHEMA.names).cast(SCHEMA), pa.table(columns, schema=SCHEMA)])

    def _rows(self) -> Any:
        many = len(self._positions)
        kept = np.flatnonzero(self._samples)
        offsets, buckets, counts = _histograms(self._buckets, many)
        columns = {
            "unit": pa.array(np.full(many, self._unit)),
            "reason": pa.nulls(many, pa.string()),
            "topic": self._topics,
            "namespace": self._namespaces,
            "broker": pa.repeat(pa.scalar(self.broker), many),
            "position": self._positions,
            "samples": self._samples,
            **self._amounts,
            "buckets": pa.ListArray.from_arrays(pa.array(offsets), pa.array(buckets)),
            "counts": pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts)),
            "first": self._first,
            "last": self._last,
        }
        rows = pa.table(columns)
        return rows if len(kept) == many else rows.take(pa.array(kept))


def _histograms(rounds: list[Array], many: int) -> tuple[Array, Array, Array]:
    """Histograms of `many` topics, as histogram.counted gives them, from the bucket of each topic by round."""
    matrix = np.full((len(rounds), many), -1, np.int16)
    for row, each in zip(matrix, rounds, strict=True):
        row[: len(each)] = each
    matrix.sort(axis=0)
    # Rounds without a sample are first. A run of equal buckets ends where another begins, or with its topic.
    begins = matrix >= 0
    begins[1:] &= np.diff(matrix, axis=0) != 0
    flat, of_topic = np.ascontiguousarray(matrix.T).ravel(), np.ascontiguousarray(begins.T)
    starts = np.flatnonzero(of_topic.ravel())
    ends = np.minimum(np.append(starts[1:], len(flat)), (starts // max(len(rounds), 1) + 1) * len(rounds))
    offsets = np.append(0, np.cumsum(of_topic.sum(axis=1)))
    return offsets.astype(np.int32), flat[starts], (ends - starts).astype(np.int32)
