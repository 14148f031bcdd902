"""``python -m benchmarks.spark.history``: the tables of many recorded days, without their landing files.

Ninety days of 100,000 topics are 13 billion rows of landing files. An answer reads none of them, but the facts of each
hour and a row a topic and day. These are made here from the rounds of traffic.py by the job's own functions: RoundSums
adds up the rounds of a broker, ``merging`` and ``totals`` the hours of a day, ``ingest.state`` makes the facts of an
hour, and Tables writes. The newest hour alone has landing files, and the job makes it.

Each day has as many files as a job that runs every hour writes. The hourly table has the newest hour alone: no answer
reads the others.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from benchmarks.spark import traffic
from benchmarks.spark.traffic import Recording
from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job import daily, ingest, inventory, merging, session, totals
from pulsar_sizing.job.costs import LEAST
from pulsar_sizing.job.hours import HourState
from pulsar_sizing.job.landing import amounts_of
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.round_sums import RoundSums
from pulsar_sizing.job.snapshot import (
    CARRIED,
    COLUMNS,
    DAILY,
    NAMESPACES,
    PARTITIONS,
    DayState,
    Snapshot,
    Tables,
    batch_name,
)
from pulsar_sizing.job.weights import NAMESPACE, busiest_hours, partitioned_name
from pulsar_sizing.store import Store

compute: Any = pyarrow.compute
MODEL = CostModel()
FOLDERS = {"spark.sql.maxConcurrentOutputFileWriters": "400"}
"""A task writes the folders of all days at the same time, so that it need not sort its rows."""


@dataclass(frozen=True)
class Source:
    """What a worker makes tables from."""

    recording: Recording
    scratch: Path
    batch: str
    fact_rounds: int
    """Rounds that the facts of an hour are made from, as if the others were alike."""
    days: int
    """Days that are made from rounds; those behind them repeat them."""


@lru_cache(maxsize=1)
def _topics(recording: Recording) -> tuple[traffic.Topics, Any, Any]:
    """Returns the topics, and of each the number of its name without the partition, and traffic.factors_of."""
    topics = traffic.topics_of(recording)
    bases = pa.array([partitioned_name(name) for name in topics.names])
    return topics, bases.dictionary_encode().indices.to_numpy(), traffic.factors_of(recording, topics)


def write(
    spark: SparkSession,
    root: Path,
    recording: Recording,
    scratch: Path,
    now: datetime,
    *,
    fact_rounds: int = 0,
    distinct_days: int = 0,
) -> Snapshot:
    """Write the tables of a recording and the landing files of its newest hour; returns the published snapshot.

    `scratch` is an empty folder for what is made on the way. `fact_rounds` are the rounds that the facts of an hour are
    made from, 0 = all; the daily tables are always made from all rounds of the busiest hours. Days behind
    `distinct_days` have the rows of those before, 0 = each day has its own.
    """
    store = Store(str(root))
    tables = Tables(store, recording.instance, recording.cluster)
    request = Request(recording.instance, recording.cluster, window_days=recording.days)
    numbers = itertools.count()
    job = ingest.Job(spark, store, tables, request, lambda: batch_name(now, "history", next(numbers)), lambda _: None)
    rounds = fact_rounds or 3600 // recording.interval_seconds
    source = Source(recording, scratch, job.name(), rounds, distinct_days or recording.days)
    *past, last = recording.hours
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
        states = dict(workers.map(partial(_facts, source), past[: 24 * source.days], chunksize=24))
        for unit in map(inventory.unit_of, past):
            if unit not in states:
                states[unit] = states[unit - 24 * source.days].model_copy(update={"digest": _digest(unit)})
        snapshot = Snapshot(parameters=request.parameters, hours=states)
        _write_carried(job, source, snapshot)
        traffic.write(recording, root, per_round=True, hours=[last])
        (newest,) = inventory.hours(store, recording.instance, recording.cluster, last, last + timedelta(hours=1))
        snapshot = ingest.ingest(job, snapshot, [newest], newest)
        days, quiet = daily.needed(snapshot.hours, busiest_hours(snapshot.hours))
        first = sorted(days.units)[: source.days]
        list(workers.map(partial(_add_up, source), first, [days.units[day] for day in first]))
    for table, rows in (
        (DAILY, _parted(_staged(spark, source, DAILY), recording)),
        (NAMESPACES, _staged(spark, source, NAMESPACES).coalesce(1)),
    ):
        tables.write(_repeated(source, rows, "day"), table, source.batch)
    made, others = daily.stale(snapshot, days), daily.stale(snapshot, quiet)
    found = {
        "days": {day: DayState(batch=source.batch, digest=digest) for day, digest in made.items()},
        # All topics have traffic in all hours, so that this table has no rows.
        "quiet": {day: DayState(digest=digest) for day, digest in others.items()},
    }
    snapshot = snapshot.model_copy(update=found)
    tables.publish(snapshot)
    return snapshot


def _digest(unit: int) -> str:
    return f"hour {unit} without landing files"


def _parted(rows: DataFrame, recording: Recording) -> DataFrame:
    """Returns rows of DAILY so that each day has as many files as its topics have tasks in daily.write."""
    parts = -(-recording.topics // daily.TASK_TOPICS)
    return rows.repartitionById(parts, F.abs(F.hash("topic")) % parts)


def _staged(spark: SparkSession, source: Source, table: str) -> DataFrame:
    """Returns what workers wrote for a table."""
    columns = ", ".join([COLUMNS[table], *(f"{name} {kind}" for name, kind in PARTITIONS[table].items())])
    return spark.read.schema(columns).parquet(str(source.scratch / table))


def _repeated(source: Source, rows: DataFrame, key: str) -> DataFrame:
    """Returns the rows of some days, and the same for the days behind. `key` is their hour (unit) or day."""
    last = inventory.unit_of(source.recording.hours[-1])
    until, step = (last // 24, source.days) if key == "day" else (last - 1, 24 * source.days)
    return rows.withColumn(key, F.explode(F.sequence(F.col(key), F.lit(until), F.lit(step))))


def _write_carried(job: ingest.Job, source: Source, snapshot: Snapshot) -> None:
    """Write what brokers carried of the heavy topics, if the recording has their CPU."""
    if not source.recording.dearest:
        return
    costs = job.spark.createDataFrame(
        [(unit, hour.cost) for unit, hour in snapshot.hours.items()], "unit bigint, hour_cost bigint"
    )
    heavy = ingest.heavy(_repeated(source, _staged(job.spark, source, CARRIED), "unit"), costs)
    job.tables.write(heavy.coalesce(1), CARRIED, source.batch)


def _facts(source: Source, hour: datetime) -> tuple[int, HourState]:
    """Returns an hour and its facts; writes the cost of its heavy topics."""
    recording, unit = source.recording, inventory.unit_of(hour)
    topics, bases, factors = _topics(recording)
    rounds = 3600 // recording.interval_seconds
    costs = np.zeros(len(topics.names), np.int64)
    cpus = []
    for _, table in itertools.islice(traffic.rounds(recording, topics, hour), source.fact_rounds):
        costs += amounts_of(table, MODEL)[1]["cost"]
        cpus.append(traffic.cpu_of(recording, topics, table, factors))
    costs = costs * rounds // source.fact_rounds
    cpus = list(itertools.islice(itertools.cycle(cpus), rounds))
    marked = traffic.save_markers(recording, topics, source.scratch, hour, cpus)
    store = Store(str(source.scratch))
    markers = inventory.markers(store, [str(marked.relative_to(source.scratch))])
    facts = [
        {
            "unit": unit,
            "reason": None,
            "broker": name,
            "samples": int((topics.owners == number).sum()) * rounds,
            "cost": int(costs[topics.owners == number].sum()),
        }
        for number, name in enumerate(traffic.broker_names(recording))
    ]
    listed = inventory.Hour(hour, (), (), digest=_digest(unit))
    state = ingest.state(listed, source.batch, facts, Counter(), markers, placed=False)
    if not recording.dearest:
        return unit, state
    # Of the same topics as in ingest.heavy, which judges again: the others are not worth passing to Spark.
    of_base = np.bincount(bases, costs)
    some = np.flatnonzero((of_base * LEAST >= costs.sum())[bases])
    rows = {
        "unit": np.full(len(some), unit),
        "topic": pa.array(topics.names).take(pa.array(some)),
        "broker": pa.array(traffic.broker_names(recording)).take(pa.array(topics.owners[some])),
        "cost": costs[some],
    }
    _stage(source, CARRIED, f"{unit}", pa.table(rows))
    return unit, state.model_copy(update={"carried": bool(len(some))})


def _add_up(source: Source, day: int, units: Sequence[int]) -> None:
    """Make the rows of a day of DAILY and NAMESPACES from the rounds of some hours."""
    by_rank: list[Any] = []
    brokers = traffic.documents_of(source.recording, _topics(source.recording)[0])
    sums = [_rounds(source, unit, brokers) for unit in units]
    for number, hours in enumerate(zip(*sums, strict=True)):
        rows = pa.concat_tables(hours)
        rows = rows.append_column("day", pa.array(np.full(rows.num_rows, day)))
        assert not rows["topic"].null_count, "a round is in conflict with another"
        merged = pa.Table.from_batches(merging.merge(rows.to_batches()))
        _stage(source, DAILY, f"{day}-{number}", merged)
        spaces = compute.replace_substring_regex(rows["topic"], f"^.*{NAMESPACE}.*$", r"\1")
        by_rank.append(rows.append_column("namespace", spaces).select(["unit", "namespace", "buckets", "counts"]))
    ranked = totals.by_rank(batch for table in by_rank for batch in table.to_batches())
    of_namespaces = pa.Table.from_batches(totals.totals(ranked))
    _stage(source, NAMESPACES, f"{day}", of_namespaces.rename_columns({"topic": "namespace"}).drop_columns("position"))


def _rounds(source: Source, unit: int, brokers: Sequence[Any]) -> list[Any]:
    """Returns the rows of an hour of each broker, as the job adds them up."""
    recording = source.recording
    topics = _topics(recording)[0]
    names = pa.array(topics.names)
    # As Arrow reads the files of a broker: topics as plain names, a dictionary of one broker.
    plain = [names.take(rows) for rows in brokers]
    owners = traffic.broker_names(recording)
    single = [pa.array([name] * len(rows)).dictionary_encode() for name, rows in zip(owners, brokers, strict=True)]
    sums = [RoundSums(unit, name, MODEL) for name in owners]
    for _, table in traffic.rounds(recording, topics, inventory.start_of(unit)):
        topic, broker = map(table.schema.get_field_index, ("topic", "broker"))
        for rows, of_broker, owner, each in zip(brokers, plain, single, sums, strict=True):
            each.add(table.take(rows).set_column(topic, "topic", of_broker).set_column(broker, "broker", owner))
    return [each.table() for each in sums]


def _stage(source: Source, table: str, name: str, rows: Any) -> None:
    """Write rows for Spark to read."""
    folder = source.scratch / table
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / f"{name}.parquet", compression="lz4")  # type: ignore[no-untyped-call]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables of many days."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.history", description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--distinct-days", type=int, default=7, help="the days behind repeat these; 0 = all are")
    parser.add_argument("--fact-rounds", type=int, default=10, help="of each hour, for its facts; 0 = all")
    options = parser.parse_args(argv)
    scratch = options.root.absolute() / "scratch"
    spark = session.create("local[2]", scratch / "spark", FOLDERS, memory="2g")
    recording = recording_of(options.topics, options.days)
    few = {"fact_rounds": options.fact_rounds, "distinct_days": options.distinct_days}
    write(spark, options.root, recording, scratch / "staged", datetime.now(UTC), **few)
    spark.stop()
    shutil.rmtree(scratch)
    size = sum(path.stat().st_size for path in (options.root / "tables").rglob("*.parquet"))
    print(f"{options.days} days of {options.topics} topics in tables of {size / 1e9:.2f} GB")
    return 0


def recording_of(topics: int, days: int) -> Recording:
    """Returns the recording that the tables are made of: ten brokers, with their CPU."""
    return Recording(days=days, topics=topics, namespaces=40, brokers=10, bundles=256, dearest=3.0)


if __name__ == "__main__":
    sys.exit(main())
