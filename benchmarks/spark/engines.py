"""The same two plans in Spark, DuckDB and Polars. All amounts are integers, so the answers must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from benchmarks.spark.traffic import Recording
from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job import hourly, landing, merging
from pulsar_sizing.job.histogram import LN_GAMMA, merged, quantiles
from pulsar_sizing.job.inventory import unit_of
from pulsar_sizing.layout import cluster_folder, hour_of
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import Store

SHARE = 0.99
MODEL = CostModel()
COST = (
    f"bytes_in * {MODEL.byte_in} + bytes_out * {MODEL.byte_out} + messages_in * {MODEL.message_in}"
    f" + messages_out * {MODEL.message_out} + (producers + consumers) * {MODEL.session} + {MODEL.topic}"
)
SUMS = ("messages_in", "messages_out", "bytes_in", "bytes_out")
TASKS_A_CORE = 4
HISTOGRAM_KEYS = ("topic", "hour")

Answer = list[tuple[Any, ...]]
Tool = dict[str, Callable[[], Answer]]


def tools(spark: Any, root: Path, recording: Recording, cores: int) -> dict[str, Tool]:
    """By name: both plans of each tool; a call reads the files and gives the sorted answer."""
    folder = root / cluster_folder(TRAFFIC, recording.instance, recording.cluster)
    files = sorted(str(path) for path in folder.rglob("*.parquet"))
    return {
        "spark": _spark(spark, root, folder, files, cores),
        "duckdb": _duckdb(files, cores),
        "polars": _polars(files),
    }


def same(what: str, answers: dict[str, Answer]) -> None:
    """Stops the benchmark unless all tools give the same answer."""
    wanted = answers["spark"]
    for tool, answer in answers.items():
        if answer != wanted:
            raise SystemExit(f"{what}: {tool} answers {answer[:2]}..., Spark {wanted[:2]}...")


def _spark(spark: Any, root: Path, folder: Path, files: list[str], cores: int) -> Tool:
    """Plain sums by SQL functions; histograms by the job's own kernels."""
    store = Store(str(root))
    paths: dict[int, list[str]] = {}
    for path in files:
        hour = hour_of(path.rpartition("/")[0])
        assert hour is not None
        paths.setdefault(unit_of(hour), []).append(str(Path(path).relative_to(root)))

    def plain() -> Answer:
        sums = [F.sum(F.floor(F.col(name) + 0.5).cast("bigint")).alias(name) for name in SUMS]
        rows = spark.read.option("basePath", str(folder)).parquet(*files)
        found = rows.groupBy("topic", "hour").agg(*sums, F.count("*").alias("n"))
        return sorted(tuple(row.values()) for row in found.toArrow().to_pylist())

    def histogram() -> Answer:
        listed = landing.files(spark, paths, TASKS_A_CORE * cores)
        hours = hourly.aggregated(listed, landing.Reading(store.place, MODEL), TASKS_A_CORE * cores)
        hours = hours.withColumn("day", F.expr("unit % 24"))
        parts = hours.select(merging.SCHEMA.names).repartition(TASKS_A_CORE * cores, "day", "topic")
        found = parts.mapInArrow(_values, "topic string, hour bigint, value double").toArrow().to_pylist()
        return _rounded([tuple(row.values()) for row in found])

    return {"plain": plain, "histogram": histogram}


def _values(batches: Iterator[Any]) -> Iterator[Any]:
    """The percentile of each topic and hour of the day (`day`) from rows with histograms."""
    rows = pa.concat_tables([merging.SCHEMA.empty_table(), *merged_tables(batches)])
    buckets, counts = (rows[name].combine_chunks() for name in ("buckets", "counts"))
    keys, many = np.arange(rows.num_rows), rows.num_rows
    found = merged(keys, buckets.offsets.to_numpy(), buckets.flatten().to_numpy(), counts.flatten().to_numpy(), many)
    columns = [rows["topic"], rows["day"], pa.array(quantiles(found, SHARE))]
    yield from pa.table(columns, names=["topic", "hour", "value"]).to_batches()


