"""A Pulsar admin endpoint in a process of its own: the in-memory one of the tests behind HTTP, each answer after 5 ms.

python -m benchmarks.objects.pulsar_server PORT_FILE
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from aiohttp import web

from tests.fakes.pulsar import FakePulsar

LATENCY_SECONDS = 0.005
CLUSTER = "a"


async def serve(started: Callable[[int], object]) -> None:
    """Serve until ended; ``started`` is told the port. ``GET /counts`` gives calls by method and last segment."""
    pulsar = FakePulsar(clusters=[CLUSTER])
    counts: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.raw_path.split("?", 1)[0]
        if path == "/counts":
            return web.json_response(dict(counts))
        segments = [unquote(s) for s in path.removeprefix("/admin/v2/").split("/")]
        counts[_label(request.method, segments)] += 1
        text = await request.text()
        body = json.loads(text) if text else None
        await asyncio.sleep(LATENCY_SECONDS)
        status, data = pulsar.handle(CLUSTER, request.method, segments, dict(request.query), body)
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


if __name__ == "__main__":
    asyncio.run(serve(lambda port: Path(sys.argv[1]).write_text(str(port))))
