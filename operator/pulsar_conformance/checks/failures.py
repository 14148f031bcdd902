"""Processes of the instance killed, or standing still, while counted messages are published and consumed."""

from __future__ import annotations

import time
from typing import Any

from pulsar_conformance.context import Context
from pulsar_conformance.kit.brokers import several
from pulsar_conformance.kit.counted import RATE, accounts, counted_namespace, counting, goes_on
from pulsar_conformance.kit.faults import (
    Copies,
    addresses,
    copies,
    host,
    made,
    none_made,
    owner_now,
    quick,
    session,
    standing_still,
    zookeepers,
)
from pulsar_conformance.model import CheckFailed, check
from pulsar_conformance.waiting import MARGIN

BEFORE = 20
"""Messages published together before the fault."""
BACK = 240.0
"""Seconds for a process to be there again."""
COPIED = 330.0
"""Seconds for copies to be elsewhere: a bookie's session ends, an auditor may have to be elected, attempts time out."""
AGAIN = 5.0
"""Seconds between two checks that."""
TWO_COPIES = {
    "bookkeeperEnsemble": 2,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 0,
}


def _published(ctx: Context, namespace: str, count: int = BEFORE) -> tuple[str, list[str]]:
    """A topic, and what was published to it before anything happened."""
    topic = ctx.topic("before", namespace=namespace)
    texts = [f"m{number}" for number in range(count)]
    ctx.send(ctx.producer(topic), texts)
    return topic, texts


def _still_read(ctx: Context, topic: str, texts: list[str], when: str) -> str:
    """Read a topic from its beginning by a client that knows nothing yet; as a message, how much."""
    client = ctx.client(operation_timeout_seconds=60)
    got = ctx.texts(ctx.receive(ctx.reader(topic, client=client), len(texts), within=60, ack=False))
    ctx.expect(got == texts, f"{when}: {len(texts)} messages published before, read {got}")
    return f"{len(texts)} published before read {when}"


def _brokers_back(ctx: Context, number: int) -> None:
    path = f"brokers/{ctx.setting('clusterName')}"
    ctx.eventually(lambda: len(quick(ctx).get(path)) >= number, f"{number} brokers again", within=BACK, every=1)


def _another_owner(ctx: Context, topic: str, former: str, within: float) -> str:
    """The broker that serves the topic once it is another one."""

    def another() -> str:
        found = owner_now(ctx, topic)
        return "" if found == former else found

    return ctx.eventually(another, f"a broker other than {former} serves the topic", within=within, every=0.5)


@check(
    "failures.bookie_killed",
    proves="When one bookie of a write quorum is killed, producers keep publishing, all acknowledged messages stay "
    "readable and ledgers are replicated again",
    concepts=("C.quorum", "A.cluster"),
    seconds=150,
    alone=True,
)
def bookie_killed(ctx: Context) -> str:
    """Two copies of all; a bookie that has one of the open ledger's is killed, and kept from coming back.

    First the topic's ledger continues without it, then closed ledgers get their second copy elsewhere.
    """
    ctx.may_fault()
    bookies = len(ctx.admin.get("bookies/all")["bookies"])
    ctx.require(bookies >= 3, f"needs 3 bookies, this cluster has {bookies}")
    namespace = counted_namespace(ctx, persistence=TWO_COPIES)
    topic = ctx.topic(namespace=namespace)
    with counting(ctx, topic, send_timeout=60 + ctx.number("bookkeeperClientTimeoutInSeconds")) as run:
        bookie = copies(ctx, topic)[-1].ensembles[-1][0]
        # A topic that needs no cursor is unloaded without asking the bookie that does not answer.
        plain = counted_namespace(ctx, persistence=TWO_COPIES, deduplicationEnabled=False)
        before, texts, closed = _closed_on(ctx, plain, bookie)
        with run.operation(f"bookie {bookie} killed", settle_within=None):
            ctx.fault("kill", f"bookie {bookie}")
            ctx.eventually(
                lambda: bookie not in copies(ctx, topic)[-1].ensembles[-1],
                f"the topic's ledger continues without {bookie}",
                within=60,
            )
            begin = time.monotonic()
            with standing_still(ctx, f"bookie {bookie}"):
                goes_on(ctx, run, within=60)
                _replicated(ctx, before, bookie, closed)
                seconds = time.monotonic() - begin
                read = _still_read(ctx, before, texts, "without it")
        goes_on(ctx, run, within=60)
        counts = accounts(ctx, run, topic)
    return (
        f"{bookie} of {bookies} bookies killed: the open ledger went on without it, {len(closed)} closed ones had "
        f"both copies elsewhere after {seconds:.0f} s; {read}; {counts}"
    )


