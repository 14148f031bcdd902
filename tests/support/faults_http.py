"""Faults on the wire: a proxy before the real API server, and scripts before the admin REST of the fake Pulsar.

Both number the requests that concern them and disturb one, so that what is tested is how the real adapters read broken
connections, statuses, half bodies and watch streams.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from pulsar_operator.ports import Json

STALL_SECONDS = 6.0
"""Longer than the deadline of the operators in these tests."""
PAGE = "<html><body><h1>404 Not Found</h1></body></html>"

DROP_BEFORE, DROP_AFTER, STALL = "dropped before", "dropped after", "stall"
HALF, EMPTY_LIST, HALF_LIST, NOT_JSON = "half a body", "empty LIST", "truncated LIST", "no JSON"
EVENT_DROPPED, EVENT_TWICE, EXPIRED, CUT = "event dropped", "event duplicated", "watch 410", "watch cut"

KUBE_WIRE = (
    *(DROP_BEFORE, DROP_AFTER, STALL, HALF, NOT_JSON, EMPTY_LIST, HALF_LIST),
    *("409", "410", "429", "500", "502", "503", "504"),
)
"""For requests that are no watch."""
WATCH_WIRE = (EVENT_DROPPED, EVENT_TWICE, EXPIRED, CUT)
ADMIN_WIRE = (
    *(DROP_BEFORE, DROP_AFTER, STALL, HALF, NOT_JSON),
    *("409", "412", "429", "500", "502", "503", "untrue 404", "untrue empty 404", "untrue text 404"),
)
WRITES_ONLY = frozenset({"409", "412", DROP_AFTER})
LISTS_ONLY = frozenset({EMPTY_LIST, HALF_LIST, "410"})


@dataclass
class Wire:
    """What is disturbed next."""

    fault: str | None = None
    after: int = 0
    """Requests it makes sense at that pass before."""
    happened: str | None = None
    """The disturbed request."""
    requests: int = 0
    """All that came."""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it happened."""

    def arm(self, fault: str, after: int) -> None:
        """Disturb one request from now on."""
        self.fault, self.after, self.happened, self.requests = fault, after, None, 0
        self.came.clear()

    def calm(self) -> None:
        """Nothing more is disturbed."""
        self.fault = None

    def take(self, what: str, *, write: bool, listing: bool = False) -> str | None:
        """The fault for this request, or None."""
        self.requests += 1
        if self.fault is None or self.fault in WATCH_WIRE:
            return None
        if (self.fault in WRITES_ONLY and not write) or (self.fault in LISTS_ONLY and not listing):
            return None
        return self._now(what)

    def take_event(self, what: str) -> str | None:
        """The fault for this event of a watch, or None."""
        return self._now(what) if self.fault in WATCH_WIRE else None

    def _now(self, what: str) -> str | None:
        if self.after > 0:
            self.after -= 1
            return None
        fault, self.fault, self.happened = self.fault, None, what
        self.came.set()
        return fault


def drop(request: web.Request) -> None:
    """Break the connection."""
    if request.transport is not None:
        request.transport.abort()


def status_answer(code: int) -> web.Response:
    """An error as a Kubernetes API server words it."""
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests"}
    body: Json = {"kind": "Status", "status": "Failure", "code": code, "reason": reasons.get(code, "InternalError")}
    headers = {"Retry-After": "1"} if code in (429, 503) else {}
    return web.json_response({**body, "message": f"fault {code}"}, status=code, headers=headers)


