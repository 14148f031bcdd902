"""The streams and their monitor against a small HTTP server: events arrive, and silence is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from e2e.support.eventually import eventually_async
from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient
from pulsar_operator.adapters.watch_monitor import WatchMonitor, watch_session
from pulsar_operator.api.constants import GROUP, PLURALS, VERSION, Kind
from pulsar_operator.handlers import streams as handlers
from tests.support.core.objects import tenant
from tests.support.core.recorder import CountingMetrics

BEAT = 0.05
SILENCE = 60.0
LONGER = 61.0
INACTIVITY = 0.3


class WatchServer:
    """Discovery, empty lists, and watches that send a bookmark every BEAT until they are muted."""

    def __init__(self) -> None:
        self.muted = False
        self.opened: Counter[str] = Counter()
        """Watches opened, by what they watch."""
        self.tenants: list[dict[str, Any]] = []
        self.label_selectors: dict[str, str] = {}
        self.feeds: list[asyncio.Queue[dict[str, Any]]] = []

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if "watch" in request.query:
            return await self._watch(request, parts[-1])
        if request.path == "/api":
            return web.json_response({"versions": ["v1"]})
        if request.path == "/apis":
            groups = [(GROUP, VERSION), ("apps", "v1"), ("apiextensions.k8s.io", "v1")]
            return web.json_response(
                {
                    "groups": [
                        {"name": g, "versions": [{"version": v}], "preferredVersion": {"version": v}} for g, v in groups
                    ]
                }
            )
        if parts in (["api", "v1"], ["apis", "apps", "v1"], ["apis", GROUP, VERSION]) or parts[-2:-1] == [
            "apiextensions.k8s.io"
        ]:
            return web.json_response({"resources": [self._resource(plural) for plural in self._plurals(parts)]})
        items = self.tenants if parts[-1] == "pulsartenants" else []
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    @staticmethod
    def _plurals(parts: list[str]) -> list[str]:
        return {
            "api": ["pods", "configmaps", "secrets", "namespaces", "events"],
            "apps": ["statefulsets"],
            GROUP: list(PLURALS.values()),
            "apiextensions.k8s.io": ["customresourcedefinitions"],
        }[parts[1] if len(parts) == 3 else parts[0]]

    @staticmethod
    def _resource(plural: str) -> dict[str, Any]:
        return {
            "name": plural,
            "singularName": plural[:-1],
            "kind": plural[:-1].capitalize(),
            "namespaced": plural not in ("namespaces", "customresourcedefinitions"),
            "verbs": ["get", "list", "watch", "patch"],
            "shortNames": [],
            "categories": [],
        }

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        self.opened[plural] += 1
        self.label_selectors[plural] = request.query.get("labelSelector", "")
        feed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        if plural == "pulsartenants":
            self.feeds.append(feed)
        response = web.StreamResponse()
        await response.prepare(request)
        bookmark = {"type": "BOOKMARK", "object": {"kind": "x", "metadata": {"resourceVersion": "2"}}}
        while True:
            try:
                line = await asyncio.wait_for(feed.get(), BEAT)
            except TimeoutError:
                line = bookmark
            if not self.muted:
                with contextlib.suppress(ConnectionError):
                    await response.write(json.dumps(line).encode() + b"\n")
                    continue
                return response


class Sink:
    def __init__(self) -> None:
        self.seen: list[tuple[Kind, str, bool]] = []
        self.children: list[str] = []

    def observe(self, kind: Kind, obj: dict[str, Any], *, deleted: bool = False) -> None:
        self.seen.append((kind, obj["metadata"]["name"], deleted))

    def observe_child(self, obj: dict[str, Any]) -> None:
        self.children.append(obj["metadata"]["name"])


@pytest.fixture
async def served() -> AsyncIterator[tuple[WatchServer, str]]:
    server = WatchServer()
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield server, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_events_arrive_bookmarks_keep_alive_and_silence_is_noticed(served: tuple[WatchServer, str]) -> None:
    server, url = served
    configuration = Configuration(host=url)
    told: list[str] = []
    now = 100.0
    monitor = WatchMonitor(lambda: now, told.append)
    sink, stop, started = Sink(), asyncio.Event(), asyncio.Event()

    async def session() -> tuple[str, aiohttp.ClientSession]:
        return url, await watch_session(configuration, monitor)

    client = KubeClient(configuration)
    events = EventRecorder(client, CountingMetrics(), SystemClock(), reporter="test")
    kube = KubeAdapter(client, CountingMetrics(), events)
    monitor.expect(handlers.watched(), [])
    streams = len(handlers.watched())

    async def reopened() -> None:
        """Wait until every stream is another connection: what was on its way on the one before has come."""
        before = Counter(server.opened)
        await eventually_async(
            lambda: all(server.opened[plural] > before[plural] for plural in before), what="every stream is opened anew"
        )

    task = asyncio.create_task(
        handlers.watch(sink, session, namespaces=[], stop=stop, started=started, inactivity_seconds=INACTIVITY)
    )
    try:
        await eventually_async(lambda: len(set(told)) == streams, what="every stream is heard of")
        # Filters are the server's work, and only for kinds we do not own alone.
        assert server.label_selectors["pods"] == "app.kubernetes.io/managed-by=pulsar-operator"
        assert server.label_selectors["pulsartenants"] == ""

        obj = tenant("ns", uid="u1", resourceVersion="3")
        server.feeds[-1].put_nowait({"type": "ADDED", "object": obj})
        server.feeds[-1].put_nowait({"type": "DELETED", "object": obj})
        await eventually_async(lambda: len(sink.seen) == 2, what="both events")
        assert sink.seen == [(Kind.TENANT, "t", False), (Kind.TENANT, "t", True)]

        # Bookmarks alone are a sign of life.
        now += LONGER
        assert len(monitor.silent(SILENCE)) == streams
        await eventually_async(lambda: monitor.silent(SILENCE) == {}, what="a bookmark on every stream")

        # The server still takes connections and sends headers, but no byte: new connections are no sign of life.
        server.muted = True
        await reopened()
        now += LONGER
        assert len(monitor.silent(SILENCE)) == streams
        await reopened()
        assert len(monitor.silent(SILENCE)) == streams

        # Nothing happened meanwhile, so nothing was missed.
        await monitor.verify(SILENCE, kube.fingerprint)
        await monitor.verify(SILENCE, kube.fingerprint)
        assert monitor.dead(-1) == {}
        # A change that no stream delivers.
        server.tenants.append(obj)
        await monitor.verify(SILENCE, kube.fingerprint)
        assert list(monitor.dead(-1)) == ["/apis/pulsaroperator.io/v1alpha1/pulsartenants"]
        assert monitor.dead(60) == {}

        server.muted = False
        await eventually_async(lambda: monitor.silent(SILENCE) == {}, what="all streams are back")
        assert monitor.dead(-1) == {}
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)
        await client.close()
