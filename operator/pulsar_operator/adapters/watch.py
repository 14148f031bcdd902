"""Whether the watch streams still deliver: notes every chunk of bytes that arrives on one.

The API server sends a bookmark about once a minute on every watch that asks for them, also when nothing happens
(https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks), so a stream without a byte for several
minutes is dead, whatever TCP says. The framework that reads the streams hides bookmarks from handlers; therefore its
HTTP session is given a response class that sees the bytes pass. Called by main.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from yarl import URL

from pulsar_operator.adapters.kube_http import USER_AGENT, bearer, resource_path
from pulsar_operator.ports import ResourceType


class WatchMonitor:
    """When each watch stream was last heard of. Streams are named by their URL path."""

    def __init__(self, now: Callable[[], float], on_seen: Callable[[str], None] = lambda kind: None) -> None:
        """``now`` is a monotonic clock in seconds; ``on_seen`` is told the kind whose stream delivered."""
        self._now = now
        self._on_seen = on_seen
        self._last: dict[str, float] = {}
        self._kinds: dict[str, str] = {}

    def expect(self, kinds: Iterable[ResourceType], namespaces: Iterable[str]) -> None:
        """Start to expect a stream per kind and namespace (none = cluster-wide) from now on."""
        scopes: list[str | None] = [*namespaces] or [None]
        for kind in kinds:
            for scope in scopes:
                path = resource_path(kind, scope)
                self._last[path] = self._now()
                self._kinds[path] = kind.kind

    def seen(self, path: str) -> None:
        """Bytes arrived on a stream; others than the expected are ignored."""
        if path in self._last:
            self._last[path] = self._now()
            self._on_seen(self._kinds[path])

    def silent(self, seconds: float) -> dict[str, float]:
        """Expected streams that delivered nothing for longer than ``seconds``, with the seconds."""
        now = self._now()
        return {path: now - last for path, last in self._last.items() if now - last > seconds}


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


def observed_response(monitor: WatchMonitor) -> type[aiohttp.ClientResponse]:
    """A response class whose watch streams report to the monitor."""

    class ObservedResponse(aiohttp.ClientResponse):
        """A response that lets the monitor see the bytes of a watch stream pass."""

        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            """Begin to read; from here on the content is observed."""
            await super().start(connection)
            url: URL = self.url
            if url.query.get("watch") == "true":
                path = url.raw_path
                self.content = _ObservedContent(self.content, lambda: monitor.seen(path))  # type: ignore[assignment]
            return self

    return ObservedResponse


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
        trust_env=False,
    )
