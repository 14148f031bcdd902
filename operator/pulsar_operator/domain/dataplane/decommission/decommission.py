"""The decommission of a bookie: decides the next action from the facts, with its reason. Pure.

The operator decommissions a bookie in this order:

1. It makes the bookie read-only, so that the bookie accepts no new entries.
2. It unloads the topics that write to ledgers on the bookie. Otherwise a broker would lose the bookie during a write,
   or would keep an open handle that references the bookie when its id is used again, with an image that does not count
   incarnations (bookkeeper/bookie_ids.py).
3. It requests auto-recovery to copy the ledgers of the bookie, because the auditor does not treat a read-only bookie as
   lost (class AuditorTask, getAvailableBookies).
4. When no ledger references the bookie, it removes the pod and checks all ledgers again.
5. It deletes the cookie of the bookie and marks its claims.

No decision relies on facts of an earlier pass. A bookie keeps its read-only state in memory and loses it at a restart,
so each pass asks the bookie. An examination of ledgers is valid only while the bookie accepts no entries
(controllers/dataplane/bookkeeper/ledger_scan.py), and all ledgers are read again before an action that cannot be
undone. The step in the status and the record in the metadata store only show that the operation began, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState, bookie_state, not_replicated
from pulsar_operator.domain.dataplane.decommission.decommission_facts import (
    SHOWN_FIRST,
    STALL_SECONDS,
    Act,
    DecommissionFacts,
    Helper,
    Next,
    Step,
)
from pulsar_operator.domain.dataplane.decommission.decommission_record import DecommissionRecord
from pulsar_operator.domain.dataplane.decommission.refusals import (
    ended_lately,
    no_group,
    no_room,
    refused,
    short_of_bookies,
    short_of_room,
    unknown_room,
)


def may_act(found: Next, shown: str | None) -> bool:
    """Whether an action may be carried out, given the step in the status: the status shows each step before its
    action."""
    if found.act not in SHOWN_FIRST or found.step is None:
        return True
    order = [each.value for each in Step]
    return shown in order and order.index(shown) >= order.index(found.step)


def subject(own: OwnBookies, cookies: Collection[str], replicas: int, desired: int) -> int | None:
    """Returns the ordinal to decommission next: the highest undesired one that has a pod or a cookie; None if there is
    none."""
    ordinals = [ordinal for each in cookies if (ordinal := own.ordinal(each)) is not None and ordinal >= desired]
    return max([*ordinals, *range(desired, replicas)], default=None)


def next_step(bookie: DecommissionFacts) -> Next | None:
    """Returns the next action for a bookie; None if nothing is to be done or reported."""
    if bookie.desired > bookie.ordinal and not bookie.forgotten:
        undone = "spec.bookkeeper.replicas was raised again"
        return stays(bookie, "autoscaling no longer requests fewer bookies" if bookie.scaled else undone)
    if bookie.ordinal >= bookie.replicas:
        return _without_pod(bookie)
    if bookie.ordinal < bookie.replicas - 1:
        return stays(bookie, "a bookie with a higher ordinal is decommissioned first")
    record = bookie.record
    if record is not None and record.stopped is not None:
        if record.stopped == bookie.generation:
            return given_up(bookie, record)
        if bookie.readonly and not record.restored:
            return Next(Act.WRITABLE, f"Bookie {bookie.bookie} is made writable until the operator retries")
    return _on_its_way(bookie, record) if record is not None and bookie.under_way else before(bookie)


def given_up(bookie: DecommissionFacts, record: DecommissionRecord) -> Next:
    """Returns the next action after a decommission was abandoned: the bookie accepts writes, and it is not tried
    again."""
    if bookie.readonly and not record.restored:
        return Next(
            Act.WRITABLE,
            f"Bookie {bookie.bookie} is made writable again. {record.why}",
            reason=Reason.DECOMMISSION_STUCK,
        )
    return Next(Act.NOTHING, record.why, reason=Reason.DECOMMISSION_STUCK)


def stays(bookie: DecommissionFacts, why: str) -> Next | None:
    """Returns the next action for a bookie that is desired again: it becomes writable, then its record is deleted."""
    record = bookie.record
    if record is None:
        return None
    if bookie.ordinal >= bookie.replicas:
        return Next(Act.NOTHING, f"The pod of bookie {bookie.bookie} does not exist yet", shown(bookie))
    if bookie.readonly and not record.restored:
        return Next(Act.WRITABLE, f"Bookie {bookie.bookie} is made writable again, because {why}", shown(bookie))
    if bookie.readonly is None and bookie.has_cookie:
        # Nothing is held for it: what is changed may be what it needs to come up, and it comes up writable.
        return Next(Act.NOTHING, f"The operator cannot read whether bookie {bookie.bookie} is writable")
    return Next(Act.END, f"The operator no longer empties bookie {bookie.bookie}, because {why}")


def shown(bookie: DecommissionFacts) -> Step:
    """Returns the step that the status already shows."""
    return next((each for each in Step if each.value == bookie.step), Step.READ_ONLY)


def before(bookie: DecommissionFacts) -> Next:
    """Checks whether the decommission may begin. The cheapest preconditions come first."""
    scan, name = bookie.scan, bookie.bookie
    if bookie.obstacle is not None:
        return Next(Act.NOTHING, bookie.obstacle)
    if bookie.state is not BookieState.NEW:
        # One that never was up has nothing, and may never come up.
        new = {each for each in bookie.others if bookie_state(bookie.storage, each) is BookieState.NEW}
        unavailable = sorted(set(bookie.others) - bookie.storage.writable - new)
        if unavailable:
            return Next(
                Act.NOTHING,
                f"Bookie {unavailable[0]} is not writable, and only one bookie may be unavailable at the same time",
            )
        missing = not_replicated(bookie.storage)
        if missing is not None:
            return Next(Act.NOTHING, missing)
        widest = bookie.widest
        if widest is None:
            return Next(Act.ASK, "")
        if bookie.left < widest.size:
            return refused(
                f"Bookie {name} cannot be {bookie.deed}, because only {bookie.left} writable bookies would be "
                f"left and {widest.whose} requires {widest.size}. Lower this requirement first, or raise "
                f"{bookie.number}"
            )
        group = no_group(bookie, widest)
        if group is not None:
            return group
        racks = _racks(bookie)
        if racks is not None:
            return racks
    if scan is None:
        return Next(Act.SCAN, "")
    if scan.undecodable:
        return refused(_unreadable(bookie, scan))
    if bookie.state is BookieState.NEW:
        if not scan.clear:
            return refused(
                f"Bookie {name} cannot be {bookie.deed} yet, because it is not running, the metadata store has no "
                f"cookie of it, and ledgers reference it: {scan.named()}. Auto-recovery copies the entries that "
                f"other bookies have, and the bookie is {bookie.deed} once no ledger references it. If some "
                "entries have no other copy, write the cookie of the bookie again with `bin/bookkeeper shell "
                "cookie_create -cf <ledger folder>/current/VERSION <bookie>`, so that the bookie starts with its "
                "volume"
            )
    elif scan.widest is not None and scan.widest.ensemble_size > bookie.left:
        return refused(
            f"Bookie {name} cannot be {bookie.deed}, because its ledger {scan.widest} requires "
            f"{scan.widest.ensemble_size} writable bookies and only {bookie.left} would be left. Delete or expire "
            f"the messages in this ledger, or raise {bookie.number}"
        )
    room = None if bookie.state is BookieState.NEW else no_room(bookie, scan) or ended_lately(bookie)
    if room is not None:
        return room
    who = "autoscaling requests" if bookie.scaled else "spec.bookkeeper.replicas is"
    return Next(Act.BEGIN, f"Bookie {name} is decommissioned, because {who} {bookie.desired}", Step.READ_ONLY)


def _racks(bookie: DecommissionFacts) -> Next | None:
    """Checks that enough racks remain for new ledgers."""
    if not bookie.required_racks or (bookie.racks_left is not None and bookie.racks_left >= bookie.required_racks):
        return None
    if bookie.racks_left is None:
        step = shown(bookie) if bookie.under_way else None
        return Next(Act.NOTHING, "The racks of the bookies are not known. See condition RacksKnown", step)
    return refused(
        f"Bookie {bookie.bookie} cannot be {bookie.deed}, because writable bookies would be left in only "
        f"{bookie.racks_left} of the {bookie.required_racks} racks that spec.bookkeeper.racks.minimum requires, "
        f"and no ledger could be created. Add bookies to other racks, lower minimum, or raise {bookie.number}"
    )


def _unreadable(bookie: DecommissionFacts, scan: LedgerScan) -> str:
    more = f" (and {scan.undecodable - 1} more)" if scan.undecodable > 1 else ""
    return (
        f"Bookie {bookie.bookie} cannot be {bookie.deed}, because znode {scan.unreadable[0]}{more} cannot be "
        "decoded and its ledger may be on the bookie. Repair the znode, or delete it if the ledger is not needed"
    )


def _on_its_way(bookie: DecommissionFacts, record: DecommissionRecord) -> Next:
    """Returns the next action for a bookie whose decommission has begun and whose pod exists."""
    found = too_late(bookie, record) or emptying(bookie, record, copied) or too_few(bookie)
    if found is not None:
        return found
    return Next(Act.LOWER, empty(bookie), Step.STOPPING)


def too_few(bookie: DecommissionFacts) -> Next | None:
    """Abandons the decommission if a larger ensemble is configured by now than the remaining bookies can form."""
    widest = bookie.widest
    if widest is None:
        return Next(Act.ASK, "", shown(bookie))
    if not bookie.registered:
        return None
    few = short_of_bookies(bookie, widest)
    if few is None:
        return _too_few_racks(bookie)
    text = (
        f"The operator stopped emptying bookie {bookie.bookie}, because {few}. The operator retries after the "
        "next change of the specification"
    )
    return Next(Act.STOP, text, reason=Reason.DECOMMISSION_STUCK)


def _too_few_racks(bookie: DecommissionFacts) -> Next | None:
    found = _racks(bookie)
    if found is None or found.reason is None:
        return found
    text = f"{found.text}. The operator retries after the next change of the specification"
    return Next(Act.STOP, text, reason=Reason.DECOMMISSION_STUCK)


def empty(bookie: DecommissionFacts) -> str:
    """Returns the message that no ledger references the bookie."""
    return (
        f"none of the {bookie.scan.scanned if bookie.scan is not None else 0} ledgers references bookie {bookie.bookie}"
    )


def too_late(bookie: DecommissionFacts, record: DecommissionRecord) -> Next | None:
    """Abandons the decommission if it exceeds its timeout."""
    since = record.since if bookie.counts_from is None else max(record.since, bookie.counts_from)
    if (bookie.now - since).total_seconds() < bookie.timeout:
        return None
    if bookie.scan is None and bookie.examining is None:
        return Next(Act.SCAN, "", shown(bookie))
    return Next(Act.STOP, _stuck(bookie, bookie.scan), reason=Reason.DECOMMISSION_STUCK)


def emptying(
    bookie: DecommissionFacts,
    record: DecommissionRecord,
    copies: Callable[[DecommissionFacts, DecommissionRecord, LedgerScan], Next | None],
) -> Next | None:
    """Returns the next action while ledgers reference the bookie; None once two consecutive observations found no such
    ledger, the second in this pass.

    ``copies`` decides the next action while ledgers reference it; None if they need not be copied.
    """
    scan, name = bookie.scan, bookie.bookie
    if bookie.registered:
        if bookie.left < record.ensemble:
            short = f"only {bookie.left} other bookies are writable and new ledgers require {record.ensemble}"
            if bookie.readonly:
                return Next(Act.WRITABLE, f"Bookie {name} is made writable for now, because {short}", Step.READ_ONLY)
            return Next(Act.NOTHING, f"The operator waits, because {short}", Step.READ_ONLY)
        if bookie.readonly is None:
            return Next(Act.NOTHING, f"The operator cannot read whether bookie {name} is read-only", shown(bookie))
    # One that was made writable, and is read-only by itself since, may have taken entries in between.
    anew = record.run != bookie.process or record.restored or record.restoring
    if bookie.readonly is False or (bookie.registered and anew):
        return Next(
            Act.READ_ONLY,
            f"Bookie {name} is made read-only, because its ledgers are moved to other bookies",
            Step.READ_ONLY,
        )
    if bookie.state is BookieState.WRITABLE:
        return Next(Act.NOTHING, f"Bookie {name} is not registered as read-only yet", Step.READ_ONLY)
    if scan is None:
        return Next(Act.SCAN, "", shown(bookie))
    if scan.undecodable:
        return Next(Act.NOTHING, _unreadable(bookie, scan), shown(bookie), Reason.DECOMMISSION_REFUSED)
    if scan.writers:
        why = f"{len(scan.writers)} topics may write to ledgers on bookie {name}: {', '.join(scan.writers[:3])}"
        return Next(Act.UNLOAD, why, Step.UNLOADING, topics=scan.writers)
    if record.through is not None:
        if record.missed:
            why = f"some topics that may write to ledgers on bookie {name} could not be unloaded"
            return Next(Act.ROUND, why, Step.UNLOADING)
        return Next(Act.ROUND, f"all topics that may write to ledgers on bookie {name} are unloaded", Step.UNLOADING)
    if scan.naming:
        return copies(bookie, record, scan)
    if bookie.step not in (Step.VERIFYING, Step.STOPPING):
        return Next(
            Act.NOTHING,
            f"No ledger references bookie {name}. The operator checks all ledgers once more",
            Step.VERIFYING,
        )
    return None


def copied(bookie: DecommissionFacts, record: DecommissionRecord, scan: LedgerScan) -> Next:
    """Decides how the ledgers are copied to other bookies. One copy is requested at a time: a second would wait behind
    the first, and an auto-recovery pod that ends loses its request."""
    left = f"{_ledgers(scan.naming)} on bookie {bookie.bookie} {'is' if scan.naming == 1 else 'are'} not copied yet"
    short = short_of_room(bookie, scan)
    going = record.renewal is not None and record.renewal.claims  # then there is no way back
    if short is not None and not going:
        text = (
            f"Bookie {bookie.bookie} is writable again and its ledgers are no longer copied, because the other "
            f"bookies have too little space. {short}. The operator continues once there is enough space"
        )
        return Next(Act.RELEASE, text, Step.COPYING)
    unknown = unknown_room(bookie, scan)
    if unknown is not None:
        return Next(
            Act.NOTHING,
            f"The operator cannot read how full the ledger disks of bookie {unknown} are. {left}",
            Step.COPYING,
        )
    if not bookie.helpers:
        return Next(Act.NOTHING, f"No auto-recovery pod is ready. {left}", Step.COPYING)
    asked = next((each for each in bookie.helpers if each.uid == record.asked), None)
    # None was left, so that the copy came to its end; these are named since.
    done = bookie.step in (Step.VERIFYING, Step.STOPPING, Step.FORGETTING)
    if asked is None or done:
        return Next(Act.COPY, left, Step.COPYING, helper=bookie.helpers[0])
    if record.asked_at is not None and record.asked_at > bookie.now:
        return Next(Act.NOTE, left, Step.COPYING, helper=asked)  # the clock was wrong: counted from now on
    quiet = (bookie.now - record.asked_at).total_seconds() if record.asked_at is not None else STALL_SECONDS
    if quiet < STALL_SECONDS:
        return Next(Act.NOTHING, left, Step.COPYING)
    if record.naming is None or scan.naming < record.naming:
        return Next(Act.NOTE, left, Step.COPYING, helper=asked)
    other = next((each for each in bookie.helpers if each is not asked), asked)
    return Next(Act.COPY, f"{left}, and none was copied in {quiet:.0f} s", Step.COPYING, helper=other)


def _ledgers(number: int) -> str:
    return f"{number} ledger{'' if number == 1 else 's'}"


def _stuck(bookie: DecommissionFacts, scan: LedgerScan | None) -> str:
    if scan is None:
        what = bookie.examining.past if bookie.examining is not None else "no ledger had been examined"
    elif scan.naming:
        what = f"{scan.naming} ledgers still referenced the bookie: {scan.named()}"
    else:
        what = "no ledger referenced the bookie"
    if scan is not None and scan.undecodable:
        what = f"{scan.undecodable} znodes could not be read, such as {scan.unreadable[0]}"
    return (
        f"The operator stopped emptying bookie {bookie.bookie} after {bookie.timeout:g} s "
        f"(spec.bookkeeper.decommission.timeoutSeconds), at step {bookie.step or Step.READ_ONLY}. At that time "
        f"{what}. The operator retries after the next change of the specification"
    )


def _without_pod(bookie: DecommissionFacts) -> Next | None:
    """Returns the next action if the StatefulSet no longer has the ordinal, whether this operator or a person reduced
    it."""
    scan, name, record = bookie.scan, bookie.bookie, bookie.record
    if bookie.pod:
        return Next(Act.NOTHING, f"The pod of bookie {name} still exists", Step.STOPPING)
    if bookie.registered:
        return Next(Act.NOTHING, f"Bookie {name} is still registered in the metadata store", Step.STOPPING)
    if not bookie.has_cookie:
        if record is None:
            return None
        if not record.forgot:
            # Somebody else deleted it.
            if scan is None:
                return Next(Act.SCAN, "")
            if not scan.clear:
                why = (
                    f"ledgers reference it: {scan.named()}"
                    if scan.naming
                    else (f"znode {scan.unreadable[0]} cannot be read")
                )
                text = (
                    f"Bookie {name} no longer has a pod and a cookie, but {why}. The operator keeps its "
                    "PersistentVolumeClaims"
                )
                return Next(Act.NOTHING, text, None, Reason.DECOMMISSION_REFUSED)
        if bookie.rack:
            return Next(Act.NOTHING, f"The rack of bookie {name} has not been removed yet", Step.FORGETTING)
        if any(not claim.going and claim.mark is None for claim in bookie.claims):
            return Next(Act.MARK, f"bookie {name} is removed, and no ledger references it", Step.FORGETTING)
        return Next(Act.END, f"Bookie {name} was removed")
    if scan is None:
        return Next(Act.SCAN, "", shown(bookie))
    if not scan.clear:
        why = f"ledgers reference it: {scan.named()}" if scan.naming else f"znode {scan.unreadable[0]} cannot be read"
        if not bookie.claims:
            return Next(
                Act.NOTHING,
                f"Bookie {name} no longer has a pod and a volume, but {why}",
                None,
                Reason.DECOMMISSION_REFUSED,
            )
        return Next(Act.RAISE, f"Bookie {name} is still needed, because {why}", shown(bookie))
    if record is None or record.stopped is not None:
        return Next(
            Act.BEGIN, f"Bookie {name} is removed, because it has no pod and no ledger references it", Step.FORGETTING
        )
    return Next(
        Act.FORGET,
        f"none of the {scan.scanned} ledgers references bookie {name}, and its pod no longer exists",
        Step.FORGETTING,
    )


def round_now(record: DecommissionRecord) -> DecommissionRecord:
    """Returns the record after a round of unloading: another round if a topic was missed, else all ledgers so far are
    done."""
    if record.missed or record.through is None:
        return replace(record, handles=replace(record.handles, after=""), missed=False)
    return replace(record, handles=Handles(unloaded=record.through), through=None)


def tried_now(record: DecommissionRecord, now: datetime) -> DecommissionRecord:
    """The record when topics that could not be unloaded are tried again."""
    return replace(record, tried_at=now) if record.missed else record


def readonly_now(record: DecommissionRecord, process: str) -> DecommissionRecord:
    """The record before a process is made read-only. While it was writable, or away, a copy may have ended at a ledger
    that is on it now; and one that went on may have closed a ledger that was made on it, behind its writer's back."""
    suspect = record.handles.suspect
    if record.run and record.last_ledger is not None:
        suspect = record.last_ledger if suspect is None else min(suspect, record.last_ledger)
    # A ledger that was open before may have got it by a change of its ensemble meanwhile: no topic is done.
    return replace(
        record,
        restored=False,
        restoring=False,
        asked=None,
        run=process,
        handles=replace(record.handles, after="", suspect=suspect, unloaded=Handles().unloaded),
        through=None,
        missed=False,
        forgot=False,
    )


def asked_now(record: DecommissionRecord, helper: Helper, scan: LedgerScan, now: datetime) -> DecommissionRecord:
    """The record once a copy was asked for, or made progress."""
    last_ledger = scan.highest if record.last_ledger is None else record.last_ledger
    return replace(record, asked=helper.uid, asked_at=now, naming=scan.naming, last_ledger=last_ledger)
