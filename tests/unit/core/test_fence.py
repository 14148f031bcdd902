"""Nothing is sent that may change something once the Lease may be another process's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.fence import fence_of
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient
from pulsar_operator.adapters.lease import Lease
from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    AdminEndpoint,
    KubePort,
    UnavailableError,
    ZooKeeperSession,
)
from pulsar_operator.runtime import Operator
from pulsar_operator.settings import Settings
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.support.core.engine import engine_of, key
from tests.support.core.objects import config_map, tenant
from tests.support.core.recorder import CountingMetrics, Recorder
from tests.support.core.virtual_time import run_virtual
from tests.unit.core.test_lease import LoopClock, Store

OBJECT = tenant("ns", uid="u", resourceVersion="1", finalizers=["f"])
UNIDENTIFIED = {"apiVersion": OBJECT["apiVersion"], "kind": OBJECT["kind"],
                "metadata": {"name": "t", "namespace": "ns", "uid": "u"}}  # fmt: skip


class Wire:
    """What would have been sent to the API server, which answers everything with an object."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, str]] = []
        self.on_get: Callable[[], None] = lambda: None

    async def request(self, method: str, url: str, **_: Any) -> Any:
        """One request."""
        self.sent.append((asyncio.get_running_loop().time(), method))
        if method == "GET":
            self.on_get()
        body = b'{"metadata": {"name": "t", "namespace": "ns", "uid": "u", "resourceVersion": "1"}}'

        async def read() -> bytes:
            return body

        return SimpleNamespace(status=200, headers={}, read=read, response=SimpleNamespace(release=lambda: None))

    @property
    def writes(self) -> list[str]:
        """Methods that may change something."""
        return [method for _, method in self.sent if method != "GET"]


class Held:
    """A Lease as the fence asks for it."""

    def __init__(self, *, held: bool = False) -> None:
        self.held = held


def kube_of(wire: Wire, held: Callable[[], bool]) -> tuple[KubeAdapter, EventRecorder, KubeClient]:
    client = KubeClient(Configuration(host="http://127.0.0.1:1"))
    client._rest = wire
    behind = client.fenced(fence_of(held))
    recorder = EventRecorder(behind, CountingMetrics(), SystemClock(), reporter="pod")
    return KubeAdapter(behind, CountingMetrics(), recorder), recorder, client


WRITES: dict[str, Callable[[KubePort], Awaitable[Any]]] = {
    "apply": lambda kube: kube.apply(config_map("ns", "a", {})),
    "apply_status": lambda kube: kube.apply_status({**OBJECT, "status": {}}),
    "create": lambda kube: kube.create(config_map("ns", "a", {})),
    "dry_run_create": lambda kube: kube.dry_run_create(config_map("ns", "a", {})),
    "delete": lambda kube: kube.delete(CONFIG_MAPS, "ns", "a", uid="u"),
    "evict": lambda kube: kube.evict("ns", "a", uid="u"),
    "remove_entries": lambda kube: kube.remove_entries(OBJECT, ["/metadata/labels/x"]),
    "drop_finalizer": lambda kube: kube.drop_finalizer(OBJECT, "f"),
}
READS = {"get", "list", "event", "warnings"}


def methods(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}


def test_every_method_of_the_ports_is_here() -> None:
    assert methods(KubePort) == set(WRITES) | READS
    assert methods(ZooKeeperSession) == {"create", "set", "delete"} | {"get", "children", "watch"}


@pytest.mark.parametrize("name", sorted(WRITES))
async def test_kubernetes(name: str) -> None:
    wire, lease = Wire(), Held()
    kube, _, _ = kube_of(wire, lambda: lease.held)
    with pytest.raises(UnavailableError, match="Lease"):
        await WRITES[name](kube)
    assert wire.writes == []
    assert await kube.get(CUSTOM[Kind.TENANT], "ns", "t") is not None
    lease.held = True
    await WRITES[name](kube)
    assert len(wire.writes) == 1


async def test_a_write_that_reads_first_asks_after_that() -> None:
    wire, lease = Wire(), Held(held=True)
    wire.on_get = lambda: setattr(lease, "held", False)
    kube, _, _ = kube_of(wire, lambda: lease.held)
    with pytest.raises(UnavailableError, match="Lease"):
        await kube.apply_status({**UNIDENTIFIED, "status": {}})
    assert [method for _, method in wire.sent] == ["GET"]


async def test_events() -> None:
    wire, lease = Wire(), Held()
    kube, recorder, _ = kube_of(wire, lambda: lease.held)
    recorder.start()
    await kube.event(OBJECT, kind="Normal", reason="Created", message="m")
    await recorder.close()
    assert wire.writes == []


async def test_the_lease_itself_is_written_through_the_same_connections() -> None:
    wire = Wire()
    _, _, client = kube_of(wire, lambda: False)
    await client.request("PUT", "/lease", body={})
    assert wire.writes == ["PUT"]


