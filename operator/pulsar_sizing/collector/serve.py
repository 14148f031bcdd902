"""HTTP of the collector: sizing results for the operator, the state of the last round, probe and metrics.

Plain HTTP without a login, as the operator's own: results name topics, so a NetworkPolicy belongs before the port.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from aiohttp import web

from pulsar_sizing.collector.rounds import Round
from pulsar_sizing.store import Store, StoreError

Status = Callable[[], Awaitable[dict[str, Any]]]


def round_status(done: Round) -> dict[str, Any]:
    """A round as /v1/status shows it."""
    return {
        "cluster": done.cluster,
        "sampleTime": done.sample_time.isoformat(timespec="milliseconds"),
        "complete": done.complete,
        "seconds": round(done.seconds, 3),
        "error": done.error,
        "brokers": [
            {
                "broker": sample.broker,
                "answered": sample.answered,
                "topics": sample.topics,
                "bytes": sample.bytes,
                "storedBytes": sample.stored_bytes,
                "seconds": round(sample.seconds, 3),
                "error": sample.error,
            }
            for sample in done.brokers
        ],
    }


def alive_problem(last: Mapping[str, datetime], now: datetime, interval: float) -> str | None:
    """Returns why the process is not alive, as a message: a cluster had no round for three intervals. None if it is
    alive. ``last`` has the time at which the last round of each cluster ended."""
    late = {name: (now - moment).total_seconds() for name, moment in last.items()}
    words = [f"{name}: {age:.0f} s since its last round" for name, age in sorted(late.items()) if age > 3 * interval]
    return "; ".join(words) or None


class Server:
    """Listens on one port: /v1/sizing/{cluster}, /v1/status, /healthz, /metrics."""

    def __init__(
        self,
        *,
        store: Store,
        instance: str,
        status: Status,
        alive: Callable[[], str | None],
        metrics: Callable[[], bytes],
    ) -> None:
        """``alive`` says what is wrong in a sentence; None for nothing."""
        self._store = store
        self._instance = instance
        self._status = status
        self._alive = alive
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self.port = 0
        """Port in use, once started."""

    async def start(self, host: str | None, port: int) -> None:
        """Listen; ``host`` None if every address, ``port`` 0 = any free one. Raises OSError when the port is taken."""
        app = web.Application()
        app.router.add_get("/v1/sizing/{cluster}", self._sizing)
        app.router.add_get("/v1/status", self._show_status)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/metrics", self._scrape)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _sizing(self, request: web.Request) -> web.StreamResponse:
        cluster = request.match_info["cluster"]
        try:
            text = await asyncio.to_thread(self._store.latest_result_text, self._instance, cluster)
        except (OSError, pa.ArrowException, StoreError) as error:
            return _sentence(503, f"the store cannot be read: {str(error).partition(chr(10))[0]}")
        if text is None:
            return _sentence(
                404,
                f"no sizing result for cluster {cluster} of instance {self._instance} yet: the sizing job writes one "
                "when it has run over recorded traffic",
            )
        tag = hashlib.sha256(text).hexdigest()[:32]
        if request.if_none_match and any(t.value in (tag, "*") for t in request.if_none_match):
            unchanged = web.Response(status=304)
            unchanged.etag = tag
            return unchanged
        response = web.Response(
            body=text, content_type="application/json", headers={"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        )
        response.etag = tag
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async def _show_status(self, request: web.Request) -> web.StreamResponse:
        try:
            return web.json_response(await self._status())
        except (OSError, pa.ArrowException, StoreError) as error:
            return _sentence(503, f"the store cannot be read: {str(error).partition(chr(10))[0]}")

    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        problem = self._alive()
        body = {"ok": problem is None, **({"problem": problem} if problem else {})}
        return web.json_response(body, status=503 if problem else 200)

    async def _scrape(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def _sentence(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=json.dumps({"error": words}) + "\n", content_type="application/json")
