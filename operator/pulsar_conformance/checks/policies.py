"""Policies of namespaces on what is kept and for how long: retention, TTL, backlog quota, persistence."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pulsar

from pulsar_conformance.admin import AdminError
from pulsar_conformance.checks.storage import ledger_ids, ledgers, prompt_cursors, settled, subscribe, trim, unload
from pulsar_conformance.context import Context
from pulsar_conformance.model import check

NO_RETENTION = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
LONG_RETENTION = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}


def backlog(ctx: Context, topic: str, subscription: str = "sub") -> int:
    """Messages the subscription has not acknowledged."""
    return int(ctx.stats(topic, getPreciseBacklog=True)["subscriptions"][subscription]["msgBacklog"])


def _all_acknowledged(ctx: Context, topic: str, count: int) -> int:
    """Send, acknowledge all, close the ledger by an unload; the id of that ledger."""
    consumer, producer = ctx.consumer(topic), ctx.producer(topic)
    ctx.send(producer, [f"m{i}" for i in range(count)])
    ctx.receive(consumer, count)
    ctx.eventually(lambda: backlog(ctx, topic) == 0, "all is acknowledged")
    settled(ctx, topic)
    first = ledger_ids(ctx, topic)[0]
    unload(ctx, topic)
    ctx.send(producer, ["last"])
    return first


def _gone_by_trim(ctx: Context, topic: str, ledger: int, within: float) -> None:
    def gone() -> bool:
        trim(ctx, topic)
        return ledger not in ledger_ids(ctx, topic)

    ctx.eventually(gone, f"ledger {ledger} is deleted", within=within, every=0.5)


@check(
    "retention.keeps",
    proves="Messages every subscription has acknowledged stay readable within the retention; without one they go",
    concepts=("D.namespace.retention", "E.retention"),
    seconds=6,
)
def retention_keeps(ctx: Context) -> str:
    """The same in two namespaces, with a retention of an hour and with none: what a new reader finds after a trim."""
    kept_in, lost_in = ctx.new_namespace(), ctx.new_namespace()
    found: dict[str, list[str]] = {}
    for namespace, policy in ((lost_in, NO_RETENTION), (kept_in, LONG_RETENTION)):
        prompt_cursors(ctx, namespace)
        ctx.policy("retention", policy, namespace=namespace)
        topic = ctx.topic(namespace=namespace)
        ledger = _all_acknowledged(ctx, topic, 10)
        if policy is NO_RETENTION:
            _gone_by_trim(ctx, topic, ledger, within=20)
        else:
            trim(ctx, topic)
            ctx.expect(ledger in ledger_ids(ctx, topic), f"ledger {ledger} was deleted within its retention")
        found[namespace] = ctx.texts(ctx.drain(ctx.reader(topic), until=ctx.came("last")))
    all_of_them = [*(f"m{i}" for i in range(10)), "last"]
    ctx.expect(found[kept_in] == all_of_them, f"with a retention of 60 min a reader got {found[kept_in]}")
    ctx.expect(found[lost_in] == ["last"], f"without retention a reader got {found[lost_in]}")
    return "10 messages all acknowledged: a new reader gets all 10 with retention 60 min, none of them without"


@check(
    "retention.time",
    proves="Acknowledged messages go once they are older than the retention time, not before",
    concepts=("D.namespace.retention", "E.retention"),
    seconds=75,
)
def retention_time(ctx: Context) -> str:
    """Retention of a minute, the shortest there is; the broker is asked to trim all the time."""
    prompt_cursors(ctx)
    ctx.policy("retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": -1})
    topic = ctx.topic()
    # From before the ledger is closed, which is when Pulsar starts to count.
    begin = time.monotonic()
    ledger = _all_acknowledged(ctx, topic, 5)
    trim(ctx, topic)
    ctx.expect(ledger in ledger_ids(ctx, topic), "deleted immediately, not after a minute")
    _gone_by_trim(ctx, topic, ledger, within=110)
    took = time.monotonic() - begin
    ctx.expect(took >= 59, f"deleted after {took:.0f} s, before the minute was over")
    left = ctx.texts(ctx.drain(ctx.reader(topic), until=ctx.came("last")))
    ctx.expect(left == ["last"], f"a reader still got {left}")
    return f"retention 1 min: ledger {ledger} stayed through trims and was deleted after {took:.0f} s"


@check(
    "retention.size",
    proves="Of acknowledged messages the newest ledgers are kept, as many as the retention size takes; older ones go",
    concepts=("D.namespace.retention", "E.retention"),
    seconds=6,
)
def retention_size(ctx: Context) -> str:
    """Three closed ledgers of 0.6 MB with a retention of 1 MB and no limit in time: one goes."""
    prompt_cursors(ctx)
    ctx.policy("retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": 1})
    topic = ctx.topic()
    consumer, producer = ctx.consumer(topic), ctx.producer(topic)
    for _ in range(3):
        for _ in range(3):
            producer.send(b"x" * 200_000)
        ctx.receive(consumer, 3)
        ctx.eventually(lambda: backlog(ctx, topic) == 0, "all is acknowledged")
        settled(ctx, topic)
        unload(ctx, topic)
    ctx.send(producer, ["last"])
    ids = ledger_ids(ctx, topic)

    def trimmed() -> list[int]:
        trim(ctx, topic)
        left = ledger_ids(ctx, topic)
        return left if left[0] != ids[0] else []

    # Trims also come with each new ledger: the oldest one may be gone already.
    left = ctx.eventually(trimmed, f"the oldest of ledgers {ids} goes", every=0.5) if len(ids) == 4 else ids
    size = sum(ledger.size for ledger in ledgers(ctx, topic))
    ctx.expect(len(left) == 3, f"of 3 ledgers of 0.6 MB and an open one {left} are left")
    ctx.expect(500_000 < size <= 1024 * 1024 + 200_000, f"{size} B of closed ledgers are left with a retention of 1 MB")
    return f"1.8 MB acknowledged, retention 1 MB: oldest ledger gone, {size / 1e6:.1f} MB of closed ledgers kept"


@check(
    "retention.forever",
    proves="A retention of -1 minutes and -1 MB keeps acknowledged messages whatever their age and size",
    concepts=("D.namespace.retention", "E.retention"),
    seconds=6,
)
def retention_forever(ctx: Context) -> str:
    """Two closed ledgers of 1.2 MB stay through trims; with no limit in time but one of 1 MB the older one goes."""
    prompt_cursors(ctx)
    ctx.policy("retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    topic = ctx.topic()
    consumer, producer = ctx.consumer(topic), ctx.producer(topic)
    for _ in range(2):
        for _ in range(6):
            producer.send(b"x" * 200_000)
        ctx.receive(consumer, 6)
        ctx.eventually(lambda: backlog(ctx, topic) == 0, "all is acknowledged")
        settled(ctx, topic)
        unload(ctx, topic)
    ctx.send(producer, ["last"])
    ids = ledger_ids(ctx, topic)
    for _ in range(3):
        trim(ctx, topic)
    left = ledger_ids(ctx, topic)
    ctx.expect(len(ids) == 3 and left == ids, f"of two closed ledgers and an open one, {ids}, {left} are left")
    read = len(ctx.receive(ctx.reader(topic), 13, ack=False))
    ctx.policy("retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": 1})
    _gone_by_trim(ctx, topic, ids[0], within=20)
    return f"2.4 MB acknowledged, retention -1 and -1: {read} read after 3 trims; 1 MB: {ids[0]} deleted immediately"


@check(
    "retention.broker_default",
    proves="A namespace without a retention uses the brokers' default, and its own retention takes precedence",
    concepts="E.retention.default",
    seconds=6,
)
def retention_broker_default(ctx: Context) -> str:
    """One namespace without a policy, one with the opposite of the default: what a new reader finds after a trim."""
    minutes, size = int(ctx.number("defaultRetentionTimeInMinutes")), int(ctx.number("defaultRetentionSizeInMB"))
    default = f"{minutes} min, {size} MB"
    ctx.require(
        (minutes == 0 and size == 0) or (minutes and size), f"the brokers' default retention is {default}: one is zero"
    )
    keeps = minutes != 0
    plain, own = ctx.new_namespace(), ctx.new_namespace()
    ctx.policy("retention", NO_RETENTION if keeps else LONG_RETENTION, namespace=own)
    found: dict[str, list[str]] = {}
    for namespace, kept in ((plain, keeps), (own, not keeps)):
        prompt_cursors(ctx, namespace)
        topic = ctx.topic(namespace=namespace)
        ledger = _all_acknowledged(ctx, topic, 10)
        if kept:
            trim(ctx, topic)
            ctx.expect(ledger in ledger_ids(ctx, topic), f"ledger {ledger} was deleted within its retention")
        else:
            _gone_by_trim(ctx, topic, ledger, within=20)
        found[namespace] = ctx.texts(ctx.drain(ctx.reader(topic), until=ctx.came("last"), ack=False))
    all_of_them = [*(f"m{i}" for i in range(10)), "last"]
    expected = {plain: all_of_them if keeps else ["last"], own: ["last"] if keeps else all_of_them}
    ctx.expect(found == expected, f"default {default}; readers got {found}, expected {expected}")
    policy = ctx.admin.get(f"namespaces/{plain}/retention")
    ctx.expect(not policy, f"the namespace without a retention has {policy}")
    return (
        f"brokers' default {default}: without a policy {len(found[plain]) - 1} of 10 acknowledged messages are read, "
        f"with its own policy {len(found[own]) - 1}"
    )


@check(
    "ttl.expires",
    proves="A message older than the TTL is acknowledged by the broker at its next check; a younger one is not",
    concepts=("D.namespace.ttl", "E.ttl"),
    seconds=18,
)
def ttl_expires(ctx: Context) -> str:
    """Messages, half the TTL, messages, the other half; after each a change of the TTL makes the broker look."""
    ttl = 12
    topic = ctx.topic()
    subscribe(ctx, topic)
    ctx.policy("messageTTL", ttl)
    producer = ctx.producer(topic)
    begin = time.monotonic()
    ctx.send(producer, [f"old{i}" for i in range(5)])
    sent = time.monotonic()
    ctx.eventually(lambda: time.monotonic() > sent + ttl / 2, "half the TTL passes", within=ttl)
    ctx.send(producer, [f"new{i}" for i in range(3)])
    ctx.policy("messageTTL", ttl + 1)
    ctx.eventually(lambda: time.monotonic() > sent + ttl * 3 / 4, "time for that look passes", within=ttl)
    early = backlog(ctx, topic)
    ctx.expect(early == 8 or time.monotonic() > begin + ttl, f"{8 - early} of 8 messages expired before the TTL")
    ctx.eventually(lambda: time.monotonic() > sent + ttl + 1, "the TTL passes", within=ttl)
    ctx.policy("messageTTL", ttl)
    ctx.eventually(lambda: backlog(ctx, topic) < 8, "messages older than the TTL are acknowledged", within=15)
    got = ctx.texts(ctx.drain(ctx.consumer(topic), until=ctx.came("new2")))
    ctx.expect(got == ["new0", "new1", "new2"], f"5 old and 3 new messages; the subscription then got {got}")
    return f"TTL {ttl} s: 5 older messages expired, the consumer got the 3 younger ones only"


@check(
    "ttl.periodic",
    proves="The broker checks for expired messages automatically every messageExpiryCheckIntervalInMinutes",
    concepts=("D.namespace.ttl", "E.ttl"),
    seconds=300,
)
def ttl_periodic(ctx: Context) -> str:
    """TTL of a second and nothing else that could make the broker look."""
    interval = ctx.interval("messageExpiryCheckIntervalInMinutes", unit=60)
    ctx.policy("messageTTL", 1)
    topic = ctx.topic()
    subscribe(ctx, topic)
    ctx.send(ctx.producer(topic), [f"m{i}" for i in range(5)])
    begin = time.monotonic()
    ctx.eventually(
        lambda: backlog(ctx, topic) == 0,
        "the TTL acknowledges 5 messages",
        within=interval.within,
        every=interval.every,
    )
    return f"5 messages without a reader, TTL 1 s: acknowledged by the broker after {time.monotonic() - begin:.0f} s"


@check(
    "ttl.not_retention",
    proves="TTL and retention are two things: what TTL acknowledged stays readable for as long as it is retained",
    concepts=("D.namespace.ttl", "D.namespace.retention", "E.ttl", "E.retention"),
    seconds=10,
)
def ttl_not_retention(ctx: Context) -> str:
    """Two namespaces with the same TTL, one retains: the subscription is empty in both, the reader in one."""
    kept_in, lost_in = ctx.new_namespace(), ctx.new_namespace()
    found: dict[str, list[str]] = {}
    for namespace, policy in ((kept_in, LONG_RETENTION), (lost_in, NO_RETENTION)):
        prompt_cursors(ctx, namespace)
        ctx.policy("retention", policy, namespace=namespace)
        ctx.policy("messageTTL", 1, namespace=namespace)
        topic = ctx.topic(namespace=namespace)
        subscribe(ctx, topic)
        producer = ctx.producer(topic)
        ctx.send(producer, [f"m{i}" for i in range(5)])
        ledger = ledger_ids(ctx, topic)[0]
        lives = itertools.cycle((2, 1))

        def expired(topic: str = topic, namespace: str = namespace, lives: Any = lives) -> bool:
            # A change of the TTL makes the broker look at once.
            ctx.policy("messageTTL", next(lives), namespace=namespace)
            return backlog(ctx, topic) == 0

        ctx.eventually(expired, "the TTL acknowledges 5 messages", every=0.5)
        ctx.policy("messageTTL", 0, namespace=namespace)
        settled(ctx, topic)
        unload(ctx, topic)
        ctx.send(producer, ["last"])
        if policy is NO_RETENTION:
            _gone_by_trim(ctx, topic, ledger, within=20)
        else:
            trim(ctx, topic)
        found[namespace] = ctx.texts(ctx.drain(ctx.reader(topic), until=ctx.came("last")))
    expected = [*(f"m{i}" for i in range(5)), "last"]
    ctx.expect(found[kept_in] == expected, f"expired but retained: a reader got {found[kept_in]}")
    ctx.expect(found[lost_in] == ["last"], f"expired and not retained: a reader got {found[lost_in]}")
    return "5 messages expired by TTL 1 s: a reader still gets all with retention 60 min and none without"


@check(
    "persistence.ledger",
    proves="A topic's ledgers have the ensemble, write and ack quorum of its namespace's persistence policy",
    concepts=("D.namespace.persistence", "C.quorum"),
)
def persistence_ledger(ctx: Context) -> str:
    """The first triple the bookies allow that is not the brokers' default, read back from BookKeeper's metadata."""
    bookies = len(ctx.admin.get("bookies/all")["bookies"])
    default = tuple(
        int(ctx.number(f"managedLedgerDefault{name}")) for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")
    )
    possible = [
        (ensemble, write, ack)
        for ensemble in range(1, min(bookies, 3) + 1)
        for write in range(1, ensemble + 1)
        for ack in range(1, write + 1)
    ]
    quorum = next((triple for triple in reversed(possible) if triple != default), possible[0])
    ctx.policy("persistence", _quorum(*quorum))
    topic = ctx.topic(create=False)
    client = ctx.client(operation_timeout_seconds=15)
    try:
        ctx.send(ctx.producer(topic, client=client), ["m"])
    except pulsar.PulsarException as error:
        ctx.expect(False, f"no producer with quorum {quorum} on {bookies} bookies: {error}")
    found = ledgers(ctx, topic)[-1]
    ctx.expect(found.quorum == quorum, f"ledger {found.id} has {found.quorum}, the policy {quorum}")
    return f"{bookies} bookie(s), policy and ledger {found.id}: ensemble, write, ack quorum {quorum}"


@check(
    "persistence.refused",
    proves="A persistence policy with ack > write or write > ensemble is refused and the one before stays",
    concepts="D.namespace.persistence",
    seconds=1,
)
def persistence_refused(ctx: Context) -> str:
    """Three impossible triples."""
    ctx.policy("persistence", _quorum(1, 1, 1))
    most = int(ctx.number("managedLedgerMaxEnsembleSize"))
    reasons = [
        ctx.refused(AdminError, lambda triple=triple: ctx.policy("persistence", _quorum(*triple)))  # type: ignore[misc]
        for triple in ((1, 2, 1), (2, 1, 2), (most + 1, 1, 1))
    ]
    kept = ctx.admin.get(f"namespaces/{ctx.namespace}/persistence")
    ctx.expect(kept["bookkeeperEnsemble"] == 1 and kept["bookkeeperWriteQuorum"] == 1, f"the policy is now {kept}")
    return f"write 2 of 1, ack 2 of 1 and ensemble {most + 1} refused: {reasons[0].split(': ', 1)[1]}"


def _quorum(ensemble: int, write: int, ack: int) -> dict[str, Any]:
    return {
        "bookkeeperEnsemble": ensemble,
        "bookkeeperWriteQuorum": write,
        "bookkeeperAckQuorum": ack,
        "managedLedgerMaxMarkDeleteRate": 0,
    }
