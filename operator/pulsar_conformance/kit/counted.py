"""Counted messages of a check: published and consumed while something is done to the instance, every counter judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pulsar_conformance.admin import Admin
from pulsar_conformance.context import Context
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.kit.faults import quick

RATE = 50
"""Messages a second."""
MORE = 50
"""Messages after which it continues again."""
DRAIN = 150.0
"""Seconds for what is confirmed to arrive: a client waits up to a minute between two attempts to connect."""


class _Client:
    """What a counting run asks of its client, through the check's tamper."""

    def __init__(self, ctx: Context, service_url: str) -> None:
        self._ctx, self._client = ctx, ctx.client(service_url=service_url)

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
def counting(
    ctx: Context, topic: str, *, send_timeout: float, urls: tuple[str, str] | None = None, start_within: float = 60
) -> Iterator[CountingRun]:
    """Counted messages on a topic of a counted namespace; a send fails if it is not answered within this number of
    seconds.

    ``urls`` are where to publish and where to consume, when those are two clusters. Raises CountingError when no
    message comes through in ``start_within`` seconds.
    """
    write, read = urls or (ctx.instance.service_url,) * 2
    with CountingRun(
        write,
        topic,
        rate=RATE,
        keys=8,
        read_url=read,
        send_timeout=send_timeout,
        start_within=start_within,
        connect=lambda url: _Client(ctx, url),
    ) as run:
        yield run


def goes_on(ctx: Context, run: CountingRun, *, within: float) -> None:
    """Wait until messages published from now on are confirmed, and some of them received."""
    now = run.progress()

    def more() -> bool:
        found = run.progress()
        return found.confirmed >= now.sent + MORE and found.received >= now.sent + 1

    ctx.eventually(more, "the producer is answered and the consumer receives again", within=within)


def accounts(ctx: Context, run: CountingRun, topic: str, *, at: Sequence[Admin] = (), once: bool = True) -> str:
    """End the run and judge all that was counted; the counts as a message. Raises CheckFailed with all that is wrong.

    Nothing confirmed is lost, no send failed, no client got an error, keys are in order, and what came twice is a
    redelivery: nothing is stored twice, by the places at which messages came and by the broker's own count. ``at`` is
    admin REST of several clusters, that of the one first in which is published; without ``once`` the others may have
    stored messages twice.
    """
    report = run.finish(DRAIN)
    wrong = report.failures()
    twice = report.stored_twice
    if twice and once:
        wrong.append(f"{twice} messages are stored twice")
    if not wrong:
        for number, admin in enumerate(at or [quick(ctx)]):
            stored = ctx.eventually(partial(_stored, admin, ctx.path(topic)), "how much is stored", within=60)
            if stored != report.received + (twice if number else 0):
                wrong.append(f"{stored} entries are stored, and {report.received} messages were received")
    ctx.expect(not wrong, "; ".join(wrong))
    stored_so = f"received, {twice} of them stored twice" if twice else "received and stored once"
    return (
        f"{report.confirmed} messages during the change, all confirmed, {stored_so}, {report.duplicated} "
        f"delivered again; longest publish pause {report.publish_pause.seconds:.1f} s"
    )


def _stored(admin: Admin, path: str) -> int:
    return int(admin.get(f"{path}/internalStats")["numberOfEntries"])
