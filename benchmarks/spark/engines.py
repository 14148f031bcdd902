"""The same two plans in Spark, DuckDB and Polars. All amounts are integers, so the answers must be equal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.spark.traffic import Recording
from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job import inventory
from pulsar_sizing.job.compute import TASKS_A_CORE, dealt
from pulsar_sizing.job.histogram import LN_GAMMA, Array, buckets_of, counted, merged, quantiles
from pulsar_sizing.job.pieces import Group, Piece, cut
from pulsar_sizing.job.reading import read
from pulsar_sizing.job.rows import word_codes
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
RATES = ("bytes_in", "bytes_out", "messages_in", "messages_out")
PRICES = (MODEL.byte_in, MODEL.byte_out, MODEL.message_in, MODEL.message_out)
COSTS = (*RATES, "producers", "consumers")
HISTOGRAM_KEYS = ("topic", "hour")

Answer = list[tuple[Any, ...]]
Tool = dict[str, Callable[[], Answer]]


def tools(spark: Any, root: Path, recording: Recording, cores: int) -> dict[str, Tool]:
    """By name: both plans of each tool; a call reads the files and gives the sorted answer."""
    folder = root / cluster_folder(TRAFFIC, recording.instance, recording.cluster)
    files = sorted(str(path) for path in folder.rglob("*.parquet"))
    return {
        "spark": _spark(spark, root, files, cores),
        "duckdb": _duckdb(files, cores),
        "polars": _polars(files),
    }


def same(what: str, answers: dict[str, Answer]) -> None:
    """Stops the benchmark unless all tools give the same answer."""
    wanted = answers["spark"]
    for tool, answer in answers.items():
        if answer != wanted:
            raise SystemExit(f"{what}: {tool} answers {answer[:2]}..., Spark {wanted[:2]}...")


def _spark(spark: Any, root: Path, files: list[str], cores: int) -> Tool:
    """One task reads some files as the job does; what it leaves of an hour is brought together by a shuffle."""
    found = inventory.groups(Store(str(root)), [str(Path(path).relative_to(root)) for path in files])[0]
    pieces = [piece for path in sorted({g.path for g in found}) for piece in cut(_hour(path), _of(path, found), None)]

    def run(work: Callable[[Piece], Any], merge: Callable[[Any], Answer]) -> Answer:
        lists = dealt(pieces, TASKS_A_CORE * cores)
        read = spark.sparkContext.parallelize(lists, len(lists)).flatMap(lambda mine: map(work, mine))
        answer: Answer = read.groupByKey(4 * cores).flatMap(merge).collect()
        return sorted(answer)

    def plain() -> Answer:
        return run(partial(_piece_sums, str(root)), _merged_sums)

    def histogram() -> Answer:
        return _rounded(run(partial(_piece_counts, str(root)), _merged_counts))

    return {"plain": plain, "histogram": histogram}


def _hour(path: str) -> int:
    hour = hour_of(path.rpartition("/")[0])
    assert hour is not None
    return hour.hour


def _of(path: str, groups: list[Group]) -> list[Group]:
    return [group for group in groups if group.path == path]


def _columns(root: str, piece: Piece, names: tuple[str, ...]) -> tuple[list[str], Array, dict[str, Array]]:
    """Topics, the index of each row's, and numbers."""
    store = Store(root)
    table = pa.concat_tables([read(store, path, numbers, ("topic", *names)) for path, numbers in piece.groups])
    words, codes = word_codes(table["topic"])
    return list(words), codes, {name: table[name].to_numpy() for name in names}


def _piece_sums(root: str, piece: Piece) -> tuple[int, Any]:
    topics, codes, numbers = _columns(root, piece, SUMS)
    order = codes if (np.diff(codes) >= 0).all() else np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes if order is codes else codes[order], prepend=-1))
    whole = [(numbers[name] + 0.5).astype(np.int64) for name in SUMS]
    sums = [np.add.reduceat(each if order is codes else each[order], starts) for each in whole]
    present = (codes if order is codes else codes[order])[starts]
    return piece.unit, ([topics[code] for code in present], [*sums, np.diff(starts, append=len(codes))])


def _merged_sums(part: Any) -> Answer:
    hour, found = part
    found = list(found)
    codes = pa.array([topic for topics, _ in found for topic in topics]).dictionary_encode()
    sums = [np.concatenate([each[n] for _, each in found]) for n in range(len(SUMS) + 1)]
    totals = [np.zeros(len(codes.dictionary), np.int64) for _ in sums]
    for total, each in zip(totals, sums, strict=True):
        np.add.at(total, codes.indices.to_numpy(), each)
    return [
        (topic, hour, *each) for topic, *each in zip(codes.dictionary.to_pylist(), *map(_list, totals), strict=True)
    ]


def _list(numbers: Array) -> list[int]:
    found: list[int] = numbers.tolist()
    return found


def _piece_counts(root: str, piece: Piece) -> tuple[int, Any]:
    topics, codes, numbers = _columns(root, piece, COSTS)
    weighed = [numbers[name] * price for name, price in zip(RATES, PRICES, strict=True)]
    cost = sum(weighed) + (numbers["producers"] + numbers["consumers"]) * MODEL.session + MODEL.topic
    return piece.unit, (topics, *counted(codes, buckets_of(cost), len(topics)))


def _merged_counts(part: Any) -> Answer:
    hour, found = part
    found = list(found)
    codes = pa.array([topic for topics, *_ in found for topic in topics]).dictionary_encode()
    offsets = np.append(0, np.cumsum(np.concatenate([np.diff(offsets) for _, offsets, _, _ in found])))
    buckets, counts = (np.concatenate([each[n] for each in found]) for n in (2, 3))
    values = quantiles(merged(codes.indices.to_numpy(), offsets, buckets, counts, len(codes.dictionary)), SHARE)
    return [(topic, hour, value) for topic, value in zip(codes.dictionary.to_pylist(), values.tolist(), strict=True)]


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
