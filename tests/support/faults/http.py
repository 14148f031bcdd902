"""Faults on the wire: a proxy before the real API server, and scripts before the admin REST of the fake Pulsar.

Both number the requests that concern them and disturb one, so that what is tested is how the real adapters read broken
connections, statuses, half bodies and watch streams.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

from pulsar_operator.ports import Json

STALL_SECONDS = 6.0
"""Longer than the deadline of the operators in these tests."""
CASE = re.compile(r"\bcase[0-9]+\b")
"""The name that all objects of one case have."""
NAMED = re.compile(rb'"name": ?"(case[0-9]+)"')
STALE = 3
"""Lists kept of each kind; the oldest is what a stale LIST shows."""
PAGE = "<html><body><h1>404 Not Found</h1></body></html>"

DROP_BEFORE, DROP_AFTER, STALL = "dropped before", "dropped after", "stall"
TWICE, STALE_LIST = "sent twice", "stale LIST"
HALF, EMPTY_LIST, HALF_LIST, NOT_JSON = "half a body", "empty LIST", "truncated LIST", "no JSON"
EVENT_DROPPED, EVENT_TWICE, EVENT_LATE = "event dropped", "event duplicated", "event reordered"
EXPIRED, CUT = "watch 410", "watch cut"

KUBE_WIRE = (
    *(DROP_BEFORE, DROP_AFTER, TWICE, STALL, HALF, NOT_JSON, EMPTY_LIST, HALF_LIST, STALE_LIST),
    *("409", "410", "429", "500", "502", "503", "504"),
)
"""For requests that are no watch."""
STREAM_WIRE = (EXPIRED, CUT)
WATCH_WIRE = (EVENT_DROPPED, EVENT_TWICE, EVENT_LATE, *STREAM_WIRE)
ADMIN_WIRE = (
    *(DROP_BEFORE, DROP_AFTER, TWICE, STALL, HALF, NOT_JSON),
    *("409", "412", "429", "500", "502", "503", "untrue 404", "untrue empty 404", "untrue text 404"),
)
WRITES_ONLY = frozenset({"409", "412", DROP_AFTER, TWICE})
LISTS_ONLY = frozenset({EMPTY_LIST, HALF_LIST, STALE_LIST, "410"})


@dataclass(frozen=True)
class Request:
    """A request or an event of a watch, as the proxies tell it."""

    words: str
    write: bool = False
    listing: bool = False
    event: bool = False

    @property
    def key(self) -> str:
        """The case it belongs to by a name in its path, or else its own words: nobody's in particular."""
        found = CASE.search(self.words)
        return found.group() if found else self.words

    def fits(self, fault: str) -> bool:
        """Whether the fault makes sense here."""
        if self.event or fault in WATCH_WIRE:
            return self.event and fault in WATCH_WIRE
        return (self.write or fault not in WRITES_ONLY) and (self.listing or fault not in LISTS_ONLY)


