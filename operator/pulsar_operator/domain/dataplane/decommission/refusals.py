"""Why a bookie cannot be decommissioned or get a new volume, other than the number of bookies: disk space of the
remaining bookies, and affinity groups. Pure; decommission.py calls each check in its order."""

from __future__ import annotations

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.bookkeeper.affinity import Widest, too_few_in_group
from pulsar_operator.domain.bookkeeper.disk_space import MARGIN, describe_shortage, shortage, unknown_of
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, DecommissionFacts, Next


def refused(text: str) -> Next:
    """Returns the action for a decommission that is refused and that waiting does not help."""
    return Next(Act.NOTHING, text, reason=Reason.DECOMMISSION_REFUSED)


def no_group(bookie: DecommissionFacts, widest: Widest) -> Next | None:
    """Refuses if namespaces that are bound to groups of bookies would have fewer bookies than their ledgers need."""
    if widest.problem is not None:
        return Next(Act.NOTHING, widest.problem)
    few = too_few_in_group(bookie.bookie, bookie.targets, widest.bound)
    if few is None:
        return None
    return refused(
        f"Bookie {bookie.bookie} cannot be {bookie.deed}, because {few}. Add bookies to the group, lower the "
        f"ensemble size, or raise {bookie.number}"
    )


def short_of_bookies(bookie: DecommissionFacts, widest: Widest) -> str | None:
    """Returns which namespaces could create no new ledger without the bookie, as a message; None if all could."""
    if bookie.left < widest.size:
        return f"only {bookie.left} writable bookies would be left and {widest.whose} now requires {widest.size}"
    return too_few_in_group(bookie.bookie, bookie.targets, widest.bound)


def no_room(bookie: DecommissionFacts, scan: LedgerScan) -> Next | None:
    """Refuses, before anything is copied, if the remaining bookies have no room for its data."""
    unknown = unknown_room(bookie, scan)
    if unknown is not None:
        return Next(Act.NOTHING, f"The operator cannot read how full the ledger disks of bookie {unknown} are")
    short = short_of_room(bookie, scan, MARGIN)
    if short is None:
        return None
    return refused(
        f"Bookie {bookie.bookie} cannot be {bookie.deed}, because the other bookies have too little space. "
        f"{short}. Add bookies, grow the volumes of the remaining bookies, store less data, or raise "
        f"{bookie.number}"
    )


def ended_lately(bookie: DecommissionFacts) -> Next | None:
    """Waits if copies of it ended for lack of room and the next one may not begin yet, although there is room now."""
    ended = bookie.ended
    if ended is None or bookie.now >= ended.again:
        return None
    times = "once" if ended.times == 1 else f"{ended.times} times"
    return refused(
        f"Bookie {bookie.bookie} is not {bookie.deed} yet, because the copy of its ledgers was ended {times} when "
        f"the other bookies had too little space, most recently at {timestamp(ended.last)}. The operator tries "
        f"again at {timestamp(ended.again)}. Add bookies or grow their volumes so that the next copy can "
        f"complete, or raise {bookie.number}"
    )


def unknown_room(bookie: DecommissionFacts, scan: LedgerScan) -> str | None:
    """Returns a bookie that would get a share of the data and does not report its disk usage; None if there is none."""
    return unknown_of(scan.bytes_by_peers, bookie.targets, bookie.disks)


def short_of_room(bookie: DecommissionFacts, scan: LedgerScan, margin: float = 1.0) -> str | None:
    """Returns which bookies lack room, as a message; None if all have it."""
    short = shortage(scan.bytes_by_peers, bookie.targets, bookie.disks, bookie.mark, margin)
    return describe_shortage(short, bookie.mark) if short is not None else None
