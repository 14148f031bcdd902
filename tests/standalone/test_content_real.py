"""Entries of topics and their retention on a real Pulsar, and what the controller makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pulsar
import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.content import HOUR, NONE, ContentContract, Publish
from tests.support.standalone.server import Standalone
from tests.support.standalone.site import Site


@pytest.fixture
def publish(standalone: Standalone) -> Iterator[Publish]:
    """With a client of its own; messages are not batched, so that each is an entry."""
    client = pulsar.Client(standalone.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))

    def sent(topic: str, number: int) -> None:
        producer = client.create_producer(topic, batching_enabled=False)
        for index in range(number):
            producer.send(f"{index}".encode())
        producer.close()

    async def send(topic: str, number: int) -> None:
        await asyncio.to_thread(sent, topic, number)

    yield send
    client.close()


class TestContentReal(ContentContract):
    """See tests/support/contracts/content.py."""


@pytest.mark.parametrize("partitions", [None, 2, 12])
async def test_a_topic_with_retained_entries_is_kept(
    endpoint: AdminEndpoint, publish: Publish, partitions: int | None
) -> None:
    """Nobody subscribes, so there is no backlog; it goes once retention is over."""
    async with Site.opened(endpoint, "content") as site:
        world, path = site.world, site.path(Kind.TOPIC)
        site.apply(Kind.TOPIC, deletionPolicy="Delete", **({"partitions": partitions} if partitions else {}))
        await world.reconcile(Kind.TOPIC, "x")
        await site.ask("POST", *site.path(Kind.NAMESPACE), "retention", body=HOUR)
        await publish(f"persistent://{'/'.join(path[1:])}", 20)
        world.delete(Kind.TOPIC, "x")
        await world.reconcile(Kind.TOPIC, "x")
        status, reason, message = world.condition(Kind.TOPIC, "x", "DeletionBlocked")
        assert (status, reason) == ("True", "NotEmpty")
        assert "Topic x has 20 entries" in message
        await site.ask("POST", *site.path(Kind.NAMESPACE), "retention", body=NONE)

        async def left() -> object:
            return world.get(Kind.TOPIC, "x")

        await site.until(left, lambda obj: obj is None, "the topic is deleted", by=Kind.TOPIC)
        assert await site.ask("GET", *path[:-1]) == []


async def test_a_connected_producer_is_seen_in_the_statistics_of_all_partitions(
    standalone: Standalone, endpoint: AdminEndpoint
) -> None:
    """Of many partitions one answer has all statistics, each with its publishers."""
    async with Site.opened(endpoint, "many") as site:
        world, path = site.world, site.path(Kind.TOPIC)
        site.apply(Kind.TOPIC, deletionPolicy="Delete", partitions=12)
        await world.reconcile(Kind.TOPIC, "x")
        client = pulsar.Client(standalone.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = await asyncio.to_thread(client.create_producer, f"persistent://{'/'.join(path[1:])}")
        world.delete(Kind.TOPIC, "x")
        await world.reconcile(Kind.TOPIC, "x")
        assert "connected producers" in world.condition(Kind.TOPIC, "x", "DeletionBlocked")[2]
        producer.close()
        client.close()

        async def left() -> object:
            return world.get(Kind.TOPIC, "x")

        await site.until(left, lambda obj: obj is None, "the topic is deleted", by=Kind.TOPIC)
        assert await site.ask("GET", *path[:-1]) == []
