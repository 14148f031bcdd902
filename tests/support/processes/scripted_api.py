"""A Kubernetes API server that plays scripts: it stores what it is given and breaks lists and watches as it is told.

It runs in a thread of its own, so that a test can wait for a process that talks to it. It knows no schema, no rights
and no admission: what it is for is how a client survives its answers.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from pulsar_operator.api.constants import GROUP, PLURALS, VERSION

Json = dict[str, Any]

LIST, CONTINUE, WATCH, GET, WRITE = "list", "continue", "watch", "get", "write"
PAGE = 2
"""Items of a page, whatever the limit says."""
BEAT = 1.0
"""Seconds between two bookmarks."""


@dataclass(frozen=True)
class Asked:
    """A request."""

    at: float
    """When it came; time.monotonic."""
    verb: str
    path: str


Play = Callable[[web.BaseRequest, "Stream | None"], Awaitable[web.StreamResponse]]
"""Answers a list, or a watch with its stream."""


@dataclass
class Script:
    """How the lists and watches of one collection are answered; None = well."""

    listed: Play | None = None
    continued: Play | None = None
    watched: Play | None = None
    quiet: bool = False
    """Whether its streams get no bookmarks."""


@dataclass
class Stream:
    """An open watch."""

    feed: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    """Lines to be sent; None = break the connection."""


class ScriptedApi:
    """The server. Start it with ``start``; every method but that one may be called from any thread."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = defaultdict(Script)
        """By URL path of a collection."""
        self.missing: set[str] = set()
        """Paths that are answered with 404."""
        self.asked: list[Asked] = []
        self.port = 0
        self._objects: dict[str, dict[str, Json]] = defaultdict(dict)
        self._history: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._streams: dict[str, list[Stream]] = defaultdict(list)
        self._version = 1
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted API server", daemon=True)
        self._runner: web.ServerRunner | None = None

    # ------------------------------------------------------------------------------------------------- life cycle

    def start(self) -> None:
        """Serve on a free port of 127.0.0.1."""
        self._thread.start()
        self._call(self._listen())

    def listen_again(self) -> None:
        """Serve on the same port after ``refuse``."""
        self._call(self._listen())

    def refuse(self) -> None:
        """Break all connections and refuse new ones."""
        self._call(self._close())

    def stop(self) -> None:
        """End."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig file for it."""
        named = [{"name": "scripted", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}]
        context = [{"name": "scripted", "context": {"cluster": "scripted", "user": "nobody"}}]
        users = [{"name": "nobody", "user": {"token": "none"}}]
        config = {"apiVersion": "v1", "kind": "Config", "clusters": named, "contexts": context, "users": users}
        path = folder / "kubeconfig"
        path.write_text(json.dumps({**config, "current-context": "scripted"}), encoding="utf-8")
        return path

    def _call(self, work: Any) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(30)

    async def _listen(self) -> None:
        self._runner = web.ServerRunner(
            web.Server(self._answer, handler_cancellation=True), access_log=None, shutdown_timeout=0.0
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        for streams in self._streams.values():
            for stream in streams:
                stream.feed.put_nowait(None)
        if self._runner is not None:
            await self._runner.cleanup()

    # ------------------------------------------------------------------------------------------------------- input

    def put(self, collection: str, obj: Json) -> None:
        """Create or replace an object; open streams deliver it."""
        self._loop.call_soon_threadsafe(self._store, collection, obj)

    def send(self, collection: str, *lines: bytes | None) -> None:
        """Send lines on every open stream of a collection; None breaks the connection."""

        def put() -> None:
            for stream in self._streams[collection]:
                for line in lines:
                    stream.feed.put_nowait(line)

        self._loop.call_soon_threadsafe(put)

    def requests(self, path: str, *verbs: str, since: float = 0.0) -> list[Asked]:
        """Requests for a path so far."""
        return [each for each in list(self.asked) if each.path == path and each.verb in verbs and each.at >= since]

    # ----------------------------------------------------------------------------------------------------- answers

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if request.path in self.missing:
            return status_of(404, request)
        if request.path in ("/api", "/apis") or len(parts) == (2 if parts[0] == "api" else 3):
            return web.json_response(_discovery(parts))
        collection, name, subresource = _split(parts)
        verb = WRITE
        if request.method == "GET":
            verb = WATCH if "watch" in request.query else CONTINUE if "continue" in request.query else LIST
            verb = GET if name else verb
        self.asked.append(Asked(time.monotonic(), verb, request.path))
        if verb == WATCH:
            return await self._watch(request, collection)
        if verb in (LIST, CONTINUE):
            return await self._list(request, collection, continued=verb == CONTINUE)
        if verb == GET:
            found = self._objects[collection].get(name)
            return web.json_response(found) if found is not None else status_of(404, request, name)
        body = json.loads(await request.read() or b"{}")
        return web.json_response(self._write(request.method, collection, name, subresource, body))

    def _write(self, method: str, collection: str, name: str, subresource: str, body: Json) -> Json:
        if method == "DELETE":
            return self._objects[collection].pop(name, {})
        if method == "PATCH":
            live = json.loads(json.dumps(self._objects[collection].get(name, body)))
            if subresource:
                live["status"] = body.get("status")
            elif isinstance(body, dict):
                live["metadata"] |= {key: body["metadata"][key] for key in ("finalizers",) if key in body["metadata"]}
            body = live
        elif "name" not in body.get("metadata", {}):
            body.setdefault("metadata", {})["name"] = name or "unnamed"
        return self._store(collection, body)

    def _store(self, collection: str, obj: Json) -> Json:
        self._version += 1
        name = obj["metadata"]["name"]
        known = self._objects[collection].get(name)
        meta = {"uid": f"uid-{self._version}", "generation": 1, **obj["metadata"]}
        obj = {**obj, "metadata": {**meta, "resourceVersion": str(self._version)}}
        if known is not None:
            obj["metadata"]["uid"] = known["metadata"]["uid"]
        self._objects[collection][name] = obj
        line = _line("MODIFIED" if known is not None else "ADDED", obj)
        self._history[collection].append((self._version, line))
        for stream in self._streams[collection]:
            stream.feed.put_nowait(line)
        return obj

    async def _list(self, request: web.BaseRequest, collection: str, *, continued: bool) -> web.StreamResponse:
        script = self.scripts[collection]
        play = script.continued if continued else script.listed
        if play is not None:
            return await play(request, None)
        first = int(request.query.get("continue", 0))
        items = list(self._objects[collection].values())
        # A script for continuations needs a list that has one.
        more = first + PAGE < len(items) or (script.continued is not None and not continued)
        meta = {"resourceVersion": str(self._version), "continue": str(first + PAGE) if more else ""}
        return web.json_response({"kind": "List", "metadata": meta, "items": items[first : first + PAGE]})

    async def _watch(self, request: web.BaseRequest, collection: str) -> web.StreamResponse:
        script, stream = self.scripts[collection], Stream()
        if script.watched is not None:
            return await script.watched(request, stream)
        since = int(request.query["resourceVersion"])
        for version, line in self._history[collection]:
            if version > since:
                stream.feed.put_nowait(line)
        response = await opened(request)
        self._streams[collection].append(stream)
        try:
            while True:
                try:
                    line = await asyncio.wait_for(stream.feed.get(), None if script.quiet else BEAT)
                except TimeoutError:
                    line = _line("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})
                if line is None:
                    cut(request)
                    return response
                await response.write(line)
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            with suppress(ValueError):
                self._streams[collection].remove(stream)


def _line(type_: str, obj: Json) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def error_line(code: int, **more: Any) -> bytes:
    """An event of type ERROR."""
    return _line("ERROR", {"kind": "Status", "status": "Failure", "code": code, "message": f"scripted {code}", **more})


async def opened(request: web.BaseRequest) -> web.StreamResponse:
    """A stream that is accepted."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    return response


def cut(request: web.BaseRequest) -> None:
    """Break the connection."""
    if request.transport is not None:
        request.transport.abort()


def status_of(code: int, request: web.BaseRequest, name: str = "", retry_after: int = 0) -> web.Response:
    """An error as an API server words it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "message": f"scripted {code}: {request.path}"}
    if name:
        body["details"] = {"name": name}
    return web.json_response(body, status=code, headers={"Retry-After": str(retry_after)} if retry_after else {})


def _split(parts: list[str]) -> tuple[str, str, str]:
    """Path of the collection, name, subresource."""
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    head = parts[: len(parts) - len(rest)]
    if rest[0] == "namespaces" and len(rest) > 2:
        head, rest = head + rest[:2], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return "/" + "/".join([*head, plural]), name, subresource


def _discovery(parts: list[str]) -> Json:
    groups = [(GROUP, VERSION), ("apps", "v1"), ("apiextensions.k8s.io", "v1")]
    if parts == ["api"]:
        return {"versions": ["v1"]}
    if parts == ["apis"]:
        return {
            "groups": [{"name": g, "versions": [{"version": v}], "preferredVersion": {"version": v}} for g, v in groups]
        }
    plurals = {
        "v1": ["pods", "configmaps", "secrets", "namespaces", "events"],
        "apps": ["statefulsets"],
        GROUP: list(PLURALS.values()),
        "apiextensions.k8s.io": ["customresourcedefinitions"],
    }[parts[1]]
    verbs = ["get", "list", "watch", "patch"]
    return {
        "resources": [
            {"name": p, "singularName": p[:-1], "kind": p[:-1].capitalize(), "namespaced": True, "verbs": verbs}
            for p in plurals
        ]
    }
