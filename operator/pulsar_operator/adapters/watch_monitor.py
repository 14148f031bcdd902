"""Whether the watch streams still deliver: notes every chunk of bytes that arrives on one.

The API server usually sends a bookmark about once a minute on every watch that asks for them, but does not promise it
(https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks). So silence alone is only a suspicion; a
stream is dead when it is silent and a list shows a change that it did not deliver.

The framework that reads the streams hides bookmarks from handlers; therefore its HTTP session is given a response class
that sees the bytes pass. Called by runtime.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from yarl import URL

from pulsar_operator.adapters.kube_http import USER_AGENT, bearer, resource_path
from pulsar_operator.ports import PortError, ResourceType

log = logging.getLogger(__name__)


Fingerprint = Callable[[str], Awaitable[str]]
"""Gives a text that differs when any object under a stream's URL path differs. Raises PortError."""


@dataclass
class _Stream:
    """What is known of one stream."""

    kind: str
    last: float
    """When it was last heard of."""
    snapshot: str | None = None
    """Fingerprint of its objects taken while it was silent."""
    missed: float | None = None
    """When a change was found that it did not deliver."""


class WatchMonitor:
    """When each watch stream was last heard of, and what it missed. Streams are named by their URL path."""

    def __init__(self, now: Callable[[], float], on_seen: Callable[[str], None] = lambda kind: None) -> None:
        """``now`` is a monotonic clock in seconds; ``on_seen`` is told the kind whose stream delivered."""
        self._now = now
        self._on_seen = on_seen
        self._streams: dict[str, _Stream] = {}
        self._refused: dict[str, int] = {}

    def answered(self, path: str, status: int) -> None:
        """The API server answered a request for a list or a stream with an HTTP status."""
        if status < HTTPStatus.BAD_REQUEST:
            self._refused.pop(path, None)
        elif path in self._streams:
            self._refused[path] = status

    def expects(self, path: str) -> bool:
        """Whether the URL path is that of a stream."""
        return path in self._streams

    def refusals(self) -> str | None:
        """What cannot be watched just now, in a sentence; None when everything can."""
        if not self._refused:
            return None
        each = [f"{path} (HTTP {status})" for path, status in sorted(self._refused.items())]
        more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
        return f"cannot watch {', '.join(each[:SHOWN])}{more}"

    def expect(self, kinds: Iterable[ResourceType], namespaces: Iterable[str]) -> None:
        """Start to expect a stream per kind and namespace (none = cluster-wide) from now on."""
        scopes: list[str | None] = [*namespaces] or [None]
        for kind in kinds:
            for scope in scopes:
                self._streams[resource_path(kind, scope)] = _Stream(kind.kind, self._now())

    def seen(self, path: str) -> None:
        """Bytes arrived on a stream; others than the expected are ignored."""
        stream = self._streams.get(path)
        if stream is not None:
            stream.last, stream.snapshot, stream.missed = self._now(), None, None
            self._on_seen(stream.kind)

    def silent(self, seconds: float) -> dict[str, float]:
        """Streams that delivered nothing for longer than ``seconds``, with the seconds."""
        now = self._now()
        return {path: now - one.last for path, one in self._streams.items() if now - one.last > seconds}

    async def verify(self, seconds: float, fingerprint: Fingerprint) -> None:
        """Look whether the streams silent for longer than ``seconds`` missed a change; call it now and then."""
        for path in self.silent(seconds):
            stream = self._streams[path]
            last = stream.last
            try:
                current = await fingerprint(path)
            except PortError as error:
                log.warning("cannot verify the silent watch %s: %s", path, error)
                continue
            if stream.last != last:
                continue  # it delivered meanwhile
            if stream.snapshot is None:
                stream.snapshot = current
            elif stream.snapshot != current and stream.missed is None:
                stream.missed = self._now()
                log.warning("the watch %s is silent although there was a change", path)

    def dead(self, seconds: float) -> dict[str, float]:
        """Streams that missed a change found longer than ``seconds`` ago, with the seconds of their silence."""
        now = self._now()
        return {
            path: now - one.last
            for path, one in self._streams.items()
            if one.missed is not None and now - one.missed > seconds
        }


class _ObservedContent:
    """A response body that reports each chunk; everything else is the body's own."""

    def __init__(self, content: aiohttp.StreamReader, on_bytes: Callable[[], None]) -> None:
        self._content = content
        self._on_bytes = on_bytes

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """As aiohttp.StreamReader.iter_chunked."""
        async for chunk in self._content.iter_chunked(size):
            self._on_bytes()
            yield chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


def lean_json(raw: bytes) -> Any:
    """Decoded JSON of Kubernetes objects without ``metadata.managedFields``: who wrote which field takes several times
    the memory of the fields, and ten thousand objects are decoded at once."""
    return json.loads(raw, object_hook=_lean)


def _lean(found: dict[str, Any]) -> dict[str, Any]:
    if "managedFields" in found and "resourceVersion" in found:  # metadata; a status may have a member of that name
        del found["managedFields"]
    return found


def observed_response(monitor: WatchMonitor) -> type[aiohttp.ClientResponse]:
    """A response class whose watch streams report to the monitor."""

    class ObservedResponse(aiohttp.ClientResponse):
        """A response that lets the monitor see the bytes of a watch stream pass, and keeps lists small."""

        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            """Begin to read; from here on the content is observed."""
            await super().start(connection)
            url: URL = self.url
            if url.query.get("watch") == "true":
                path = url.raw_path
                self.content = _ObservedContent(self.content, lambda: monitor.seen(path))  # type: ignore[assignment]
            return self

        async def json(self, **_: Any) -> Any:
            """The decoded answer: a list, which the framework asks for whole."""
            return lean_json(await self.read())

    return ObservedResponse


REFUSED_WAIT_SECONDS = 10.0
"""How long to wait before asking again for what was refused."""
SHOWN = 3


def patient(monitor: WatchMonitor, wait_seconds: float = REFUSED_WAIT_SECONDS) -> aiohttp.ClientMiddlewareType:
    """A middleware that asks again while a request is forbidden, or the API server has no answer for a stream or the
    list before it (HTTP 404, 5xx), until the request's own deadline ends it.

    Deleting a watched namespace deletes the operator's RoleBinding in it first; a definition may be taken away, or the
    conversion of one kind be broken. The framework takes one refused list for the end of the world; here one kind or
    namespace must not end the watches of all others.
    """

    async def ask(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        told: int | None = None
        while True:
            response = await handler(request)
            status = response.status
            path = request.url.raw_path
            monitor.answered(path, status)
            broken = status == HTTPStatus.NOT_FOUND or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            if status != HTTPStatus.FORBIDDEN and not (broken and monitor.expects(path)):
                return response
            response.release()
            if status != told:
                told = status
                log.warning("watching is refused (HTTP %d), asking again every %g s: %s", status, wait_seconds, path)
            await asyncio.sleep(wait_seconds)

    return ask


async def watch_session(configuration: Configuration, monitor: WatchMonitor) -> aiohttp.ClientSession:
    """An HTTP session with the operator's credentials as they are now, whose watch streams are observed."""
    headers = {"User-Agent": USER_AGENT}
    authorization = await bearer(configuration)
    if authorization:
        headers["Authorization"] = authorization
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(configuration).ssl_context),
        headers=headers,
        response_class=observed_response(monitor),
        middlewares=(patient(monitor),),
        trust_env=False,
    )
