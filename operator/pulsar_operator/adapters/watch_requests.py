"""Requests of one list-and-watch loop: a page of a list, the events of a stream. Used by reflector.py.

Every unusable answer is a WatchError that says whether the last resourceVersion is still valid. The connections are
separate from those of the passes, since a stream occupies one for minutes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NoReturn, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from yarl import URL

from pulsar_operator.adapters.kube_http import JSON_TYPE, LIST_DEADLINE_SECONDS, USER_AGENT, bearer, error_of
from pulsar_operator.ports import Json

CONNECT_SECONDS: Final = 10.0
OPEN_SECONDS: Final = 30.0
"""Seconds that the API server may take to accept a watch."""
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of an event in bytes. It contains one object, and etcd stores none of more than a few MiB."""
ERROR_BYTES: Final = 64 * 1024

CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
BOOKMARK: Final = "BOOKMARK"

EXPIRED, SILENT, LOST, SHORT = "expired", "silent", "connection", "short"
TIMEOUT, GARBAGE, TRUNCATED, DEFECT = "timeout", "garbage", "truncated", "defect"

Event = tuple[str, Json]
"""Type and object of a valid line that is not an error."""


class WatchError(Exception):
    """A list or a watch ended abnormally."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        status: int = 0,
        retry_after: float | None = None,
        version_good: bool = False,
    ) -> None:
        """``reason`` is a word for metrics, ``status`` that of an HTTP answer. ``retry_after`` is in seconds.

        ``version_good`` says that a watch from the last resourceVersion misses nothing.
        """
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after
        self.version_good = version_good

    @property
    def refused(self) -> bool:
        """Whether the API server denies the request or has no such resource: another process would get the same answer.

        HTTP 403: a permission is missing. HTTP 404: the definition is not installed.
        """
        return self.status in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


class Requests(Protocol):
    """The API server's operations that a reflector uses."""

    async def page(self, path: str, query: Mapping[str, str]) -> Json:
        """Returns one page of a list. Raises WatchError."""

    def watch(
        self, path: str, query: Mapping[str, str], silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Opens a stream, once the API server accepted it. The stream ends when the server closes it. Raises
        WatchError.

        ``silence`` is the maximum time in seconds without an event or a bookmark.
        """


def lean_json(raw: bytes) -> Any:
    """Returns decoded JSON of Kubernetes objects without ``metadata.managedFields``, which take several times the
    memory of the other fields; a page has hundreds of objects."""
    return json.loads(raw, object_hook=_lean)


def _lean(found: Json) -> Json:
    if "managedFields" in found and "resourceVersion" in found:  # metadata; a status may have a member of that name
        del found["managedFields"]
    return found


async def new_session(configuration: Configuration) -> aiohttp.ClientSession:
    """Returns an HTTP session with the operator's current credentials."""
    authorization = await bearer(configuration)
    return _session(configuration, {"Authorization": authorization} if authorization else {})


def _session(configuration: Configuration, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(configuration).ssl_context),
        headers={"User-Agent": USER_AGENT, "Accept": JSON_TYPE, **headers},
        trust_env=False,
    )


class WatchClient:
    """Implements Requests for one API server. It is created inside the event loop."""

    def __init__(self, configuration: Configuration, *, list_seconds: float = LIST_DEADLINE_SECONDS) -> None:
        """``list_seconds`` is the time limit of one page."""
        self._configuration = configuration
        self._session = _session(configuration, {})
        self._list_seconds = list_seconds

    async def page(self, path: str, query: Mapping[str, str]) -> Json:
        """See Requests."""
        try:
            async with asyncio.timeout(self._list_seconds):
                response = await self._get(path, query)
                async with response:
                    await _accepted(response, path)
                    raw = await response.read()
        except TimeoutError as error:
            raise WatchError(TIMEOUT, f"the server did not answer within {self._list_seconds:g} s") from error
        except (aiohttp.ClientError, OSError, kube_config.ConfigException) as error:
            raise WatchError(LOST, f"{type(error).__name__}: {error}") from error
        return _page(raw)

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[Event]]:
        """See Requests."""
        limit = min(OPEN_SECONDS, silence)
        try:
            async with asyncio.timeout(limit):
                response = await self._get(path, query)
        except TimeoutError as error:
            text = f"the watch was not accepted within {limit:g} s"
            raise WatchError(TIMEOUT, text, version_good=True) from error
        except (aiohttp.ClientError, OSError, kube_config.ConfigException) as error:
            raise WatchError(LOST, f"{type(error).__name__}: {error}", version_good=True) from error
        try:
            try:
                async with asyncio.timeout(limit):
                    await _accepted(response, path)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                raise WatchError(LOST, f"{type(error).__name__}: {error}", version_good=True) from error
            yield _events(response.content, silence)
        finally:
            response.close()  # a stream is not read to its end, so that its connection cannot be used again

    async def _get(self, path: str, query: Mapping[str, str]) -> aiohttp.ClientResponse:
        authorization = await bearer(self._configuration)
        return await self._session.get(
            URL(f"{self._configuration.host}{path}?{urlencode(query)}", encoded=True),
            headers={"Authorization": authorization} if authorization else {},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            allow_redirects=False,
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()


async def _accepted(response: aiohttp.ClientResponse, path: str) -> None:
    """Raises WatchError with the server's message unless the status is 200."""
    status = response.status
    if status == HTTPStatus.OK:
        return
    error = error_of(status, response.headers, await response.content.read(ERROR_BYTES), f"GET {path}")
    raise WatchError(
        EXPIRED if status == HTTPStatus.GONE else f"http_{status}",
        str(error),
        status=status,
        retry_after=error.retry_after,
        # Too busy to answer: a list would be more work than what was refused.
        version_good=status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE),
    )


