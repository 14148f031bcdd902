"""domain/dataplane/decommission/decommission.py: tables of what is next, and properties over any interleaving of
facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.dataplane.decommission.decommission import (
    may_act,
    next_step,
    readonly_now,
    round_now,
    subject,
)
from pulsar_operator.domain.dataplane.decommission.decommission_facts import (
    STALL_SECONDS,
    Act,
    DecommissionFacts,
    Helper,
    Next,
    Step,
)
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    Cause,
    DecommissionRecord,
    Renewal,
    parse_decommission_record,
)
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim, EmptyMark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = OwnBookies("c-bookie", "c-bookie-headless.ns.svc.cluster.local:3181")
B = [OWN.id(n) for n in range(4)]
ME = B[3]
FULL = StorageFacts(
    writable=frozenset(B),
    readonly=frozenset(),
    cookies=frozenset(B),
    under_replicated=UnderReplicated(0),
    auditor="a",
    disabled=False,
)
QUIET = replace(FULL, writable=frozenset(B[:3]), readonly=frozenset({ME}))
GONE = replace(FULL, writable=frozenset(B[:3]))
FORGOTTEN = replace(GONE, cookies=frozenset(B[:3]))
NEVER_UP = replace(GONE, cookies=frozenset(B[:3]))
RUN = "uid/0"
MEMO = DecommissionRecord(ME, 3, NOW, ensemble=2, run=RUN)
FORGOT = replace(MEMO, forgot=True)
CLAIM = Claim("journal-0-c-bookie-3", "u", 3)
TOPIC = "persistent://t/n/x"


def row(
    number: int = 7, state: str = "CLOSED", use: LedgerUse = LedgerUse.DATA, topic: str | None = TOPIC, size: int = 2
) -> NamingLedger:
    return NamingLedger(number, LedgerState(state), frozenset({ME}), use, topic, None, size)


def scan(*rows: NamingLedger, undecodable: int = 0) -> LedgerScan:
    unfinished = tuple(each for each in rows if each.state is not LedgerState.CLOSED)
    return LedgerScan(
        scanned=9,
        naming=len(rows),
        unfinished=len(unfinished),
        undecodable=undecodable,
        not_closed=unfinished,
        closed=tuple(each for each in rows if each not in unfinished),
        unreadable=tuple(f"/ledgers/00/0000/L000{n}" for n in range(undecodable)),
        widest=max(rows, key=lambda each: each.ensemble_size, default=None),
        writers=tuple(sorted({each.writer for each in rows if each.writer is not None})),
        highest=max((each.ledger for each in rows), default=-1),
    )


CLEAR = scan()


def leaving(**facts: Any) -> DecommissionFacts:
    """Read-only, begun, not looked at yet."""
    base = DecommissionFacts(
        bookie=ME, ordinal=3, replicas=4, desired=3, others=tuple(B[:3]), storage=QUIET, pod=True, readonly=True,
        claims=(CLAIM,), record=MEMO, step=None, helpers=(Helper(0, "h0"),), widest=Widest(2, "the default"),
        obstacle=None, generation=5, now=NOW + timedelta(seconds=10), timeout=600,
        process=RUN,
    )  # fmt: skip
    return replace(base, **facts)


def before(**facts: Any) -> DecommissionFacts:
    return leaving(**{"storage": FULL, "readonly": False, "record": None, **facts})


def outside(**facts: Any) -> DecommissionFacts:
    return leaving(**{"storage": GONE, "readonly": None, "pod": False, "replicas": 3, **facts})


FULL_MEMO = DecommissionRecord(
    ME, 3, NOW, 2, "auditor", NOW, 4, True, None, "w", Renewal(Cause.ASKED, "smoke", "u1", {"c": "u2"}, "u3", 7, True),
    Handles("persistent://t/n/a", 5, 0), 6, True, RUN, 0, True, True,
)  # fmt: skip
REFUSED, STUCK = Reason.DECOMMISSION_REFUSED, Reason.DECOMMISSION_STUCK
READ_ONLY, UNLOADING, COPYING, VERIFYING, STOPPING, FORGETTING = Step
ASKED = replace(MEMO, asked="h0", asked_at=NOW, naming=1)
LATE = NOW + timedelta(seconds=STALL_SECONDS)
CASES: list[tuple[str, DecommissionFacts, Act, Step | None, Reason | None, str]] = [
    # racks
    ("too few racks left", before(required_racks=2, racks_left=1), Act.NOTHING, None, REFUSED,
     "in only 1 of the 2 racks"),
    ("racks not known", before(required_racks=2), Act.NOTHING, None, None, "racks of the bookies are not known"),
    ("enough racks left", before(required_racks=2, racks_left=2), Act.SCAN, None, None, ""),
    ("none are enforced", before(racks_left=1), Act.SCAN, None, None, ""),
    ("fewer racks by now", leaving(step=STOPPING, scan=CLEAR, required_racks=2, racks_left=1), Act.STOP, None, STUCK,
     "retries after the next change"),
    ("its rack is there", outside(storage=FORGOTTEN, record=FORGOT, rack=True, step=FORGETTING), Act.NOTHING,
     FORGETTING,
     None, "The rack of bookie"),
    ("its rack is gone", outside(storage=FORGOTTEN, record=FORGOT, step=FORGETTING), Act.MARK, FORGETTING, None, ""),
    # before it begins
    ("a roll", before(obstacle="the roll of broker pods to end"), Act.NOTHING, None, None, "the roll of broker"),
    (
        "another is read-only",
        before(storage=replace(FULL, writable=frozenset(B) - {B[1]}, readonly=frozenset({B[1]}))),
        Act.NOTHING, None, None, B[1],
    ),
    ("another is missing", before(storage=replace(FULL, writable=frozenset(B) - {B[0]})), Act.NOTHING, None, None,
     B[0]),
    ("copies are missing", before(storage=replace(FULL, under_replicated=UnderReplicated(2))), Act.NOTHING, None, None,
     "2 ledgers lack copies"),
    ("no auditor", before(storage=replace(FULL, auditor=None)), Act.NOTHING, None, None, "is the auditor"),
    ("largest ensemble not known", before(widest=None), Act.ASK, None, None, ""),
    ("a namespace takes more", before(widest=Widest(4, "namespace t/n")), Act.NOTHING, None, REFUSED,
     "namespace t/n requires 4"),
    ("as many as are left", before(widest=Widest(3, "namespace t/n")), Act.SCAN, None, None, ""),
    ("a ledger takes more", before(scan=scan(row(size=4))), Act.NOTHING, None, REFUSED,
     f"ledger 7 ({TOPIC})"),
    ("a ledger takes as many", before(scan=scan(row(size=3))), Act.BEGIN, READ_ONLY, None, ""),
    ("unreadable", before(scan=scan(undecodable=1)), Act.NOTHING, None, REFUSED, "/ledgers/00/0000/"),
    ("all is well", before(scan=CLEAR), Act.BEGIN, READ_ONLY, None, ""),
    ("never up, others away", before(storage=replace(NEVER_UP, writable=frozenset()), scan=CLEAR), Act.BEGIN,
     READ_ONLY, None, ""),
    ("no cookie, and ledgers", before(storage=NEVER_UP, scan=scan(row())), Act.NOTHING, None,
     REFUSED, "no cookie of it"),
    # on its way
    ("not read-only", leaving(readonly=False), Act.READ_ONLY, READ_ONLY, None, ""),
    ("restarted while it was copied", leaving(readonly=False, step="Copying", scan=CLEAR), Act.READ_ONLY,
     READ_ONLY, None, ""),
    ("registered as writable", leaving(storage=FULL, scan=CLEAR), Act.NOTHING, READ_ONLY, None, "registered"),
    ("does not answer", leaving(readonly=None, scan=CLEAR, step="Stopping"), Act.NOTHING, STOPPING, None,
     "cannot read whether"),
    ("not looked", leaving(), Act.SCAN, READ_ONLY, None, ""),
    ("too few others", leaving(storage=replace(QUIET, writable=frozenset(B[:1]))), Act.WRITABLE, READ_ONLY,
     None, "1 other bookies"),
    ("too few others, writable", leaving(storage=replace(FULL, writable=frozenset({B[0], ME})), readonly=False),
     Act.NOTHING, READ_ONLY, None, "other bookies"),
    ("a topic writes", leaving(scan=scan(row(state="OPEN"))), Act.UNLOAD, UNLOADING, None, TOPIC),
    ("a cursor is written", leaving(scan=scan(row(state="IN_RECOVERY", use=LedgerUse.CURSOR))), Act.UNLOAD,
     UNLOADING, None, TOPIC),
    ("all topics are through", leaving(scan=CLEAR, record=replace(MEMO, through=9)), Act.ROUND, UNLOADING, None,
     "are unloaded"),
    ("a topic was missed", leaving(scan=CLEAR, record=replace(MEMO, through=9, missed=True)), Act.ROUND, UNLOADING,
     None,
     "could not be unloaded"),
    ("another process", leaving(process="uid/1"), Act.READ_ONLY, READ_ONLY, None, ""),
    ("open, of no topic", leaving(scan=scan(row(state="OPEN", topic=None))), Act.COPY, COPYING, None, ""),
    ("open, of a schema", leaving(scan=scan(row(state="OPEN", use=LedgerUse.SCHEMA))), Act.COPY, COPYING, None, ""),
    ("closed", leaving(scan=scan(row())), Act.COPY, COPYING, None, "1 ledger"),
    ("nobody copies", leaving(scan=scan(row()), helpers=()), Act.NOTHING, COPYING, None, "auto-recovery"),
    ("asked", leaving(scan=scan(row()), record=ASKED), Act.NOTHING, COPYING, None, "1 ledger"),
    ("asked, pod gone", leaving(scan=scan(row()), record=replace(ASKED, asked="old")), Act.COPY, COPYING, None, ""),
    ("asked, and none was left", leaving(scan=scan(row()), record=ASKED, step="Stopping"), Act.COPY, COPYING, None, ""),
    ("no progress", leaving(scan=scan(row()), record=ASKED, now=LATE), Act.COPY, COPYING, None, "none was copied in"),
    ("progress", leaving(scan=scan(row()), record=replace(ASKED, naming=2), now=LATE), Act.NOTE, COPYING, None, ""),
    ("unreadable by now", leaving(scan=scan(undecodable=1)), Act.NOTHING, READ_ONLY, REFUSED,
     "/ledgers/00/0000/L0000"),
    ("clear", leaving(scan=CLEAR, step="Copying"), Act.NOTHING, VERIFYING, None, "once more"),
    ("clear after it came back", leaving(scan=CLEAR, step="Forgetting"), Act.NOTHING, VERIFYING, None, "once more"),
    ("clear again", leaving(scan=CLEAR, step="Verifying"), Act.LOWER, STOPPING, None, ""),
    ("not asked for the largest ensemble", leaving(scan=CLEAR, step="Verifying", widest=None), Act.ASK, VERIFYING, None,
     ""),
    ("a larger ensemble by now", leaving(scan=CLEAR, step="Verifying", widest=Widest(4, "namespace t/n")), Act.STOP,
     None, STUCK, "namespace t/n now requires 4"),
    ("away, clear", leaving(storage=GONE, readonly=None, scan=CLEAR, step="Stopping"), Act.LOWER, STOPPING, None, ""),
    ("time is over", leaving(now=NOW + timedelta(seconds=600)), Act.SCAN, READ_ONLY, None, ""),
    ("time is over, looked", leaving(now=NOW + timedelta(seconds=600), scan=scan(row()), step="Copying"), Act.STOP,
     None, STUCK, f"at step Copying. At that time 1 ledgers still referenced the bookie: 7 ({TOPIC})"),
    ("stopped", leaving(record=replace(MEMO, stopped=5, why="w")), Act.WRITABLE, None, STUCK, "w"),
    ("stopped, freed", leaving(record=replace(MEMO, stopped=5, why="w", restored=True)), Act.NOTHING, None,
     STUCK, "w"),
    ("changed since, read-only", leaving(record=replace(MEMO, stopped=4)), Act.WRITABLE, None, None,
     "until the operator retries"),
    ("changed since", before(record=replace(MEMO, stopped=4), scan=CLEAR), Act.BEGIN, READ_ONLY, None, ""),
    # taken back
    ("raised again", leaving(desired=4), Act.WRITABLE, READ_ONLY, None, "raised again"),
    ("raised again, freed", leaving(desired=4, record=replace(MEMO, restored=True)), Act.END, None, None, ""),
    ("raised again, writable", leaving(desired=4, readonly=False, storage=FULL), Act.END, None, None, ""),
    ("raised again, silent", leaving(desired=4, readonly=None), Act.NOTHING, None, None, "cannot read whether"),
    ("raised again, without its pod", outside(desired=4, step="Stopping"), Act.NOTHING, STOPPING, None,
     "does not exist yet"),
    ("a higher one by hand", leaving(replicas=5), Act.WRITABLE, READ_ONLY, None, "higher ordinal"),
    # without its pod
    ("its pod ends", outside(pod=True), Act.NOTHING, STOPPING, None, "pod"),
    ("registered still", outside(storage=QUIET), Act.NOTHING, STOPPING, None, "still registered"),
    ("not looked again", outside(), Act.SCAN, READ_ONLY, None, ""),
    ("a ledger names it", outside(scan=scan(row())), Act.RAISE, READ_ONLY, None, "7"),
    ("nobody can tell", outside(scan=scan(undecodable=1)), Act.RAISE, READ_ONLY, None, "cannot be read"),
    ("a ledger names it, no volume", outside(scan=scan(row()), claims=()), Act.NOTHING, None,
     REFUSED, "no longer has a pod and a volume"),
    ("clear, by hand", outside(scan=CLEAR, record=None), Act.BEGIN, FORGETTING, None, ""),
    ("clear", outside(scan=CLEAR), Act.FORGET, FORGETTING, None, ""),
    ("cookie gone by another hand", outside(storage=FORGOTTEN), Act.SCAN, None, None, ""),
    ("cookie gone by another hand, needed", outside(storage=FORGOTTEN, scan=scan(row())), Act.NOTHING, None, REFUSED,
     "operator keeps its PersistentVolumeClaims"),
    ("cookie gone by another hand, clear", outside(storage=FORGOTTEN, scan=CLEAR), Act.MARK, FORGETTING, None, ""),
    ("cookie gone", outside(storage=FORGOTTEN, record=FORGOT), Act.MARK, FORGETTING, None, ""),
    ("cookie gone, raised again", outside(storage=FORGOTTEN, desired=4, record=FORGOT), Act.MARK, FORGETTING, None,
     ""),
    ("marked", outside(storage=FORGOTTEN, record=FORGOT, claims=(replace(CLAIM, mark=EmptyMark(ME, "i", "")),)),
     Act.END,
     None, None, ""),
    ("claims go", outside(storage=FORGOTTEN, record=FORGOT, claims=(replace(CLAIM, going=True),)), Act.END, None, None,
     ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "act", "step", "reason", "said"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_next(facts: DecommissionFacts, act: Act, step: Step | None, reason: Reason | None, said: str) -> None:
    found = next_step(facts)
    assert found is not None
    assert (found.act, found.step, found.reason) == (act, step, reason), found
    assert said in found.text
    assert found.text or act in (Act.ASK, Act.SCAN)


@pytest.mark.parametrize("facts", [leaving(record=None, desired=4), outside(storage=FORGOTTEN, record=None)])
def test_nothing_to_do(facts: DecommissionFacts) -> None:
    assert next_step(facts) is None


def test_another_pod_is_asked_where_the_first_did_nothing() -> None:
    helpers = (Helper(0, "h0"), Helper(1, "h1"))
    found = next_step(leaving(scan=scan(row()), record=ASKED, now=LATE, helpers=helpers))
    assert found is not None and found.helper == helpers[1]


def test_after_a_round_what_was_there_is_done() -> None:
    under_way = replace(MEMO, handles=Handles(after="persistent://t/n/z", suspect=3), through=40)
    assert round_now(under_way) == replace(MEMO, handles=Handles(unloaded=40))
    missed = replace(under_way, missed=True)
    assert round_now(missed) == replace(under_way, handles=Handles(suspect=3), missed=False)


def test_what_was_made_while_it_was_writable_is_suspected() -> None:
    first = readonly_now(DecommissionRecord(ME, 3, NOW), RUN)
    assert (first.run, first.handles) == (RUN, Handles())
    assert readonly_now(first, RUN) == first, "a pass that was killed is no restart"
    copying = replace(first, asked="h0", last_ledger=40, handles=Handles(unloaded=39))
    again = readonly_now(copying, "uid/1")
    assert (again.run, again.asked, again.handles) == ("uid/1", None, Handles(suspect=40))
    for free in (copying.before_restore(), copying.after_restore(), copying):
        found = readonly_now(free, RUN)
        assert found.handles == Handles(suspect=40) and not found.restored and not found.restoring
    assert readonly_now(replace(again, last_ledger=60), "uid/2").handles.suspect == 40, (
        "the earlier one is not done yet"
    )


@pytest.mark.parametrize("step", Step)
def test_a_step_is_shown_before_it_is_done(step: Step) -> None:
    order = list(Step)
    found = Next(Act.LOWER, "", step)
    assert not may_act(found, None) and not may_act(found, "Unheard")
    for shown in order:
        assert may_act(found, shown.value) is (order.index(shown) >= order.index(step))
    assert may_act(Next(Act.BEGIN, "", step), None)


def test_ordinals_are_numbers() -> None:
    cookies = [OWN.id(n) for n in range(13)] + ["c-bookie-99.elsewhere:3181", "10.0.0.1:3181"]
    assert subject(OWN, cookies, 13, 9) == 12
    assert subject(OWN, cookies, 9, 9) == 12
    assert subject(OWN, cookies[:10], 10, 9) == 9
    assert subject(OWN, cookies[:9], 9, 9) is None
    assert subject(OWN, [], 2, 1) == 1


@pytest.mark.parametrize(
    "record",
    [MEMO, ASKED, replace(ASKED, stopped=7, why="because", restored=True, naming=0), FULL_MEMO, MEMO.before_restore()],
)
def test_a_memo_is_read_as_it_was_written(record: DecommissionRecord) -> None:
    assert parse_decommission_record(record.data()) == record


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"bookie": 1, "ordinal": "x", "since": "2026"}', b"3"])
def test_a_memo_that_says_nothing(data: bytes) -> None:
    assert parse_decommission_record(data) is None


# ------------------------------------------------------------------------------------------------------- properties

SCANS = st.one_of(
    st.none(),
    st.builds(
        lambda rows, undecodable: scan(*rows, undecodable=undecodable),
        st.lists(
            st.builds(
                row,
                st.integers(0, 99),
                st.sampled_from([each.value for each in LedgerState]),
                st.sampled_from(list(LedgerUse)),
                st.sampled_from([None, TOPIC]),
                st.integers(1, 5),
            ),
            max_size=3,
        ),
        st.integers(0, 2),
    ),
)
FACTS = st.builds(
    DecommissionFacts,
    bookie=st.just(ME),
    ordinal=st.just(3),
    replicas=st.integers(1, 6),
    desired=st.integers(1, 6),
    others=st.just(tuple(B[:3])),
    storage=st.builds(
        StorageFacts,
        writable=st.frozensets(st.sampled_from(B)),
        readonly=st.frozensets(st.sampled_from(B[2:])),
        cookies=st.frozensets(st.sampled_from(B)),
        under_replicated=st.builds(UnderReplicated, st.integers(0, 2), st.booleans()),
        auditor=st.sampled_from([None, "a"]),
        disabled=st.booleans(),
    ),
    pod=st.booleans(),
    readonly=st.sampled_from([None, True, False]),
    claims=st.sampled_from([(), (CLAIM,), (replace(CLAIM, mark=EmptyMark(ME, "i", "")),)]),
    record=st.sampled_from(
        [None, MEMO, ASKED, FORGOT, replace(MEMO, stopped=5), replace(MEMO, stopped=4, restored=True)]
    ),
    step=st.sampled_from([None, *(each.value for each in Step)]),
    helpers=st.sampled_from([(), (Helper(0, "h0"),), (Helper(1, "h1"),)]),
    widest=st.one_of(st.none(), st.builds(Widest, st.integers(1, 4), st.just("w"))),
    obstacle=st.sampled_from([None, "the roll"]),
    generation=st.just(5),
    now=st.integers(0, 1000).map(lambda seconds: NOW + timedelta(seconds=seconds)),
    timeout=st.just(600.0),
    scan=SCANS,
    process=st.sampled_from([RUN, "uid/1"]),
)


@given(FACTS)
def test_nothing_goes_that_a_ledger_may_need(facts: DecommissionFacts) -> None:
    found = next_step(facts)
    if found is None:
        return
    if found.act in (Act.LOWER, Act.FORGET):
        assert facts.scan is not None and facts.scan.clear, "looked at in this pass, and nothing found"
        assert ME not in facts.storage.writable - facts.storage.readonly, "it may have taken something meanwhile"
    if found.act is Act.LOWER:
        assert facts.replicas == 4 and facts.desired <= 3 and facts.readonly is not False
        assert facts.readonly or not facts.registered
    if found.act is Act.FORGET:
        assert not facts.pod and not facts.registered and facts.replicas <= 3 and facts.desired <= 3
    if found.act is Act.MARK:
        assert not facts.has_cookie and not facts.registered and facts.record is not None
        assert facts.record.forgot or (facts.scan is not None and facts.scan.clear), "a claim is marked after a look"
    if found.act is Act.COPY:
        assert facts.scan is not None and not facts.scan.writers, "a writer would be fenced"
    if found.act is Act.RAISE:
        assert facts.scan is not None and not facts.scan.clear and facts.claims
    if found.act in (Act.READ_ONLY, Act.UNLOAD, Act.COPY, Act.LOWER):
        assert facts.record is not None and facts.record.stopped is None


@given(FACTS)
def test_more_facts_are_asked_for_once(facts: DecommissionFacts) -> None:
    """A look is asked for where there was none, and what was asked for is enough to decide."""
    found = next_step(facts)
    if found is not None and found.act is Act.SCAN:
        assert facts.scan is None
        further = next_step(replace(facts, scan=CLEAR))
        assert further is not None and further.act is not Act.SCAN
    if found is not None and found.act is Act.ASK:
        assert facts.widest is None
