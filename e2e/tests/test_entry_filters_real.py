"""Entry filters of a namespace and of a topic, by the operator's controllers, on a Pulsar that has some.

A standalone of its own with two real filters, see e2e/support/entryfilter.py.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pytest

from e2e.counting import simple
from e2e.kind.paths import paths
from e2e.support.entryfilter import PROPERTY, with_entry_filters
from e2e.support.standalone import Standalone, secured_standalone
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import AdminEndpoint, RefusedError
from tests.support.admin_contract import local_cluster
from tests.support.logical import World
from tests.support.recorder import CountingMetrics

pytestmark = pytest.mark.kind

OPEN = {"authenticationEnabled": "false", "authorizationEnabled": "false"}
FILTERS = ("skip", "skip-too")
PASSES = 150
PAUSE_SECONDS = 0.1
BEFORE, MARKED, AFTER = "before", "marked", "after"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A Pulsar whose broker has the filters and lets policies choose among them."""
    folder: Path = tmp_path_factory.mktemp("standalone")
    settings = with_entry_filters(paths().pulsar_home, folder / "entry-filters", *FILTERS)
    with secured_standalone(paths().pulsar_home, folder, OPEN | settings) as found:
        yield found


@dataclass
class Site:
    """A tenant with namespace n and topic x, declared as objects, and clients."""

    world: World
    admin: AiohttpAdmin
    endpoint: AdminEndpoint
    client: pulsar.Client
    tenant: str

    async def ask(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """A plain call, as another writer makes it."""
        return await self.admin.call(self.endpoint, method, path, body=body, query=query)

    def declare(self, kind: Kind, filters: list[str] | None) -> None:
        """Apply the namespace or the topic with these filters, without any where None."""
        more: Any = {} if filters is None else {"policies": {"entryFilters": filters}}
        if kind is Kind.NAMESPACE:
            self.world.namespace("n", tenant=self.tenant, replicationClusters=[self.endpoint.cluster], **more)
        else:
            self.world.topic("x", namespace="n", **more)

    def base(self, kind: Kind) -> tuple[str, ...]:
        """Path of the policy."""
        if kind is Kind.NAMESPACE:
            return ("namespaces", self.tenant, "n", "entryFilters")
        return ("persistent", self.tenant, "n", "x", "entryFilters")

    async def live(self, kind: Kind) -> str:
        """What Pulsar has, with commas; empty where nothing is set."""
        query = {"applied": "false"} if kind is Kind.TOPIC else {}
        found = await self.ask("GET", *self.base(kind), **query)
        return str((found or {}).get("entryFilterNames") or "")

    async def settle(self, kind: Kind, wanted: str) -> None:
        """Passes of the operator until the object is Ready and Pulsar has the filters."""
        name = "n" if kind is Kind.NAMESPACE else "x"
        said: Any = None
        for _ in range(PASSES):
            await self.world.reconcile(kind, name)
            said = self.world.condition(kind, name), await self.live(kind)
            if (said[0][1], said[1]) == ("Ready", wanted):
                return
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"{kind} {name} with {wanted!r}: {said}")

    async def applied(self, wanted: str) -> None:
        """Until the topic goes by these filters: policies travel through a topic."""
        path = ("persistent", self.tenant, "n", "x", "entryFilters")
        found: Any = None
        for _ in range(PASSES):
            found = await self.ask("GET", *path, applied="true")
            if str((found or {}).get("entryFilterNames") or "") == wanted:
                return
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"the topic goes by {found}, not by {wanted!r}")

    async def received(self, subscription: str = "") -> list[str]:
        """Three messages are published, the second with the filters' property: those that a subscription gets.

        A new one unless named: a broker looks for filters once, when it makes a subscription's dispatcher for its first
        consumer (class EntryFilterSupport).
        """
        return await asyncio.to_thread(self._received, subscription or uuid.uuid4().hex)

    def _received(self, subscription: str) -> list[str]:
        topic = f"persistent://{self.tenant}/n/x"
        consumer = self.client.subscribe(topic, subscription, initial_position=pulsar.InitialPosition.Latest)
        try:
            # Messages of a batch have no properties that a filter is shown.
            producer = self.client.create_producer(topic, batching_enabled=False)
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
async def site(running: Standalone) -> AsyncIterator[Site]:
    """The objects, Ready without a filter."""
    admin, client = AiohttpAdmin(CountingMetrics(), deadline=30.0), simple.client(running.service_url)
    try:
        cluster = await local_cluster(admin, running.admin_url)
        world = World(cluster, admin=admin, urls={cluster: running.admin_url})
        tenant = f"filters-{uuid.uuid4().hex[:10]}"
        found = Site(world, admin, AdminEndpoint(cluster, running.admin_url), client, tenant)
        world.tenant(tenant, allowedClusters=[cluster])
        await world.reconcile(Kind.TENANT, tenant)
        for kind in (Kind.NAMESPACE, Kind.TOPIC):
            found.declare(kind, None)
            await found.settle(kind, "")
        yield found
    finally:
        client.close()
        await admin.close()


