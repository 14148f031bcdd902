"""The replacement of a bookie's volume, because the volume was lost or a user requested it: decides the next action.
Pure.

The bookie is emptied like one that is decommissioned (decommission.py). Then its next incarnation is counted, so that
it returns under another id (bookkeeper/bookie_ids.py). Its claims are deleted, which cannot be undone and takes effect
when the pod ends (finalizer pvc-protection). All ledgers are checked again, and the pod is replaced; the StatefulSet
creates a pod of that name, with new claims, once the old claims are gone. The cookie of the former id is deleted once
no ledger references it. Nothing is formatted.

The auditor restores the ledgers of a lost volume one by one; a copy that is requested of an auto-recovery pod would end
at the first ledger that has no other copy. If several bookies are lost, each ledger with a copy on an available bookie
is copied without confirmation. If too few bookies are writable to take the copies, the operator waits for more. Only
ledgers with entries on no available bookie are named, and are abandoned by a confirmation. Ledgers that were abandoned
with another bookie need no second one, unless the volume exists and its bookie is down.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmationAction
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import numbers_of
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.storage_facts import BookieState, bookie_state
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.consent import Question, how_to_answer
from pulsar_operator.domain.dataplane.decommission.decommission import (
    before,
    copied,
    empty,
    emptying,
    given_up,
    shown,
    stays,
    too_few,
    too_late,
)
from pulsar_operator.domain.dataplane.decommission.decommission import next_step as next_of_leaving
from pulsar_operator.domain.dataplane.decommission.decommission_facts import (
    STALL_SECONDS,
    Act,
    DecommissionFacts,
    Next,
    Step,
)
from pulsar_operator.domain.dataplane.decommission.decommission_record import Cause, DecommissionRecord, Renewal
from pulsar_operator.domain.dataplane.decommission.volume_requests import FALSE

AUDITOR = "auditor"
"""In the record, instead of an auto-recovery pod: the auditor makes the copies."""


def next_step(bookie: DecommissionFacts) -> Next | None:
    """Returns the next action for a bookie; None if nothing is to be done or reported."""
    record = bookie.record
    if record is not None and record.renewal is not None:
        return _renewed(bookie, record, record.renewal)
    if record is not None and bookie.ordinal < bookie.replicas:
        if bookie.lost is not None:
            # It cannot say that it is writable any more, and a copy that is asked for ends at what nobody else has.
            return Next(
                Act.END,
                f"The operator stops the decommission of bookie {bookie.bookie} and replaces its volume, because the "
                f"volume is lost: {bookie.lost}",
            )
        if bookie.first is not None:
            return stays(bookie, bookie.first)
    stays_on = bookie.ordinal < min(bookie.desired, bookie.replicas)
    # Also one that is to be removed: those of higher ordinals wait for it to be writable.
    if record is None and (stays_on or (bookie.lost is not None and bookie.ordinal < bookie.replicas)):
        return _begins(bookie)
    return next_of_leaving(bookie)


def _begins(bookie: DecommissionFacts) -> Next | None:
    desired = None if bookie.asked in (None, FALSE) else f"a new volume was requested for the bookie: {bookie.asked}"
    lost = bookie.lost or desired
    if lost is not None and not bookie.registered:
        # One without a cookie does not start with its volume either: somebody deleted it, or it never was up.
        what = "its volume is lost" if bookie.has_cookie else "the metadata store has no cookie of it"
        return Next(
            Act.BEGIN,
            f"Bookie {bookie.bookie} is not running, and {what}: {lost}. Its ledgers are copied from other "
            "bookies before the bookie starts with a new volume",
            Step.READ_ONLY,
            renewal=Renewal(Cause.LOST, lost),
        )
    if desired is None:
        return None
    found = before(bookie)
    if found.act is not Act.BEGIN:
        return found
    text = f"Bookie {bookie.bookie} gets a new volume, as requested: {bookie.asked}"
    return Next(Act.BEGIN, text, Step.READ_ONLY, renewal=Renewal(Cause.ASKED, str(bookie.asked), bookie.uid))


def _renewed(bookie: DecommissionFacts, record: DecommissionRecord, renewal: Renewal) -> Next | None:
    if renewal.claims:
        return _afterwards(bookie, record, renewal)
    reason = _taken_back(bookie, record, renewal)
    if reason is not None:
        if not bookie.registered:
            return Next(Act.END, f"Bookie {bookie.bookie} keeps its volume, because {reason}")
        return stays(bookie, reason)
    if record.stopped == bookie.generation:
        return given_up(bookie, record)
    if record.stopped is not None:
        if bookie.readonly and not record.restored:
            return Next(Act.WRITABLE, f"Bookie {bookie.bookie} is made writable until the operator retries")
        return Next(
            Act.END,
            f"The operator retries to replace the volume of bookie {bookie.bookie}, because the specification was "
            "changed",
        )
    late = too_late(bookie, record) if bookie.registered else None
    found = late or _emptied(bookie, record) or too_few(bookie)
    if found is not None:
        return found
    why = (
        empty(bookie)
        if bookie.scan is not None and bookie.scan.clear
        else ("the loss of entries that no other bookie has was confirmed")
    )
    claims = {claim.name: claim.uid for claim in bookie.claims}
    given = Renewal(
        renewal.cause,
        renewal.why,
        renewal.pod,
        claims=claims,
        ending=bookie.uid,
        cookie=bookie.cookie,
        accepted=bookie.scan is not None and not bookie.scan.clear,
    )
    if not claims:
        return Next(
            Act.NOTHING, f"The PersistentVolumeClaims of bookie {bookie.bookie} do not exist yet", shown(bookie)
        )
    return Next(Act.DISCARD, f"bookie {bookie.bookie} gets a new volume, and {why}", Step.STOPPING, renewal=given)


def _taken_back(bookie: DecommissionFacts, record: DecommissionRecord, renewal: Renewal) -> str | None:
    """Returns why the request is withdrawn, as a message. The annotation ends with its pod, which may be replaced
    before that; a user then withdraws the request at the new pod."""
    if bookie.first is not None:
        return bookie.first
    if renewal.cause is Cause.LOST:
        return "the bookie is running with its volume again" if bookie.registered else None
    if bookie.ordinal >= min(bookie.desired, bookie.replicas):
        return "the bookie is to be removed"
    if bookie.asked == FALSE:
        return f"annotation replace-volume is {FALSE}"
    if bookie.asked is None and bookie.uid and bookie.uid == renewal.pod:
        return "annotation replace-volume was removed"
    if record.stopped is not None and bookie.asked != renewal.why:
        return "annotation replace-volume was changed or removed"
    return None


def _emptied(bookie: DecommissionFacts, record: DecommissionRecord) -> Next | None:
    if bookie.registered:
        return emptying(bookie, record, copied)
    found = emptying(bookie, record, _audited)
    if (
        found is None
        or found.act is not Act.ROUND
        or not record.missed
        or bookie.scan is None
        or not bookie.scan.naming
    ):
        return found
    # No broker can load a topic whose open ledger was there alone, and then it is never unloaded.
    tried = (bookie.now - record.tried_at).total_seconds() if record.tried_at is not None else STALL_SECONDS
    # A time in the future is of a clock that was wrong.
    return found if tried >= STALL_SECONDS or tried < 0 else _audited(bookie, record, bookie.scan)


def _audited(bookie: DecommissionFacts, record: DecommissionRecord, scan: LedgerScan) -> Next | None:
    """Decides how the ledgers of a missing bookie are restored from other bookies. None if the remaining ones are
    abandoned."""
    storage, name = bookie.storage, bookie.bookie
    ledgers = "1 ledger" if scan.naming == 1 else f"{scan.naming} ledgers"
    left = f"{ledgers} of bookie {name} {'is' if scan.naming == 1 else 'are'} not copied from other bookies yet"
    # What was given up with another bookie may be part of a ledger, and the rest is on this volume while it is there.
    earlier = bookie.given_up if bookie.lost is not None else frozenset[int]()
    nowhere = [row for row in scan.only_there if row.ledger not in earlier]
    before = earlier.intersection(numbers_of(scan))
    # Listed are the first ones alone: what is not listed counts as not given up.
    only = len(nowhere) + scan.only - len(scan.only_there)
    elsewhere = scan.naming - len(before) - only
    if only <= 0 and elsewhere <= 0:
        return None
    if elsewhere <= 0:
        named = replace(scan, only=only, only_there=tuple(nowhere)).named_only()
        return _given_up(bookie, record, f"{only} ledgers have entries on no other bookie: {named}", only)
    if storage.disabled:
        return Next(Act.NOTHING, f"Replication is switched off. {left}", Step.COPYING)
    if storage.auditor is None:
        return Next(Act.NOTHING, f"No auto-recovery pod is the auditor. {left}", Step.COPYING)
    if record.asked != AUDITOR:
        return Next(Act.AUDIT, left, Step.COPYING)
    quiet = (bookie.now - record.asked_at).total_seconds() if record.asked_at is not None else STALL_SECONDS
    # A time in the future is of a clock that was wrong: it is counted from now on.
    if quiet < 0 or (record.naming is not None and scan.naming < record.naming):
        return Next(Act.NOTE, left, Step.COPYING)
    short = _no_room(bookie, scan, elsewhere)
    if short is not None:
        return Next(Act.AUDIT, left, Step.COPYING) if quiet >= STALL_SECONDS else short
    if record.stalled:
        words = (
            f"{elsewhere} ledgers of bookie {name} could not be copied from other bookies in {STALL_SECONDS:.0f} "
            f"s, although their metadata names other bookies. {only} more ledgers have entries on no other "
            f"bookie: {scan.named()}"
        )
        if quiet < STALL_SECONDS or _is_accepted(bookie, elsewhere + only):
            return _given_up(bookie, record, words, elsewhere + only)
        return Next(Act.AUDIT, words, Step.COPYING)
    if quiet < STALL_SECONDS:
        return Next(Act.NOTHING, left, Step.COPYING)
    return Next(Act.AUDIT, f"{left}, and none was copied in {quiet:.0f} s", Step.COPYING)


def _no_room(bookie: DecommissionFacts, scan: LedgerScan, elsewhere: int) -> Next | None:
    """Returns the blocker if fewer bookies are writable than a ledger needs: each copy goes to a bookie that does not
    have the ledger yet. The operator does not ask to abandon ledgers that still exist."""
    widest = scan.widest
    if widest is None or bookie.left >= widest.ensemble_size:
        return None
    more = widest.ensemble_size - bookie.left
    text = (
        f"{elsewhere} ledgers of bookie {bookie.bookie} have copies on other bookies, but new copies cannot be "
        f"made, because only {bookie.left} bookies are writable and ledger {widest} requires "
        f"{widest.ensemble_size}. Raise {bookie.number} by {more}, or restore the volume of bookie {bookie.bookie}"
    )
    return Next(Act.NOTHING, text, Step.COPYING, Reason.VOLUME_LOST)


def _given_up(bookie: DecommissionFacts, record: DecommissionRecord, words: str, number: int) -> Next | None:
    """Returns None if a user confirmed this number of ledgers as lost; otherwise the message that asks for it."""
    unavailable = sorted(bookie.storage.missing.intersection(bookie.others) - bookie.lost_too)
    if unavailable:
        text = f"{words}. Bookie {unavailable[0]} is unavailable too and may have copies, so nothing is given up"
        return Next(Act.NOTHING, text, Step.COPYING, Reason.VOLUME_LOST)
    if _is_accepted(bookie, number):
        return None
    question = question_of(bookie.ordinal, record, number)
    remedy = how_to_answer(question, bookie.confirmations, bookie.now)
    text = f"{words}. Restore the volume of bookie {bookie.bookie}. To give these ledgers up instead, {remedy}"
    return Next(Act.NOTHING, text, Step.COPYING, Reason.VOLUME_LOST, question=question)


def _is_accepted(bookie: DecommissionFacts, number: int) -> bool:
    return bookie.accepted is not None and number <= bookie.accepted


def question_of(ordinal: int, record: DecommissionRecord, number: int = 0) -> Question:
    """Returns the question of the confirmation for one volume replacement: whether this number of ledgers is lost. The
    start time in the metadata store identifies the replacement."""
    return Question(ClusterConfirmationAction.LOSE_LEDGERS, timestamp(record.since), ordinal, number)


def _afterwards(bookie: DecommissionFacts, record: DecommissionRecord, renewal: Renewal) -> Next | None:
    """Returns the next action once its claims are deleted, or their deletion has begun, which cannot be undone."""
    name, scan = bookie.bookie, bookie.scan
    old = [claim for claim in bookie.claims if renewal.claims.get(claim.name) == claim.uid]
    kept = any(not claim.going for claim in old)
    if kept or (bookie.uid and bookie.uid == renewal.ending):
        # What is on the volumes is there until the pod ends.
        found = None if renewal.accepted and not bookie.registered else _emptied(bookie, record)
        if found is not None:
            return found
        if kept:
            return Next(Act.DISCARD, f"bookie {name} gets a new volume, and {_why(bookie, renewal)}", Step.STOPPING)
        if bookie.ends:
            return Next(Act.NOTHING, f"The pod of bookie {name} still exists", Step.STOPPING)
        return Next(Act.REPLACE, f"bookie {name} gets a new volume, and {_why(bookie, renewal)}", Step.STOPPING)
    if old:
        return Next(Act.NOTHING, f"PersistentVolumeClaim {old[0].name} still exists", Step.STOPPING)
    if renewal.cookie is not None and bookie.cookie == renewal.cookie:
        if bookie.registered:
            return Next(Act.NOTHING, f"Bookie {name} is still registered in the metadata store", Step.FORGETTING)
        if scan is None:
            return Next(Act.SCAN, "", shown(bookie))
        if scan.undecodable and not renewal.accepted:
            text = f"Znode {scan.unreadable[0]} cannot be decoded, and its ledger may be on bookie {name}"
            return Next(Act.NOTHING, text, Step.FORGETTING)
        if scan.naming and not renewal.accepted:
            found = _audited(bookie, record, scan)
            if found is not None:
                return found
        return Next(Act.FORGET, _why(bookie, renewal), Step.FORGETTING)
    if bookie.returned:
        return Next(Act.END, f"Bookie {name} is running with a new volume")
    other = "the bookie is to be removed" if bookie.ordinal >= bookie.desired else bookie.first
    started = bookie_state(bookie.storage, bookie.successor or name)
    if bookie.lost is not None and bookie.successor and started is BookieState.MISSING:
        # What is known to be lost is that of its successor, which starts with another volume in its turn.
        return Next(Act.END, f"Bookie {bookie.successor}, the successor of {name}, lost its volume: {bookie.lost}")
    if bookie.state is BookieState.NEW and started is BookieState.NEW and other is not None:
        return Next(
            Act.END,
            f"Bookie {name} stores nothing and has not started with its new volume. The replacement ends, because "
            f"{other}",
        )
    # Nothing is held for it: what is changed may be what it needs to come up.
    return Next(Act.NOTHING, f"Bookie {name} has not started with its new volume yet")


def _why(bookie: DecommissionFacts, renewal: Renewal) -> str:
    return "the loss of entries that no other bookie has was confirmed" if renewal.accepted else empty(bookie)