def _closed_on(ctx: Context, namespace: str, bookie: str) -> tuple[str, list[str], set[int]]:
    """A topic with a closed ledger that has a copy on a bookie: the topic, its messages, the ids of such ledgers."""
    topic, texts = _published(ctx, namespace)
    producer = ctx.producer(topic)

    def closed() -> list[Copies]:
        # An unload closes the ledger; which bookies the next one gets is chance.
        ctx.admin.put(f"{ctx.path(topic)}/unload")
        found = [one for one in copies(ctx, topic) if one.closed and one.last >= 0 and one.names(bookie)]
        if not found:
            more = [f"m{len(texts) + number}" for number in range(BEFORE)]
            ctx.send(producer, more)
            texts.extend(more)
        return found

    found = ctx.eventually(closed, f"a closed ledger with a copy on {bookie}", within=60)
    return topic, texts, {one.id for one in found}


def _replicated(ctx: Context, topic: str, bookie: str, ledgers: set[int]) -> None:
    """Wait until these ledgers of a topic have nothing on a bookie that stands still any more."""

    def elsewhere() -> bool:
        # Whoever supervises it starts it again when it does not answer.
        ctx.fault("pause", f"bookie {bookie}")
        # A broker that has read a ledger goes on to say for minutes where it was.
        ctx.admin.put(f"{ctx.path(topic)}/unload")
        return not any(one.names(bookie) for one in copies(ctx, topic) if one.id in ledgers)

    ctx.eventually(elsewhere, f"ledgers {sorted(ledgers)} have no copy on {bookie}", within=COPIED, every=AGAIN)


@check(
    "failures.bookie_fenced",
    proves="A former owner that still runs cannot add to a ledger its successor has recovered",
    concepts="C.ledger.fencing",
    seconds=120,
    alone=True,
)
def bookie_fenced(ctx: Context) -> str:
    """The owner stands still past its session with sends in its hands; another recovers the ledger; it continues."""
    ctx.may_fault()
    brokers, seconds = several(ctx, 2), session(ctx)
    namespace = counted_namespace(ctx)
    topic = ctx.topic(namespace=namespace)
    before, texts = _published(ctx, namespace)
    with counting(ctx, topic, send_timeout=seconds + 120) as run:
        former = owner_now(ctx, topic)
        ledger = copies(ctx, topic)[-1].id
        with run.operation(f"broker {former} stands still", settle_within=None):
            with standing_still(ctx, f"broker {former}"):
                heir = _another_owner(ctx, topic, former, seconds + MARGIN)
                found = ctx.eventually(lambda: _recovered(ctx, topic, ledger), "the ledger is recovered", within=60)
            _brokers_back(ctx, len(brokers))
        goes_on(ctx, run, within=seconds + 60)
        now = owner_now(ctx, topic)
        ctx.expect(now != former, f"{former} serves the topic again")
        counts = accounts(ctx, run, topic)
        left = ctx.eventually(lambda: _recovered(ctx, topic, ledger), "the ledger is closed", within=60)
        ctx.expect(left.last == found.last, f"{former} added to ledger {ledger}: {found.last + 1} -> {left.last + 1}")
        read = _still_read(ctx, before, texts, "after")
    return (
        f"{former} stood still past its session of {seconds:.0f} s, {heir} recovered ledger {ledger} with "
        f"{found.last + 1} entries, and so it stayed; {read}; {counts}"
    )


