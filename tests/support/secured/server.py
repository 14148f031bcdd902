"""An admin REST over TLS that asks for a token, on loopback; it remembers what each request carried."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class SecuredServer:
    """What it answers, and what came."""

    port: int = 0
    accepted: str | None = None
    """The token that it takes; None = it asks for none."""
    reason: str = ""
    """With which it refuses a token that it takes, as a role without rights; empty = it does not."""
    redirect: Callable[[web.BaseRequest], str | None] = lambda request: None
    """Where it sends a request, if anywhere."""
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and Authorization of each request."""

    def url(self, host: str = "localhost", scheme: str = "https") -> str:
        """Its address by one of its names."""
        return f"{scheme}://{host}:{self.port}"

    @property
    def tokens(self) -> list[str | None]:
        """What the requests carried."""
        return [found for _, _, found in self.seen]

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """One answer."""
        carried = request.headers.get("Authorization")
        self.seen.append((request.method, request.path, carried))
        if self.accepted is not None and carried != f"Bearer {self.accepted}":
            # As Jetty writes what the filter of the brokers refuses.
            body = {"servlet": "x", "message": "Authentication required", "url": request.path, "status": "401"}
            return web.json_response(body, status=401)
        if self.reason:
            return web.json_response({"reason": self.reason}, status=403)
        target = self.redirect(request)
        if target is not None:
            return web.Response(status=307, headers={"Location": f"{target}{request.raw_path}"})
        return web.json_response(["a"])


@asynccontextmanager
async def serving(context: ssl.SSLContext | None, **given: object) -> AsyncIterator[SecuredServer]:
    """One that runs; ``given`` are its fields. Without a context it speaks plain HTTP."""
    server = SecuredServer(**given)  # type: ignore[arg-type]
    runner = web.ServerRunner(web.Server(server.answer), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
