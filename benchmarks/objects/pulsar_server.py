"""A Pulsar admin endpoint in a process of its own: each answer after 5 ms.

python -m benchmarks.objects.pulsar_server PORT_FILE serves the in-memory one of the tests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.fakes.answers import Answer
from tests.fakes.pulsar import FakePulsar

LATENCY_SECONDS = 0.005
CLUSTER = "a"

Handle = Callable[[str, list[str], Mapping[str, str], Any], Awaitable[Answer]]
"""Answers a call below /admin/v2: method, decoded segments, query, body."""


async def serve(handle: Handle, started: Callable[[int], object]) -> None:
    """Serve until ended; ``started`` is told the port. ``GET /counts`` gives calls by method and path without names,
    ``GET /calls`` by method and path. The page of metrics is empty."""
    counts: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.raw_path.split("?", 1)[0]
        if path in {"/counts", "/calls"}:
            return web.json_response(dict(counts if path == "/counts" else calls))
        if path == "/metrics/":
            return web.Response()
        segments = [unquote(s) for s in path.removeprefix("/admin/v2/").split("/")]
        counts[_label(request.method, segments)] += 1
        calls[f"{request.method} {'/'.join(segments)}"] += 1
        text = await request.text()
        body = json.loads(text) if text else None
        await asyncio.sleep(LATENCY_SECONDS)
        status, data = await handle(request.method, segments, dict(request.query), body)
        return web.Response(status=status) if data is None else web.json_response(data, status=status)

    server = web.Server(answer)  # type: ignore[arg-type]
    runner = web.ServerRunner(server, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    started(runner.addresses[0][1])
    await asyncio.Event().wait()


def _label(method: str, segments: list[str]) -> str:
    """The call without names: ``GET persistent/~/partitions``."""
    kind = segments[0]
    depth = {"tenants": 2, "namespaces": 3, "persistent": 4, "non-persistent": 4}.get(kind, 1)
    if kind in {"persistent", "non-persistent"} and segments[3:] == ["partitioned"]:
        depth = 3
    rest = segments[depth:]
    return " ".join((method, "/".join((kind, *("~" * (min(len(segments), depth) - 1)), *rest))))


def in_memory() -> Handle:
    """A Pulsar of one cluster that keeps everything in memory."""
    pulsar = FakePulsar(clusters=[CLUSTER])

    async def handle(method: str, path: list[str], query: Mapping[str, str], body: Any) -> Answer:
        return pulsar.handle(CLUSTER, method, path, query, body)

    return handle


if __name__ == "__main__":
    asyncio.run(serve(in_memory(), lambda port: Path(sys.argv[1]).write_text(str(port))))
