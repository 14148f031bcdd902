"""collector/serve.py over HTTP, and what ``serve`` alone knows from the store."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.collector.client import Target
from pulsar_sizing.collector.metrics import CollectorMetrics
from pulsar_sizing.collector.rounds import Sampler
from pulsar_sizing.collector.run import recorded_status
from pulsar_sizing.collector.serve import Server
from pulsar_sizing.store import Store
from tests.fakes.broker_stats import FakeBrokers, FakeTopic, Fault

NOW = datetime(2025, 1, 1, 12, 0, 30, tzinfo=UTC)


class ServedStore:
    """A served store and what the process would say of itself."""

    def __init__(self, root: Path) -> None:
        self.store = Store(str(root))
        self.problem: str | None = None
        self.server = Server(
            store=self.store, instance="i", status=self.status, alive=lambda: self.problem, metrics=lambda: b"m 1\n"
        )

    async def status(self) -> dict[str, Any]:
        return {"clusters": {}}

    async def get(self, path: str, **headers: str) -> tuple[int, Any, bytes]:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            url = f"http://127.0.0.1:{self.server.port}{path}"
            async with session.get(url, headers={"Accept-Encoding": "identity", **headers}) as answer:
                return answer.status, answer.headers, await answer.read()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ServedStore]:
    world = ServedStore(tmp_path)
    await world.server.start("127.0.0.1", 0)
    yield world
    await world.server.close()


def _free_port_of_both() -> int:
    """A port that nobody has by either version."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as found:
        return int(found.getsockname()[1])


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_without_a_host_both_versions_of_ip_are_answered(tmp_path: Path) -> None:
    world = ServedStore(tmp_path)
    await world.server.start(None, _free_port_of_both())
    try:
        async with aiohttp.ClientSession() as session:
            for host in ("127.0.0.1", "[::1]"):
                async with session.get(f"http://{host}:{world.server.port}/healthz") as answer:
                    assert answer.status == 200, host
    finally:
        await world.server.close()


def result(minutes: int = 0) -> SizingResult:
    return SizingResult.model_validate(
        {
            "instance": "i",
            "cluster": "c",
            "generatedTime": NOW + timedelta(minutes=minutes),
            "fromTime": NOW,
            "toTime": NOW,
            "samples": 1,
            "completeness": 1,
            "percentile": 0.99,
            "growth": 1.2,
            "namespaces": [],
            "partitions": [],
            "brokers": [],
            "verdict": {"verdict": "RightSized", "brokersNow": 1, "brokers": 1, "reason": "x" * 2000},
            "balance": {"before": 1, "after": 1, "bound": 1},
        }
    )


async def test_without_a_result_a_sentence(world: ServedStore) -> None:
    status, _, body = await world.get("/v1/sizing/c")
    assert status == 404 and json.loads(body)["error"].startswith("no sizing result for cluster c of instance i yet")
    world.store.write_result(result())
    assert (await world.get("/v1/sizing/other"))[0] == 404
    assert (await world.get("/v1/sizing/..%2F..%2Finstance%3Di%2Fcluster%3Dc"))[0] == 404


async def test_the_latest_result_with_its_tag(world: ServedStore) -> None:
    world.store.write_result(result())
    status, headers, body = await world.get("/v1/sizing/c")
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    assert SizingResult.model_validate_json(body) == result()
    tag = headers["ETag"]
    assert (await world.get("/v1/sizing/c", **{"If-None-Match": tag}))[::2] == (304, b"")
    world.store.write_result(result(1))
    status, headers, body = await world.get("/v1/sizing/c", **{"If-None-Match": tag})
    assert status == 200 and headers["ETag"] != tag and SizingResult.model_validate_json(body) == result(1)


async def test_gzip_for_those_who_take_it(world: ServedStore) -> None:
    world.store.write_result(result())
    plain = (await world.get("/v1/sizing/c"))[2]
    status, headers, body = await world.get("/v1/sizing/c", **{"Accept-Encoding": "gzip, deflate"})
    assert status == 200 and headers["Content-Encoding"] == "gzip" and headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(body) == plain and len(body) < len(plain) / 2


async def test_a_store_that_cannot_be_read(world: ServedStore, tmp_path: Path) -> None:
    folder = tmp_path / "results/v1/instance=i/cluster=c"
    folder.mkdir(parents=True)
    (folder / "latest.json").mkdir()
    status, _, body = await world.get("/v1/sizing/c")
    assert status == 503 and json.loads(body)["error"].startswith("the store cannot be read: ")


async def test_probe_status_and_metrics(world: ServedStore) -> None:
    assert (await world.get("/healthz"))[::2] == (200, b'{"ok": true}')
    world.problem = "c: 200 s since its last round"
    status, _, body = await world.get("/healthz")
    assert status == 503 and json.loads(body) == {"ok": False, "problem": "c: 200 s since its last round"}
    assert (await world.get("/v1/status"))[::2] == (200, b'{"clusters": {}}')
    status, headers, body = await world.get("/metrics")
    assert (status, body) == (200, b"m 1\n") and headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_status_from_the_markers_alone(tmp_path: Path) -> None:
    brokers = await FakeBrokers({"a:1": [FakeTopic("persistent://t/ns/x")], "b:1": []}).start()
    try:
        store = Store(str(tmp_path))
        sampler = Sampler("i", Target("c/1", (brokers.url,), brokers.template), store, CollectorMetrics())
        await sampler.sample(NOW - timedelta(minutes=2))
        brokers.faults["b:1"] = Fault(status=500)
        await sampler.sample(NOW - timedelta(minutes=1))
    finally:
        await brokers.close()
    expected = {
        "cluster": "c/1",
        "sampleTime": "2025-01-01T11:59:30.000+00:00",
        "brokers": [
            {"broker": "a:1", "answered": True, "topics": 1, "error": None},
            {"broker": "b:1", "answered": False, "topics": 0, "error": "HTTP 500"},
        ],
    }
    assert recorded_status(store, "i", NOW) == {"instance": "i", "clusters": {"c/1": expected}}
    assert recorded_status(store, "i", NOW + timedelta(hours=2))["clusters"] == {"c/1": None}
