"""Pulsar's admin REST over aiohttp: one generic call that handles HTTP and knows nothing of Pulsar's policies.

Implements :class:`pulsar_operator.ports.PulsarAdminPort`. Only this module handles:

* **Deadlines.** A broker whose metadata store is unavailable accepts a request and never answers it (observed on
4.0.8), so every call has one total deadline that covers queueing for a slot, redirects, retries and reading the body.
* **Redirects** (307 to the owner of a bundle, to the leader, or to another cluster) are followed by this module: the
method and body are kept, at most ten hops, http and https only. A request with a token is only sent to hosts of its
cluster, whatever a redirect says.
* **Access.** Each access (admin_access.py) has a session with its own connections, so that neither a token nor a
trusted certificate of one cluster is used for another one.
* **Retries** with exponential back-off and jitter: requests that certainly had no effect (no connection, 429, 503) for
every method; a broken connection or an expired metadata session only for idempotent methods.
* **Retry-After** is obeyed within the deadline. A longer one ends the call immediately and is passed to the caller.
* **Concurrency** is limited per cluster, so that one slow cluster cannot use all connections. Waiting for the next
attempt does not count. Streams have their own slots: they last for a minute, and calls do not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import aiohttp
from yarl import URL

from pulsar_operator import __version__
from pulsar_operator.adapters.admin_access import Accesses, Tokens, check_host, not_trusted
from pulsar_operator.adapters.admin_answers import UNAUTHENTICATED, Answer, interpret
from pulsar_operator.adapters.admin_urls import build_url, display_path, redirect_target
from pulsar_operator.adapters.fence import Fence, open_fence
from pulsar_operator.ports import AdminAccess, AdminEndpoint, DeadlineError, MetricsPort, UnavailableError

DEADLINE_SECONDS = 15.0
CONCURRENCY = 16
"""Maximum concurrent calls to one cluster. A broker accepts 1,024 before it refuses one (maxConcurrentHttpRequests) and
handles them with at least 8 threads by default (numHttpServerThreads, class ServiceConfiguration)."""
STREAMS = 16
"""Maximum concurrent streams of one cluster. Each has about 0.5 MiB of buffers."""
SILENCE_SECONDS = 30.0
"""Seconds without data after which a stream ends. A stream that delivers may take longer."""
PIECE_BYTES = 32 * 1024
"""Bytes of a stream that are passed on together. Processing them occupies the event loop for about 1 ms."""
MAX_REDIRECTS = 10
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Maximum size of a call's answer in bytes; a larger one is an error. Streams have no such limit."""
FIRST_BACKOFF_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 3.0

REDIRECTS = frozenset({301, 302, 307, 308})
IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
RETRIABLE = frozenset({429, 503})
SESSION_EXPIRED = "SessionExpired"
"""Word in the answer 500 to the first write after a metadata store is available again (observed on 4.0.8)."""


@dataclass(frozen=True)
class _Request:
    """One HTTP request, the same for every attempt and hop."""

    endpoint: AdminEndpoint
    method: str
    url: URL
    data: bytes | None
    content_type: str
    sink: _Sink | None = None
    """Receives the body of a success, which is then not part of the answer; None for a normal call."""

    @property
    def cluster(self) -> str:
        """Returns the name of the cluster in Pulsar."""
        return self.endpoint.cluster


class _Sink:
    """Passes on the pieces of an answer, and counts their bytes."""

    def __init__(self, feed: Callable[[bytes], None], heard: Callable[[], None]) -> None:
        """``heard`` is called after each piece."""
        self._feed, self._heard = feed, heard
        self.bytes = 0

    async def take(self, content: aiohttp.StreamReader) -> None:
        """Passes on the whole body."""
        async for piece in content.iter_chunked(PIECE_BYTES):
            self.bytes += len(piece)
            self._feed(piece)
            self._heard()
            await asyncio.sleep(0)  # what has come already is read without waiting


