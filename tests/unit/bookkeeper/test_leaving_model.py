"""A small model of bookies and ledgers, played by chance against the decisions: nothing is lost, whatever comes
between, and in the end there are as many bookies as wanted. Ordinals above nine are among them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.domain.bookkeeper.affinity import Widest
from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.dataplane.decommission.decommission import (
    asked_now,
    may_act,
    next_step,
    readonly_now,
    round_now,
    subject,
)
from pulsar_operator.domain.dataplane.decommission.decommission_facts import Act, DecommissionFacts, Helper, Next
from pulsar_operator.domain.dataplane.decommission.decommission_record import DecommissionRecord
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim, EmptyMark, may_return

OWN = OwnBookies("c-bookie", "h.ns.svc.cluster.local:3181")
ENSEMBLE = 2
INSTANCE = "i"


@dataclass
class Bookie:
    """One with a pod."""

    readonly: bool = False
    run: int = 0
    """How often it started."""


@dataclass
class Placed:
    """A ledger: on which volume of which bookie."""

    topic: str | None
    open: bool
    on: dict[int, int]


@dataclass
class Model:
    """Bookies by ordinal, volumes by ordinal, ledgers by id."""

    desired: int
    random: Random
    replicas: int = 0
    pods: dict[int, Bookie] = field(default_factory=dict)
    volumes: dict[int, int] = field(default_factory=dict)
    marks: set[int] = field(default_factory=set)
    cookies: set[int] = field(default_factory=set)
    ledgers: dict[int, Placed] = field(default_factory=dict)
    record: DecommissionRecord | None = None
    step: dict[str, str] = field(default_factory=dict)
    queue: list[int] = field(default_factory=list)
    helper: int = 0
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    gone: list[int] = field(default_factory=list)
    """Ordinals whose cookie was deleted, in order."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    # ------------------------------------------------------------------------------------------------------- world

    def kubernetes(self) -> None:
        """Pods as the StatefulSet says; volumes are made where there is none, and stay."""
        for ordinal in [each for each in self.pods if each >= self.replicas]:
            del self.pods[ordinal]
        for ordinal in range(self.replicas):
            if ordinal not in self.volumes:
                self.volumes[ordinal] = next(self.numbers)
                assert ordinal not in self.cookies, "a new volume under an old cookie"
            if ordinal not in self.pods:
                assert ordinal not in self.marks, "a volume of a bookie that was forgotten"
                self.cookies.add(ordinal)
                self.pods[ordinal] = Bookie()

    def write(self, topic: str | None) -> None:
        """A ledger more, open, on writable bookies; that of before is closed."""
        writable = [ordinal for ordinal, each in self.pods.items() if not each.readonly]
        if len(writable) >= ENSEMBLE:
            chosen = self.random.sample(sorted(writable), ENSEMBLE)
            self.close(topic)
            number = next(self.numbers)
            self.ledgers[number] = Placed(topic, True, {ordinal: self.volumes[ordinal] for ordinal in chosen})

    def close(self, topic: str | None) -> None:
        """What a topic writes to is closed."""
        for placed in self.ledgers.values():
            placed.open = placed.open and (topic is None or placed.topic != topic)

    def copy(self, most: int) -> None:
        """Auto-recovery copies some ledgers."""
        for ordinal in self.queue:
            for placed in [each for each in self.ledgers.values() if ordinal in each.on][:most]:
                others = [n for n, each in self.pods.items() if not each.readonly and n not in placed.on]
                if others:
                    to = self.random.choice(sorted(others))
                    del placed.on[ordinal]
                    placed.on[to] = self.volumes[to]
                    placed.open = False
        self.queue = [ordinal for ordinal in self.queue if any(ordinal in each.on for each in self.ledgers.values())]

    def restart(self, ordinal: int) -> None:
        """A bookie forgets that it is read-only."""
        if ordinal in self.pods:
            self.pods[ordinal].readonly = False
            self.pods[ordinal].run += 1

    # ---------------------------------------------------------------------------------------------------- operator

    def facts(self) -> DecommissionFacts | None:
        cookies = {OWN.id(each) for each in self.cookies}
        found = self.record.ordinal if self.record is not None else subject(OWN, cookies, self.replicas, self.desired)
        if found is None:
            return None
        readonly = {OWN.id(n) for n, each in self.pods.items() if each.readonly}
        pod = self.pods.get(found)
        return DecommissionFacts(
            bookie=OWN.id(found), ordinal=found, replicas=self.replicas, desired=self.desired,
            others=tuple(OWN.id(n) for n in range(self.replicas) if n != found),
            storage=StorageFacts(
                writable=frozenset({OWN.id(n) for n in self.pods} - readonly), readonly=frozenset(readonly),
                cookies=frozenset(cookies), under_replicated=UnderReplicated(0), auditor="a", disabled=False,
            ),
            pod=pod is not None, readonly=pod.readonly if pod is not None else None, claims=self.claims(found),
            record=self.record, step=self.step.get(OWN.id(found)), helpers=(Helper(0, f"h{self.helper}"),),
            widest=Widest(ENSEMBLE, "w"), obstacle=None, generation=1, now=self.now, timeout=1e9,
            process=f"u/{pod.run}" if pod is not None else "",
        )  # fmt: skip

    def claims(self, ordinal: int) -> tuple[Claim, ...]:
        if ordinal not in self.volumes:
            return ()
        mark = EmptyMark(OWN.id(ordinal), INSTANCE, "") if ordinal in self.marks else None
        return (Claim(f"v-{ordinal}", str(self.volumes[ordinal]), ordinal, mark),)

    def scan(self, ordinal: int) -> LedgerScan:
        rows = [
            NamingLedger(
                number,
                LedgerState.OPEN if each.open else LedgerState.CLOSED,
                frozenset({OWN.id(ordinal)}),
                LedgerUse.DATA,
                each.topic,
                None,
                len(each.on),
            )
            for number, each in self.ledgers.items()
            if ordinal in each.on
        ]
        unfinished = tuple(each for each in rows if each.state is LedgerState.OPEN)
        closed = tuple(each for each in rows if each not in unfinished)
        widest = rows[0] if rows else None
        handles = self.record.handles if self.record is not None else Handles()
        names = {each.writer for each in rows if each.writer is not None and each.ledger > handles.unloaded}
        writers = tuple(sorted(each for each in names if each > handles.after))
        highest = max(self.ledgers, default=-1)
        return LedgerScan(
            9, len(rows), len(unfinished), 0, unfinished, closed, (), widest, writers=writers, highest=highest
        )

    def operate(self, *, killed: bool) -> None:
        """A pass; ``killed``: it ends before the status is written."""
        self.now += timedelta(seconds=5)
        facts = self.facts()
        shown: dict[str, str] = {}
        forgotten = False
        if facts is not None:
            forgotten = facts.forgotten
            found = next_step(facts)
            while found is not None and found.act is Act.SCAN and facts.scan is None:
                facts = replace(facts, scan=self.scan(facts.ordinal))
                found = next_step(facts)
            if found is not None:
                if may_act(found, facts.step):
                    self.act(facts, found)
                shown = {facts.bookie: found.step.value} if found.step is not None else {}
        if self.replicas < self.desired and not forgotten:
            self.grow(self.desired)
        if not killed:
            self.step = shown

    def act(self, facts: DecommissionFacts, found: Next) -> None:
        ordinal, record = facts.ordinal, self.record
        if found.act is Act.BEGIN:
            self.record = DecommissionRecord(facts.bookie, ordinal, self.now, ensemble=ENSEMBLE)
        elif found.act in (Act.READ_ONLY, Act.WRITABLE):
            assert record is not None
            self.pods[ordinal].readonly = found.act is Act.READ_ONLY
            to = record.after_restore()
            self.record = readonly_now(record, facts.process) if found.act is Act.READ_ONLY else to
        elif found.act is Act.UNLOAD:
            assert record is not None and facts.scan is not None
            for topic in found.topics:
                self.close(topic)
            through = facts.scan.highest if record.through is None else record.through
            self.record = replace(record, handles=replace(record.handles, after=found.topics[-1]), through=through)
        elif found.act is Act.ROUND:
            assert record is not None
            self.record = round_now(record)
        elif found.act in (Act.COPY, Act.NOTE):
            assert record is not None and found.helper is not None and facts.scan is not None
            self.record = asked_now(record, found.helper, facts.scan, self.now)
            self.queue += [ordinal] if found.act is Act.COPY else []
        elif found.act is Act.LOWER:
            assert ordinal == self.replicas - 1
            self.replicas -= 1
        elif found.act is Act.RAISE:
            self.grow(ordinal + 1)
        elif found.act is Act.FORGET:
            assert record is not None
            self.record = replace(record, forgot=True)
            self.cookies.discard(ordinal)
            self.gone.append(ordinal)
            assert not any(ordinal in each.on for each in self.ledgers.values()), "a ledger may need it"
        elif found.act is Act.MARK:
            self.marks.add(ordinal)
        elif found.act is Act.END:
            self.record = None

    def grow(self, to: int) -> None:
        while self.replicas < to:
            ordinal = self.replicas
            claims = self.claims(ordinal)
            found = may_return(OWN.id(ordinal), claims, cookie=ordinal in self.cookies, instance_id=INSTANCE)
            assert found.foreign is None, found
            if not found.free:
                del self.volumes[ordinal]
                self.marks.discard(ordinal)
                return
            self.replicas += 1

    # ------------------------------------------------------------------------------------------------------- truth

    def check(self) -> None:
        """Every copy that the metadata names is on the volume it was written to."""
        for number, placed in self.ledgers.items():
            assert len(placed.on) == ENSEMBLE
            for ordinal, volume in placed.on.items():
                assert self.volumes.get(ordinal) == volume, f"ledger {number} on {ordinal}"

    def settle(self, rounds: int = 600) -> None:
        """Until nothing is under way."""
        for _ in range(rounds):
            self.operate(killed=False)
            self.kubernetes()
            self.copy(3)
            self.check()
            if self.replicas == self.desired and self.record is None and max(self.cookies) < self.desired:
                return
        raise AssertionError(f"no end: {self.replicas} of {self.desired}, {self.record}, {self.step}")


