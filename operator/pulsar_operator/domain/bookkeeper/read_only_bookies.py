"""Bookies that are read-only although they are not being decommissioned: which, why, and the messages. Pure.

A bookie becomes read-only when all its ledger disks are used beyond diskUsageThreshold, and writable again below
diskUsageLwmThreshold (class LedgerDirsMonitor of BookKeeper 4.17.2). It can also be set read-only through its HTTP
server until its process ends (class BookieStateManager). Called by controllers/dataplane.
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
from pulsar_operator.domain.texts import sentence

READ_ONLY_REASONS: Final = frozenset({Reason.DISKS_FULL.value, Reason.BOOKIE_READ_ONLY.value})
"""Reasons of condition BookKeeperReady that this module sets."""
NAMED: Final = 3
"""Maximum number of bookies that a message names for each reason."""
WITHIN: Final = 1.0
"""Percentage points by which the reported usage may differ from the one the bookie acts on: it checks every 10 s, and
the report is rounded."""
UNSURE_SECONDS: Final = 60.0
"""Seconds during which a bookie without a reported usage is not mentioned: it may report it soon, as after a
restart."""


@dataclass(frozen=True)
class DiskLimits:
    """Thresholds as shares of the ledger disks, 0 to 1."""

    full: float
    """Above this share a bookie is read-only."""
    again: float
    """Below this share a read-only bookie is writable again."""
    warn: float
    """From this share on the usage is reported as a warning."""


@dataclass(frozen=True)
class ReadOnly:
    """A bookie that is read-only, but was not set so by the operator."""

    bookie: str
    """Its id."""
    reason: Reason
    """DisksFull or BookieReadOnly."""
    usage: int | None
    """Used percentage of its ledger disks; None if unknown."""
    since: str
    """Time at which it became read-only."""


@dataclass(frozen=True)
class ReadOnlyBookies:
    """The read-only bookies of a cluster, with what their number implies."""

    limits: DiskLimits
    bookies: tuple[ReadOnly, ...] = ()
    """The bookies that are read-only."""
    nearly: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Used percentage of the writable bookies that are nearly full, by id."""
    writable: int = 0
    """Number of bookies that accept new entries."""
    widest: Widest | None = None
    """The largest ensemble of new ledgers; None if unknown."""
    short_group: str | None = None
    """Which namespace can have no new ledger in its affinity groups, as a message; None if each can, or lacks bookies
    in any case."""

    def short(self, before: bool) -> bool:
        """Whether too few bookies accept entries for a new ledger of the largest ensemble. Returns ``before`` if that
        is unknown."""
        return before if self.widest is None else self.writable < self.widest.size or self.short_group is not None

    @property
    def reason(self) -> Reason:
        """Returns the common reason: full disks take precedence over other causes."""
        full = any(each.reason is Reason.DISKS_FULL for each in self.bookies)
        return Reason.DISKS_FULL if full else Reason.BOOKIE_READ_ONLY


def read_only(
    facts: StorageFacts, candidates: Collection[str], usage: Mapping[str, int], limits: DiskLimits
) -> dict[str, Reason]:
    """Returns why bookies are read-only, by id, for the candidates that are. A bookie with a lower or unknown usage may
    be read-only for another reason."""
    least = 100 * min(limits.full, limits.again) - WITHIN
    return {
        bookie: Reason.DISKS_FULL if usage.get(bookie, -1) >= least else Reason.BOOKIE_READ_ONLY
        for bookie in sorted(facts.readonly & set(candidates))
    }


def rows_of(
    found: Mapping[str, Reason], usage: Mapping[str, int], previous: Mapping[str, BookieStatus], now: datetime
) -> tuple[ReadOnly, ...]:
    """Returns the read-only bookies with the time and the reason from the previous status.

    DisksFull is kept until the bookie is writable again, since disks may be cleaned up before the bookie notices.
    Bookies whose cause cannot be determined yet are left out.
    """
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
    """Returns the used percentage of writable candidates that are nearly full, as reported in the status."""
    found = {}
    for bookie in sorted(facts.writable & set(candidates)):
        old = previous.get(bookie)
        used = reported_usage(usage.get(bookie), old.usage if old is not None else None)
        if used is not None and used >= 100 * min(limits.warn, limits.full):
            found[bookie] = used
    return found


def begun(now: tuple[ReadOnly, ...], previous: Mapping[str, BookieStatus]) -> list[ReadOnly]:
    """Returns the bookies whose reason differs from the one in the status."""

    def stored_reason(bookie: str) -> str | None:
        return previous[bookie].reason if bookie in previous else None

    return [each for each in now if stored_reason(each.bookie) != each.reason.value]


def describe_bookie(each: ReadOnly, limits: DiskLimits) -> str:
    """Returns a message about one bookie, with the remedy."""
    return f"{_what(each, limits)}. {_ADVICE[each.reason]}"


def describe_read_only(fact: ReadOnlyBookies) -> str:
    """Returns the message about all bookies for the condition, with the remedy."""
    texts = []
    for reason, advice in _ADVICE.items():
        which = [each for each in fact.bookies if each.reason is reason]
        if which:
            more = f" (and {len(which) - NAMED} more)" if len(which) > NAMED else ""
            texts.append(f"{'. '.join(_what(each, fact.limits) for each in which[:NAMED])}{more}. {advice}")
    widest = fact.widest
    if widest is not None and fact.writable < widest.size:
        texts.append(
            f"{sentence(widest.whose)} requires {widest.size} writable bookies, but only {fact.writable} are "
            "writable, so topics that need such a ledger wait"
        )
    if fact.short_group is not None:
        texts.append(sentence(fact.short_group))
    return ". ".join(texts)


def nearly_full(fact: ReadOnlyBookies) -> str:
    """Returns a message about writable bookies that are nearly full."""
    found = sorted(fact.nearly.items(), key=lambda each: (-each[1], each[0]))
    named = ", ".join(f"{bookie} ({usage} %)" for bookie, usage in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"These bookies are nearly full and become read-only at {100 * fact.limits.full:g} %: {named}{more}"


def _what(each: ReadOnly, limits: DiskLimits) -> str:
    used = "an unknown share" if each.usage is None else f"{each.usage} %"
    text = f"Bookie {each.bookie} has been read-only since {each.since}"
    if each.reason is not Reason.DISKS_FULL:
        return f"{text}, but not because of its ledger disks, of which {used} is used"
    return f"{text}, because its ledger disks were more than {100 * limits.full:g} % full (now {used})"


_ADVICE: Final[Mapping[Reason, str]] = {
    Reason.DISKS_FULL: (
        "The operator does not delete data. To add space, raise spec.bookkeeper.replicas (with autoscaling its "
        "maxReplicas), shorten retention, reduce the backlog, or use larger volumes"
    ),
    Reason.BOOKIE_READ_ONLY: (
        "The operator did not make the bookie read-only. The log of the bookie's pod shows the cause. If a "
        "person made the bookie read-only through its HTTP server, a request to the server or a restart of the "
        "pod makes it writable again"
    ),
}
