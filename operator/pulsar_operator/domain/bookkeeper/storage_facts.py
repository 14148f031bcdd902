"""The facts of a cluster's storage, condition Replicated, and the rows of status.bookies. Pure.

Called by controllers/dataplane with the facts that controllers/dataplane/bookkeeper/storage_facts.py reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster_status import MAX_BOOKIES, BookieStatus
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import GIVEN_UP_PATH, GivenUp, given_up_text
from pulsar_operator.domain.bookkeeper.bookie_ids import Counts, OwnBookies
from pulsar_operator.domain.bookkeeper.znodes import DISABLE
from pulsar_operator.domain.conditions import FALSE, TRUE, UNKNOWN, parse_time, timestamp
from pulsar_operator.domain.texts import sentence

LISTED: Final = 20
"""Maximum number of under-replicated ledgers whose ids are kept."""
_NO_VALUES: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_GIVEN_UP: Final[Mapping[str, GivenUp]] = MappingProxyType({})


class BookieState(StrEnum):
    """State of a bookie, according to the metadata store alone."""

    WRITABLE = "Writable"
    """New ledgers may use it."""
    READ_ONLY = "ReadOnly"
    """It serves existing entries and accepts no new ones."""
    MISSING = "Missing"
    """It has a cookie, so it may have data, but is not registered."""
    NEW = "New"
    """It has neither a cookie nor a registration: it never started."""


@dataclass(frozen=True, slots=True)
class Space:
    """The ledger disks of one bookie in total."""

    used: int
    """Used bytes."""
    total: int
    """Total bytes, more than 0."""

    @property
    def percent(self) -> int:
        """Returns the used percentage, rounded."""
        return used_percent(self.total - self.used, self.total)


@dataclass(frozen=True)
class UnderReplicated:
    """Ledgers that the auditor marked as under-replicated."""

    count: int
    """Number of ledgers counted."""
    at_least: bool = False
    """Whether there may be more, since the count stopped at its limit. A count of 0 then proves nothing."""
    oldest: datetime | None = None
    """When the first of those in ``ledgers`` was marked; None if no mark has a time."""
    ledgers: tuple[int, ...] = ()
    """The lowest ids of the counted ledgers, at most LISTED."""


@dataclass(frozen=True)
class StorageFacts:
    """Complete facts about bookies and copies from the metadata store. If it could not be read, there are no facts."""

    writable: frozenset[str]
    """Ids of bookies that are registered as writable and not as read-only."""
    readonly: frozenset[str]
    """Ids of bookies that are registered as read-only."""
    cookies: frozenset[str]
    """Ids of bookies that have a cookie."""
    under_replicated: UnderReplicated
    auditor: str | None
    """Id of the auditor, empty if it cannot be parsed; None if there is none, so that missing copies are not
    detected."""
    disabled: bool
    """Whether replication is disabled."""
    incarnations: Counts = field(default_factory=dict, hash=False)
    """Incarnations of the cluster's own bookies."""

    @property
    def registered(self) -> frozenset[str]:
        """Returns the bookies that the auditor considers alive (class AuditorTask, getAvailableBookies)."""
        return self.writable | self.readonly

    @property
    def missing(self) -> frozenset[str]:
        """Returns the bookies that may have data and are not registered."""
        return self.cookies - self.registered


def not_replicated(facts: StorageFacts) -> str | None:
    """Returns why not every ledger is known to have all its copies, as a sentence; None if every ledger has them."""
    lacking = facts.under_replicated
    if facts.disabled:
        return f"Replication is switched off, because znode {DISABLE} exists"
    if facts.auditor is None:
        return "No auto-recovery pod is the auditor, so missing copies are not detected"
    if lacking.count:
        return sentence(
            f"{_counted(lacking)} {'lacks' if lacking.count == 1 and not lacking.at_least else 'lack'} copies"
        )
    if lacking.at_least:
        return "The number of ledgers that lack copies is unknown"
    return None


def replicated(
    facts: StorageFacts | None,
    previous: Mapping[str, Any] | None = None,
    unreachable: str = "The metadata store could not be read",
    given_up: Mapping[str, GivenUp] | None = _NO_GIVEN_UP,
    unknown: str | None = None,
) -> tuple[ConditionStatus, Reason, str]:
    """Returns condition Replicated: status, reason, message.

    ``previous`` is the stored condition, or None. Copies are missing since its transition, or since the first ledger
    was marked. ``unreachable`` is the reason if there are no facts. ``given_up`` are ledgers that name a bookie which
    lost their entries, None if that record cannot be parsed. The auditor does not report these once that bookie is
    registered.
    """
    if facts is None:
        return UNKNOWN, Reason.METADATA_UNREACHABLE, unreachable
    lacking = facts.under_replicated
    known = f" ({_counted(lacking)} had missing copies before)" if lacking.count else ""
    if facts.disabled:
        return (
            FALSE,
            Reason.REPLICATION_DISABLED,
            f"Replication is switched off, so missing copies are not restored{known}. To switch replication on, "
            "run `bin/bookkeeper shell autorecovery -enable` in the pod of a bookie",
        )
    if facts.auditor is None:
        return (
            FALSE,
            Reason.NO_AUDITOR,
            f"No auto-recovery pod is the auditor, so missing copies are not detected{known}. Check the "
            "auto-recovery pods",
        )
    if lacking.count:
        since = _since(lacking, previous)
        missing = f"have been missing since {timestamp(since)}" if since else "are missing"
        also = f". {given_up_text(given_up)}" if given_up else ""
        return FALSE, Reason.UNDER_REPLICATED, f"Copies of {_counted(lacking)} {missing}{also}"
    if given_up:
        return FALSE, Reason.LEDGERS_LOST, given_up_text(given_up)
    if given_up is None:
        return (
            UNKNOWN,
            Reason.UNKNOWN,
            (f"Znode {GIVEN_UP_PATH} cannot be read. Repair the znode from a backup, or delete it"),
        )
    if unknown is not None:
        return UNKNOWN, Reason.UNKNOWN, unknown
    if lacking.at_least:
        return UNKNOWN, Reason.UNKNOWN, "The number of ledgers that lack copies could not be determined in one read"
    return TRUE, Reason.REPLICATED, "Every ledger that the auditor checked has all its copies"