class _AttemptError(Exception):
    """An attempt ended without an answer. ``sent`` is whether the server may have received the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AiohttpAdmin:
    """The admin port over one aiohttp session for each access, which the first call opens."""

    def __init__(
        self,
        metrics: MetricsPort,
        *,
        deadline: float = DEADLINE_SECONDS,
        concurrency: int = CONCURRENCY,
        streams: int = STREAMS,
        silence: float = SILENCE_SECONDS,
        most_bytes: int = MAX_BODY_BYTES,
        user_agent: str = f"pulsar-operator/{__version__}",
        rng: random.Random | None = None,
        fence: Fence = open_fence,
        tokens: Tokens | None = None,
    ) -> None:
        """``deadline`` is the default total time of a call in seconds, ``concurrency`` the maximum concurrent calls and
        ``streams`` the maximum concurrent streams per cluster. ``silence`` is the time in seconds without a byte after
        which a stream ends, ``most_bytes`` the maximum size of a call's answer. ``tokens`` are those that endpoints
        with an audience ask for."""
        self._metrics = metrics
        self._deadline = deadline
        self._concurrency, self._streaming = concurrency, streams
        self._silence, self._most_bytes = silence, most_bytes
        self._user_agent = user_agent
        self._rng = rng or random.Random()
        self._fence = fence
        self._accesses = Accesses(tokens)
        self._sessions: dict[tuple[str, AdminAccess] | None, aiohttp.ClientSession] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._stream_slots: dict[str, asyncio.Semaphore] = {}

    async def close(self) -> None:
        """Closes the connections. A later call would open new ones."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

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
        """Makes a call; see :meth:`pulsar_operator.ports.PulsarAdminPort.call`.

        A path segment that is empty, "." or ".." is refused without a request, since proxies rewrite those even if
        encoded.
        """
        seconds = self._deadline if deadline is None else deadline
        words = f"{method} {display_path(path)} at cluster {endpoint.cluster}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = _Request(endpoint, method, build_url(endpoint.url, path, query), data, content_type)
        slot = self._slots.setdefault(endpoint.cluster, asyncio.Semaphore(self._concurrency))
        last: list[str] = []
        try:
            async with asyncio.timeout(seconds) as limit:
                answer = await self._attempts(request, last, slot, until=limit.when())
        except TimeoutError:
            detail = f" (last attempt: {last[-1]})" if last else ""
            raise DeadlineError(f"{words} got no answer within {seconds:g} s{detail}") from None
        return interpret(answer, words, text=text, access=endpoint.access)

    async def stream(
        self,
        endpoint: AdminEndpoint,
        path: Sequence[str],
        feed: Callable[[bytes], None],
        *,
        query: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> None:
        """Streams an answer; see :meth:`pulsar_operator.ports.PulsarAdminPort.stream`.

        The answer is requested uncompressed: a piece of a compressed one may expand a thousandfold.
        """
        seconds = self._deadline if deadline is None else deadline
        words = f"GET {display_path(path)} at cluster {endpoint.cluster}"
        loop, last = asyncio.get_running_loop(), list[str]()
        slot = self._stream_slots.setdefault(endpoint.cluster, asyncio.Semaphore(self._streaming))
        async with slot:
            end = loop.time() + seconds
            limit = asyncio.timeout_at(min(end, loop.time() + self._silence))
            sink = _Sink(feed, lambda: limit.reschedule(min(end, loop.time() + self._silence)))
            url = build_url(endpoint.url, path, query)
            request = _Request(endpoint, "GET", url, None, "application/json", sink)
            try:
                async with limit:
                    answer = await self._attempts(request, last, contextlib.nullcontext(), until=limit.when())
            except TimeoutError:
                what = (
                    f"got no complete answer within {seconds:g} s"
                    if loop.time() >= end
                    else f"received no data for {self._silence:g} s"
                )
                detail = (
                    (f" (received {sink.bytes} bytes)")
                    if sink.bytes
                    else f" (last attempt: {last[-1]})"
                    if last
                    else ""
                )
                raise DeadlineError(f"{words} {what}{detail}") from None
        if not 200 <= answer.status < 300:
            interpret(answer, words, access=endpoint.access)
            raise UnavailableError(f"{words} returned HTTP {answer.status}")

    async def _attempts(
        self,
        request: _Request,
        last: list[str],
        slot: contextlib.AbstractAsyncContextManager[None],
        *,
        until: float | None,
    ) -> Answer:
        """Retries until there is a final answer. The caller's deadline, ``until`` in the loop's time, ends it.

        Only an attempt occupies a slot: a call that waits for its next attempt does not block other calls.
        """
        pause = FIRST_BACKOFF_SECONDS
        while True:
            wait: float | None = None
            try:
                async with slot:
                    answer = await self._follow(request)
            except _AttemptError as error:
                last.append(str(error))
                if request.sink is not None and request.sink.bytes:
                    words = (
                        f"GET at cluster {request.cluster} failed after {request.sink.bytes} bytes of the answer "
                        f"({error})"
                    )
                    raise UnavailableError(words) from None
                if error.sent and request.method not in IDEMPOTENT:
                    words = (
                        f"{request.method} at cluster {request.cluster} failed ({error}). The request may have taken "
                        "effect"
                    )
                    raise UnavailableError(words) from None
            else:
                if not _retriable(request.method, answer):
                    return answer
                last.append(f"HTTP {answer.status}")
                wait = answer.retry_after
                if wait is not None and until is not None and asyncio.get_running_loop().time() + wait >= until:
                    return answer  # the caller knows better what to do in so long a time
            await asyncio.sleep(wait if wait is not None else pause * (0.5 + self._rng.random() / 2))
            pause = min(pause * 2, MAX_BACKOFF_SECONDS)

    async def _follow(self, request: _Request) -> Answer:
        """Makes one attempt through all its redirects."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._once(request)
            if answer.status not in REDIRECTS:
                return answer
            if not answer.location:
                raise UnavailableError(f"cluster {request.cluster} returned HTTP {answer.status} without a Location")
            request = replace(request, url=redirect_target(request.url, answer.location))
        raise UnavailableError(
            f"cluster {request.cluster} returned more than {MAX_REDIRECTS} redirects, the last to {request.url.host}"
        )

    async def _once(self, request: _Request) -> Answer:
        url, cluster, access = request.url, request.cluster, request.endpoint.access
        check_host(request.endpoint, url)
        if request.method != "GET":
            self._fence(f"{request.method} at cluster {cluster}")
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        if request.sink is not None:
            headers["Accept-Encoding"] = "identity"
        if request.data is not None or request.method in {"PUT", "POST"}:
            headers["Content-Type"] = request.content_type
        trust: ssl.SSLContext | bool = True
        if access is not None:
            headers |= await self._accesses.headers(access)
            trust = self._accesses.trust(access)
        started = monotonic()
        status = "error"
        try:
            async with self._open(request.endpoint).request(
                request.method, url, data=request.data, headers=headers, allow_redirects=False, ssl=trust
            ) as response:
                if request.sink is not None and 200 <= response.status < 300:
                    await request.sink.take(response.content)
                    body = b""
                else:
                    body = await self._body(response.content, cluster)
                status = str(response.status)
                if response.status == UNAUTHENTICATED:
                    self._accesses.refused(access)
                return Answer(
                    response.status,
                    body,
                    response.headers.get("Location"),
                    _seconds(response.headers.get("Retry-After")),
                    page=response.content_type == "text/html",
                )
        except aiohttp.InvalidURL as error:
            raise UnavailableError(f"the address of cluster {cluster} is not a valid URL") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise UnavailableError(not_trusted(request.endpoint, url, error)) from error
        except aiohttp.ClientConnectorError as error:
            raise _AttemptError(f"cannot connect to {url.host}:{url.port} ({_short(error)})", sent=False) from error
        except (aiohttp.ClientError, ConnectionError, OSError) as error:
            raise _AttemptError(
                f"the connection to {url.host}:{url.port} was lost ({_short(error)})", sent=True
            ) from error
        except asyncio.CancelledError:
            status = "timeout"
            raise
        finally:
            self._metrics.admin_call(cluster, request.method, status, monotonic() - started)

    async def _body(self, content: aiohttp.StreamReader, cluster: str) -> bytes:
        """Returns the whole body. Raises UnavailableError if it is too long."""
        most = self._most_bytes
        body = await content.read(most + 1)
        while body and len(body) <= most and not content.at_eof():
            body += await content.read(most + 1 - len(body))
        if len(body) > most:
            raise UnavailableError(f"cluster {cluster} returned an answer of more than {most} bytes")
        return body

    def _open(self, endpoint: AdminEndpoint) -> aiohttp.ClientSession:
        key = None if endpoint.access is None else (endpoint.cluster, endpoint.access)
        session = self._sessions.get(key)
        if session is None:
            # The call's own deadline is the only one; no cookies, no proxy settings from the environment.
            session = self._sessions[key] = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),
                trust_env=False,
            )
        return session


def _retriable(method: str, answer: Answer) -> bool:
    if answer.status in RETRIABLE:
        return True
    return (
        answer.status == 500 and method in IDEMPOTENT and SESSION_EXPIRED in answer.body[:8192].decode(errors="replace")
    )


def _seconds(header: str | None) -> float | None:
    if header is None or not header.strip().isdigit():
        return None
    return float(header)


def _short(error: BaseException) -> str:
    text = str(error).split("\n", 1)[0][:200]
    return text or type(error).__name__
