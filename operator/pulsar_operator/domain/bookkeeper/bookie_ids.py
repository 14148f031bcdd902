"""The ids of a cluster's bookies. No bookie starts empty with an id that was used before. Pure.

A writer may keep a ledger open whose metadata no longer shows it as open, because auto-recovery closed it. The writer
identifies bookies by id. A bookie that starts empty with the same id accepts and acknowledges its entries, but they
cannot be read (apache/bookkeeper#4812). So each ordinal counts incarnations. Incarnation 0 has the id that BookKeeper
builds from host and port. A later one has the id ``<pod>.i<number>.<rest>``, which is no host name: class
DefaultBookieAddressResolver of BookKeeper 4.17.2 resolves an id by its registration alone, unless it ends with ":0".

The count is in a znode beside the cookies. The start program of a bookie reads it if the volumes are empty
(broker_image/pulsar_start/identity.py); otherwise the id on the volumes is kept. The operator keeps a second copy in
Kubernetes (domain/dataplane/registration/metadata.py), which it writes first, and uses the higher number of both. So a
znode that was deleted, or restored from a backup, is written again with the numbers that were used.
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
"""Highest incarnation in an id."""
_ORDINAL: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LATER: Final = re.compile(r"([^.:]+)\.i[1-9][0-9]{0,8}\.(.+)", re.ASCII)


@dataclass(frozen=True)
class Count:
    """The incarnations of one ordinal."""

    number: int = 0
    """Incarnation that a bookie gets if it starts on empty volumes."""
    observed: int = -1
    """Highest incarnation that ever had a cookie or was registered; -1 if none."""

    @property
    def spent(self) -> bool:
        """Whether the number was used, so that no bookie may start on empty volumes with it."""
        return self.observed >= self.number


Counts = Mapping[int, Count]
"""Counts by ordinal."""


def parse_incarnations(data: bytes) -> dict[int, Count]:
    """Parses the count in the znode. Raises UndecodableError if it is invalid, since an empty count instead would use
    ids again."""
    try:
        return _counts(data or b"{}")
    except ValueError:
        raise UndecodableError(
            f"znode {INCARNATIONS_PATH} does not hold a count of incarnations. If ConfigMap <cluster>-instance-id "
            "has key bookieIncarnations, delete the znode, and the operator writes it again. Otherwise write "
            "into the znode, for each ordinal of a bookie, the highest incarnation that znode /ledgers/cookies "
            'or a ledger names as seen (0 for an id without ".i<n>."), and the next incarnation as number, as in '
            '{"2": {"number": 1, "seen": 0}}'
        ) from None


def parse_copy(text: str) -> dict[int, Count]:
    """Parses the copy in Kubernetes. An empty text counts nothing. Raises ValueError if it is invalid."""
    return _counts(text or "{}")


def copy_text(counts: Counts) -> str:
    """Returns the content of the copy in Kubernetes."""
    return incarnations_data(counts).decode()


def _counts(data: bytes | str) -> dict[int, Count]:
    try:
        return {_ordinal(ordinal): Count(*_numbers(each)) for ordinal, each in json.loads(data).items()}
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"no count of incarnations: {error}") from None


def _ordinal(text: str) -> int:
    if _ORDINAL.fullmatch(text) is None:
        raise ValueError(f"{text[:20]!r} is not an ordinal")
    return int(text)


def _numbers(each: Any) -> tuple[int, int]:
    number, observed = each["number"], each["seen"]
    if type(number) is not int or type(observed) is not int or not (0 <= number <= MOST and -1 <= observed <= MOST):
        raise ValueError(f"{number!r} and {observed!r} are not incarnations from 0 to {MOST}"[:200])
    return number, observed


def incarnations_data(counts: Counts) -> bytes:
    """Returns the content of the znode."""
    found = {str(ordinal): {"number": each.number, "seen": each.observed} for ordinal, each in sorted(counts.items())}
    return json.dumps(found).encode()


def host_of(bookie: str) -> str:
    """Returns the host name of the pod of a bookie, from its id. For any other id this is the part before the port."""
    later = _LATER.fullmatch(bookie)
    return f"{later[1]}.{later[2]}" if later else bookie.rpartition(":")[0] or bookie


def same_pod(one: str, other: str) -> bool:
    """Whether two ids are incarnations of the same bookie."""
    return host_of(one) == host_of(other)


@dataclass(frozen=True)
class OwnBookies:
    """The ids of a cluster's own bookies, and the incarnations of each ordinal.

    ``<workload>-<ordinal>.<rest>`` is the id of incarnation 0.
    """

    workload: str
    rest: str
    counts: Counts = field(default_factory=dict, hash=False)
    present: frozenset[str] = frozenset()
    """Ids that have a cookie or are registered."""

    @classmethod
    def of(cls, first: str, counts: Counts | None = None, present: Collection[str] = ()) -> OwnBookies:
        """Returns the value for the first id of the bookie of ordinal 0 (domain/render/child_names.py, bookie_id).
        Raises ValueError for any other id."""
        pod, _, rest = first.partition(".")
        if not pod.endswith("-0") or not rest:
            raise ValueError(f"{first!r} is not the id of a bookie of ordinal 0")
        return cls(pod.removesuffix("-0"), rest, counts or {}, frozenset(present))

    def of_incarnation(self, ordinal: int, incarnation: int) -> str:
        """Returns the id of one incarnation."""
        if incarnation == 0:
            return f"{self.workload}-{ordinal}.{self.rest}"
        return f"{self.workload}-{ordinal}.i{incarnation}.{self.rest.rpartition(':')[0] or self.rest}"

    def slot(self, bookie: str) -> tuple[int, int] | None:
        """Returns the ordinal and incarnation of a bookie; None if the id is not one of this cluster's pods."""
        match = re.fullmatch(
            rf"{re.escape(self.workload)}-(0|[1-9][0-9]{{0,9}})\.(?:i([1-9][0-9]{{0,8}})\.)?.+", bookie
        )
        if match is None:
            return None
        found = int(match[1]), int(match[2] or 0)
        return found if self.of_incarnation(*found) == bookie else None

    def ordinal(self, bookie: str) -> int | None:
        """Returns the ordinal of a bookie of any incarnation; None if the id is not one of this cluster's pods."""
        found = self.slot(bookie)
        return None if found is None else found[0]

    def count(self, ordinal: int) -> Count:
        """Returns the count of an ordinal."""
        return self.counts.get(ordinal, Count())

    def next_id(self, ordinal: int) -> str:
        """Returns the id that the bookie of that ordinal has if it starts on empty volumes."""
        return self.of_incarnation(ordinal, self.count(ordinal).number)

    def following_id(self, ordinal: int) -> str:
        """Returns the id that the bookie of that ordinal gets on empty volumes once the used ids are counted."""
        count = self.count(ordinal)
        return self.of_incarnation(ordinal, count.number + count.spent)

    def id(self, ordinal: int) -> str:
        """Returns the id of the bookie of that ordinal: the latest that is present, otherwise the next one."""
        latest = max(self._incarnations(ordinal), default=None)
        return self.next_id(ordinal) if latest is None else self.of_incarnation(ordinal, latest)

    def last_id(self, ordinal: int) -> str:
        """Returns the id of the bookie of that ordinal; if none is present, the last one that was, since its volumes
        may have it and ledgers may name it."""
        observed = self.count(ordinal).observed
        return (
            self.id(ordinal) if self._incarnations(ordinal) or observed < 0 else self.of_incarnation(ordinal, observed)
        )

    def ids(self, ordinal: int) -> frozenset[str]:
        """Returns the ids that the pod of that ordinal may start with."""
        return frozenset({self.id(ordinal), self.next_id(ordinal)})

    def former(self) -> list[str]:
        """Returns the present ids whose ordinal has a later incarnation that is present, in order."""
        slots = sorted((*slot, each) for each in self.present if (slot := self.slot(each)) is not None)
        return [each for ordinal, _, each in slots if each != self.id(ordinal)]

    def _incarnations(self, ordinal: int) -> list[int]:
        return [slot[1] for each in self.present if (slot := self.slot(each)) is not None and slot[0] == ordinal]


