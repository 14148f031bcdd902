"""Work out hours of recorded traffic and write them as a segment of the state: one Spark job over pieces of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from pyspark import SparkContext

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing import layout
from pulsar_sizing.job.inventory import READERS, UNREADABLE, Hour, Markers, VanishedError, groups, markers
from pulsar_sizing.job.pieces import Piece, cut
from pulsar_sizing.job.reading import Target, Told, count_rejected, tell
from pulsar_sizing.job.state import CARRIED, PLACEMENT, SUMMARY, BrokerHour, HourState, State
from pulsar_sizing.store import Store

TASKS_A_CORE: Final = 4
"""More tasks spread the work better; each costs some 30 milliseconds of Python."""
MANY_FILES: Final = 600
"""Of an hour on average; above it compaction is behind, and opening files takes longer than reading them."""
TABLES: Final = (SUMMARY, PLACEMENT, CARRIED)

Say = Callable[[str], None]


def work_out(
    spark: SparkContext,
    store: Store,
    state: State,
    run: str,
    found: Sequence[Hour],
    newest: Hour | None,
    model: CostModel,
    say: Say,
) -> dict[int, HourState]:
    """Write the segment of a run for some hours; what the manifest is to hold for them.

    Of the `newest` hour of the recording the placement of bundles is written too. A file that turns out to be damaged
    while it is read is left out and counted, and its hour done again. Raises VanishedError when files went while they
    were read: list again.
    """
    said = _markers(store, found)
    left = {hour.unit: hour for hour in found}
    damaged = {hour.unit: frozenset[str]() for hour in found}
    done: dict[int, HourState] = {}
    files = sum(len(hour.traffic) for hour in found)
    say(f"reading {files} files of {len(found)} hours" + _advice(found))
    while left:
        rejected: dict[int, Counter[str]] = {}
        pieces: list[Piece] = []
        for unit, hour in left.items():
            sound, bad = groups(store, [path for path in hour.traffic if path not in damaged[unit]])
            rejected[unit] = bad + Counter({UNREADABLE: len(hour.damaged) + len(damaged[unit])}) + said[unit].rejected
            pieces += cut(unit, sound, _last_round(said[unit]) if hour == newest else None)
        told = tell_all(spark, store, state, run, model, pieces) if pieces else []
        for each in told:
            if each.vanished:
                raise VanishedError(each.vanished)
        again = {each.unit for each in told if each.damaged}
        for each in told:
            damaged[each.unit] |= each.damaged
        for unit in left.keys() - again:
            mine = [each for each in told if each.unit == unit]
            done[unit] = _hour_state(left[unit], mine, rejected[unit], said[unit], run, left[unit] == newest)
        if again:
            say(f"reading {len(again)} hours again, without files that are damaged")
            # What a piece wrote whose neighbour was damaged may have another name when it is cut anew.
            for unit in again:
                for table in TABLES:
                    store.delete_folder(f"{state.segment(run, table)}/unit={unit}")
        left = {unit: left[unit] for unit in again}
    return dict(sorted(done.items()))


def dealt(pieces: Sequence[Piece], many: int) -> list[list[Piece]]:
    """Pieces in at most so many lists of about as many rows each."""
    lists: list[list[Piece]] = [[] for _ in range(max(1, min(many, len(pieces))))]
    for number, piece in enumerate(sorted(pieces, key=lambda piece: -piece.rows)):
        turn, place = divmod(number, len(lists))
        lists[-1 - place if turn % 2 else place].append(piece)
    return lists


def tell_all(
    spark: SparkContext, store: Store, state: State, run: str, model: CostModel, pieces: Sequence[Piece]
) -> list[Told]:
    """Have Spark work out all pieces."""
    lists = dealt(pieces, TASKS_A_CORE * spark.defaultParallelism)
    target = Target(*(state.segment(run, table) for table in TABLES))
    work = partial(tell, store.place, target, model)
    # A few numbers a piece: their sum is bounded by the files, not by the rows.
    return spark.parallelize(lists, len(lists)).flatMap(lambda mine: work(iter(mine))).collect()


def _advice(found: Sequence[Hour]) -> str:
    files = sum(len(hour.traffic) for hour in found)
    small = sum(1 for hour in found for path in hour.traffic if not layout.is_compacted(path.rpartition("/")[2]))
    if files <= MANY_FILES or small <= len(found):
        return ""
    return f"; {small} of them are not compacted, which takes long: see upkeep in the collector's log"


def _last_round(said: Markers) -> int | None:
    return None if said.newest is None else round(said.newest.timestamp() * 1000)


def _markers(store: Store, found: Sequence[Hour]) -> dict[int, Markers]:
    with ThreadPoolExecutor(READERS) as pool:
        told = pool.map(partial(markers, store), [hour.markers for hour in found])
        return {hour.unit: said for hour, said in zip(found, told, strict=True)}


def _hour_state(
    hour: Hour, told: Sequence[Told], rejected: Counter[str], said: Markers, run: str, placed: bool
) -> HourState:
    samples = sum(each.samples for each in told)
    costs: Counter[str] = Counter()
    for each in told:
        costs.update(each.costs)
    brokers = {name: BrokerHour(expected=n, answered=k) for name, (n, k) in sorted(said.by_broker.items())}
    for name, cost in sorted(costs.items()):
        brokers[name] = (brokers.get(name) or BrokerHour()).model_copy(update={"cost": cost})
    for name, (samples_told, cpu) in said.cpu.items():
        brokers[name] = brokers[name].model_copy(update={"told": samples_told, "cpu": cpu})
    return HourState(
        digest=hour.digest,
        segment=run if samples else "",
        samples=samples,
        duplicates=sum(each.duplicates for each in told),
        cost=sum(costs.values()),
        rejected={reason: n for reason, n in sorted((rejected + count_rejected(list(told))).items()) if n},
        expected=said.expected,
        answered=said.answered,
        announced=said.announced,
        rounds=said.rounds,
        brokers=brokers,
        placed=placed,
    )
