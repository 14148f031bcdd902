"""What keeps a bookie from leaving, or from getting a new volume, beside the number of bookies: room on the disks of
those that are left, and the affinity groups that it is in. Pure; decommission.py asks for each in its turn."""

from __future__ import annotations

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.bookkeeper.affinity import Widest, too_few_in_group
from pulsar_operator.domain.bookkeeper.disk_space import MARGIN, describe_shortage, shortage, unknown_of
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, DecommissionFacts, Next


def refused(text: str) -> Next:
    """It does not leave, and will not by waiting."""
    return Next(Act.NOTHING, text, reason=Reason.DECOMMISSION_REFUSED)


def no_group(bookie: DecommissionFacts, widest: Widest) -> Next | None:
    """Whether namespaces that are bound to groups of bookies keep as many as their ledgers take."""
    if widest.problem is not None:
        return Next(Act.NOTHING, widest.problem)
    few = too_few_in_group(bookie.bookie, bookie.targets, widest.bound)
    if few is None:
        return None
    return refused(
        f"Bookie {bookie.bookie} cannot be {bookie.deed}: {few}. Add bookies to the group, lower the ensemble, or "
        f"raise {bookie.number}"
    )


def short_of_bookies(bookie: DecommissionFacts, widest: Widest) -> str | None:
    """Who could have no new ledger by now without it, in words; None = everybody could."""
    if bookie.left < widest.size:
        return f"{bookie.left} writable bookies would be left, and {widest.whose} takes {widest.size} by now"
    return too_few_in_group(bookie.bookie, bookie.targets, widest.bound)


def no_room(bookie: DecommissionFacts, scan: LedgerScan) -> Next | None:
    """Whether those that are left have room for what is on it, before anything of it is copied."""
    unknown = unknown_room(bookie, scan)
    if unknown is not None:
        return Next(Act.NOTHING, f"Bookie {unknown} does not report how full its ledger disks are")
    short = short_of_room(bookie, scan, MARGIN)
    if short is None:
        return None
    return refused(
        f"Bookie {bookie.bookie} cannot be {bookie.deed}: {short}. Add bookies, grow the volumes of those that are "
        f"left, keep less data, or raise {bookie.number}"
    )


def ended_lately(bookie: DecommissionFacts) -> Next | None:
    """Whether copies of it ended for want of room, and the next one may not begin yet. There is room at this moment."""
    ended = bookie.ended
    if ended is None or bookie.now >= ended.again:
        return None
    times = "once" if ended.times == 1 else f"{ended.times} times"
    return refused(
        f"Bookie {bookie.bookie} is not {bookie.deed} yet: the copy of its ledgers ended {times} because the other "
        f"bookies had no room, the last time at {timestamp(ended.last)}. The operator tries again at "
        f"{timestamp(ended.again)}. Add bookies or grow their volumes so that the next copy comes to its end, or raise "
        f"{bookie.number}"
    )


def unknown_room(bookie: DecommissionFacts, scan: LedgerScan) -> str | None:
    """A bookie that would get a share of it and does not say how full it is; None = there is none."""
    return unknown_of(scan.bytes_by_peers, bookie.targets, bookie.disks)


def short_of_room(bookie: DecommissionFacts, scan: LedgerScan, margin: float = 1.0) -> str | None:
    """What has no room, in words; None = all of it has."""
    short = shortage(scan.bytes_by_peers, bookie.targets, bookie.disks, bookie.mark, margin)
    return describe_shortage(short, bookie.mark) if short is not None else None
