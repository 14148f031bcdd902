"""Work out hours of recorded traffic and write them as a segment of the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing import layout
from pulsar_sizing.job import hours, rows
from pulsar_sizing.job.inventory import READERS, UNREADABLE, Hour, Markers, VanishedError, markers, readable
from pulsar_sizing.job.state import HISTOGRAM, SUMMARY, HourState, State
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import Store, spark_path, spark_paths

FEW_FILES = 4
"""Rows of an hour in more files than that (it is not compacted yet) are brought together before they are written."""

Say = Callable[[str], None]


class Recorded:
    """Traffic of one cluster in a store, as Spark reads it."""

    def __init__(self, spark: SparkSession, store: Store, instance: str, cluster: str) -> None:
        self.spark = spark
        self.store = store
        self._base = spark_path(store.address(layout.cluster_folder(TRAFFIC, instance, cluster)))

    def rows(self, paths: Sequence[str]) -> DataFrame:
        """Rows of files (paths below the store's root) as they are."""
        return rows.read_traffic(self.spark, self._base, spark_paths(self.store.address(path) for path in paths))

    def judged(self, paths: Sequence[str]) -> DataFrame:
        """Judged rows of files (paths below the store's root)."""
        return self.rows(paths).transform(rows.judged)


def work_out(
    recorded: Recorded, state: State, run: str, found: Sequence[Hour], model: CostModel, say: Say
) -> dict[int, HourState]:
    """Write the segment of a run for some hours; what the manifest is to hold for them.

    A file that turns out to be damaged while it is read is found, left out and counted, and the step repeated once.
    Raises VanishedError when files went while they were read: list again.
    """
    told = _markers(recorded.store, found)
    good: dict[int, list[str]] = {}
    rejected: dict[int, Counter[str]] = {}
    for deep in (False, True):
        for hour in found:
            good[hour.unit], bad = readable(recorded.store, hour.traffic, TRAFFIC, deep=deep)
            damaged = Counter({UNREADABLE: len(hour.damaged)} if hour.damaged else {})
            rejected[hour.unit] = bad + damaged + told[hour.unit].rejected
        files = sum(map(len, good.values()))
        say(f"reading {files} files of {len(found)} hours" + (" again, without those that are damaged" if deep else ""))
        try:
            counted = _write(recorded, state, run, good, model, say) if files else {}
            break
        except (PySparkException, Py4JJavaError):
            if deep or not _any_bad(recorded.store, good):
                raise
    return {
        hour.unit: _hour_state(hour, counted.get(hour.unit, {}), rejected[hour.unit], told[hour.unit], run)
        for hour in found
    }


def _any_bad(store: Store, good: dict[int, list[str]]) -> bool:
    return any(readable(store, paths, TRAFFIC, deep=True)[1] for paths in good.values())


def _markers(store: Store, found: Sequence[Hour]) -> dict[int, Markers]:
    with ThreadPoolExecutor(READERS) as pool:
        told = pool.map(partial(markers, store), [hour.markers for hour in found])
        return {hour.unit: said for hour, said in zip(found, told, strict=True)}


def _write(
    recorded: Recorded, state: State, run: str, good: dict[int, list[str]], model: CostModel, say: Say
) -> dict[int, dict[str, int]]:
    """Write both tables; by unit the counts of `_hour_state`."""

    def measured(units: Iterable[int]) -> DataFrame:
        return recorded.judged([path for unit in sorted(units) for path in good[unit]]).transform(rows.measured(model))

    def as_they_are(units: Iterable[int]) -> DataFrame:
        return recorded.rows([path for unit in sorted(units) for path in good[unit]]).transform(rows.bucketed(model))

    groups = exact = measured(good).transform(hours.grouped).persist(StorageLevel.MEMORY_AND_DISK)
    held = [groups]
    try:
        read = kept = _totals(groups)
        if not read:
            return {}
        suspected = {unit for unit, counts in read.items() if counts["suspects"]}
        suspects = groups.transform(hours.suspects)
        if suspected:
            say(f"counting topics of {len(suspected)} hours again, which have two samples of about the same time")
            suspects = suspects.persist(StorageLevel.MEMORY_AND_DISK)
            exact = hours.counted_again(groups, measured(suspected), suspects).persist(StorageLevel.MEMORY_AND_DISK)
            held += [suspects, exact]
            kept = _totals(exact)
        say(f"writing the {SUMMARY} of {len(good)} hours")
        _save(exact.transform(hours.summaries).repartition(F.col("unit")), spark_path(state.segment(run, SUMMARY)))
        say(f"writing the {HISTOGRAM} of {len(good)} hours")
        # Hours without any dirt are nearly all: their rows are not judged a second time.
        dirty = suspected | {unit for unit, counts in read.items() if any(name.startswith("row_") for name in counts)}
        scattered = {unit for unit in good.keys() - dirty if len(good[unit]) > FEW_FILES}
        parts = []
        if whole := good.keys() - dirty - scattered:
            parts.append(as_they_are(whole))
        if scattered:
            parts.append(as_they_are(scattered).repartition(F.col("unit")))
        if dirty:
            again = measured(dirty)
            again = hours.without_duplicates(again, suspects) if suspected else again.transform(rows.accepted)
            parts.append(again.select("topic", "unit", "bucket").repartition(F.col("unit")))
        table = reduce(DataFrame.unionByName, parts).transform(hours.histograms)
        _save(table, spark_path(state.segment(run, HISTOGRAM)))
    finally:
        for each in held:
            each.unpersist()
    for unit, counts in kept.items():
        counts["duplicates"] = read[unit]["samples"] - counts["samples"]
    return kept


def _save(table: DataFrame, folder: str) -> None:
    table.write.mode("overwrite").partitionBy("unit").parquet(folder)


def _totals(groups: DataFrame) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for row in groups.transform(hours.totals).collect():
        counts = found.setdefault(row["unit"], {"samples": 0, "cost": 0, "duplicates": 0, "suspects": 0})
        if row["reason"] is None:
            counts |= {"samples": row["count"], "cost": row["cost"], "suspects": row["suspects"]}
        else:
            counts[row["reason"]] = row["count"]
    return found


def _hour_state(hour: Hour, counts: dict[str, int], rejected: Counter[str], told: Markers, run: str) -> HourState:
    samples, cost, duplicates = (counts.get(name, 0) for name in ("samples", "cost", "duplicates"))
    reasons = rejected + Counter({name: n for name, n in counts.items() if name.startswith("row_")})
    return HourState(
        digest=hour.digest,
        segment=run if samples else "",
        samples=samples,
        duplicates=duplicates,
        cost=cost,
        rejected=dict(sorted(reasons.items())),
        expected=told.expected,
        answered=told.answered,
        announced=told.announced,
        rounds=told.rounds,
    )


__all__ = ["Recorded", "VanishedError", "work_out"]