def _recovered(ctx: Context, topic: str, ledger: int) -> Copies:
    """The ledger, closed, while the topic continues in another. Raises CheckFailed until it is."""
    found = copies(ctx, topic)
    for one in found[:-1]:
        if one.id == ledger and one.closed:
            return one
    raise CheckFailed(f"of {[(one.id, 'closed' if one.closed else 'open') for one in found]}")


@check(
    "failures.broker_killed",
    proves="When a broker is killed its bundles are served by others within the session timeout, nothing "
    "acknowledged is lost",
    concepts=("A.broker", "C.ledger.fencing"),
    seconds=120,
    alone=True,
)
def broker_killed(ctx: Context) -> str:
    """The owner is killed and kept from coming back, for else it may take its bundles again itself."""
    ctx.may_fault()
    brokers, seconds = several(ctx, 2), session(ctx)
    namespace = counted_namespace(ctx)
    topic = ctx.topic(namespace=namespace)
    before, texts = _published(ctx, namespace)
    with counting(ctx, topic, send_timeout=seconds + 120) as run:
        former = owner_now(ctx, topic)
        with run.operation(f"broker {former} killed", settle_within=None):
            begin = time.monotonic()
            ctx.fault("kill", f"broker {former}")
            with standing_still(ctx, f"broker {former}"):
                heir = _another_owner(ctx, topic, former, seconds + MARGIN)
                taken = time.monotonic() - begin
                goes_on(ctx, run, within=seconds + 60)
                read = _still_read(ctx, before, texts, "without it")
            _brokers_back(ctx, len(brokers))
        counts = accounts(ctx, run, topic)
    return f"{former} killed, {heir} serves its bundle after {taken:.0f} s (session {seconds:.0f} s); {read}; {counts}"


@check(
    "failures.zookeeper_leader_killed",
    proves="When ZooKeeper's leader is killed, clients keep working, and topics can be created under the new leader",
    concepts=("A.cluster", "C.cas"),
    seconds=30,
    alone=True,
)
def zookeeper_leader_killed(ctx: Context) -> str:
    """Topics are made one after another while a new leader is elected: each that was made is there in the end."""
    ctx.may_fault()
    servers, seconds = zookeepers(ctx, 3), session(ctx)
    namespace = counted_namespace(ctx)
    topic = ctx.topic(namespace=namespace)
    before, texts = _published(ctx, namespace)
    with counting(ctx, topic, send_timeout=60) as run:
        with run.operation("ZooKeeper's leader killed", settle_within=None):
            killed = ctx.fault("kill", "zookeeper-leader")
            ctx.expect(killed, "the fault command does not say which server it killed")
            slowest, refused, names = 0.0, 0, [f"persistent://{namespace}/made-{number}" for number in range(BEFORE)]
            for name in names:
                begin = time.monotonic()
                refused += made(ctx, ctx.path(name), within=seconds)
                slowest = max(slowest, time.monotonic() - begin)
            goes_on(ctx, run, within=seconds)
        listed = ctx.eventually(lambda: quick(ctx).get(f"persistent/{namespace}"), "the list of topics")
        ctx.expect(set(names) <= set(listed), f"made and not there: {sorted(set(names) - set(listed))}")
        read = _still_read(ctx, before, texts, "after")
        counts = accounts(ctx, run, topic)
    return (
        f"{killed} of {servers} servers killed: {BEFORE} topics made right after, the slowest in {slowest:.1f} s, "
        f"{refused} calls refused; {read}; {counts}"
    )