@dataclass
class KubeProxy:
    """A reverse proxy on plain HTTP before an API server."""

    upstream: str
    tls: ssl.SSLContext
    wire: Wire = field(default_factory=Wire)
    concerns: Callable[[str], bool] = lambda path: "/pulsaroperator.io/" in path
    """Paths that may be disturbed."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        body = await request.read()
        headers = {
            k: v for k, v in request.headers.items() if k.lower() not in ("host", "content-length", "accept-encoding")
        }
        url = self.upstream + request.path_qs
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), trust_env=False) as session:
            if request.query.get("watch") == "true":
                return await self._watch(session, request, url, headers)
            fault = self._fault(request)
            if fault == DROP_BEFORE:
                drop(request)
                return web.Response()
            if fault == STALL:
                await asyncio.sleep(STALL_SECONDS)
            if fault is not None and fault.isdigit():
                return status_answer(int(fault))
            async with session.request(
                request.method, url, data=body or None, headers=headers, ssl=self.tls, allow_redirects=False
            ) as answer:
                raw = await answer.read()
                if fault == DROP_AFTER:
                    drop(request)
                    return web.Response()
                return web.Response(
                    status=answer.status, body=_spoiled(raw, fault), headers={"Content-Type": answer.content_type}
                )

    def _fault(self, request: web.Request) -> str | None:
        if not self.concerns(request.path):
            return None
        listing = request.method == "GET" and request.path.rsplit("/", 1)[1].startswith("pulsar")
        return self.wire.take(f"{request.method} {request.path}", write=request.method != "GET", listing=listing)

    async def _watch(
        self, session: aiohttp.ClientSession, request: web.Request, url: str, headers: dict[str, str]
    ) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        async with session.get(url, headers=headers, ssl=self.tls) as answer:
            stream.set_status(answer.status)
            await stream.prepare(request)
            async for line in answer.content:
                fault = None
                if self.concerns(request.path) and b'"BOOKMARK"' not in line[:40]:
                    fault = self.wire.take_event(f"watch {request.path}")
                if fault == EXPIRED:
                    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
                    await stream.write(json.dumps(error).encode() + b"\n")
                    break
                if fault == CUT:
                    drop(request)
                    break
                for _ in range({EVENT_DROPPED: 0, EVENT_TWICE: 2}.get(fault or "", 1)):
                    await stream.write(line)
        return stream


def _spoiled(raw: bytes, fault: str | None) -> bytes:
    """A body as the fault leaves it."""
    if fault == HALF:
        return raw[: len(raw) // 2]
    if fault == NOT_JSON:
        return b"<html>sign in</html>"
    if fault in (EMPTY_LIST, HALF_LIST):
        listed = json.loads(raw)
        items = listed.get("items") or []
        listed["items"] = [] if fault == EMPTY_LIST else items[: len(items) // 2]
        return json.dumps(listed).encode()
    return raw


@asynccontextmanager
async def serving(handler: Callable[[web.Request], object]) -> AsyncIterator[str]:
    """An HTTP server on loopback; yields its URL."""
    runner = web.ServerRunner(web.Server(handler), access_log=None, shutdown_timeout=1.0)  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@dataclass
class AdminProxy:
    """A reverse proxy before an admin REST."""

    upstream: str
    wire: Wire = field(default_factory=Wire)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        body = await request.read()
        fault = self.wire.take(f"{request.method} {request.raw_path}", write=request.method != "GET")
        if fault == DROP_BEFORE:
            drop(request)
            return web.Response()
        if fault == STALL:
            await asyncio.sleep(STALL_SECONDS)
        if fault is not None and fault.endswith("404"):
            return _untrue(fault)
        if fault is not None and fault.isdigit():
            headers = {"Retry-After": "1"} if fault in ("429", "503") else {}
            if fault in ("502", "503"):
                return web.Response(status=int(fault), text="<html>bad gateway</html>", content_type="text/html")
            return web.json_response({"reason": f"fault {fault}"}, status=int(fault), headers=headers)
        headers = {k: v for k, v in request.headers.items() if k.lower() in ("content-type", "accept", "user-agent")}
        async with aiohttp.ClientSession(trust_env=False) as session:
            url = aiohttp.client.URL(self.upstream + request.raw_path, encoded=True)
            async with session.request(
                request.method, url, data=body or None, headers=headers, allow_redirects=False
            ) as answer:
                raw = await answer.read()
                if fault == DROP_AFTER:
                    drop(request)
                    return web.Response()
                kind = {"Content-Type": answer.content_type} if raw else {}
                return web.Response(status=answer.status, body=_spoiled(raw, fault), headers=kind)


def _untrue(fault: str) -> web.Response:
    """What an ingress, a proxy or a mesh says when it does not know the way."""
    if fault == "untrue 404":
        return web.Response(status=404, text=PAGE, content_type="text/html")
    return web.Response(status=404, text="default backend - 404" if "text" in fault else "")
