"""Entry filters of a namespace and of a topic, by the operator's controllers, on a Pulsar that has some.

The filters are real ones, see tests/support/standalone/entry_filter.py.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest

from pulsar_conformance.counting import simple
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import AdminEndpoint, RefusedError
from tests.support.standalone.entry_filter import FILTERS, PROPERTY
from tests.support.standalone.server import Standalone
from tests.support.standalone.site import NAMES, Site

BEFORE, MARKED, AFTER = "before", "marked", "after"


class Filters(Site):
    """The filters of the namespace and of the topic."""

    def declare(self, kind: Kind, filters: list[str] | None) -> None:
        """Apply the object with these filters, without any where None."""
        more: Any = {} if filters is None else {"policies": {"entryFilters": filters}}
        self.apply(kind, **more)

    def policy(self, kind: Kind) -> tuple[str, ...]:
        """Path of the policy."""
        return (*self.path(kind), "entryFilters")

    async def live(self, kind: Kind) -> str:
        """What Pulsar has, with commas; empty where nothing is set."""
        return await self._read(kind, **({"applied": "false"} if kind is Kind.TOPIC else {}))

    async def _read(self, kind: Kind, **query: str) -> str:
        return str((await self.ask("GET", *self.policy(kind), **query) or {}).get("entryFilterNames") or "")

    async def settle(self, kind: Kind, wanted: str) -> None:
        """Passes of the operator until the object is Ready and Pulsar has the filters."""

        async def look() -> tuple[str, str]:
            return self.reason(kind), await self.live(kind)

        await self.until(look, lambda seen: seen == ("Ready", wanted), f"{kind} has {wanted!r}", by=kind)

    async def applied(self, wanted: str) -> None:
        """Until the topic goes by these filters: policies travel through a topic."""
        await self.until(
            lambda: self._read(Kind.TOPIC, applied="true"), lambda seen: seen == wanted, f"the topic goes by {wanted!r}"
        )


@dataclass
class Messages:
    """A client that publishes to the topic and consumes it."""

    client: pulsar.Client
    topic: str

    async def received(self, subscription: str = "") -> list[str]:
        """Three messages are published, the second with the filters' property: those that a subscription gets.

        A new one unless named: a broker looks for filters once, when it makes a subscription's dispatcher for its first
        consumer (class EntryFilterSupport).
        """
        return await asyncio.to_thread(self._received, subscription or uuid.uuid4().hex)

    def _received(self, subscription: str) -> list[str]:
        consumer = self.client.subscribe(self.topic, subscription, initial_position=pulsar.InitialPosition.Latest)
        try:
            # Messages of a batch have no properties that a filter is shown.
            producer = self.client.create_producer(self.topic, batching_enabled=False)
            for text in (BEFORE, MARKED, AFTER):
                producer.send(text.encode(), properties=PROPERTY if text == MARKED else {})
            producer.close()
            found: list[str] = []
            while AFTER not in found:  # the order is kept, so what did not come by then does not come
                message = consumer.receive(timeout_millis=30_000)
                consumer.acknowledge(message)
                found.append(message.data().decode())
            return found
        finally:
            consumer.close()


@pytest.fixture
async def site(endpoint: AdminEndpoint) -> AsyncIterator[Filters]:
    """The objects, Ready without a filter."""
    async with Filters.opened(endpoint, "filters") as found:
        for kind in NAMES:
            found.declare(kind, None)
            await found.settle(kind, "")
        yield found


@pytest.fixture
def messages(standalone: Standalone, site: Filters) -> Iterator[Messages]:
    """Messages of the site's topic."""
    client = simple.client(standalone.service_url)
    try:
        yield Messages(client, f"persistent://{site.tenant}/n/x")
    finally:
        client.close()


@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.TOPIC])
async def test_set_kept_and_taken_away(site: Filters, messages: Messages, kind: Kind) -> None:
    """What is declared filters; what others change comes back; without it messages arrive again."""
    one, both = FILTERS[0], ",".join(FILTERS)
    assert await messages.received() == [BEFORE, MARKED, AFTER]

    for wanted in ([one], list(FILTERS), [one]):
        site.declare(kind, wanted)
        await site.settle(kind, ",".join(wanted))
        await site.applied(",".join(wanted))
        assert await messages.received() == [BEFORE, AFTER]

    for drift in (("DELETE", None), ("POST", {"entryFilterNames": both})):
        await site.ask(drift[0], *site.policy(kind), body=drift[1])
        await site.applied(both if drift[1] else "")
        await site.settle(kind, one)
    assert "DriftRepaired" in site.world.reasons(kind)
    await site.applied(one)
    assert await messages.received() == [BEFORE, AFTER]

    site.declare(kind, None)
    await site.settle(kind, "")
    await site.applied("")
    assert await messages.received() == [BEFORE, MARKED, AFTER]


async def test_a_subscription_that_was_consumed_goes_by_it_after_an_unload(site: Filters, messages: Messages) -> None:
    """What the manual says of Pulsar: a dispatcher keeps the filters it began with."""
    assert await messages.received("old") == [BEFORE, MARKED, AFTER]
    site.declare(Kind.TOPIC, [FILTERS[0]])
    await site.settle(Kind.TOPIC, FILTERS[0])
    await site.applied(FILTERS[0])
    assert await messages.received("old") == [BEFORE, MARKED, AFTER]
    await site.ask("PUT", "persistent", site.tenant, "n", "x", "unload")
    assert await messages.received("old") == [BEFORE, AFTER]


async def test_the_topic_goes_before_its_namespace(site: Filters, messages: Messages) -> None:
    """A topic's own list is in place of the namespace's, not beside it."""
    site.declare(Kind.NAMESPACE, [FILTERS[0]])
    site.declare(Kind.TOPIC, [FILTERS[1]])
    await site.settle(Kind.NAMESPACE, FILTERS[0])
    await site.settle(Kind.TOPIC, FILTERS[1])
    await site.applied(FILTERS[1])
    site.declare(Kind.TOPIC, None)
    await site.settle(Kind.TOPIC, "")
    await site.applied(FILTERS[0])
    assert await messages.received() == [BEFORE, AFTER]


@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.TOPIC])
async def test_a_filter_that_no_broker_has_is_refused_by_name(site: Filters, kind: Kind) -> None:
    """Beside one that is there, nothing is set; the name in the message is the missing one."""
    site.declare(kind, [FILTERS[0], "absent"])

    async def accepted() -> tuple[str, str, str]:
        return site.world.condition(kind, NAMES[kind], "Accepted")

    status, _, message = await site.until(accepted, lambda seen: seen[1] == "RejectedByPulsar", "refused", by=kind)
    assert status == "False"
    assert "entryFilters" in message and "absent" in message
    assert await site.live(kind) == ""
    with pytest.raises(RefusedError):
        await site.ask("POST", *site.policy(kind), body={"entryFilterNames": "absent"})
