"""domain/dataplane/decommission/volume_replacement.py: what is next for a bookie that gets a new volume; and what it is
decided by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.dataplane.objects.topic_unloading import unloaded_by
from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.bookkeeper.bookie_ids import Count, OwnBookies
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, LedgerUse, Segment
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.decommission.decommission_facts import (
    STALL_SECONDS,
    Act,
    DecommissionFacts,
    Helper,
    Step,
)
from pulsar_operator.domain.dataplane.decommission.decommission_record import Cause, DecommissionRecord, Renewal
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim, EmptyMark
from pulsar_operator.domain.dataplane.decommission.volume_record import (
    NONE,
    VOLUMES_PATH,
    Volume,
    Volumes,
    lost_volumes,
    parse_volumes,
    recorded,
    volumes_data,
)
from pulsar_operator.domain.dataplane.decommission.volume_replacement import AUDITOR, next_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = OwnBookies("c-bookie", "h.ns.svc.cluster.local:3181")
B = [OWN.id(n) for n in range(4)]
ME = B[2]
LATER = OWN.of_incarnation(2, 1)
GONE = StorageFacts(
    writable=frozenset({B[0], B[1]}),
    readonly=frozenset(),
    cookies=frozenset(B[:3]),
    under_replicated=UnderReplicated(0),
    auditor="a",
    disabled=False,
)
QUIET = replace(GONE, readonly=frozenset({ME}))
FULL = replace(GONE, writable=frozenset(B[:3]))
CLAIM = Claim("ledgers-0-c-bookie-2", "old", 2, volume="pv1")
NEW = replace(CLAIM, uid="new", volume="pv2")
LOST = Renewal(Cause.LOST, "gone")
ASKED = Renewal(Cause.ASKED, "smoke", "pod")
DELETED = replace(LOST, claims={CLAIM.name: "old"}, ending="pod", cookie=7)


def scan(naming: int = 0, only: int = 0, writers: tuple[str, ...] = ()) -> LedgerScan:
    rows = tuple(
        NamingLedger(n, LedgerState.CLOSED, frozenset({ME}), LedgerUse.DATA, f"t{n}", None, 2, n < only)
        for n in range(naming)
    )
    return LedgerScan(9, naming, 0, 0, (), rows, (), rows[0] if rows else None, writers, 9, only, rows[:only])


def bookie(renewal: Renewal | None = LOST, **facts: Any) -> DecommissionFacts:
    """Not up, its volume lost, every ledger looked at: none names it."""
    record = DecommissionRecord(ME, 2, NOW, renewal=renewal, run="pod/0") if renewal is not None else None
    base = DecommissionFacts(
        bookie=ME, ordinal=2, replicas=3, desired=3, others=(B[0], B[1]), storage=GONE, pod=True, readonly=None,
        claims=(CLAIM,), record=record, step="Stopping", helpers=(Helper(0, "h"),), widest=Widest(2, "the default"),
        obstacle=None, generation=5, now=NOW + timedelta(seconds=10), timeout=600, scan=scan(), cookie=7,
        uid="pod", process="pod/0",
    )  # fmt: skip
    return replace(base, **facts)


def asked(found: DecommissionFacts, **record: Any) -> DecommissionFacts:
    assert found.record is not None
    return replace(found, record=replace(found.record, asked=AUDITOR, asked_at=NOW, naming=3, **record))


def missed(found: DecommissionFacts, **record: Any) -> DecommissionFacts:
    """A round in which a topic could not be unloaded."""
    assert found.record is not None
    return replace(found, record=replace(found.record, missed=True, through=9, **record))


ONE = replace(GONE, writable=frozenset({B[0]}))
FORGOTTEN = replace(GONE, cookies=frozenset(B[:2]))
LATE = {"now": NOW + timedelta(seconds=STALL_SECONDS)}
CASES: list[tuple[str, DecommissionFacts, Act, Step | None, Reason | None, str]] = [
    ("lost", bookie(None, lost="gone"), Act.BEGIN, Step.READ_ONLY, None, "its volume is lost: gone"),
    ("lost, and to be removed", bookie(None, lost="gone", desired=2), Act.BEGIN, Step.READ_ONLY, None, "lost"),
    ("asked, and not up", bookie(None, asked="smoke"), Act.BEGIN, Step.READ_ONLY, None, "smoke"),
    ("asked", bookie(None, asked="smoke", storage=FULL, readonly=False), Act.BEGIN, Step.READ_ONLY, None, "smoke"),
    ("asked in a roll", bookie(None, asked="smoke", storage=FULL, obstacle="the roll to end"), Act.NOTHING, None, None,
     "the roll"),
    ("back with its volume", bookie(storage=FULL, readonly=False), Act.END, None, None, "running with its volume"),
    ("annotation off", bookie(ASKED, storage=QUIET, readonly=True), Act.WRITABLE, Step.STOPPING, None,
     "annotation replace-volume was removed"),
    ("annotation ended with its pod", bookie(ASKED, storage=QUIET, readonly=True, uid="other"), Act.DISCARD,
     Step.STOPPING, None, ""),
    ("writers", bookie(scan=scan(3, writers=("t",))), Act.UNLOAD, Step.UNLOADING, None, "t"),
    ("to be copied", bookie(scan=scan(3)), Act.AUDIT, Step.COPYING, None, "3 ledgers"),
    ("no auditor", bookie(scan=scan(3), storage=replace(GONE, auditor=None)), Act.NOTHING, Step.COPYING, None,
     "is the auditor"),
    ("being copied", asked(bookie(scan=scan(3))), Act.NOTHING, Step.COPYING, None, "3 ledgers"),
    ("progress", asked(bookie(scan=scan(2))), Act.NOTE, Step.COPYING, None, ""),
    ("no progress", asked(bookie(scan=scan(3), **LATE)), Act.AUDIT, Step.COPYING, None, "none was copied in"),
    ("no progress again", asked(bookie(scan=scan(3)), stalled=True), Act.NOTHING, Step.COPYING, Reason.VOLUME_LOST,
     "could not be copied"),
    ("nowhere else", bookie(scan=scan(2, only=2)), Act.NOTHING, Step.COPYING, Reason.VOLUME_LOST, "0 (t0), 1 (t1)"),
    ("nowhere else, another away", bookie(scan=scan(2, only=2), accepted=2,
     storage=replace(GONE, writable=frozenset({B[0]}))), Act.NOTHING, Step.COPYING, Reason.VOLUME_LOST, B[1]),
    ("nowhere else, confirmed", bookie(scan=scan(2, only=2), accepted=2), Act.DISCARD, Step.STOPPING, None,
     "was confirmed"),
    ("nowhere else, fewer confirmed", bookie(scan=scan(2, only=2), accepted=1), Act.NOTHING, Step.COPYING,
     Reason.VOLUME_LOST, f"{timestamp(NOW)}/2"),
    ("no progress again, fewer confirmed", asked(bookie(scan=scan(3), accepted=2), stalled=True), Act.NOTHING,
     Step.COPYING, Reason.VOLUME_LOST, "/3"),
    ("no progress again, confirmed", asked(bookie(scan=scan(3), accepted=3), stalled=True), Act.DISCARD, Step.STOPPING,
     None, "was confirmed"),
    ("some elsewhere, confirmed", bookie(scan=scan(3, only=2), accepted=2), Act.AUDIT, Step.COPYING, None, ""),
    ("empty", bookie(), Act.DISCARD, Step.STOPPING, None, "none of the 9 ledgers"),
    ("empty for the first time", bookie(step="Copying"), Act.NOTHING, Step.VERIFYING, None, "once more"),
    # its claims are deleted, or were to be
    ("killed before it deleted them", bookie(DELETED), Act.DISCARD, Step.STOPPING, None, ""),
    ("killed before it deleted them, and written since", bookie(DELETED, scan=scan(1)), Act.AUDIT, Step.COPYING, None,
     ""),
    ("killed before it deleted them, and up", bookie(DELETED, storage=FULL, readonly=False), Act.READ_ONLY,
     Step.READ_ONLY, None, ""),
    ("claims go", bookie(DELETED, claims=(replace(CLAIM, going=True),)), Act.REPLACE, Step.STOPPING, None, ""),
    ("its pod ends", bookie(DELETED, claims=(replace(CLAIM, going=True),), ends=True), Act.NOTHING, Step.STOPPING, None,
     "The pod"),
    ("claims to be gone", bookie(DELETED, claims=(replace(CLAIM, going=True),), uid=""), Act.NOTHING, Step.STOPPING,
     None, "still exists"),
    ("new claims, old cookie", bookie(DELETED, claims=(NEW,), uid="next"), Act.FORGET, Step.FORGETTING, None, ""),
    ("new claims, and a ledger", bookie(DELETED, claims=(NEW,), uid="next", scan=scan(1)), Act.AUDIT, Step.COPYING,
     None, ""),
    ("a new cookie, not up", bookie(DELETED, claims=(NEW,), uid="next", cookie=8), Act.NOTHING, None, None,
     "has not started"),
    ("no cookie, not up", bookie(DELETED, claims=(NEW,), uid="next", cookie=None, storage=FORGOTTEN), Act.NOTHING, None,
     None, "has not started"),
    ("no cookie, not up, and to be removed", bookie(DELETED, claims=(NEW,), uid="next", cookie=None, desired=2,
     storage=FORGOTTEN), Act.END, None, None, "the bookie is to be removed"),
    ("no cookie, not up, and another is lost", bookie(DELETED, claims=(NEW,), uid="next", cookie=None, first="b1 lost",
     storage=FORGOTTEN), Act.END, None, None, "b1 lost"),
    ("topics that no broker can load", missed(bookie(scan=scan(2, only=2)), tried_at=NOW), Act.NOTHING, Step.COPYING,
     Reason.VOLUME_LOST, "0 (t0)"),
    ("topics that no broker can load, tried again", missed(bookie(scan=scan(2, only=2), **LATE), tried_at=NOW),
     Act.ROUND, Step.UNLOADING, None, "could not be unloaded"),
    ("topics that no broker can load, confirmed", missed(bookie(scan=scan(2, only=2), accepted=2), tried_at=NOW),
     Act.DISCARD, Step.STOPPING, None, "was confirmed"),
    ("topics that could not be unloaded, and are not there any more", missed(bookie(), tried_at=NOW), Act.ROUND,
     Step.UNLOADING, None, ""),
    ("nowhere else, another lost its volume too", bookie(scan=scan(2, only=2), lost_too=frozenset({B[1]}),
     storage=replace(GONE, writable=frozenset({B[0]}))), Act.NOTHING, Step.COPYING, Reason.VOLUME_LOST, "answers"),
    ("nowhere else, another never was up", bookie(scan=scan(2, only=2), others=(B[0], B[1], B[3])), Act.NOTHING,
     Step.COPYING, Reason.VOLUME_LOST, "answers"),
    ("too few to copy to", asked(bookie(scan=scan(3, only=1), storage=ONE)), Act.NOTHING, Step.COPYING,
     Reason.VOLUME_LOST, "2 ledgers of bookie " + ME + " have copies on other bookies, but new copies cannot be made"),
    ("too few to copy to, confirmed", asked(bookie(scan=scan(3), storage=ONE, accepted=9), stalled=True),
     Act.NOTHING, Step.COPYING, Reason.VOLUME_LOST, "Raise spec.bookkeeper.replicas by 1"),
    ("too few to copy to, later", asked(bookie(scan=scan(3), storage=ONE, **LATE), stalled=True), Act.AUDIT,
     Step.COPYING, None, "3 ledgers"),
    ("given up with another", bookie(scan=scan(2, only=1), lost="gone", given_up=frozenset({0, 1, 7})),
     Act.DISCARD, Step.STOPPING, None, "was confirmed"),
    ("given up with another, and one more", bookie(scan=scan(3, only=3), lost="gone", given_up=frozenset({0, 1})),
     Act.NOTHING, Step.COPYING, Reason.VOLUME_LOST, "1 ledgers have entries on no other bookie: 2 (t2)."),
    ("given up with another, and one to be copied", bookie(scan=scan(2, only=1), lost="gone", given_up=frozenset({0})),
     Act.AUDIT, Step.COPYING, None, ""),
    ("up", bookie(DELETED, claims=(NEW,), uid="next", cookie=8, storage=FULL), Act.END, None, None,
     "is running with a new volume"),
    ("its new volume is lost too", bookie(DELETED, claims=(NEW,), uid="next", cookie=None, lost="pv3 is new",
     successor=LATER, storage=replace(GONE, cookies=frozenset({*B[:2], LATER}))), Act.END, None, None,
     f"Bookie {LATER}, the successor of {ME}, lost its volume: pv3 is new"),
    ("its new volume is lost too, and it has its cookie still", bookie(DELETED, claims=(NEW,), uid="next",
     lost="pv3 is new", successor=LATER, storage=replace(GONE, cookies=frozenset({*B[:3], LATER}))), Act.FORGET,
     Step.FORGETTING, None, "none of the 9 ledgers"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "act", "step", "reason", "said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_next(facts: DecommissionFacts, act: Act, step: Step | None, reason: Reason | None, said: str) -> None:
    found = next_step(facts)
    assert found is not None
    assert (found.act, found.step, found.reason) == (act, step, reason), found
    assert said in found.text


@pytest.mark.parametrize("stopped", [None, 5])
def test_a_bookie_that_leaves_and_lost_its_volume_is_not_waited_for(stopped: int | None) -> None:
    leaving = DecommissionRecord(ME, 2, NOW, run="pod/0", stopped=stopped)
    for desired in (2, 3):
        found = next_step(bookie(None, record=leaving, desired=desired, lost="gone", scan=scan(2, only=2)))
        assert found is not None and found.act is Act.END and "gone" in found.text


@pytest.mark.parametrize(
    ("ensemble", "quorum", "alive", "only"),
    [
        (("a", "b"), 2, {"b"}, False),
        (("a", "b"), 2, set(), True),
        (("a",), 1, {"b"}, True),
        (("a", "b", "c"), 2, {"b", "c"}, False),
        (("a", "b", "c"), 2, {"b"}, True),  # entries that are on c and a
        (("b", "c"), 1, set(), False),
    ],
)
def test_entries_that_are_on_no_other_bookie(
    ensemble: tuple[str, ...], quorum: int, alive: set[str], only: bool
) -> None:
    ledger = Ledger(LedgerState.CLOSED, len(ensemble), quorum, quorum, 9, 1, (Segment(0, ensemble),))
    assert ledger.only_on({"a"}, alive) is only
    empty = replace(ledger, last_entry_id=-1)
    assert not empty.only_on({"a"}, alive)


@pytest.mark.parametrize(
    ("topic", "names"),
    [
        ("persistent://t/n/x", ["persistent://t/n/x"]),
        (
            "persistent://pulsar/system/__transaction_log_3",
            ["persistent://pulsar/system/transaction_coordinator_assign-partition-3"],
        ),
        ("persistent://t/n/a-b-s__transaction_pending_ack", ["persistent://t/n/a", "persistent://t/n/a-b"]),
    ],
)
def test_what_unloads_what_is_kept_under_a_name(topic: str, names: list[str]) -> None:
    assert unloaded_by(topic) == names


def test_a_volume_is_lost_where_the_claim_has_another() -> None:
    known = {CLAIM.name: Volume("old", "pv1")}
    assert lost_volumes(known, [CLAIM]) == ()
    assert lost_volumes(known, [replace(CLAIM, uid="new")]) == (), "made anew for the same volume"
    assert lost_volumes(known, [replace(CLAIM, volume="", uid="new")]) == (), "it may get the old one yet"
    assert lost_volumes(known, [NEW]) == (f"PersistentVolumeClaim {CLAIM.name} has volume pv2, but had pv1 before",)
    assert lost_volumes({}, [NEW]) == (), "nothing is on record"
    assert lost_volumes({}, [replace(CLAIM, lost=True)]) != ()
    assert lost_volumes({NONE: Volume("", "")}, [NEW]) != ()


def test_only_what_is_up_goes_on_record() -> None:
    known = {ME: {CLAIM.name: Volume("old", "pv1")}, B[3]: {}}
    new = {ME: {CLAIM.name: Volume("new", "pv2")}}
    same = {ME: known[ME]}
    found = recorded(known, OWN, [NEW], FULL, replicas=4, ready={2}, renewed=None)
    assert found.volumes == new and len(found.others) == 1
    assert recorded(known, OWN, [NEW], FULL, replicas=4, ready={2}, renewed=ME).others == ()
    assert recorded(known, OWN, [NEW], FULL, replicas=4, ready=set(), renewed=None).volumes == same, (
        "a session may outlive a process"
    )
    assert recorded(known, OWN, [NEW], GONE, replicas=4, ready={2}, renewed=None).volumes == same
    assert recorded({}, OWN, [], GONE, replicas=4, ready=set(), renewed=None).volumes == {ME: {NONE: Volume("", "")}}
    assert parse_volumes(volumes_data(new)) == new
    for data in (b"\xff", b"[]", b'{"a": 1}', b'{"a": {"c": {}}}', b"[" * 100000):
        with pytest.raises(UndecodableError, match=f"{VOLUMES_PATH} cannot be read"):
            parse_volumes(data)


def test_the_volumes_that_a_bookie_may_start_on_go_on_record_before() -> None:
    """Its id is known before it comes up: the one after those that were used."""
    own = OwnBookies.of(B[0], {2: Count(0, 0)}, GONE.cookies)
    first = own.of_incarnation(2, 1)
    made = {CLAIM.name: Volume(NEW.uid, NEW.volume)}
    kept = {ME: {CLAIM.name: Volume("old", "pv1")}}

    def after(*claims: Claim, storage: StorageFacts = GONE, replicas: int = 4) -> Mapping[str, Volumes]:
        found = recorded({**kept, first: {}}, own, claims, storage, replicas=replicas, ready=(), renewed=None)
        return found.volumes

    assert after(NEW) == {**kept, first: made}
    assert after(replace(NEW, going=True)) == after(replace(NEW, volume="")) == kept, "it does not start on these"
    assert after(replace(NEW, mark=EmptyMark(ME, "id", ""))) == after(NEW, replicas=2) == kept, "nor does it start"
    there = replace(GONE, cookies=GONE.cookies | {first})
    assert after(NEW, storage=there) == {**kept, first: {}}, "what was on record before it came up stays"