async def test_pulsar_is_not_asked_again_without_the_lease() -> None:
    """An attempt that failed is repeated for half a minute: longer than the Lease may last."""
    lease, seen = Held(held=True), []

    def script(request: web.Request) -> web.StreamResponse | None:
        seen.append(request.method)
        lease.held = False
        return web.Response(status=503)

    admin = AiohttpAdmin(CountingMetrics(), deadline=5.0, fence=fence_of(lambda: lease.held))
    try:
        async with serve(FakePulsar(), script=script) as (url, _):
            endpoint = AdminEndpoint("a", url)
            with pytest.raises(UnavailableError, match="Lease"):
                await admin.call(endpoint, "PUT", ("tenants", "t"), body={})
            assert seen == ["PUT"]
            for method in ("POST", "DELETE", "PUT"):
                with pytest.raises(UnavailableError, match="Lease"):
                    await admin.call(endpoint, method, ("tenants", "t"), body={})
            assert seen == ["PUT"]
    finally:
        await admin.close()
    async with serve(FakePulsar()) as (url, _):
        admin = AiohttpAdmin(CountingMetrics(), deadline=5.0, fence=fence_of(lambda: False))
        assert await admin.call(AdminEndpoint("a", url), "GET", ("tenants",)) is not None
        await admin.close()


class Kazoo:
    """A client that notes what is asked of it, and has done it at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def act(*_: Any) -> Any:
            self.asked.append(name)
            result = SimpleNamespace(exception=None, value=(b"", SimpleNamespace(version=1)), get=lambda: (b"", None))
            return SimpleNamespace(rawlink=lambda callback: callback(result))

        return act


@pytest.mark.parametrize("verb", ["create", "set", "delete"])
async def test_zookeeper(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, lease = Kazoo(), Held(held=True)
    zookeeper = KazooZooKeeper(fence=fence_of(lambda: lease.held))

    async def connected(servers: str) -> Any:
        lease.held = False  # it took a while
        return SimpleNamespace(client=client, in_flight=0, last_used=0.0)

    session = await _session(zookeeper, monkeypatch)
    monkeypatch.setattr(zookeeper, "_connected", connected)
    act: dict[str, Callable[[], Awaitable[Any]]] = {
        "create": lambda: session.create("/a", b""),
        "set": lambda: session.set("/a", b"", version=1),
        "delete": lambda: session.delete("/a", version=1),
    }
    with pytest.raises(UnavailableError, match="Lease"):
        await act[verb]()
    assert client.asked == []
    await zookeeper.close()


async def _session(zookeeper: KazooZooKeeper, monkeypatch: pytest.MonkeyPatch) -> ZooKeeperSession:
    async def connected(servers: str) -> None:
        """Without a server."""

    monkeypatch.setattr(zookeeper, "_connected", connected)
    return await zookeeper.session("zk:2181")


def test_a_lease_that_is_lost_while_a_pass_runs() -> None:
    """The API server does not answer about the Lease, and nobody has noticed yet."""

    async def scenario() -> None:
        store, wire = Store(), Wire()
        lease = Lease(store, LoopClock(), identity="a", seconds=30)
        await lease.acquire()
        kube, _, _ = kube_of(wire, lambda: lease.is_leader)
        errors: list[float] = []

        async def act(_: Any) -> Outcome:
            while True:
                try:
                    await kube.apply(config_map("ns", "a", {}))
                except UnavailableError:
                    errors.append(asyncio.get_running_loop().time())
                await asyncio.sleep(1)

        engine, _ = engine_of(Recorder(act), workers=1)
        task = asyncio.create_task(engine.run(asyncio.Event()))
        engine.enqueue(key("x"))
        store.down = True
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert wire.writes and max(at for at, _ in wire.sent) < 20.0 <= min(errors), "renewed at 0, lasts to 30"

    run_virtual(scenario())


async def test_the_process_has_no_way_around_it() -> None:
    client = KubeClient(Configuration(host="http://127.0.0.1:1"))
    operator = Operator(Settings(), client, lambda deps: {})
    try:
        with pytest.raises(UnavailableError, match="Lease"):
            await operator.deps.kube.apply(config_map("ns", "a", {}))
        with pytest.raises(UnavailableError, match="Lease"):
            await operator.deps.admin.call(AdminEndpoint("a", "http://127.0.0.1:1"), "PUT", ("tenants", "t"))
        assert isinstance(operator.deps.zookeeper, KazooZooKeeper)
        with pytest.raises(UnavailableError, match="Lease"):
            operator.deps.zookeeper.fence("create /a")
        with pytest.raises(UnavailableError, match="Lease"):
            await operator._recorder._client.request("POST", "/events", body={})
    finally:
        await operator._close()
