"""Storage: ledgers, their end and their deletion, one writer, quorums, cursors in BookKeeper."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.model import CheckFailed, check

_METADATA = re.compile(r"ensembleSize=(\d+), writeQuorumSize=(\d+), ackQuorumSize=(\d+), state=(\w+)")

_QUORUM = (("Ensemble", "EnsembleSize"), ("WriteQuorum", "WriteQuorum"), ("AckQuorum", "AckQuorum"))


@dataclass(frozen=True)
class Ledger:
    """One ledger of a topic, with BookKeeper's own metadata of it."""

    id: int
    entries: int
    size: int
    quorum: tuple[int, int, int]
    """Ensemble, write quorum, ack quorum."""
    state: str
    """OPEN, IN_RECOVERY or CLOSED."""


def ledgers(ctx: Context, topic: str) -> list[Ledger]:
    """The ledgers of a topic, oldest first. The entries of the open one are counted by Pulsar only when it closes."""
    found = ctx.admin.get(f"{ctx.path(topic)}/internalStats", metadata=True)
    return [_ledger(one) for one in found["ledgers"]]


def ledger_ids(ctx: Context, topic: str) -> list[int]:
    """Their ids."""
    return [ledger.id for ledger in ledgers(ctx, topic)]


def unload(ctx: Context, topic: str) -> None:
    """Take the topic from its owner; the next client's lookup gives it one again, which starts a new ledger."""
    ctx.admin.put(f"{ctx.path(topic)}/unload")


def trim(ctx: Context, topic: str) -> None:
    """Makes the broker delete what it need not keep immediately; otherwise it does so when a ledger rolls over."""
    ctx.admin.post(f"{ctx.path(topic)}/trim")


def cursor(ctx: Context, topic: str, subscription: str = "sub") -> dict[str, Any]:
    """The cursor of a subscription as the broker has it."""
    found = ctx.internal_stats(topic)["cursors"][subscription]
    assert isinstance(found, dict)
    return found


def subscribe(ctx: Context, topic: str, subscription: str = "sub") -> None:
    """A subscription without consumers: without one Pulsar deletes messages that no subscription needs."""
    ctx.consumer(topic, subscription).close()


def prompt_cursors(ctx: Context, namespace: str | None = None) -> None:
    """Each acknowledgement moves the cursor immediately, for topics of the namespace that are created from now on.

    By default one a second does (managedLedgerDefaultMarkDeleteRateLimit), the others when
    managedLedgerCursorPositionFlushSeconds have passed; ledgers are not deleted before.
    """
    quorum = {f"bookkeeper{kind}": int(ctx.number(f"managedLedgerDefault{default}")) for kind, default in _QUORUM}
    ctx.policy("persistence", {**quorum, "managedLedgerMaxMarkDeleteRate": 0}, namespace=namespace)


def settled(ctx: Context, topic: str, subscription: str = "sub") -> None:
    """Until the cursor has its ledger; to be called when the broker has acknowledgements and before an unload.

    Pulsar 4.0.8 may forget acknowledgements when the topic is unloaded while that ledger is still being made (state
    SwitchingLedger); their messages are delivered again then.
    """
    ctx.eventually(lambda: cursor(ctx, topic, subscription)["state"] == "Open", "the cursor has its own ledger")


def _ledger(one: dict[str, Any]) -> Ledger:
    found = _METADATA.search(one["metadata"])
    if found is None:
        raise CheckFailed(f"ledger {one['ledgerId']} has no metadata of BookKeeper: {one['metadata']}")
    ensemble, write, ack, state = found.groups()
    return Ledger(one["ledgerId"], one["entries"], one["size"], (int(ensemble), int(write), int(ack)), state)


