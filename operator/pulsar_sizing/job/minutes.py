"""For how long each broker had more than 85 % of what it can carry, as recorded and with the recommended bundles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import inventory
from pulsar_sizing.job.compute import TASKS_A_CORE, dealt
from pulsar_sizing.job.conclude import placed
from pulsar_sizing.job.pieces import Piece, cut
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.rounds import Above, Owners, Rounds, add_up, owners_of
from pulsar_sizing.job.run import Recorded

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

    A round counts until the next one. A file that is there twice counts twice, one that is damaged does not count.
    Raises VanishedError when files went meanwhile.
    """
    if request.capacity is None:
        return None
    limits = [OVERLOADED * request.capacity * each.capacity for each in result.brokers]
    names = [each.broker for each in result.brokers]
    found = inventory.hours(recorded.store, request.instance, request.cluster, result.from_time, result.to_time)
    hours = _of_hours(recorded, request.model, owners_of(names, placed(result)), limits, found) if names else []
    times = sorted(time for hour in hours for time in hour.times)
    spacing = _spacing(times)
    now, recommended = (
        {name: sum(counts) * spacing for name, *counts in zip(names, *by_hour, strict=True)}
        for by_hour in ([hour.now for hour in hours], [hour.recommended for hour in hours])
    )
    return Minutes(len(times) * spacing, now, recommended)


def _of_hours(
    recorded: Recorded, model: CostModel, owners: Owners, limits: Sequence[float], found: Sequence[inventory.Hour]
) -> list[Above]:
    """What the hours come to; one with a file that turns out to be damaged is read again without it."""
    done: list[Above] = []
    left = {hour.unit: hour.traffic for hour in found}
    while left:
        sound = {unit: inventory.groups(recorded.store, paths)[0] for unit, paths in left.items()}
        told = _of_pieces(
            recorded, model, owners, limits, [piece for unit in sound for piece in cut(unit, sound[unit], None)]
        )
        for each in told.values():
            if each.vanished:
                raise inventory.VanishedError(each.vanished)
        done += [each for each in told.values() if not each.damaged]
        left = {
            unit: tuple(path for path in left[unit] if path not in each.damaged)
            for unit, each in told.items()
            if each.damaged
        }
    return done


def _of_pieces(
    recorded: Recorded, model: CostModel, owners: Owners, limits: Sequence[float], pieces: Sequence[Piece]
) -> dict[int, Above]:
    """Have Spark add up all pieces, by hour. What comes to this process is bounded by hours, rounds and brokers."""
    if not pieces:
        return {}
    lists = dealt(pieces, TASKS_A_CORE * recorded.spark.defaultParallelism)
    read = recorded.spark.parallelize(lists, len(lists)).flatMap(partial(add_up, recorded.store.place, model, owners))
    many = min(len(lists), len({piece.unit for piece in pieces}))
    return read.reduceByKey(Rounds.plus, many).mapValues(partial(Rounds.above, limits=limits)).collectAsMap()


def _spacing(times: Iterable[int]) -> float:
    """Minutes between two rounds, of their times in milliseconds; one where there is only one."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return median(gaps) / 1000 / MINUTE if gaps else 1.0
