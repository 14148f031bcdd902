"""Transactions and Pulsar Functions: proved where brokers offer them, refused clearly where they do not."""

from __future__ import annotations

import urllib.parse
from typing import Any

from pulsar_conformance.admin import AdminError
from pulsar_conformance.checks.redelivery import took
from pulsar_conformance.context import Context
from pulsar_conformance.kit.wire import NOT_ALLOWED, Wire
from pulsar_conformance.model import check, slot

SWITCH = "transactionCoordinatorEnabled"
REFUSALS = (404, 409, 501, 503)
"""Status with which admin REST refuses what is not switched on."""


@check(
    "transactions.off",
    proves="Brokers without a transaction coordinator refuse transactions, saying why",
    concepts="E.transactions",
    seconds=2,
)
def off(ctx: Context) -> str:
    """Both the admin REST and the binary protocol refuse.

    The protocol is spoken here: a Java client (4.0) gets the same answer and tries again without end.
    """
    ctx.require(not enabled(ctx), f"brokers have {SWITCH}=true: transactions.on proves them")
    reason = denial(ctx, "admin/v3/transactions/coordinators", SWITCH)
    wire = ctx.tamper.wrap("client", Wire(ctx.instance.service_url, broker(ctx), ctx.instance.access))
    refusal = wire.new_transaction()
    ctx.expect(refusal is not None, "a broker that was asked for a transaction gave one")
    ctx.expect(
        refusal.error == NOT_ALLOWED, f"a broker asked for a transaction answered {refusal}, not NotAllowedError"
    )
    return f"admin REST: {reason}; a broker asked for a transaction: NotAllowedError, {refusal.message}"


@check(
    "transactions.on",
    proves="What is sent and acknowledged in a transaction counts as one: all at the commit, nothing after an abort",
    concepts="E.transactions",
    seconds=8,
)
def on(ctx: Context) -> str:
    """Consume from one topic and produce to two, first aborted, then committed."""
    ctx.require(enabled(ctx), f"brokers have {SWITCH}=false: set it to true in broker.conf")
    client = ctx.tamper.wrap("java.client", ctx.new_java(enableTransaction=True))
    source, *targets = (ctx.topic(name) for name in ("source", "one", "two"))
    readers = [ctx.consumer(topic) for topic in targets]
    # The client takes no transaction where its send may time out on its own.
    producers = [ctx.tamper.wrap("java.producer", client.producer(topic, sendTimeoutMs=0)) for topic in targets]
    ctx.send(ctx.producer(source), ["in"])
    taker = work(ctx, client, source)
    message = took(ctx, taker, "the message of the source")

    aborted = ctx.tamper.wrap("java.transaction", client.transaction(timeout_ms=60_000))
    step(taker, message, producers, b"aborted", aborted)
    for reader in readers:
        ctx.nothing(reader, 1, "the transaction is open")
    aborted.abort()
    message = took(ctx, taker, "the message of the source again, after the abort")
    for producer in producers:
        producer.send(b"plain")
    after = [ctx.texts(ctx.receive(reader, 1)) for reader in readers]
    ctx.expect(after == [["plain"], ["plain"]], f"after the abort only later messages were expected, {after} came")

    committed = ctx.tamper.wrap("java.transaction", client.transaction(timeout_ms=60_000))
    step(taker, message, producers, b"committed", committed)
    for reader in readers:
        ctx.nothing(reader, 1, "the transaction is open")
    committed.commit()
    received = [ctx.texts(ctx.receive(reader, 1)) for reader in readers]
    ctx.expect(received == [["committed"], ["committed"]], f"after the commit {received} came")
    for reader in readers:
        ctx.nothing(reader, 0.5, "each topic has one committed message")
    taker.close()
    left = work(ctx, client, source).receive(1500)
    ctx.expect(
        left is None, f"the source was acknowledged in the committed transaction, {left and left.data!r} came again"
    )
    return (
        "2 topics, 1 acknowledgement: unseen while open; aborted: never seen, source came again; committed: all, once"
    )


@check(
    "functions.off",
    proves="Brokers without a functions worker refuse Pulsar Functions, saying why",
    concepts="E.functions",
    seconds=1,
)
def functions_off(ctx: Context) -> str:
    """Functions, sources and sinks of a namespace cannot even be listed."""
    ctx.require(not workers(ctx), "a functions worker runs with the brokers: nothing to refuse")
    kinds = ("functions", "sources", "sinks")
    reasons = [denial(ctx, f"admin/v3/{kind}/{ctx.namespace}", "functionsWorkerEnabled") for kind in kinds]
    return f"functions, sources and sinks: {reasons[0]}"


functions_on = slot(
    "functions.on",
    proves="A function consumes from its input topics and produces to its output topic",
    concepts="E.functions",
    needs="a functions worker (functionsWorkerEnabled=true on brokers), which the operator does not offer",
)


def workers(ctx: Context) -> list[Any]:
    """The functions workers that run with the brokers; a standalone has one though functionsWorkerEnabled is false."""
    try:
        return list(ctx.admin.get("worker/cluster"))
    except AdminError as error:
        if error.status in REFUSALS:
            return []
        raise


def enabled(ctx: Context) -> bool:
    """Whether brokers coordinate transactions."""
    return ctx.setting(SWITCH) == "true"


def broker(ctx: Context) -> str:
    """Host and port of a broker, as clients receive them."""
    found = ctx.admin.get(f"lookup/v2/topic/{ctx.path(ctx.topic())}")
    secure = ctx.instance.service_url.startswith("pulsar+ssl")
    return str(urllib.parse.urlsplit(found["brokerUrlTls" if secure else "brokerUrl"]).netloc)


def denial(ctx: Context, path: str, names: str) -> str:
    """The status and reason with which admin REST refuses to GET a path. Raises CheckFailed when they do not fit."""
    statuses: list[int] = []

    def call() -> Any:
        try:
            return ctx.admin.get(path)
        except AdminError as error:
            statuses.append(error.status)
            raise

    text = ctx.refused(AdminError, call).split(": ", 1)[1]
    ctx.expect(statuses[0] in REFUSALS, f"GET {path} was to be refused as not there, it was: {text}")
    ctx.expect(names in text, f"the refusal of GET {path} does not name {names}: {text}")
    return text


def work(ctx: Context, client: Any, source: str) -> Any:
    """A consumer of the source, by the client with transactions."""
    made = client.consumer(source, "sub", type="Shared", initial_position="Earliest", ackReceiptEnabled=True)
    return ctx.tamper.wrap("java.consumer", made)


def step(taker: Any, message: Any, producers: list[Any], data: bytes, transaction: Any) -> None:
    """Send to every topic and acknowledge the source, in a transaction."""
    for producer in producers:
        producer.send(data, transaction=transaction)
    taker.ack(message, transaction=transaction)
