"""Which ids the bookies of a cluster have: no bookie returns empty under an id that was used. Pure.

A writer may keep a ledger open whose metadata no longer shows it, because auto-recovery closed it without the writer's
knowledge. It names bookies by id; one that returns empty under the same id takes its entries and acknowledges them, and
no reader can read them (apache/bookkeeper#4812). So each ordinal counts incarnations. Incarnation 0 has the id that
BookKeeper makes of host and port; a later one has ``<pod>.i<number>.<rest>``, which is no name of a host: class
DefaultBookieAddressResolver of BookKeeper 4.17.2 resolves an id by its registration alone, unless it ends with ":0".

The count is in a znode beside the cookies. The start program of a bookie on empty volumes reads it
(broker_image/pulsar_start/identity.py); on volumes that hold an id, that id stays. The operator keeps a second copy in
Kubernetes (domain/dataplane/registration/metadata.py), which it writes first, and takes the higher number of both: a
znode that was deleted, or restored from a backup, gets the used numbers again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError

INCARNATIONS_PATH: Final = "/pulsar-operator/bookie-incarnations"
MOST: Final = 999_999_999
"""Highest incarnation that an id may have."""
_ORDINAL: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LATER: Final = re.compile(r"([^.:]+)\.i[1-9][0-9]{0,8}\.(.+)", re.ASCII)


@dataclass(frozen=True)
class Count:
    """Incarnations of one ordinal."""

    number: int = 0
    """What a bookie on empty volumes becomes."""
    observed: int = -1
    """The highest that ever had a cookie or was registered; -1 = none."""

    @property
    def spent(self) -> bool:
        """Whether the number was used, so that no bookie may start on empty volumes with it."""
        return self.observed >= self.number


Counts = Mapping[int, Count]
"""By ordinal."""


def parse_incarnations(data: bytes) -> dict[int, Count]:
    """The count in the znode. Raises UndecodableError: an empty count in its place would use ids again."""
    try:
        return _counts(data or b"{}")
    except ValueError:
        raise UndecodableError(
            f"znode {INCARNATIONS_PATH} does not hold a count of incarnations. If ConfigMap <cluster>-instance-id has "
            "key bookieIncarnations, delete the znode, and the operator writes it again. If not, write into the znode, "
            "for each ordinal of a bookie, the highest incarnation that znode /ledgers/cookies or a ledger names (0 of "
            'an id without ".i<n>.") as seen, and the next one as number, as in {"2": {"number": 1, "seen": 0}}'
        ) from None


def parse_copy(text: str) -> dict[int, Count]:
    """What the copy in Kubernetes says; an empty text counts nothing. Raises ValueError for what is no count."""
    return _counts(text or "{}")


def copy_text(counts: Counts) -> str:
    """Content of the copy in Kubernetes."""
    return incarnations_data(counts).decode()


def _counts(data: bytes | str) -> dict[int, Count]:
    try:
        return {_ordinal(ordinal): Count(*_numbers(each)) for ordinal, each in json.loads(data).items()}
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"no count of incarnations: {error}") from None


def _ordinal(text: str) -> int:
    if _ORDINAL.fullmatch(text) is None:
        raise ValueError(f"{text[:20]!r} is no ordinal")
    return int(text)


def _numbers(each: Any) -> tuple[int, int]:
    number, observed = each["number"], each["seen"]
    if type(number) is not int or type(observed) is not int or not (0 <= number <= MOST and -1 <= observed <= MOST):
        raise ValueError(f"{number!r} and {observed!r} are no incarnations from 0 to {MOST}"[:200])
    return number, observed


def incarnations_data(counts: Counts) -> bytes:
    """Content of the znode."""
    found = {str(ordinal): {"number": each.number, "seen": each.observed} for ordinal, each in sorted(counts.items())}
    return json.dumps(found).encode()


def host_of(bookie: str) -> str:
    """Host name of the pod of a bookie, by its id; of another id what is in front of its port."""
    later = _LATER.fullmatch(bookie)
    return f"{later[1]}.{later[2]}" if later else bookie.rpartition(":")[0] or bookie


def same_pod(one: str, other: str) -> bool:
    """Whether two ids are of incarnations of one bookie."""
    return host_of(one) == host_of(other)


@dataclass(frozen=True)
class OwnBookies:
    """How the ids of a cluster's own bookies are made, and which of its incarnations each ordinal has.

    ``<workload>-<ordinal>.<rest>`` is the id of incarnation 0.
    """

    workload: str
    rest: str
    counts: Counts = field(default_factory=dict, hash=False)
    present: frozenset[str] = frozenset()
    """Ids that have a cookie or are registered."""

    @classmethod
    def of(cls, first: str, counts: Counts | None = None, present: Collection[str] = ()) -> OwnBookies:
        """By the first id of the bookie of ordinal 0 (domain/render/child_names.py, bookie_id). Raises ValueError for
        another."""
        pod, _, rest = first.partition(".")
        if not pod.endswith("-0") or not rest:
            raise ValueError(f"{first!r} is not the id of a bookie of ordinal 0")
        return cls(pod.removesuffix("-0"), rest, counts or {}, frozenset(present))

    def of_incarnation(self, ordinal: int, incarnation: int) -> str:
        """Id of one incarnation."""
        if incarnation == 0:
            return f"{self.workload}-{ordinal}.{self.rest}"
        return f"{self.workload}-{ordinal}.i{incarnation}.{self.rest.rpartition(':')[0] or self.rest}"

    def slot(self, bookie: str) -> tuple[int, int] | None:
        """Ordinal and incarnation of a bookie; None of one that is not of this cluster's pods, or was named in another
        way."""
        match = re.fullmatch(
            rf"{re.escape(self.workload)}-(0|[1-9][0-9]{{0,9}})\.(?:i([1-9][0-9]{{0,8}})\.)?.+", bookie
        )
        if match is None:
            return None
        found = int(match[1]), int(match[2] or 0)
        return found if self.of_incarnation(*found) == bookie else None

    def ordinal(self, bookie: str) -> int | None:
        """Ordinal of a bookie, whichever its incarnation; None as above."""
        found = self.slot(bookie)
        return None if found is None else found[0]

    def count(self, ordinal: int) -> Count:
        """What is counted of an ordinal."""
        return self.counts.get(ordinal, Count())

    def next_id(self, ordinal: int) -> str:
        """Id that the bookie of that ordinal has when it starts on empty volumes."""
        return self.of_incarnation(ordinal, self.count(ordinal).number)

    def following_id(self, ordinal: int) -> str:
        """Id that the bookie of that ordinal gets on empty volumes once the ids that were used are spent."""
        count = self.count(ordinal)
        return self.of_incarnation(ordinal, count.number + count.spent)

    def id(self, ordinal: int) -> str:
        """Id of the bookie of that ordinal: the latest that is present, else the next one."""
        latest = max(self._incarnations(ordinal), default=None)
        return self.next_id(ordinal) if latest is None else self.of_incarnation(ordinal, latest)

    def last_id(self, ordinal: int) -> str:
        """The same; where none is present, the last one that was: its volumes may hold it, and ledgers may name it."""
        observed = self.count(ordinal).observed
        return (
            self.id(ordinal) if self._incarnations(ordinal) or observed < 0 else self.of_incarnation(ordinal, observed)
        )

    def ids(self, ordinal: int) -> frozenset[str]:
        """Under which ids the pod of that ordinal may come up."""
        return frozenset({self.id(ordinal), self.next_id(ordinal)})

    def former(self) -> list[str]:
        """Ids that are present while a later incarnation of their ordinal is, in order."""
        slots = sorted((*slot, each) for each in self.present if (slot := self.slot(each)) is not None)
        return [each for ordinal, _, each in slots if each != self.id(ordinal)]

    def _incarnations(self, ordinal: int) -> list[int]:
        return [slot[1] for each in self.present if (slot := self.slot(each)) is not None and slot[0] == ordinal]


def settled(own: OwnBookies, cookies: Collection[str], registered: Collection[str]) -> dict[int, Count]:
    """The counts after a look: each id that is present was used, and the number of an ordinal is one that no bookie has
    used, or the number of a bookie that is present."""
    found = highest(own.counts, used_ids(own, {*cookies, *registered}))
    for ordinal, each in found.items():
        number = max(each.number, each.observed)
        own_id = own.of_incarnation(ordinal, number)
        if number == each.observed and own_id not in cookies and own_id not in registered:
            number += 1
        found[ordinal] = Count(number, each.observed)
    return found


def highest(*places: Counts) -> dict[int, Count]:
    """The counts by all places that keep them: the highest numbers of each ordinal."""
    ordinals = {ordinal for place in places for ordinal in place}
    found = {ordinal: [place[ordinal] for place in places if ordinal in place] for ordinal in ordinals}
    return {
        ordinal: Count(max(each.number for each in counts), max(each.observed for each in counts))
        for ordinal, counts in found.items()
    }


def used_ids(own: OwnBookies, bookies: Iterable[str]) -> dict[int, Count]:
    """The counts that ids prove: each of the cluster's own bookies was there."""
    slots = [slot for bookie in bookies if (slot := own.slot(bookie)) is not None]
    return highest(*({ordinal: Count(0, incarnation)} for ordinal, incarnation in slots))


def raised(counts: Counts, ordinal: int, above: int) -> dict[int, Count]:
    """The counts where the next bookie of that ordinal that starts empty is of a later incarnation than ``above``."""
    before = counts.get(ordinal, Count())
    return {**counts, ordinal: Count(max(before.number, above + 1), max(before.observed, above))}
