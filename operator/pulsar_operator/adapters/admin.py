"""Pulsar's admin REST over aiohttp: one verb, with everything HTTP needs and nothing Pulsar's policies mean.

Implements :class:`pulsar_operator.ports.PulsarAdminPort`. What is handled here and nowhere else:

* **Deadlines.** A broker whose metadata store is away accepts a request and never answers it (observed on 4.0.8), so
  every call has one total deadline that covers queueing for a slot, redirects, retries and reading the body.
* **Redirects** (307 to the owner of a bundle, to the leader, or to another cluster) are followed by hand: the method
  and body are kept, at most ten hops, http and https only.
* **Retries** with exponential back-off and jitter: what certainly did not take effect (no connection, 429, 503) for
  every method; a broken connection or an expired metadata session only for idempotent methods.
* **Retry-After** is obeyed within the deadline. A longer one ends the call at once and goes to the caller.
* **Concurrency** is limited per cluster, so that one slow cluster cannot take all the connections. Waiting for the next
  attempt does not count.
"""

from __future__ import annotations

import asyncio
import html
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from pulsar_operator import __version__
from pulsar_operator.adapters.fence import Fence, open_fence
from pulsar_operator.domain.texts import without_tokens
from pulsar_operator.ports import (
    AdminEndpoint,
    ConflictError,
    DeadlineError,
    MetricsPort,
    NotFoundError,
    RefusedError,
    UnavailableError,
    UnownedError,
)

DEADLINE_SECONDS = 15.0
CONCURRENCY = 8
MAX_REDIRECTS = 10
MAX_BODY_BYTES = 64 * 1024 * 1024
"""A namespace's topic list is the largest answer; one of more than this is an error, not memory pressure."""
FIRST_BACKOFF_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 3.0

REDIRECTS = frozenset({301, 302, 307, 308})
IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
RETRIABLE = frozenset({429, 503})
UNAVAILABLE = frozenset({408, 429})
UNSAFE_SEGMENTS = frozenset({"", ".", ".."})
SESSION_EXPIRED = "SessionExpired"
"""The first write after a metadata store returns answers 500 with this word once (observed on 4.0.8)."""
SCHEMA_REFUSALS = ("IncompatibleSchemaException", "InvalidSchemaDataException")
"""The compatibility check of a schema answers 500 with these where the upload answers 409 or 422 (observed on 4.0.8).
"""
UNOWNED = ("Failed to find ownership for topic", "Can't find owner for topic")
"""With 412, which is a refusal otherwise: nobody has the topic just now, see UnownedError."""
CANCELLED = ("", "HTTP 422 {}")
"""Explanations with 422 that are none: something inside the broker was cancelled while a topic was being deleted
(v2.PersistentTopics.deleteTopic answers so for each IllegalStateException), alone or below a namespace's deletion."""
RACE = "[no message for java.util.ConcurrentModificationException]"
"""Explanation with 400 where a broker reads isolation policies while they change (observed on 4.0.8)."""
NOT_IMPLEMENTED = 501
"""The broker lacks what the call needs, such as a plug-in: a refusal, not a failure."""
UNEXPECTED = "--- An unexpected error occurred in the server ---"
"""How the explanation of an error without a status of its own begins; the message and a stack trace follow."""


@dataclass(frozen=True)
class _Answer:
    """One HTTP answer, body read."""

    status: int
    body: bytes
    location: str | None = None
    retry_after: float | None = None
    page: bool = False
    """Whether the body is HTML, which comes from something before Pulsar."""


@dataclass(frozen=True)
class _Request:
    """One HTTP request as it is sent at every attempt and hop."""

    cluster: str
    method: str
    url: URL
    data: bytes | None
    content_type: str


