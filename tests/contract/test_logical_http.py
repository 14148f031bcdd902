"""The controllers through the real adapter over HTTP, against the in-memory Pulsar of two clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from tests.fakes.admin import serve
from tests.support.core.recorder import CountingMetrics
from tests.support.logical.world import LogicalWorld


@pytest.fixture
async def world() -> AsyncIterator[LogicalWorld]:
    """Clusters a and b, each with a server of its own."""
    admin = AiohttpAdmin(CountingMetrics(), deadline=5)
    w = LogicalWorld("a", "b", admin=admin)
    async with serve(w.pulsar, "a") as (a, _), serve(w.pulsar, "b") as (b, _):
        w.urls = {"a": a, "b": b}
        for name in ("a", "b"):
            w.cluster_status(name, ready=True)
        yield w
        await admin.close()


async def test_made_and_removed(world: LogicalWorld) -> None:
    w = world
    w.tenant(deletionPolicy="Delete")
    w.namespace(policies={"messageTTLSeconds": 9}, deletionPolicy="Delete")
    w.topic("x", name="odd %2F?#é", deletionPolicy="Delete")
    w.topic("p", partitions=3, deletionPolicy="Delete")
    await w.run(8)
    assert w.condition(Kind.TOPIC, "x")[0] == "True", w.condition(Kind.TOPIC, "x")
    assert w.condition(Kind.TOPIC, "p")[0] == "True"
    assert all("persistent://t/n/odd %2F?#é" in w.pulsar.topics[c] for c in ("a", "b"))
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        w.delete(kind, name)
    await w.run(10)
    assert w.pulsar.tenants == {}
    assert w.get(Kind.TENANT, "t") is None