def begin(bookies: int, random: Random) -> Model:
    model = Model(bookies, random, replicas=bookies)
    model.kubernetes()
    for topic in ("a", "b", "c", None):
        for _ in range(6):
            model.write(topic)
    return model


EVENTS = (
    "operate",
    "operate",
    "operate",
    "killed",
    "kubernetes",
    "copy",
    "write",
    "restart",
    "forget",
    "helper",
    "hand",
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 12)), max_size=120), st.integers(0, 2**16))
def test_nothing_is_lost_whatever_comes_between(events: list[tuple[str, int]], seed: int) -> None:
    model = begin(4, Random(seed))
    model.desired = 2
    for event, number in events:
        match event:
            case "operate" | "killed":
                model.operate(killed=event == "killed")
            case "kubernetes":
                model.kubernetes()
            case "copy":
                model.copy(number)
            case "write":
                model.write(("a", "b", "c", None)[number % 4])
            case "restart":
                model.restart(number % 4)
            case "forget":
                model.step.clear()
            case "helper":
                model.helper += 1
                model.queue.clear()
            case "hand":
                if number < 3:
                    model.replicas = max(1, model.replicas - 1)
                else:
                    model.desired = 2 + number % 3
        model.check()
    model.settle()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16))
def test_nine_thirteen_nine(seed: int) -> None:
    """By number: the text of 9 comes after that of 12."""
    model = begin(9, Random(seed))
    model.desired = 13
    model.settle()
    for topic in ("a", "b", "c", None) * 6:
        model.write(topic)
    model.desired = 9
    model.settle()
    assert model.gone == [12, 11, 10, 9]
    assert sorted(model.pods) == list(range(9))
    model.desired = 13
    model.settle()
    assert sorted(model.pods) == list(range(13))