def _counted(lacking: UnderReplicated) -> str:
    more = "at least " if lacking.at_least else ""
    return f"{more}{lacking.count} ledger{'' if lacking.count == 1 else 's'}"


def _since(lacking: UnderReplicated, previous: Mapping[str, Any] | None) -> datetime | None:
    before = previous or _NO_VALUES
    same = before.get("status") == FALSE.value and before.get("reason") == Reason.UNDER_REPLICATED.value
    stored = parse_time(before.get("lastTransitionTime")) if same else None
    return min((each for each in (lacking.oldest, stored) if each is not None), default=None)


def own_bookies_of(first: str, facts: StorageFacts | None) -> OwnBookies:
    """Returns the ids of a cluster's own bookies, given the first id of the bookie of ordinal 0."""
    if facts is None:
        return OwnBookies.of(first)
    return OwnBookies.of(first, facts.incarnations, facts.cookies | facts.registered)


def bookie_state(facts: StorageFacts, bookie: str) -> BookieState:
    """Returns the state of one bookie."""
    if bookie in facts.readonly:
        return BookieState.READ_ONLY
    if bookie in facts.writable:
        return BookieState.WRITABLE
    return BookieState.MISSING if bookie in facts.cookies else BookieState.NEW


def bookie_rows(
    facts: StorageFacts,
    own: OwnBookies,
    pods: Iterable[int],
    *,
    now: datetime,
    previous: Iterable[BookieStatus] = (),
    usage: Mapping[str, int] = _NO_VALUES,
    steps: Mapping[str, str] = _NO_VALUES,
    racks: Mapping[str, str] = _NO_VALUES,
    reasons: Mapping[str, str] = _NO_VALUES,
) -> list[BookieStatus]:
    """Returns the rows of status.bookies: bookies with a pod, a registration, a cookie or a decommission step; those of
    the cluster by ordinal, then others by id.

    ``pods`` are the ordinals of existing or desired pods. ``previous`` are the stored rows: a state keeps the time at
    which it began. ``usage`` (percentage of the disk), ``steps`` (of a decommission), ``racks`` and ``reasons`` (why it
    is read-only) are by id; missing entries are unset. If there are more than MAX_BOOKIES rows, the last ones are left
    out, writable bookies first.
    """
    before = {each.id: each for each in previous}
    ids = facts.registered | facts.cookies | {own.id(ordinal) for ordinal in pods} | steps.keys()
    rows: list[BookieStatus] = []
    for bookie in ids:
        state = bookie_state(facts, bookie).value
        old = before.get(bookie)
        rows.append(
            BookieStatus(
                id=bookie,
                ordinal=own.ordinal(bookie),
                state=state,
                rack=racks.get(bookie),
                usage=reported_usage(usage.get(bookie), old.usage if old is not None else None),
                step=steps.get(bookie),
                reason=reasons.get(bookie) if state == BookieState.READ_ONLY.value else None,
                since=old.since if old is not None and old.state == state and old.since else timestamp(now),
            )
        )
    if len(rows) > MAX_BOOKIES:
        rows = sorted(rows, key=lambda row: (row.state == BookieState.WRITABLE.value, _place(row)))[:MAX_BOOKIES]
    return sorted(rows, key=_place)


def reported_usage(usage: int | None, before: int | None) -> int | None:
    """Returns the percentage to report: the previous one if it differs by at most one, so that small changes cause no
    write."""
    if usage is None or before is None or usage in (0, 100) or abs(usage - before) > 1:
        return usage
    return before


def used_percent(free: int, total: int) -> int:
    """Returns the used percentage of a disk, rounded."""
    return round(100 * (total - free) / total)


def _place(row: BookieStatus) -> tuple[bool, int, str]:
    return (row.ordinal is None, row.ordinal or 0, row.id)


def moment(milliseconds: int | None) -> datetime | None:
    """Returns a time that BookKeeper wrote; None if there is none, or if it is out of range."""
    try:
        return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