class _AttemptError(Exception):
    """An attempt ended without an answer; ``sent`` tells whether the server may have seen the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AiohttpAdmin:
    """The admin port over one shared aiohttp session, opened on the first call."""

    def __init__(
        self,
        metrics: MetricsPort,
        *,
        deadline: float = DEADLINE_SECONDS,
        concurrency: int = CONCURRENCY,
        user_agent: str = f"pulsar-operator/{__version__}",
        rng: random.Random | None = None,
        fence: Fence = open_fence,
    ) -> None:
        """``deadline`` is the default total time of a call in seconds, ``concurrency`` the calls per cluster."""
        self._metrics = metrics
        self._deadline = deadline
        self._concurrency = concurrency
        self._user_agent = user_agent
        self._rng = rng or random.Random()
        self._fence = fence
        self._session: aiohttp.ClientSession | None = None
        self._slots: dict[str, asyncio.Semaphore] = {}

    async def close(self) -> None:
        """Close the connections. The next call would open new ones."""
        session, self._session = self._session, None
        if session is not None:
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
        """See :meth:`pulsar_operator.ports.PulsarAdminPort.call`.

        A path segment that is empty, "." or ".." is refused without a request: proxies rewrite those even encoded.
        """
        seconds = self._deadline if deadline is None else deadline
        words = f"{method} {display_path(path)} at cluster {endpoint.cluster}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = _Request(endpoint.cluster, method, build_url(endpoint.url, path, query), data, content_type)
        slot = self._slots.setdefault(endpoint.cluster, asyncio.Semaphore(self._concurrency))
        last: list[str] = []
        try:
            async with asyncio.timeout(seconds) as limit:
                answer = await self._attempts(request, last, slot, until=limit.when())
        except TimeoutError:
            detail = f" (last attempt: {last[-1]})" if last else ""
            raise DeadlineError(f"{words}: no answer within {seconds:g} s{detail}") from None
        return interpret(answer, words, text=text)

    async def _attempts(
        self, request: _Request, last: list[str], slot: asyncio.Semaphore, *, until: float | None
    ) -> _Answer:
        """Try until there is an answer worth returning; the caller's deadline, ``until`` in the loop's time, ends it.

        Only an attempt takes a slot: who waits for the next one keeps nobody from calling.
        """
        pause = FIRST_BACKOFF_SECONDS
        while True:
            wait: float | None = None
            try:
                async with slot:
                    answer = await self._follow(request)
            except _AttemptError as error:
                last.append(str(error))
                if error.sent and request.method not in IDEMPOTENT:
                    words = f"{request.method} at cluster {request.cluster}: {error}; it may have taken effect"
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

    async def _follow(self, request: _Request) -> _Answer:
        """One attempt through all its redirects."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._once(request)
            if answer.status not in REDIRECTS:
                return answer
            if not answer.location:
                raise UnavailableError(f"HTTP {answer.status} without a Location from cluster {request.cluster}")
            request = replace(request, url=redirect_target(request.url, answer.location))
        raise UnavailableError(
            f"more than {MAX_REDIRECTS} redirects at cluster {request.cluster}, the last to {request.url.host}"
        )

    async def _once(self, request: _Request) -> _Answer:
        url, cluster = request.url, request.cluster
        if request.method != "GET":
            self._fence(f"{request.method} at cluster {cluster}")
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        if request.data is not None or request.method in {"PUT", "POST"}:
            headers["Content-Type"] = request.content_type
        started = monotonic()
        status = "error"
        try:
            async with self._open().request(
                request.method, url, data=request.data, headers=headers, allow_redirects=False
            ) as response:
                body = await response.content.read(MAX_BODY_BYTES + 1)
                while body and len(body) <= MAX_BODY_BYTES and not response.content.at_eof():
                    body += await response.content.read(MAX_BODY_BYTES + 1 - len(body))
                status = str(response.status)
                if len(body) > MAX_BODY_BYTES:
                    raise UnavailableError(f"an answer of more than {MAX_BODY_BYTES} bytes from cluster {cluster}")
                return _Answer(
                    response.status,
                    body,
                    response.headers.get("Location"),
                    _seconds(response.headers.get("Retry-After")),
                    page=response.content_type == "text/html",
                )
        except aiohttp.InvalidURL as error:
            raise UnavailableError(f"the address of cluster {cluster} is no valid URL") from error
        except aiohttp.ClientConnectorError as error:
            raise _AttemptError(f"no connection to {url.host}:{url.port} ({_short(error)})", sent=False) from error
        except (aiohttp.ClientError, ConnectionError, OSError) as error:
            raise _AttemptError(f"connection to {url.host}:{url.port} broke ({_short(error)})", sent=True) from error
        except asyncio.CancelledError:
            status = "timeout"
            raise
        finally:
            self._metrics.admin_call(cluster, request.method, status, monotonic() - started)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The call's own deadline is the only one; no cookies, no proxy settings from the environment.
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),
                trust_env=False,
            )
        return self._session


