"""Two faces of the in-memory Pulsar: a port for unit tests, and HTTP on loopback for the adapter's tests.

``writes`` records every write that reached Pulsar as (method, path); hooks in ``before`` and ``after`` fail or stop a
call, as ``before`` without effect, as ``after`` with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from aiohttp import web

from pulsar_operator.adapters.admin_answers import CANCELLED
from pulsar_operator.adapters.admin_urls import build_url
from pulsar_operator.domain.logical.topic import METADATA
from pulsar_operator.ports import (
    AdminEndpoint,
    ConflictError,
    DeadlineError,
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnownedError,
)
from tests.fakes.answers import Text
from tests.fakes.pulsar import FakePulsar
from tests.fakes.pulsar_clusters import UNOWNED
from tests.fakes.streams import Streaming
from tests.fakes.values import Value


@dataclass(frozen=True)
class AdminCall(Value):
    """One call as the hooks see it."""

    cluster: str
    method: str
    path: tuple[str, ...]
    index: int
    """Counts all calls from 0."""

    @property
    def is_write(self) -> bool:
        """Whether the call may change something."""
        return self.method != "GET"


Hook = Callable[[AdminCall], None]


@lru_cache(maxsize=4096)
def _sendable(path: tuple[str, ...], query: tuple[tuple[str, str], ...]) -> None:
    """Refuse what the adapter refuses unsent. Calls repeat, and to build an address takes as long as to answer it."""
    build_url("http://fake", path, dict(query))


def media_type(method: str, path: Sequence[str], body: Any) -> str:
    """What Pulsar takes there: metadata of a partitioned topic are no plain JSON (class PersistentTopics)."""
    whole = method == "PUT" and path[0] == "persistent" and path[-1] == "partitions" and isinstance(body, dict)
    return METADATA if whole else "application/json"


class FakeAdmin(Streaming):
    """ports.PulsarAdminPort over a FakePulsar."""

    def __init__(self, pulsar: FakePulsar | None = None) -> None:
        self.pulsar = pulsar or FakePulsar()
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.calls: list[AdminCall] = []
        self.writes: list[tuple[str, str]] = []
        self.down: set[str] = set()
        """Clusters that cannot be connected to."""
        self.hanging: set[str] = set()
        """Clusters that accept a call and never answer it: its deadline passes."""

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        _sendable(tuple(path), tuple((query or {}).items()))
        await asyncio.sleep(0)
        seen = AdminCall(endpoint.cluster, method, tuple(path), len(self.calls))
        self.calls.append(seen)
        for hook in self.before:
            hook(seen)
        if endpoint.cluster in self.down:
            raise UnavailableError(f"no connection to cluster {endpoint.cluster}")
        if endpoint.cluster in self.hanging:
            raise DeadlineError(f"cluster {endpoint.cluster} did not answer within {deadline or 15:g} s")
        if content_type != media_type(method, path, body):
            raise RefusedError(f"{method} /{'/'.join(path)}: HTTP 415: {content_type}", status=415)
        # An endpoint is a cluster's own; a test of the port alone names it as it likes.
        cluster = endpoint.cluster if endpoint.cluster in self.pulsar.clusters else self.pulsar.clusters[0]
        sent = body.decode() if isinstance(body, bytes) else body and json.loads(json.dumps(body))
        status, answer = self.pulsar.handle(cluster, method, path, dict(query or {}), sent)
        if isinstance(answer, Text) is not (text and answer is not None):
            raise UnavailableError(f"{method} /{'/'.join(path)}: the answer is text, or is none")
        if seen.is_write:
            self.writes.append((method, "/".join(path)))
        for hook in self.after:
            hook(seen)
        if status < 300:
            return answer
        message = f"{method} /{'/'.join(path)}: HTTP {status}: {(answer or {}).get('reason', '')}"
        if status == 404:
            raise NotFoundError(message)
        if status == 409:
            raise ConflictError(message)
        if status == 412 and UNOWNED in message:
            raise UnownedError(message, status=status)
        if status < 500 and not (status == 422 and (answer or {}).get("reason", "") in CANCELLED):
            raise RefusedError(message, status=status)
        raise UnavailableError(message, status=status)

    @contextmanager
    def recording(self) -> Iterator[list[tuple[str, str]]]:
        """The writes made inside the block."""
        start = len(self.writes)
        made: list[tuple[str, str]] = []
        yield made
        made += self.writes[start:]


Script = Callable[[web.BaseRequest], web.StreamResponse | None]
"""Looks at a request first; an answer from it replaces Pulsar's."""


@asynccontextmanager
async def serve(pulsar: FakePulsar, cluster: str = "a", script: Script | None = None) -> Any:
    """An HTTP server on loopback that speaks the admin REST; yields its base URL and the raw request lines."""
    seen: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        raw = request.raw_path
        seen.append(f"{request.method} {raw}")
        if script is not None:
            scripted = script(request)
            if scripted is not None:
                return scripted
        path = raw.split("?", 1)[0].removeprefix("/admin/v2/")
        text = await request.text()
        sent = request.headers.get("Content-Type", "")
        metadata = sent.startswith(METADATA) and path.endswith("/partitions")
        if request.method in {"PUT", "POST"} and not (sent.startswith("application/json") or metadata):
            return web.Response(status=415)
        try:
            body = text if path.endswith("/antiAffinity") else json.loads(text) if text else None
        except ValueError:
            return web.Response(status=400, text="Unrecognized token\n at [Source: REDACTED]")
        status, data = pulsar.handle(
            cluster, request.method, [unquote(s) for s in path.split("/")], dict(request.query), body
        )
        if isinstance(data, Text):
            return web.Response(status=status, text=data, content_type="application/json")
        if data is None and status == 404:
            return web.Response(status=404, text="<html><body>Not Found</body></html>", content_type="text/html")
        return web.Response(status=status) if data is None else web.json_response(data, status=status)

    server = web.Server(answer)
    runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}", seen
    finally:
        await runner.cleanup()


def encoded(*segments: str) -> str:
    """The path a request for these raw segments has on the wire."""
    return "/admin/v2/" + "/".join(quote(s, safe="") for s in segments)