@check(
    "failures.zookeeper_lost",
    proves="While ZooKeeper has no quorum connected producers and consumers keep working",
    concepts=("A.cluster", "C.znodes"),
    seconds=45,
    alone=True,
)
def zookeeper_lost(ctx: Context) -> str:
    """All servers stand still for half of a session, 15 s at most; that they do is seen by no topic being made."""
    ctx.may_fault()
    zookeepers(ctx, 1)
    limit = session(ctx)
    seconds = min(15.0, limit / 2)
    namespace = counted_namespace(ctx)
    topic = ctx.topic(namespace=namespace)
    before, texts = _published(ctx, namespace)
    with counting(ctx, topic, send_timeout=60) as run:
        with run.operation("ZooKeeper stands still", settle_within=None):
            with standing_still(ctx, "zookeeper"):
                begin, first = time.monotonic(), run.progress()
                refused = none_made(ctx, ctx.path(f"persistent://{namespace}/meanwhile") + "-{}", begin + seconds)
                lasted, last = time.monotonic() - begin, run.progress()
            confirmed, received = last.confirmed - first.confirmed, last.received - first.received
            least = RATE * lasted / 2
            ctx.expect(
                min(confirmed, received) > least,
                f"{confirmed} messages confirmed and {received} received in {lasted:.0f} s, {least:.0f} expected",
            )
            made(ctx, ctx.path(f"persistent://{namespace}/after"), within=BACK)
        read = _still_read(ctx, before, texts, "after")
        counts = accounts(ctx, run, topic)
    return (
        f"no ZooKeeper for {lasted:.0f} s: {refused} attempt(s) to make a topic failed, {confirmed} messages confirmed "
        f"and {received} received; then a topic could be made; {read}; {counts}"
    )


CLIENTS = 16


@check(
    "failures.proxy_killed",
    proves="When a proxy is killed its clients continue through another",
    concepts="A.proxy",
    seconds=30,
    alone=True,
)
def proxy_killed(ctx: Context) -> str:
    """Several clients over all proxies; the one is killed that the counted producer came through.

    From where a connection comes is in the topic's stats: behind a proxy that is the proxy's address.
    """
    ctx.may_fault()
    namespace = counted_namespace(ctx)
    topic, spread = (ctx.topic(name, namespace=namespace) for name in ("topic", "before"))
    producers: dict[str, Any] = {}
    for number in range(CLIENTS):
        name = f"client-{number}"
        producers[name] = ctx.producer(
            spread, client=ctx.client(), producer_name=name, send_timeout_millis=90_000, batching_enabled=False
        )
    texts = [f"before {name}" for name in producers]
    for text, producer in zip(texts, producers.values(), strict=True):
        ctx.send(producer, [text])
    with counting(ctx, topic, send_timeout=90) as run:
        (client_proxy,) = addresses(ctx, topic).values()
        at = addresses(ctx, spread)
        proxies = {host(address) for address in (client_proxy, *at.values())}
        ctx.require(
            len(proxies) > 1,
            f"needs 2 proxies, the connections of {CLIENTS + 1} clients come from {', '.join(proxies)}",
        )
        killed = host(client_proxy)
        cut = [name for name, address in at.items() if host(address) == killed]
        with run.operation(f"proxy {killed} killed", settle_within=None):
            ctx.fault("kill", f"proxy {killed}")
            ctx.eventually(
                lambda: client_proxy not in addresses(ctx, topic).values() and addresses(ctx, topic),
                "the counted producer has another connection",
                within=60,
            )
            goes_on(ctx, run, within=60)
            for name, producer in producers.items():
                ctx.send(producer, [f"after {name}"])
                texts.append(f"after {name}")
            # A request may still reach the proxy that is gone.
            now = ctx.eventually(
                lambda: {**addresses(ctx, spread), "counted": next(iter(addresses(ctx, topic).values()))},
                "the statistics name the connections of all clients",
                within=30,
            )
        moved = [name for name in (*cut, "counted") if host(now[name]) != killed]
        ctx.expect(moved, f"none of {len(cut) + 1} clients of {killed} came through another proxy")
        read = _still_read(ctx, spread, texts, "after")
        counts = accounts(ctx, run, topic)
    return (
        f"proxy {killed} of {len(proxies)} killed: {len(moved)} of its {len(cut) + 1} clients came through another, "
        f"all {CLIENTS + 1} publish; {read}; {counts}"
    )
