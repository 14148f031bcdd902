"""For how long each broker had more than 85 % of what it can carry, as recorded and with the recommended bundles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final, cast

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import inventory
from pulsar_sizing.job.compute import Recorded
from pulsar_sizing.job.conclude import placed
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.rows import accepted
from pulsar_sizing.schema import TRAFFIC

OVERLOADED: Final = 0.85
"""Share from which a broker has too much; Pulsar's loadBalancerBrokerOverloadedThresholdPercentage."""
MINUTE: Final = 60.0


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


def minutes_above(recorded: Recorded, request: Request, result: SizingResult) -> Minutes | None:
    """Reads the rows of the result's time; None where what a broker can carry is not known.

    A round counts until the next one. A file that is there twice counts twice. Raises VanishedError when files went
    meanwhile.
    """
    if request.capacity is None:
        return None
    found = inventory.hours(recorded.store, request.instance, request.cluster, result.from_time, result.to_time)
    paths = [path for hour in found for path in inventory.readable(recorded.store, hour.traffic, TRAFFIC)[0]]
    names = [broker.broker for broker in result.brokers]
    if not paths or not names:
        return Minutes(0.0, dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0))
    rows = recorded.judged(paths).transform(accepted).withColumn("cost", _cost(request.model))
    # Of rows that are not judged, which reads two columns instead of all; a wrong position finds no row that counts.
    owners = _owners(recorded.rows(paths).select("namespace", "position").distinct(), result)
    placed_rows = rows.join(owners, ["namespace", "position"], "left") if owners is not None else _unplaced(rows)
    loads = (
        placed_rows.groupBy("sample_time", "broker", F.coalesce("to", "broker").alias("to"))
        .agg(F.sum("cost").alias("cost"))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        times = sorted(row[0] for row in loads.select(F.unix_millis("sample_time")).distinct().collect())
        spacing = _spacing(times)
        limits = {each.broker: OVERLOADED * request.capacity * each.capacity for each in result.brokers}
        now, recommended = (
            {name: count * spacing for name, count in _above(loads, side, limits).items()} for side in ("broker", "to")
        )
        return Minutes(len(times) * spacing, now, recommended)
    finally:
        loads.unpersist()


def _above(loads: DataFrame, side: str, limits: Mapping[str, float]) -> dict[str, int]:
    """Rounds in which a broker's load was above its limit; ``side`` is the column with the broker."""
    limit = F.element_at(F.create_map(*(F.lit(part) for pair in limits.items() for part in pair)), F.col(side))
    of_round = loads.filter(F.col(side).isin(*limits)).groupBy("sample_time", side).agg(F.sum("cost").alias("cost"))
    counted = of_round.filter(F.col("cost") > limit).groupBy(side).count().collect()
    return dict.fromkeys(limits, 0) | {row[side]: row["count"] for row in counted}


def _owners(positions: DataFrame, result: SizingResult) -> DataFrame | None:
    """Where the promise places each of the positions of namespaces; None where nothing is recommended.

    Positions are few beside the rows: to look for each row's range among all is what would cost.
    """
    bundles = [
        (namespace, lower, upper + (upper == LAST_BOUNDARY), owner)
        for namespace, each in placed(result).items()
        for (lower, upper), owner in zip(pairwise(each.boundaries), each.owners, strict=True)
        if owner is not None
    ]
    if not bundles:
        return None
    ranges = positions.sparkSession.createDataFrame(bundles, "namespace string, lower long, upper long, to string")
    inside = (F.col("position") >= F.col("lower")) & (F.col("position") < F.col("upper"))
    return positions.join(F.broadcast(ranges), "namespace").filter(inside).select("namespace", "position", "to")


def _unplaced(rows: DataFrame) -> DataFrame:
    return rows.withColumn("to", F.lit(None).cast("string"))


def _cost(model: CostModel) -> Column:
    """The model is linear, so it adds columns up as it adds numbers."""
    columns = {name: cast(Any, F.col(name)) for name in ("messages_in", "messages_out", "bytes_in", "bytes_out")}
    sessions = cast(Any, F.col("producers") + F.col("consumers"))
    return cast(Column, model.cost(Load(**columns, topics=1, sessions=sessions)))


def _spacing(times: Iterable[int]) -> float:
    """Minutes between two rounds, of their times in milliseconds; one where there is only one."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return median(gaps) / 1000 / MINUTE if gaps else 1.0