@dataclass
class Armed:
    """A fault that waits for its request."""

    fault: str
    words: str
    """The request, in words."""
    after: int
    """Such requests that pass before."""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it happened."""


@dataclass
class Wire:
    """What is disturbed next, for each case of its own."""

    armed: dict[str, Armed] = field(default_factory=dict)
    """By key of the request."""
    seen: dict[str, list[Request]] = field(default_factory=lambda: defaultdict(list))
    """All that came, by key."""
    busy: Counter[str] = field(default_factory=Counter)
    """Requests on their way, by key."""

    def arm(self, key: str, fault: str, words: str, after: int) -> Armed:
        """Disturb one request of this key from now on: of those in these words the one after so many."""
        self.armed[key] = Armed(fault, words, after)
        return self.armed[key]

    def calm(self, key: str) -> None:
        """Nothing more is disturbed."""
        self.armed.pop(key, None)

    def take(self, request: Request) -> str | None:
        """The fault for this request, or None."""
        self.seen[request.key].append(request)
        armed = self.armed.get(request.key)
        if armed is None or armed.came.is_set() or request.words != armed.words:
            return None
        if armed.after > 0:
            armed.after -= 1
            return None
        armed.came.set()
        return armed.fault


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
class Client:
    """Connections to what is behind a proxy, kept open."""

    _session: aiohttp.ClientSession | None = None

    def open(self) -> aiohttp.ClientSession:
        """The connections, opened at the first request."""
        if self._session is None:
            timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False)
        return self._session

    async def close(self) -> None:
        """Close them."""
        if self._session is not None:
            await self._session.close()


@dataclass
class KubeProxy:
    """A reverse proxy on plain HTTP before an API server."""

    upstream: str
    tls: ssl.SSLContext
    wire: Wire = field(default_factory=Wire)
    client: Client = field(default_factory=Client)
    concerns: Callable[[str], bool] = lambda path: "/pulsaroperator.io/" in path
    """Paths that may be disturbed."""
    lists: dict[str, deque[bytes]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=STALE)))
    """The last lists, by path."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        if request.query.get("watch") == "true":
            return await self._answer(request, None)
        listing = request.method == "GET" and request.path.rsplit("/", 1)[1].startswith("pulsar")
        told = Request(f"{request.method} {request.path}", write=request.method != "GET", listing=listing)
        fault = self.wire.take(told) if self.concerns(request.path) else None
        with _busy(self.wire, told):
            return await self._answer(request, fault)

    async def _answer(self, request: web.Request, fault: str | None) -> web.StreamResponse:
        body = await request.read()
        headers = {
            k: v for k, v in request.headers.items() if k.lower() not in ("host", "content-length", "accept-encoding")
        }
        url = self.upstream + request.path_qs
        session = self.client.open()
        if request.query.get("watch") == "true":
            return await self._watch(session, request, url, headers)
        if fault == DROP_BEFORE:
            drop(request)
            return web.Response()
        if fault == STALL:
            await asyncio.sleep(STALL_SECONDS)
        if fault is not None and fault.isdigit():
            return status_answer(int(fault))
        for _ in range(2 if fault == TWICE else 1):
            async with session.request(
                request.method, url, data=body or None, headers=headers, ssl=self.tls, allow_redirects=False
            ) as answer:
                raw = await answer.read()
        if fault == DROP_AFTER:
            drop(request)
            return web.Response()
        if fault == STALE_LIST and self.lists[request.path]:
            raw = self.lists[request.path][0]
        elif (
            answer.status == 200
            and b'"items"' in raw
            and "continue" not in request.query
            and request.query.get("limit") != "1"
        ):
            self.lists[request.path].append(raw)
        return web.Response(
            status=answer.status, body=_spoiled(raw, fault), headers={"Content-Type": answer.content_type}
        )

    async def _watch(
        self, session: aiohttp.ClientSession, request: web.Request, url: str, headers: dict[str, str]
    ) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        async with session.get(url, headers=headers, ssl=self.tls) as answer:
            stream.set_status(answer.status)
            await stream.prepare(request)
            late = b""
            async for line in answer.content:
                fault = None
                named = NAMED.search(line)
                if named is not None and self.concerns(request.path) and b'"BOOKMARK"' not in line[:40]:
                    kind = request.path.rsplit("/", 1)[1]
                    fault = self.wire.take(Request(f"watch {kind} {named.group(1).decode()}", event=True))
                if fault == EXPIRED:
                    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
                    await stream.write(json.dumps(error).encode() + b"\n")
                    break
                if fault == CUT:
                    drop(request)
                    break
                if fault == EVENT_LATE:
                    late = line
                    continue
                for _ in range({EVENT_DROPPED: 0, EVENT_TWICE: 2}.get(fault or "", 1)):
                    await stream.write(line)
                if late:
                    await stream.write(late)
                    late = b""
        return stream


@contextmanager
def _busy(wire: Wire, request: Request) -> Iterator[None]:
    wire.busy[request.key] += 1
    try:
        yield
    finally:
        wire.busy[request.key] -= 1


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
    client: Client = field(default_factory=Client)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        told = Request(f"{request.method} {request.raw_path}", write=request.method != "GET")
        fault = self.wire.take(told)
        with _busy(self.wire, told):
            return await self._answer(request, fault)

    async def _answer(self, request: web.Request, fault: str | None) -> web.StreamResponse:
        body = await request.read()
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
        session = self.client.open()
        url = URL(self.upstream + request.raw_path, encoded=True)
        for _ in range(2 if fault == TWICE else 1):
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