@check(
    "ledger.rollover.entries",
    proves="A ledger ends with managedLedgerMaxEntriesPerLedger entries, not before it is "
    "managedLedgerMinLedgerRolloverTimeMinutes old",
    concepts="C.ledger.rollover",
    seconds=40,
)
def rollover_entries(ctx: Context) -> str:
    """More messages than one ledger takes: the first ledger closes full, the rest is in the next, in order."""
    limit = int(ctx.number("managedLedgerMaxEntriesPerLedger"))
    ctx.require(
        0 < limit <= 100_000, f"managedLedgerMaxEntriesPerLedger is {limit}: too many messages for this check; 50000 do"
    )
    oldest = ctx.within_limit(
        ctx.number("managedLedgerMinLedgerRolloverTimeMinutes") * 60,
        "managedLedgerMinLedgerRolloverTimeMinutes: a full ledger is used until it is that old",
    )
    topic = ctx.topic()
    subscribe(ctx, topic)
    producer = ctx.producer(topic, batching_enabled=False, block_if_queue_full=True)
    sent = itertools.count()

    def send(number: int) -> None:
        for _ in range(number):
            producer.send_async(str(next(sent)).encode(), lambda _result, _id: None)
        producer.flush()

    send(limit - 20)
    last = producer.send(str(next(sent)).encode())
    send(100)

    def second_ledger() -> list[Ledger]:
        send(1)
        found = ledgers(ctx, topic)
        return found if len(found) > 1 and found[0].state == "CLOSED" else []

    found = ctx.eventually(second_ledger, f"a second ledger after {limit} entries", within=oldest + 30, every=0.5)
    ctx.expect(found[0].entries >= limit, f"the first ledger closed with {found[0].entries} entries, not {limit}")
    total = next(sent)
    across = ctx.texts(ctx.receive(ctx.reader(topic, last), total - limit + 19))
    ctx.expect(across == [str(i) for i in range(limit - 19, total)], f"not in order across the ledgers: {across[:60]}")
    return f"ledger {found[0].id} CLOSED with {found[0].entries} of {limit} entries, then {found[1].id}, in order"


@check(
    "ledger.rollover.owner",
    proves="A broker that takes over a topic writes to a new ledger; messages in earlier ones stay readable in order",
    concepts="C.ledger.rollover",
)
def rollover_owner(ctx: Context) -> str:
    """Ten messages, unload, ten messages, unload: three ledgers, the earlier ones closed with what they have."""
    topic = ctx.topic()
    subscribe(ctx, topic)
    producer = ctx.producer(topic)
    texts = [f"m{i}" for i in range(25)]
    for start, end in ((0, 10), (10, 20), (20, 25)):
        if start:
            unload(ctx, topic)
        ctx.send(producer, texts[start:end])
    found = ledgers(ctx, topic)
    shape = [(ledger.entries, ledger.state) for ledger in found[:-1]]
    ctx.expect(shape == [(10, "CLOSED")] * 2, f"earlier ledgers are {shape}, not two CLOSED ones with 10 entries each")
    ctx.expect(found[-1].state == "OPEN", f"the last ledger is {found[-1].state}")
    ctx.expect(all(ledger.size > 0 for ledger in found[:-1]), f"closed ledgers without a size: {found}")
    got = ctx.texts(ctx.receive(ctx.reader(topic), 25))
    ctx.expect(got == texts, f"a reader from the earliest got {got}")
    sizes = [ledger.size for ledger in found[:-1]]
    return f"after 2 unloads ledgers {[one.id for one in found]}: 2 CLOSED with 10 entries, {sizes} B; 25 in order"


@check(
    "ledger.readonly",
    proves="A closed ledger never changes, whatever is written to the topic and acknowledged after it",
    concepts="C.ledger.rollover",
)
def readonly(ctx: Context) -> str:
    """BookKeeper's metadata of the closed ledger, before and after more messages, acknowledgements and an unload."""
    topic = ctx.topic()
    producer, consumer = ctx.producer(topic), ctx.consumer(topic)
    ctx.send(producer, [f"m{i}" for i in range(10)])
    unload(ctx, topic)
    ctx.send(producer, ["n0"])
    before = ledgers(ctx, topic)[0]
    ctx.expect(before.state == "CLOSED", f"the ledger of the former owner is {before.state}")
    ctx.receive(consumer, 5)
    ctx.send(producer, [f"n{i}" for i in range(1, 20)])
    unload(ctx, topic)
    ctx.send(producer, ["n20"])
    after = next((ledger for ledger in ledgers(ctx, topic) if ledger.id == before.id), None)
    ctx.expect(after == before, f"it was {before} and became {after}")
    return f"ledger {before.id} CLOSED with {before.entries} entries, {before.size} B; the same after 21 messages more"


