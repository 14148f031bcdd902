"""The sample of faults by a seed, and what the matrices of a test run came to, as one table at its end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SEED = "PULSAR_OPERATOR_FAULT_SEED"
"""Environment variable that chooses another sample."""
DEFAULT_SEED = 1
"""Fixed, so that the same commit is checked in the same way everywhere."""


def seed() -> int:
    """The seed of this run."""
    return int(os.environ.get(SEED, DEFAULT_SEED))


def rng(what: str) -> random.Random:
    """The random numbers that choose a sample, of their own for each thing sampled; the seed is printed."""
    print(f"{what}: {SEED}={seed()}")
    return random.Random(f"{seed()} {what}")


def header() -> str:
    """What the run says of its samples at its beginning."""
    return f"faults: sample of {SEED}={seed()}; another number takes another sample, make faults takes all places"


@dataclass(frozen=True)
class Missable:
    """How many of the places that are not certain a matrix may miss, and why."""

    share: float
    """Of those places."""
    why: str


NONE = Missable(0.0, "every place is certain")


@dataclass
class Tally:
    """One matrix, or the sample of one, while it runs."""

    matrix: str
    chosen: int
    """Places that are to be tried."""
    of: int
    """Places there are."""
    clock: Callable[[], float] = time.monotonic
    every: int = 100
    """Places between two lines of progress."""
    missable: Missable = NONE
    places: int = 0
    missed: int = 0
    """Places where what was to be disturbed did not come."""
    bad: int = 0
    wrong: list[str] = field(default_factory=list)
    """What differs, in words."""
    _certain_missed: list[str] = field(default_factory=list)
    _uncertain: int = 0
    """Places that may be missed."""
    _kinds: dict[str, bool] = field(default_factory=dict)
    """Of each kind of disturbance, whether one came."""
    _begun: float = 0.0
    _ended: float = 0.0

    def __post_init__(self) -> None:
        self._begun = self._ended = self.clock()

    @property
    def seconds(self) -> float:
        """From the beginning to the last place."""
        return self._ended - self._begun

    def add(self, place: str, found: list[str], *, reached: bool = True, certain: bool = True, kind: str = "") -> None:
        """A place was tried; ``certain`` is whether it is met in every run, ``kind`` what was done there."""
        self.places += 1
        self.missed += not reached
        self._uncertain += not certain
        if certain and not reached:
            self._certain_missed.append(place)
        self._kinds[kind] = self._kinds.get(kind, False) or reached
        self.bad += bool(found)
        self.wrong += [f"{place}: {text}" for text in found]
        self._ended = self.clock()
        if not reached:
            print(f"{self.matrix}: missed {place}", flush=True)
        if found or self.places % self.every == 0:
            print(
                f"{self.matrix}: {self.places} of {self.chosen}, {self.bad} differences, {self.seconds:.0f} s"
                + "".join(f"\n    {place}: {text}" for text in found[:3]),
                flush=True,
            )

    def check(self) -> None:
        """Raise AssertionError when a place differed, or when what was to happen there did not.

        Places that are not certain may be missed up to the bound, and never all of a kind.
        """
        assert self.places, f"{self.matrix}: no place was tried"
        assert not self.wrong, "\n".join(self.wrong[:30])
        untried = self.chosen - self.places
        assert not untried, f"{self.matrix}: {untried} of {self.chosen} places were not tried"
        assert not self._certain_missed, f"{self.matrix}: nothing happened at\n" + "\n".join(self._certain_missed[:30])
        most = self.missable.share * self._uncertain
        assert self.missed <= most, (
            f"{self.matrix}: {self.missed} places were missed, {most:.1f} may be ({self.missable.why})"
        )
        never = sorted(kind for kind, came in self._kinds.items() if not came)
        assert not never, f"{self.matrix}: never happened: {', '.join(never)}"


@dataclass
class Summary:
    """All matrices of a test run."""

    tallies: list[Tally] = field(default_factory=list)

    def begin(
        self, matrix: str, chosen: int, of: int | None = None, *, every: int = 100, missable: Missable = NONE
    ) -> Tally:
        """A matrix of so many places begins; ``of`` is given for a sample."""
        tally = Tally(matrix, chosen, chosen if of is None else of, every=every, missable=missable)
        self.tallies.append(tally)
        return tally

    def table(self) -> list[str]:
        """One line for each matrix, and their sum."""
        wide = max([len("matrix"), *(len(each.matrix) for each in self.tallies)])
        lines = [f"{'matrix':{wide}} {'tried':>7} {'of':>7} {'missed':>7} {'differences':>12} {'seconds':>9}"]
        rows = [(t.matrix, (t.places, t.of, t.missed, t.bad), t.seconds) for t in self.tallies]
        sums = [sum(counts) for counts in zip(*(row[1] for row in rows), strict=True)]
        rows.append(("all", (sums[0], sums[1], sums[2], sums[3]), sum(row[2] for row in rows)))
        for name, (tried, of, missed, bad), seconds in rows:
            lines.append(f"{name:{wide}} {tried:7} {of:7} {missed:7} {bad:12} {seconds:9.1f}")
        return lines