def build_url(base: str, path: Sequence[str], query: Mapping[str, str] | None = None) -> URL:
    """The address of a call; every segment is percent-encoded completely, so "/" inside a name stays inside it.

    Raises RefusedError for a segment that is empty or made of dots, and for text that UTF-8 cannot have (half of a
    surrogate pair, which JSON can escape); UnavailableError for a base that is no http URL.
    """
    for segment in path:
        if segment in UNSAFE_SEGMENTS or not _encodable(segment):
            raise RefusedError(f"the name {segment!a} cannot be used in a path of Pulsar's admin REST")
    for value in (query or {}).values():
        if not _encodable(value):
            raise RefusedError(f"the value {value!a} cannot be sent to Pulsar's admin REST")
    if not base.startswith(("http://", "https://")):
        raise UnavailableError("the admin address must start with http:// or https://")
    text = base.rstrip("/") + "/admin/v2/" + "/".join(quote(segment, safe="") for segment in path)
    if query:
        text += "?" + urlencode(sorted(query.items()), quote_via=quote)
    try:
        return URL(text, encoded=True)
    except ValueError as error:
        raise UnavailableError("the admin address is no valid URL") from error


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def display_path(path: Sequence[str]) -> str:
    """The path for messages: encoded, so that a hostile name cannot forge a log line, and cut."""
    return "/" + "/".join(quote(segment, safe="", errors="replace") for segment in path)[:300]


def redirect_target(current: URL, location: str) -> URL:
    """Where a redirect leads; kept byte for byte. Raises UnavailableError when it leaves http and https."""
    try:
        target = URL(location, encoded=True)
        if not target.scheme:
            target = current.join(target)
    except ValueError as error:
        raise UnavailableError("a redirect to something that is no URL") from error
    if target.scheme not in {"http", "https"} or not target.host:
        raise UnavailableError(f"a redirect to scheme {target.scheme!r} is not followed")
    return target


def interpret(answer: _Answer, words: str, *, text: bool = False) -> Any:
    """The decoded body of a success, or the error (ports/errors.py) of its status, with Pulsar's own words."""
    if 200 <= answer.status < 300:
        if not answer.body.strip():
            return None
        if text:
            return plain(answer.body, words, page=answer.page)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise UnavailableError(f"{words}: HTTP {answer.status} with a body that is not JSON") from error
    reason = reason_of(answer.body)
    message = f"{words}: HTTP {answer.status}" + (f": {reason}" if reason else "")
    if answer.status == 404:
        if not _is_pulsars(answer):
            # Somebody before Pulsar does not know the way: that says nothing of what is in Pulsar.
            raise UnavailableError(f"{message} (not from Pulsar)", retry_after=answer.retry_after)
        raise NotFoundError(message)
    if answer.status == 409:
        raise ConflictError(message)
    if answer.status == 412 and reason.startswith(UNOWNED):
        raise UnownedError(message, status=answer.status)
    failed = (answer.status == 422 and reason in CANCELLED) or reason == RACE
    refused = 400 <= answer.status < 500 and answer.status not in UNAVAILABLE and not failed
    if refused or answer.status == NOT_IMPLEMENTED or _refuses_schema(answer):
        raise RefusedError(message, status=answer.status)
    raise UnavailableError(message, retry_after=answer.retry_after, status=answer.status)


def _is_pulsars(answer: _Answer) -> bool:
    """Whether an error is Pulsar's own: its resources and its web server (Jetty, asked for JSON) answer with a JSON
    object. A proxy's or an ingress' 404 is a page, a line of text or empty; it must never be read as "gone"."""
    try:
        return isinstance(json.loads(answer.body[:65536].decode("utf-8", "replace"), strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _refuses_schema(answer: _Answer) -> bool:
    text = answer.body[:65536].decode(errors="replace") if answer.status == 500 else ""
    return any(name in text for name in SCHEMA_REFUSALS)


def plain(body: bytes, words: str, *, page: bool) -> str:
    """A body that is text, which may well look like HTML: the value of a property. Raises UnavailableError for a page
    in HTML, by its content type."""
    if page:
        raise UnavailableError(f"{words}: a page in HTML instead of an answer")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise UnavailableError(f"{words}: a body that is not UTF-8") from None


def reason_of(body: bytes) -> str:
    """Pulsar's explanation: ``{"reason": ...}``, ``{"message": ...}`` of its web server, or the first line of plain
    text; nothing from an HTML page. It goes into conditions and events, so without what Pulsar repeats of logins."""
    return without_tokens(_explanation(body[:65536].decode("utf-8", "replace").strip()))[:500]


def _explanation(text: str) -> str:
    try:
        decoded = json.loads(text, strict=False)  # a message may have line ends as they are
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text.split("\n", 1)[0]
    if not isinstance(decoded, dict):
        return ""
    reason, message = decoded.get("reason"), decoded.get("message")
    if isinstance(reason, str) and reason.strip().startswith(UNEXPECTED):
        inner = reason.partition("Message:")[2].partition("Stacktrace:")[0]
        return " ".join(inner.split())
    if isinstance(reason, str):
        return reason.strip().split("\n", 1)[0]
    # Written into JSON as it would be into HTML, in as many lines as it has.
    return " ".join(html.unescape(message).split()) if isinstance(message, str) else ""


def _retriable(method: str, answer: _Answer) -> bool:
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
