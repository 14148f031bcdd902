"""HTTP endpoints for Kubernetes' probes and for Prometheus. Called by runtime.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web


@dataclass(frozen=True)
class Check:
    """One check of a probe."""

    name: str
    problem: Callable[[], str | None]
    """Returns the problem as a sentence; None if there is none."""


class HealthServer:
    """Serves /healthz and /readyz on one port, /metrics on another. Plain HTTP, since nothing secret is served."""

    def __init__(
        self,
        *,
        health_port: int,
        metrics_port: int,
        alive: Sequence[Check],
        ready: Sequence[Check],
        metrics: Callable[[], bytes],
        host: str | None = None,
    ) -> None:
        """Listens on every address if ``host`` is None, and on a free port if the port is 0 (see ``ports``)."""
        self._host = host
        self._ports = (health_port, metrics_port)
        self._checks = {"/healthz": tuple(alive), "/readyz": tuple(ready)}
        self._metrics = metrics
        self._runners: list[web.AppRunner] = []
        self.ports: tuple[int, int] = (health_port, metrics_port)
        """Health and metrics port in use, once started."""

    async def start(self) -> None:
        """Starts listening. Raises OSError if a port is in use."""
        health, metrics = web.Application(), web.Application()
        for path in self._checks:
            health.router.add_get(path, self._probe)
        metrics.router.add_get("/metrics", self._scrape)
        used = [await self._listen(app, port) for app, port in zip((health, metrics), self._ports, strict=True)]
        self.ports = (used[0], used[1])

    async def _listen(self, app: web.Application, port: int) -> int:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, self._host, port, shutdown_timeout=1.0).start()
        return int(runner.addresses[0][1])

    async def close(self) -> None:
        """Stops listening."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    async def _probe(self, request: web.Request) -> web.Response:
        problems = {
            check.name: problem for check in self._checks[request.path] if (problem := check.problem()) is not None
        }
        body = {"ok": not problems, **({"problems": problems} if problems else {})}
        return web.Response(
            status=503 if problems else 200, text=json.dumps(body) + "\n", content_type="application/json"
        )

    async def _scrape(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
