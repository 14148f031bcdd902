"""Load of each broker in each round, as recorded and with the recommended bundles: what tasks of Spark add up.

The rows of an hour come to one matrix of rounds and brokers, however many topics there are. Only rows that count
(rows.judged) are added, as whole numbers, so that the order of pieces and of rows makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np

from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.ranges import HASH_SPACE
from pulsar_sizing.job.conclude import Today
from pulsar_sizing.job.histogram import Array
from pulsar_sizing.job.inventory import VanishedError
from pulsar_sizing.job.pieces import Piece
from pulsar_sizing.job.reading import DamagedError, rows_of
from pulsar_sizing.job.rows import Rows, judged
from pulsar_sizing.store import Place, Store

SIDES: Final = 2
"""As recorded, and as recommended."""
STAYS: Final = -1
"""Where no owner is recommended: a row counts for the broker that reported it."""


@dataclass(frozen=True)
class Owners:
    """Brokers by number, and which of them each position of a namespace is recommended for."""

    brokers: Mapping[str, int]
    namespaces: Mapping[str, int]
    starts: Array
    """Ascending: the number of a namespace times HASH_SPACE, and a bundle's lower bound."""
    owners: Array
    """Of the bundle at each of `starts`; STAYS where it is idle."""


@dataclass(frozen=True)
class Rounds:
    """What pieces of one hour come to."""

    times: Array
    """Milliseconds since 1970, ascending."""
    loads: Array
    """By side, round and broker; the last broker stands for all that are not asked for."""
    damaged: frozenset[str] = frozenset()
    """Files that turned out not to be readable: nothing of the hour counts."""
    vanished: str = ""
    """A file that went meanwhile: nothing counts."""

    def plus(self, other: Rounds) -> Rounds:
        """This and other pieces of the hour together."""
        times = np.union1d(self.times, other.times)
        loads = np.zeros((SIDES, len(times), self.loads.shape[2]), np.int64)
        for each in (self, other):
            loads[:, np.searchsorted(times, each.times)] += each.loads
        return Rounds(times, loads, self.damaged | other.damaged, self.vanished or other.vanished)

    def above(self, limits: Sequence[float]) -> Above:
        """In how many rounds each broker's load was above its limit."""
        over = self.loads[:, :, : len(limits)] > np.array(limits)
        now, recommended = over.sum(axis=1).tolist()
        return Above(tuple(self.times.tolist()), tuple(now), tuple(recommended), self.damaged, self.vanished)


@dataclass(frozen=True)
class Above:
    """What is collected of an hour."""

    times: tuple[int, ...]
    """Of its rounds, in milliseconds."""
    now: tuple[int, ...]
    """Rounds above the limit by broker."""
    recommended: tuple[int, ...]
    damaged: frozenset[str] = frozenset()
    vanished: str = ""


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


def add_up(place: Place, model: CostModel, owners: Owners, pieces: Iterable[Piece]) -> Iterator[tuple[int, Rounds]]:
    """Read pieces one after the other; what each comes to, with its hour."""
    store = Store(place.root, s3=place.s3)
    for piece in pieces:
        yield piece.unit, _of_piece(store, model, owners, piece)


def _of_piece(store: Store, model: CostModel, owners: Owners, piece: Piece) -> Rounds:
    nothing = np.empty(0, np.int64), np.empty((SIDES, 0, len(owners.brokers) + 1), np.int64)
    try:
        table = rows_of(store, piece)
    except VanishedError as error:
        return Rounds(*nothing, vanished=str(error))
    except DamagedError as error:
        return Rounds(*nothing, damaged=error.paths)
    return rounds(table, piece.unit, model, owners)


def rounds(table: Any, unit: int, model: CostModel, owners: Owners) -> Rounds:
    """Loads of rows with COLUMNS of one hour (`unit`, hours since 1970); a row that is there twice counts twice."""
    rows, _ = judged(table, unit, model)
    many = len(owners.brokers) + 1
    words, codes = rows.words["broker"]
    # Null has the code after the last word.
    now = np.array([*(owners.brokers.get(name, many - 1) for name in words), many - 1], np.int64)[codes]
    wanted = _wanted(rows, owners)
    times, at = np.unique(rows.time, return_inverse=True)
    loads = np.zeros((SIDES, len(times), many), np.int64)
    for side, broker in enumerate((now, np.where(wanted == STAYS, now, wanted))):
        np.add.at(loads[side], (at, broker), rows.amounts["cost"])
    return Rounds(times, loads)


def _wanted(rows: Rows, owners: Owners) -> Array:
    """The owner that is recommended for each row's topic."""
    words, codes = rows.words["namespace"]
    namespace = np.array([*(owners.namespaces.get(name, -1) for name in words), -1], np.int64)[codes]
    # Of rows that count the position is the name's CRC-32.
    position = np.array([crc32(name.encode()) for name in rows.names], np.int64)[rows.topic]
    found = np.searchsorted(owners.starts, namespace * HASH_SPACE + position, side="right") - 1
    # Before all bundles is what is of no namespace here; a namespace's last bundle goes to the end of its positions.
    return np.append(owners.owners, STAYS)[found]
