"""A cluster that accepts calls and never answers, over real sockets: nothing else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.instance.reachability import TIMEOUTS
from pulsar_operator.ports import AdminEndpoint, DeadlineError
from tests.fakes.admin import serve
from tests.support.core.recorder import CountingMetrics
from tests.support.logical.world import LogicalWorld

DEADLINE = 0.3
"""Of each call that is given its whole time, instead of 15 s."""


@asynccontextmanager
async def mute() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A socket that accepts, reads and never answers; its address, and what was sent to it."""
    heard: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if b"/admin/" in line:
                heard.append(line)
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}", heard
    finally:
        server.close()


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The adapter, with a short deadline."""
    found = AiohttpAdmin(CountingMetrics(), deadline=DEADLINE)
    yield found
    await found.close()


async def test_silence_is_told_from_other_failures(admin: AiohttpAdmin) -> None:
    async with mute() as (url, heard):
        with pytest.raises(DeadlineError, match="no answer within"):
            await admin.call(AdminEndpoint("a", url), "GET", ("clusters",))
    assert len(heard) == 1


async def test_the_first_cluster_by_name_hangs_and_all_goes_on_at_the_other(admin: AiohttpAdmin) -> None:
    w = LogicalWorld("a", "b", admin=admin)
    w.stepping.step = 0.0
    async with mute() as (a, heard), serve(w.pulsar, "b") as (b, seen):
        w.urls = {"a": a, "b": b}
        for name in ("a", "b"):
            w.cluster_status(name, ready=True)
        w.tenant()
        await w.reconcile(Kind.TENANT, "t")
        assert w.condition(Kind.TENANT, "t")[0] == "True"
        assert len(heard) == 1, "after one silence others are asked first"
        w.namespace(replicationClusters=["a", "b"])
        await w.run()
        assert "t/n" in w.pulsar.namespaces
        assert len(heard) == 1, "what lies in the shared store does without it"
        assert w.condition(Kind.NAMESPACE, "n")[0] == "True", "what it declares lies in the shared store"
        for number in range(20):
            w.topic(f"x{number}")
        await w.run()
        assert len(heard) == TIMEOUTS, "then nobody asks it"
        assert {f"persistent://t/n/x{number}" for number in range(20)} <= set(w.pulsar.topics["b"])
        assert {w.condition(Kind.TOPIC, f"x{number}")[:2] for number in range(20)} == {("Unknown", "AdminUnreachable")}
        assert "See status.clusters of PulsarInstance" in w.condition(Kind.TOPIC, "x0")[2]
        assert len(seen) > 20