def merged_tables(batches: Iterator[Any]) -> list[Any]:
    """Rows with histograms added up."""
    return [pa.Table.from_batches([batch]) for batch in merging.merge(batches)]


def _duckdb(files: list[str], cores: int) -> Tool:
    connection = duckdb.connect(config={"threads": cores})
    source = f"read_parquet({files!r}, hive_partitioning = true)"

    def plain() -> Answer:
        sums = ", ".join(f"sum(floor({name} + 0.5)::bigint)::bigint" for name in SUMS)
        return sorted(
            connection.execute(
                f"select topic, hour::int, {sums}, count(*) from {source} group by topic, hour"
            ).fetchall()
        )

    def histogram() -> Answer:
        found = connection.execute(
            f"""
            with counts as (
                select topic, hour::int as hour, ceil(ln(greatest({COST}, 1)) / {LN_GAMMA!r})::int as bucket,
                    count(*) as n
                from {source} group by all
            ), running as (
                select topic, hour, bucket, sum(n) over (partition by topic, hour order by bucket) reached,
                    floor((sum(n) over (partition by topic, hour) - 1) * {SHARE}) rank
                from counts
            )
            select topic, hour, min(bucket) from running where reached > rank group by topic, hour
            """
        ).fetchall()
        return _rounded([(*keys, _value(number)) for *keys, number in found])

    return {"plain": plain, "histogram": histogram}


def _polars(files: list[str]) -> Tool:
    def traffic() -> pl.LazyFrame:
        return pl.scan_parquet(files, hive_partitioning=True)

    def plain() -> Answer:
        sums = [(pl.col(name) + 0.5).floor().cast(pl.Int64).sum() for name in SUMS]
        found = traffic().group_by("topic", pl.col("hour").cast(pl.Int32)).agg(*sums, pl.len().alias("n"))
        return sorted(found.collect(engine="streaming").rows())

    def histogram() -> Answer:
        costs = (
            pl.col("bytes_in") * MODEL.byte_in
            + pl.col("bytes_out") * MODEL.byte_out
            + pl.col("messages_in") * MODEL.message_in
            + pl.col("messages_out") * MODEL.message_out
            + (pl.col("producers") + pl.col("consumers")).cast(pl.Float64) * MODEL.session
            + MODEL.topic
        )
        number = (pl.max_horizontal(costs, pl.lit(1.0)).log() / LN_GAMMA).ceil().cast(pl.Int32)
        keys = ("topic", pl.col("hour").cast(pl.Int32))
        counts = traffic().select(*keys, number.alias("bucket")).group_by(*HISTOGRAM_KEYS, "bucket").len()
        running = counts.sort(*HISTOGRAM_KEYS, "bucket").select(
            *HISTOGRAM_KEYS,
            "bucket",
            pl.col("len").cum_sum().over(HISTOGRAM_KEYS).alias("reached"),
            ((pl.col("len").cast(pl.Int64).sum().over(HISTOGRAM_KEYS) - 1) * SHARE).floor().alias("rank"),
        )
        found = running.filter(pl.col("reached") > pl.col("rank")).group_by(HISTOGRAM_KEYS).agg(pl.col("bucket").min())
        return _rounded([(*keys, _value(value)) for *keys, value in found.collect(engine="streaming").rows()])

    return {"plain": plain, "histogram": histogram}


def _value(number: int) -> float:
    gamma = 2.718281828459045**LN_GAMMA
    return 2 * gamma**number / (gamma + 1) if number > 0 else 0.0


def _rounded(answer: Answer) -> Answer:
    """Values of equal buckets may differ in the last bit by how a power is computed; buckets are 4 % apart."""
    return sorted((*keys, float(f"{value:.9g}")) for *keys, value in answer)
