"""Bookies that are read-only although they are not being decommissioned: which, why, and their messages. Pure. A bookie
becomes read-only automatically when all its ledger disks are used beyond diskUsageThreshold, and writable again below
diskUsageLwmThreshold (class LedgerDirsMonitor of BookKeeper 4.17.2). A user may also have made it read-only at its HTTP
server, which ends with its process (class BookieStateManager). Called by controllers/dataplane.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.cluster_status import BookieStatus
from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState, StorageFacts, reported_usage
from pulsar_operator.domain.conditions import parse_time, timestamp

READ_ONLY_REASONS: Final = frozenset({Reason.DISKS_FULL.value, Reason.BOOKIE_READ_ONLY.value})
"""Reasons of BookKeeperReady that are said here."""
NAMED: Final = 3
"""Bookies that are named of each sort."""
WITHIN: Final = 1.0
"""Percent by which a usage may differ from what the bookie acts on: it looks every 10 s, and here it is rounded."""
UNSURE_SECONDS: Final = 60.0
"""Seconds for which nothing is reported of a bookie without disk usage: it may report it soon, as after a restart."""


@dataclass(frozen=True)
class DiskLimits:
    """Shares of its ledger disks, 0 to 1."""

    full: float
    """Beyond it a bookie is read-only."""
    again: float
    """Below it one that is read-only is writable again."""
    warn: float
    """Share from which it is reported."""


@dataclass(frozen=True)
class ReadOnly:
    """A bookie that is read-only, and not by the operator."""

    bookie: str
    """Its id."""
    reason: Reason
    """DisksFull or BookieReadOnly."""
    usage: int | None
    """Percent of its ledger disks that is used; None if it does not say."""
    since: str
    """Time since which."""


@dataclass(frozen=True)
class ReadOnlyBookies:
    """What is known of bookies that take nothing new."""

    limits: DiskLimits
    bookies: tuple[ReadOnly, ...] = ()
    """Those that are read-only."""
    nearly: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Percent used of the writable ones that are nearly full, by id."""
    writable: int = 0
    """Bookies that take new entries."""
    widest: Widest | None = None
    """The largest ensemble of new ledgers; None if not known."""
    short_group: str | None = None
    """Which namespace can have no new ledger in its affinity groups, as a message; None if each can, or lacks bookies
    in any case."""

    def short(self, before: bool) -> bool:
        """Whether too few bookies take entries for a new ledger of the largest ensemble; ``before`` where that is not
        known."""
        return before if self.widest is None else self.writable < self.widest.size or self.short_group is not None

    @property
    def reason(self) -> Reason:
        """Of all of them: full disks before what is not known."""
        full = any(each.reason is Reason.DISKS_FULL for each in self.bookies)
        return Reason.DISKS_FULL if full else Reason.BOOKIE_READ_ONLY


def read_only(
    facts: StorageFacts, candidates: Collection[str], usage: Mapping[str, int], limits: DiskLimits
) -> dict[str, Reason]:
    """Why bookies are read-only, by id, of the candidates that are. One whose usage is not known, or lower, may be so
    for another reason."""
    least = 100 * min(limits.full, limits.again) - WITHIN
    return {
        bookie: Reason.DISKS_FULL if usage.get(bookie, -1) >= least else Reason.BOOKIE_READ_ONLY
        for bookie in sorted(facts.readonly & set(candidates))
    }


def rows_of(
    found: Mapping[str, Reason], usage: Mapping[str, int], previous: Mapping[str, BookieStatus], now: datetime
) -> tuple[ReadOnly, ...]:
    """Returns the rows with data of the stored status: the time since which, and that disks were full, since they are
    emptied before a bookie notices. Bookies whose cause is not known yet are left out."""
    rows = []
    for bookie, reason in found.items():
        old = previous.get(bookie)
        same = old is not None and old.state == BookieState.READ_ONLY.value
        since = (old.since if same and old is not None else None) or timestamp(now)
        begun_at, reported = parse_time(since), old is not None and old.reason is not None
        if bookie not in usage and not reported and begun_at and (now - begun_at).total_seconds() < UNSURE_SECONDS:
            continue
        was_full = same and old is not None and old.reason == Reason.DISKS_FULL.value
        rows.append(
            ReadOnly(
                bookie,
                Reason.DISKS_FULL if was_full else reason,
                reported_usage(usage.get(bookie), old.usage if old is not None else None),
                since,
            )
        )
    return tuple(rows)


def nearly(
    facts: StorageFacts,
    candidates: Collection[str],
    usage: Mapping[str, int],
    previous: Mapping[str, BookieStatus],
    limits: DiskLimits,
) -> dict[str, int]:
    """Returns the reported used percent of writable candidates that are nearly full."""
    found = {}
    for bookie in sorted(facts.writable & set(candidates)):
        old = previous.get(bookie)
        used = reported_usage(usage.get(bookie), old.usage if old is not None else None)
        if used is not None and used >= 100 * min(limits.warn, limits.full):
            found[bookie] = used
    return found


def begun(now: tuple[ReadOnly, ...], previous: Mapping[str, BookieStatus]) -> list[ReadOnly]:
    """Those of which the status does not say it yet, or says something else."""

    def stored_reason(bookie: str) -> str | None:
        return previous[bookie].reason if bookie in previous else None

    return [each for each in now if stored_reason(each.bookie) != each.reason.value]


def describe_bookie(each: ReadOnly, limits: DiskLimits) -> str:
    """What is known of one bookie, and what to do."""
    return f"{_what(each, limits)}. {_ADVICE[each.reason]}"


def describe_read_only(fact: ReadOnlyBookies) -> str:
    """All of them, and what to do: for the condition."""
    texts = []
    for reason, advice in _ADVICE.items():
        which = [each for each in fact.bookies if each.reason is reason]
        if which:
            more = f" (and {len(which) - NAMED} more)" if len(which) > NAMED else ""
            texts.append(f"{', '.join(_what(each, fact.limits) for each in which[:NAMED])}{more}. {advice}")
    widest = fact.widest
    if widest is not None and fact.writable < widest.size:
        texts.append(
            f"{fact.writable} bookies take entries, and {widest.whose} takes {widest.size}: topics that need such a "
            "ledger wait"
        )
    if fact.short_group is not None:
        texts.append(fact.short_group)
    return ". ".join(texts)


def nearly_full(fact: ReadOnlyBookies) -> str:
    """Of writable bookies, before it comes to that."""
    found = sorted(fact.nearly.items(), key=lambda each: (-each[1], each[0]))
    named = ", ".join(f"{bookie} ({usage} %)" for bookie, usage in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"nearly full, and read-only at {100 * fact.limits.full:g} %: {named}{more}"


def _what(each: ReadOnly, limits: DiskLimits) -> str:
    used = "an unknown share" if each.usage is None else f"{each.usage} %"
    text = f"bookie {each.bookie} is read-only since {each.since}"
    if each.reason is not Reason.DISKS_FULL:
        return f"{text}, not because of its ledger disks, of which {used} is used"
    return f"{text}: its ledger disks were used beyond {100 * limits.full:g} %, now {used}"


_ADVICE: Final[Mapping[Reason, str]] = {
    Reason.DISKS_FULL: (
        "Nothing is deleted to make room: raise spec.bookkeeper.replicas (with autoscaling its maxReplicas), shorten "
        "retention or the backlog, or have larger volumes"
    ),
    Reason.BOOKIE_READ_ONLY: (
        "The operator did not make it so: the log of its pod says why. Who did it at its HTTP server can take it back; "
        "so does a restart"
    ),
}