@check(
    "ledger.delete",
    proves="A ledger is deleted as a whole once all in it is acknowledged and nothing retains it; one message not "
    "acknowledged keeps all of it",
    concepts="C.ledger.delete",
)
def delete_whole(ctx: Context) -> str:
    """First ledger all acknowledged, second but for one message, third open: after a trim the first is gone."""
    prompt_cursors(ctx)
    ctx.policy("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
    topic = ctx.topic()
    producer, consumer = ctx.producer(topic), ctx.consumer(topic)
    for ledger in "abc":
        if ledger != "a":
            unload(ctx, topic)
        ctx.send(producer, [f"{ledger}{i}" for i in range(10)])
    first, second, third = ledger_ids(ctx, topic)
    messages = ctx.receive(consumer, 30, ack=False)
    for message in [*messages[:9], *messages[11:20]]:
        consumer.acknowledge(message)
    trim(ctx, topic)
    ctx.expect(ledger_ids(ctx, topic)[0] == first, "the first ledger went while a message of it was not acknowledged")
    consumer.acknowledge(messages[9])

    def gone() -> bool:
        trim(ctx, topic)
        return first not in ledger_ids(ctx, topic)

    ctx.eventually(gone, f"ledger {first}, all acknowledged, is deleted by a trim", within=15, every=0.5)
    left = ctx.texts(ctx.receive(ctx.reader(topic), 20))
    ctx.expect(left[0] == "b0" and len(left) == 20, f"a reader from the earliest got {left}")
    ctx.expect(ledger_ids(ctx, topic) == [second, third], f"ledgers left: {ledger_ids(ctx, topic)}")
    return f"ledger {first} deleted with its last message; {second} with 9 of 10 acknowledged still read whole from b0"


@check(
    "ledger.single_writer",
    proves="One writer at a time: through changes of owner nothing a producer sends is lost or out of order",
    concepts="C.ledger.fencing",
    seconds=8,
)
def single_writer(ctx: Context) -> str:
    """A producer sends without a pause through four unloads; at each look one ledger is open and it is the last."""
    topic = ctx.topic()
    subscribe(ctx, topic)
    producer = ctx.producer(topic)
    sent: list[str] = []
    broken: list[pulsar.PulsarException] = []
    stop = threading.Event()

    def produce() -> None:
        try:
            while not stop.is_set():
                producer.send(f"{len(sent):06}".encode())
                sent.append(f"{len(sent):06}")
        except pulsar.PulsarException as error:
            broken.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    owners = set()
    try:
        for turn in range(1, 5):
            ctx.eventually(_reaches(sent, len(sent) + 50), "50 more messages are acknowledged", within=40)
            unload(ctx, topic)
            ctx.eventually(_reaches(sent, len(sent) + 50), "the producer continues after an unload", within=40)
            found = ledgers(ctx, topic)
            states = [ledger.state for ledger in found]
            one_open = set(states[:-1]) == {"CLOSED"} and states[-1] == "OPEN"
            ctx.expect(one_open and len(states) > turn, f"ledgers after {turn} unloads are {states}")
            owners.add(ctx.admin.get(f"lookup/v2/topic/{ctx.path(topic)}")["brokerUrl"])
    finally:
        stop.set()
        thread.join()
    ctx.expect(not broken, f"the producer failed: {broken}")
    got = ctx.texts(ctx.drain(ctx.reader(topic), until=ctx.came(sent[-1]), ack=False))
    first = list(dict.fromkeys(got))
    ctx.expect(first == sent, f"{len(sent)} acknowledged, {len(first)} read: {_difference(first, sent)}")
    return (
        f"{len(sent)} messages through 4 unloads: none lost, all in order, {len(got) - len(first)} twice; "
        f"1 OPEN ledger at each check; owners observed: {len(owners)}"
    )


def _reaches(sent: list[str], number: int) -> Callable[[], bool]:
    return lambda: len(sent) >= number


def _difference(got: list[str], expected: list[str]) -> str:
    missing = sorted(set(expected) - set(got))
    return (
        f"missing {missing[:5]}"
        if missing
        else f"out of order near {[a for a, b in zip(got, expected, strict=False) if a != b][:5]}"
    )


@check(
    "storage.cursor.ledger",
    proves="Cursors are kept in separate ledgers in BookKeeper; acknowledgements are written there",
    concepts="C.cursor",
)
def cursor_ledger(ctx: Context) -> str:
    """After an acknowledgement the cursor has a ledger, and an entry in it."""
    topic = ctx.topic()
    consumer = ctx.consumer(topic)
    before = cursor(ctx, topic)
    ctx.send(ctx.producer(topic), [f"m{i}" for i in range(10)])
    messages = ctx.receive(consumer, 10, ack=False)
    for message in messages[::2]:
        consumer.acknowledge(message)

    def written() -> dict[str, Any]:
        found = cursor(ctx, topic)
        grown = found["cursorLedgerLastEntry"] > before["cursorLedgerLastEntry"]
        return found if found["cursorLedger"] >= 0 and grown else {}

    found = ctx.eventually(written, "the cursor writes an entry to its own ledger")
    ctx.expect(
        found["cursorLedger"] not in ledger_ids(ctx, topic),
        f"the cursor is in the topic's ledger: {found['cursorLedger']}",
    )
    return f"cursor in ledger {found['cursorLedger']}, entry {found['cursorLedgerLastEntry']}, state {found['state']}"


@check(
    "storage.cursor.unload",
    proves="Messages acknowledged one by one stay acknowledged when the topic changes its owner",
    concepts=("C.cursor", "E.ack.single"),
)
def cursor_unload(ctx: Context) -> str:
    """Every second message is acknowledged; after an unload a new consumer gets the others only."""
    topic = ctx.topic()
    first = ctx.consumer(topic)
    ctx.send(ctx.producer(topic), [f"m{i}" for i in range(20)])
    messages = ctx.receive(first, 20, ack=False)
    for message in messages[::2]:
        first.acknowledge(message)

    ctx.eventually(
        lambda: cursor(ctx, topic)["totalNonContiguousDeletedMessagesRange"] >= 9, "the broker has the acknowledgements"
    )
    settled(ctx, topic)
    first.close()
    before = ledger_ids(ctx, topic)
    unload(ctx, topic)
    got = ctx.texts(ctx.drain(ctx.consumer(topic), until=ctx.came("m19")))
    ctx.expect(ledger_ids(ctx, topic) != before, "the topic was not unloaded: its ledgers are the same")
    ctx.expect(got == [f"m{i}" for i in range(1, 20, 2)], f"after the unload came {got}")
    return f"10 of 20 acknowledged in between each other; after an unload came the other 10: {got[0]}, {got[1]} ..."


@check(
    "storage.quorum.short",
    proves="A topic whose ensemble needs more bookies than there are takes no message; with a smaller one it does",
    concepts=("C.quorum", "D.namespace.persistence"),
    seconds=15,
)
def quorum_short(ctx: Context) -> str:
    """An ensemble of one more than the registered bookies: no producer; then an ensemble of one: it works."""
    registered = len(ctx.admin.get("bookies/all")["bookies"])
    most = int(ctx.number("managedLedgerMaxEnsembleSize"))
    ctx.require(
        registered < most, f"{registered} bookies and managedLedgerMaxEnsembleSize {most}: no policy asks for too many"
    )
    topic = ctx.topic(create=False)
    ctx.policy("persistence", _persistence(registered + 1))
    client = ctx.client(operation_timeout_seconds=6)
    refusal = ctx.refused(pulsar.PulsarException, lambda: ctx.producer(topic, client=client))
    ctx.policy("persistence", _persistence(1))

    def works() -> bool:
        try:
            ctx.send(ctx.producer(topic), ["m"])
        except pulsar.PulsarException as error:
            raise CheckFailed(f"no producer: {error}") from None
        return True

    ctx.eventually(works, "an ensemble of 1 takes messages", within=60, every=0.5)
    return f"{registered} bookie(s): ensemble {registered + 1} has no producer ({refusal}), ensemble 1 takes messages"


def _persistence(bookies: int) -> dict[str, Any]:
    return {
        "bookkeeperEnsemble": bookies,
        "bookkeeperWriteQuorum": bookies,
        "bookkeeperAckQuorum": bookies,
        "managedLedgerMaxMarkDeleteRate": 0,
    }
