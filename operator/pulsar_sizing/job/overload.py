"""For how long each broker had more than 85 % of what it can carry, as recorded and with the recommended bundles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.model.ranges import HASH_SPACE
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import inventory
from pulsar_sizing.job.conclude import Today, placed
from pulsar_sizing.job.histogram import Array
from pulsar_sizing.job.ingest import TASK_ROWS, Job
from pulsar_sizing.job.landing import Reading, files, named
from pulsar_sizing.job.snapshot import COLUMNS, LOADS
from pulsar_sizing.job.weights import one

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

OVERLOADED: Final = 0.85
"""Share from which a broker has too much; Pulsar's loadBalancerBrokerOverloadedThresholdPercentage."""
MINUTE: Final = 60.0
STAYS: Final = -1
"""Where no owner is recommended: a row counts for the broker that reported it."""
_PLACED_SCHEMA: Final = pa.schema(
    [("time", pa.int64()), ("broker", pa.string()), ("recommended", pa.string()), ("cost", pa.int64())]
)


@dataclass(frozen=True)
class Minutes:
    """Minutes of the recorded time above 85 %, by broker."""

    recorded: float
    now: Mapping[str, float]
    recommended: Mapping[str, float]
    """With the same traffic, and the bundles where the promise places them."""

    def words(self) -> str:
        """What the figures are."""
        return (
            f"Minutes above {OVERLOADED:.0%} of what a broker can carry are of {self.recorded:.0f} recorded ones, by "
            "the traffic as it was, without growth; recommended: the same traffic in the recommended bundles."
        )


@dataclass(frozen=True)
class Owners:
    """Brokers by number, and which of them each position of a namespace is recommended for."""

    brokers: Mapping[str, int]
    namespaces: Mapping[str, int]
    starts: Array
    """Ascending: the number of a namespace times HASH_SPACE, and a bundle's lower bound."""
    owners: Array
    """Of the bundle at each of `starts`; STAYS where it is idle."""


def minutes_above(job: Job, result: SizingResult) -> Minutes | None:
    """Reads the rows of the result's time; None if the capacity of a broker is not known.

    A round counts until the next one. A file that is there twice counts twice, one that is damaged does not count.
    Raises VanishedError if files were deleted during the read.
    """
    request, store = job.request, job.store
    if request.capacity is None:
        return None
    limits = {each.broker: OVERLOADED * request.capacity * each.capacity for each in result.brokers}
    found = inventory.hours(store, request.instance, request.cluster, result.from_time, result.to_time)
    sound, _ = inventory.sound(store, [path for hour in found for path in hour.traffic])
    paths = {hour.unit: [path for path in hour.traffic if path in sound] for hour in found}
    rows = sum(sound.values())
    try:
        return _minutes(job, result, limits, paths, rows)
    except (PySparkException, Py4JJavaError):
        damaged = inventory.damaged(store, sorted(sound))
        if not damaged:
            raise
        rest = {unit: [path for path in each if path not in damaged] for unit, each in paths.items()}
        return _minutes(job, result, limits, rest, rows)


def _minutes(
    job: Job, result: SizingResult, limits: Mapping[str, float], paths: Mapping[int, Sequence[str]], rows: int
) -> Minutes:
    """`rows` is about how many the files at `paths`, by hour, have."""
    if not any(paths.values()) or not limits:
        return Minutes(0.0, dict.fromkeys(limits, 0.0), dict.fromkeys(limits, 0.0))
    reading, owners = Reading(job.store.place, job.request.model), owners_of(list(limits), placed(result))

    def of_files(batches: Iterator[Any]) -> Iterator[Any]:
        return loads_of(owners, map(named, reading.tables(batches)))

    by_file = files(job.spark, paths, -(-rows // TASK_ROWS)).mapInArrow(of_files, COLUMNS[LOADS])
    loads = by_file.groupBy("time", "broker", "recommended").agg(F.sum("cost").alias("cost"))
    job.tables.write(loads, LOADS, name := job.name())
    loads = job.tables.read(job.spark, LOADS, [job.tables.batch(LOADS, name)])
    gap = F.col("time") - F.lag("time").over(Window.orderBy("time"))
    (spaced,) = (
        loads.select("time")
        .distinct()
        .select("time", gap.alias("gap"))
        .agg(F.count("*").alias("rounds"), F.percentile("gap", 0.5).alias("spacing"))
        .collect()
    )
    spacing = spaced["spacing"] / 1000 / MINUTE if spaced["spacing"] is not None else 1.0
    sides = [_above(job.spark, loads, side, limits) for side in ("broker", "recommended")]
    now, recommended = ({broker: side.get(broker, 0) * spacing for broker in limits} for side in sides)
    job.store.delete_folder(job.tables.batch(LOADS, name))
    return Minutes(spaced["rounds"] * spacing, now, recommended)


def _above(spark: SparkSession, loads: DataFrame, side: str, limits: Mapping[str, float]) -> dict[str, int]:
    """In how many rounds each broker's load was above its limit."""
    known = F.broadcast(spark.createDataFrame(list(limits.items()), f"{side} string, most double"))
    of_round = loads.groupBy("time", side).agg(F.sum("cost").alias("cost"))
    above = of_round.join(known, on=side, how="inner").where(F.col("cost") > F.col("most"))
    return {row[side]: row["count"] for row in above.groupBy(side).count().collect()}


def loads_of(owners: Owners, tables: Iterable[Any]) -> Iterator[Any]:
    """Cost by time, by the broker that reported it, and by the owner that is recommended for its position (the broker
    where none is), from tables of judged rows; rows that do not count are left out."""
    names = pa.array([*owners.brokers, None], pa.string())
    of_bundle = np.append(owners.owners, STAYS)
    for table in tables:
        rows = table.filter(compute.is_null(table["reason"]))
        if not rows.num_rows:
            continue
        spaces = one(rows["namespace"])
        numbers = np.array([owners.namespaces.get(name, -1) for name in spaces.dictionary.to_pylist()], np.int64)
        namespace = numbers[spaces.indices.to_numpy()]
        at = np.searchsorted(owners.starts, namespace * HASH_SPACE + rows["position"].to_numpy(), side="right") - 1
        # Before all bundles is what is of no namespace here.
        recommended = names.take(pa.array(of_bundle[at] % len(names)))
        broker = one(rows["broker"].cast(pa.string()))
        columns = [rows["time"], broker, compute.coalesce(recommended, broker), rows["cost"]]
        parts = pa.table(columns, schema=_PLACED_SCHEMA).group_by(_PLACED_SCHEMA.names[:3]).aggregate([("cost", "sum")])
        yield from parts.rename_columns(_PLACED_SCHEMA.names).to_batches()


def owners_of(brokers: Sequence[str], recommended: Mapping[str, Today]) -> Owners:
    """Numbers and sorted ranges of bundles by namespace. Raises KeyError for an owner that is none of `brokers`."""
    numbers = {name: number for number, name in enumerate(brokers)}
    starts: list[int] = []
    owners: list[int] = []
    for number, each in enumerate(recommended.values()):
        for (low, _), owner in zip(pairwise(each.boundaries), each.owners, strict=True):
            starts.append(number * HASH_SPACE + low)
            owners.append(STAYS if owner is None else numbers[owner])
    namespaces = {name: number for number, name in enumerate(recommended)}
    return Owners(numbers, namespaces, np.array(starts, np.int64), np.array(owners, np.int64))
