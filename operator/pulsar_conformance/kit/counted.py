"""Counted messages of a check: published and consumed while something is done to the instance, every counter judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pulsar_conformance.context import Context
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.kit.faults import quick

RATE = 50
"""Messages a second."""
MORE = 50
"""Messages after which it goes on again."""
DRAIN = 150.0
"""Seconds for what is confirmed to arrive: a client waits up to a minute between two attempts to connect."""


class _Client:
    """What a counting run asks of its client, through the check's tamper."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._client = ctx, ctx.client()

    def subscribe(self, topic: str, subscription: str, **options: Any) -> Any:
        """See pulsar.Client."""
        return self._ctx.consumer(topic, subscription, client=self._client, **options)

    def create_producer(self, topic: str, **options: Any) -> Any:
        """See pulsar.Client."""
        return self._ctx.producer(topic, client=self._client, **options)

    def close(self) -> None:
        """See pulsar.Client."""
        self._client.close()


def counted_namespace(ctx: Context, **policies: Any) -> str:
    """A namespace of one bundle that stores once what is sent twice and keeps what is acknowledged.

    So a message that is stored at two places is a fault of the brokers, and the entries of a topic are its messages.
    """
    retained = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
    found = {"bundles": {"numBundles": 1}, "deduplicationEnabled": True, "retention_policies": retained}
    return ctx.new_namespace(**{**found, **policies})


@contextmanager
def counting(ctx: Context, topic: str, *, send_timeout: float) -> Iterator[CountingRun]:
    """Counted messages on a topic of a counted namespace; a send fails when it is not answered in so many seconds."""
    with CountingRun(
        ctx.instance.service_url,
        topic,
        rate=RATE,
        keys=8,
        send_timeout=send_timeout,
        connect=lambda _url: _Client(ctx),
    ) as run:
        yield run


def goes_on(ctx: Context, run: CountingRun, *, within: float) -> None:
    """Wait until messages published from now on are confirmed, and some of them received."""
    now = run.progress()

    def more() -> bool:
        found = run.progress()
        return found.confirmed >= now.sent + MORE and found.received >= now.sent + 1

    ctx.eventually(more, "the producer is answered and the consumer receives again", within=within)


def accounts(ctx: Context, run: CountingRun, topic: str) -> str:
    """End the run and judge all that was counted; the counts in words. Raises CheckFailed with all that is wrong.

    Nothing confirmed is lost, no send failed, no client was told of an error, keys are in order, and what came twice
    is a redelivery: nothing is stored twice, by the places at which messages came and by the broker's own count.
    """
    report = run.finish(DRAIN)
    wrong = report.failures()
    if report.stored_twice:
        wrong.append(f"{report.stored_twice} messages are stored twice")
    if not wrong:
        path = f"{ctx.path(topic)}/internalStats"
        stored = ctx.eventually(lambda: int(quick(ctx).get(path)["numberOfEntries"]), "how much is stored", within=60)
        if stored != report.received:
            wrong.append(f"{stored} entries are stored, and {report.received} messages were received")
    ctx.expect(not wrong, "; ".join(wrong))
    return (
        f"{report.confirmed} messages meanwhile, all confirmed, received and stored once, {report.duplicated} "
        f"delivered again; longest publish pause {report.publish_pause.seconds:.1f} s"
    )
