"""Admin REST, played: the few answers that the conformance suite asks for before its first check."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS: dict[str, Any] = {
    "/admin/v2/clusters": ["east", "global"],
    "/admin/v2/brokers/east": ["b:8080"],
    "/admin/v2/brokers/version": "4.0.8",
}


class Played(ThreadingHTTPServer):
    """Answers what the suite asks before its first check."""

    def __init__(self, status: int = 200, cluster: str = "east") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = status
        self.cluster = cluster
        self.asked: list[tuple[str, str, str | None]] = []
        self.bodies: dict[str, Any] = {}
        self.refused: dict[tuple[str, str], int] = {}
        """Status of what is refused, by method and path."""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One answer."""

    server: Played

    def answer(self) -> None:
        """Whatever the method."""
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        if sent:
            self.server.bodies[self.path] = json.loads(sent)
        runtime = {"/admin/v2/brokers/configuration/runtime": {"clusterName": self.server.cluster}}
        found = {**ANSWERS, **runtime}.get(self.path)
        refused = self.server.refused.get((self.command, self.path), 0)
        self.send_response(refused or (self.server.status if found is not None else 204))
        self.end_headers()
        if found is not None:
            refused = {"reason": "no rights"}
            self.wfile.write(json.dumps(found if self.server.status == 200 else refused).encode())

    do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, *_args: object) -> None:
        """Nothing on the tests' own output."""