def settled(own: OwnBookies, cookies: Collection[str], registered: Collection[str]) -> dict[int, Count]:
    """Returns the counts after an observation. Each present id counts as used. The number of an ordinal is one that no
    bookie has used, or that of a present bookie."""
    found = highest(own.counts, used_ids(own, {*cookies, *registered}))
    for ordinal, each in found.items():
        number = max(each.number, each.observed)
        own_id = own.of_incarnation(ordinal, number)
        if number == each.observed and own_id not in cookies and own_id not in registered:
            number += 1
        found[ordinal] = Count(number, each.observed)
    return found


def highest(*places: Counts) -> dict[int, Count]:
    """Returns the highest numbers of each ordinal from all places that store them."""
    ordinals = {ordinal for place in places for ordinal in place}
    found = {ordinal: [place[ordinal] for place in places if ordinal in place] for ordinal in ordinals}
    return {
        ordinal: Count(max(each.number for each in counts), max(each.observed for each in counts))
        for ordinal, counts in found.items()
    }


def used_ids(own: OwnBookies, bookies: Iterable[str]) -> dict[int, Count]:
    """Returns the counts that follow from ids: each of these bookies of the cluster existed."""
    slots = [slot for bookie in bookies if (slot := own.slot(bookie)) is not None]
    return highest(*({ordinal: Count(0, incarnation)} for ordinal, incarnation in slots))


def raised(counts: Counts, ordinal: int, above: int) -> dict[int, Count]:
    """Returns the counts after which the next bookie of that ordinal that starts empty has a later incarnation than
    ``above``."""
    before = counts.get(ordinal, Count())
    return {**counts, ordinal: Count(max(before.number, above + 1), max(before.observed, above))}
