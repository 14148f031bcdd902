"""A sizing result that cannot be: NoData with what is wrong, and never an error of the pass."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from pulsar_operator.adapters.sizing import HttpSizing
from pulsar_operator.balance.model.hashing import topic_hash
from tests.support.balancing.recorded import recorded
from tests.support.balancing.world import LAST, BalancingWorld

ORDERS = "shop/orders"
Served = tuple[BalancingWorld, list[bytes]]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A world that reads the first of some bodies over HTTP."""
    bodies: list[bytes] = []

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=bodies[0])

    runner = web.ServerRunner(web.Server(answer), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    world = BalancingWorld()
    world.pulsar.namespace(ORDERS, [0, LAST], world.pulsar.brokers[0])
    world.pulsar.rates = {f"persistent://{ORDERS}/t{n}": 100.0 + n for n in range(12)}
    world.sizing = HttpSizing()  # type: ignore[assignment]
    world.restart()
    host, port = runner.addresses[0][:2]
    world.rebalance(
        trafficSource="Recorded", autoApprove=True, tolerancePercent=1, sizing={"url": f"http://{host}:{port}"}
    )
    yield world, bodies
    await runner.cleanup()


def document(world: BalancingWorld) -> Any:
    """A good result, as the job writes it."""
    positions = sorted(map(topic_hash, world.pulsar.rates))
    found = recorded(world, {ORDERS: [positions[4], positions[8]]})
    return json.loads(found.model_dump_json(by_alias=True))


def put(path: str, value: Any) -> Callable[[Any], None]:
    """Sets a value at a path of keys and indexes."""

    def change(found: Any) -> None:
        *way, last = (int(each) if each.isdigit() else each for each in path.split("."))
        for each in way:
            found = found[each]
        found[last] = value

    return change


def swapped(found: Any) -> None:
    cells = found["namespaces"][0]["cells"]
    cells[0], cells[1] = cells[1], cells[0]


def twice(found: Any) -> None:
    found["namespaces"] *= 2


async def test_the_good_one_is_used(served: Served) -> None:
    world, bodies = served
    bodies.append(json.dumps(document(world)).encode())
    await world.run(seconds=60)
    assert len(world.pulsar.boundaries[ORDERS]) == 4


CELL, ORDER = "namespaces.0.cells.0", "namespaces.0.boundaries"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put(f"{CELL}.weight", 1e308), "namespaces.0.cells.0.weight: Input should be less than or equal to 1"),
        (put(f"{CELL}.weight", float("inf")), "namespaces.0.cells.0.weight: Input should be"),
        (put(f"{CELL}.weight", float("nan")), "namespaces.0.cells.0.weight: Input should be"),
        (put(f"{CELL}.weight", -1), "namespaces.0.cells.0.weight: Input should be greater than or equal to 0"),
        (put(f"{CELL}.weight", None), "namespaces.0.cells.0.weight: Input should be a valid number"),
        (put(f"{CELL}.position", 1 << 32), "namespaces.0.cells.0.position: Input should be less than or equal to"),
        (put(f"{CELL}.topics", 10**400), "namespaces.0.cells.0.topics: "),
        (swapped, "namespaces.0: Value error, a cell at "),
        (put(f"{CELL}.position", (1 << 32) - 1), "positions must ascend"),
        (put(f"{ORDER}.1", "x"), "namespaces.0.boundaries.1: String should match pattern"),
        (put(f"{ORDER}.1", "0X10000000"), "namespaces.0.boundaries.1: String should match pattern"),
        (put(f"{ORDER}.1", "0x00000000"), "namespaces.0.boundaries: Value error, boundary 0x00000000 follows"),
        (put(f"{ORDER}.0", "0x00000001"), "namespaces.0.boundaries: Value error, the boundaries are"),
        (put(ORDER, ["0xffffffff", "0x00000000"]), "namespaces.0.boundaries: Value error, the boundaries are"),
        (put("namespaces.0.boundariesNow", ["0x00000000"]), "namespaces.0.boundariesNow: Value error"),
        (put("namespaces.0.namespace", "orders"), "namespaces.0.namespace: String should match pattern"),
        (put("namespaces.0.bundlesNow", -1), "namespaces.0.bundlesNow: "),
        (put("brokers.0.weight", 1e308), "brokers.0.weight: "),
        (put("brokers.0.utilization", float("inf")), "brokers.0.utilization: "),
        (twice, "cannot be read: Value error, namespace shop/orders is listed twice"),
        (put("toTime", "2026-01-01T00:00:00"), "toTime: Input should have timezone info"),
        (put("toTime", "soon"), "toTime: "),
        (put("completeness", 2), "completeness: "),
        (put("version", 2), "version: Input should be 1"),
        (put("namespaces", "many"), "namespaces: "),
    ],
)
async def test_an_odd_result_is_no_data(served: Served, change: Callable[[Any], None], told: str) -> None:
    world, bodies = served
    found = document(world)
    change(found)
    bodies.append(json.dumps(found).encode())
    await _is_no_data(world, told)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"\xff", b"<html>", b'{"namespaces":' + b"[" * 100_000],
    ids=["empty", "null", "list", "object", "bytes", "page", "deep"],
)
async def test_what_is_no_result_is_no_data(served: Served, body: bytes) -> None:
    world, bodies = served
    bodies.append(body)
    await _is_no_data(world, "")


async def _is_no_data(world: BalancingWorld, told: str) -> None:
    await world.run(seconds=30)
    assert world.condition("ProposalReady") == ("False", "NoData")
    text = next(str(c["message"]) for c in world.status()["conditions"] if c["type"] == "ProposalReady")
    assert text.startswith("There is no proposal, because the sizing result at http://127.0.0.1:") and told in text
    assert "cannot be read: " in text and len(text) < 1000
    assert world.pulsar.boundaries[ORDERS] == [0, LAST] and not world.pulsar.writes


@pytest.mark.parametrize("weights", [(1e19,), (5e-324,), (1e19, 5e-324), (0.0,), (1e19, 0.0)])
async def test_what_is_permitted_can_be_planned_with(served: Served, weights: tuple[float, ...]) -> None:
    world, bodies = served
    found = document(world)
    for number, each in enumerate(found["namespaces"][0]["cells"]):
        each["weight"] = weights[number % len(weights)]
    bodies.append(json.dumps(found).encode())
    await world.run(seconds=30)
    assert world.condition("ProposalReady")[1] not in ("NoData", "absent")


@pytest.mark.parametrize(("end", "counts"), [("2026-01-02T01:00:00Z", True), ("9999-12-31T23:59:59-14:00", False)])
async def test_a_record_that_ends_long_from_now_is_none(served: Served, end: str, counts: bool) -> None:
    """It would be used for as long, whatever maxAgeSeconds says."""
    world, bodies = served
    bodies.append(json.dumps(document(world) | {"toTime": end}).encode())
    await world.run(seconds=60)
    assert (len(world.pulsar.boundaries[ORDERS]) == 4) == counts
    if not counts:
        text = next(str(c["message"]) for c in world.status()["conditions"] if c["type"] == "ProposalReady")
        assert "h in the future, so the clock of the collector, the sizing job or the operator is wrong" in text