def _page(raw: bytes) -> Json:
    """Returns a page with ``items`` and a resourceVersion. Raises WatchError for anything else, since it proves nothing
    about objects."""
    try:
        page = lean_json(raw)
    except ValueError as error:
        raise WatchError(GARBAGE, "the answer to a list is not JSON") from error
    meta = page.get("metadata") if isinstance(page, dict) else None
    items = page.get("items", ()) if isinstance(page, dict) else ()
    if items is None:  # how Go writes a list of none
        items = page["items"] = []
    well_formed = isinstance(meta, dict) and isinstance(meta.get("resourceVersion"), str) and meta["resourceVersion"]
    if not well_formed or not isinstance(items, list) or not all(map(_is_object, items)):
        raise WatchError(GARBAGE, "the answer to a list is not a list of objects")
    found: Json = page
    return found


def _is_object(obj: Any) -> bool:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    return isinstance(meta, dict) and isinstance(meta.get("name"), str)


async def _events(content: aiohttp.StreamReader, silence: float) -> AsyncIterator[Event]:
    """Yields events until the server ends the stream between two of them. Raises WatchError for any other end."""
    loop = asyncio.get_running_loop()
    rest: list[bytes] = []
    size = 0
    until = loop.time() + silence
    while True:
        try:
            async with asyncio.timeout_at(until):
                chunk = await content.readany()
        except TimeoutError as error:
            raise WatchError(
                SILENT, f"the server sent no event or bookmark for {silence:g} s", version_good=True
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            _cut(rest, f"{type(error).__name__}: {error}", error)
        if not chunk:
            if any(part.strip() for part in rest):
                _cut(rest, "the stream ended", None)
            return
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        for part in others:
            line = b"".join(rest).strip()
            rest, size = [part], len(part)
            if line:
                yield _event(line)
                until = loop.time() + silence
        if size > MAX_LINE_BYTES:
            raise WatchError(GARBAGE, f"a line of the stream is longer than {MAX_LINE_BYTES} bytes")


def _cut(rest: list[bytes], text: str, cause: Exception | None) -> NoReturn:
    if any(part.strip() for part in rest):
        raise WatchError(TRUNCATED, f"the stream ended in the middle of an event ({text})") from cause
    raise WatchError(LOST, text, version_good=True) from cause


def _event(line: bytes) -> Event:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise WatchError(GARBAGE, "a line of the stream is not JSON") from error
    kind, obj = (found.get("type"), found.get("object")) if isinstance(found, dict) else (None, None)
    if kind == "ERROR":
        raise _error_event(obj if isinstance(obj, dict) else {})
    if not isinstance(kind, str) or not isinstance(obj, dict) or not _is_event(kind, obj):
        raise WatchError(GARBAGE, "a line of the stream is not an event of an object")
    obj["metadata"].pop("managedFields", None)
    return kind, obj


def _is_event(kind: str, obj: Json) -> bool:
    meta = obj.get("metadata")
    version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return isinstance(version, str) and version != "" and (kind == BOOKMARK or (kind in CHANGES and _is_object(obj)))


def _error_event(status: Json) -> WatchError:
    """Returns the error for an event of type ERROR, which ends the stream whatever its code is."""
    code = status.get("code")
    known = code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR
    error = error_of(known, {}, json.dumps(status).encode(), "watch")
    reason = EXPIRED if code == HTTPStatus.GONE else f"error_{known}"
    return WatchError(reason, str(error), retry_after=error.retry_after)