@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.TOPIC])
async def test_set_kept_and_taken_away(site: Site, kind: Kind) -> None:
    """What is declared filters; what others change comes back; without it messages arrive again."""
    one, both = FILTERS[0], ",".join(FILTERS)
    assert await site.received() == [BEFORE, MARKED, AFTER]

    for wanted in ([one], list(FILTERS), [one]):
        site.declare(kind, wanted)
        await site.settle(kind, ",".join(wanted))
        await site.applied(",".join(wanted))
        assert await site.received() == [BEFORE, AFTER]

    for drift in (("DELETE", None), ("POST", {"entryFilterNames": both})):
        await site.ask(drift[0], *site.base(kind), body=drift[1])
        await site.applied(both if drift[1] else "")
        await site.settle(kind, one)
    assert "DriftRepaired" in site.world.reasons(kind)
    await site.applied(one)
    assert await site.received() == [BEFORE, AFTER]

    site.declare(kind, None)
    await site.settle(kind, "")
    await site.applied("")
    assert await site.received() == [BEFORE, MARKED, AFTER]


async def test_a_subscription_that_was_consumed_goes_by_it_after_an_unload(site: Site) -> None:
    """What the manual says of Pulsar: a dispatcher keeps the filters it began with."""
    assert await site.received("old") == [BEFORE, MARKED, AFTER]
    site.declare(Kind.TOPIC, [FILTERS[0]])
    await site.settle(Kind.TOPIC, FILTERS[0])
    await site.applied(FILTERS[0])
    assert await site.received("old") == [BEFORE, MARKED, AFTER]
    await site.ask("PUT", "persistent", site.tenant, "n", "x", "unload")
    assert await site.received("old") == [BEFORE, AFTER]


async def test_the_topic_goes_before_its_namespace(site: Site) -> None:
    """A topic's own list is in place of the namespace's, not beside it."""
    site.declare(Kind.NAMESPACE, [FILTERS[0]])
    site.declare(Kind.TOPIC, [FILTERS[1]])
    await site.settle(Kind.NAMESPACE, FILTERS[0])
    await site.settle(Kind.TOPIC, FILTERS[1])
    await site.applied(FILTERS[1])
    site.declare(Kind.TOPIC, None)
    await site.settle(Kind.TOPIC, "")
    await site.applied(FILTERS[0])
    assert await site.received() == [BEFORE, AFTER]


@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.TOPIC])
async def test_a_filter_that_no_broker_has_is_refused_by_name(site: Site, kind: Kind) -> None:
    """Beside one that is there, nothing is set; the name in the message is the missing one."""
    site.declare(kind, [FILTERS[0], "absent"])
    name = "n" if kind is Kind.NAMESPACE else "x"
    for _ in range(PASSES):
        await site.world.reconcile(kind, name)
        status, reason, message = site.world.condition(kind, name, "Accepted")
        if reason == "RefusedByPulsar":
            break
        await asyncio.sleep(PAUSE_SECONDS)
    assert (status, reason) == ("False", "RefusedByPulsar")
    assert "entryFilters" in message and "absent" in message
    assert await site.live(kind) == ""
    with pytest.raises(RefusedError):
        await site.ask("POST", *site.base(kind), body={"entryFilterNames": "absent"})
