"""BookKeeper's HTTP server over aiohttp. Implements ports.BookiePort.

Meaning of its answers (BookKeeper 4.17.2, all observed on Pulsar 4.0.8):

* **404 with an HTML page** comes from the web server: it has no such endpoint (class VertxHttpServer).
* **404 and 400 in plain text** come from a service: it rejects the method, the body, or the request in its state.
* **500** is any internal exception, without its cause (classes VertxAbstractHandler, ErrorHttpService): an unavailable
metadata store, or a bookie's endpoint at an auto-recovery pod, which has no bookie. So it never counts as a refusal.

A call makes one attempt: a write without an answer may still take effect, and only the caller can check that. Each call
has its own connection and name resolution, since a replaced pod has the same name and another address.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from yarl import URL

from pulsar_operator import __version__
from pulsar_operator.adapters.fence import Fence, open_fence
from pulsar_operator.domain.render.listeners import BOOKKEEPER_HTTP_PORT
from pulsar_operator.ports import DiskInfo, NotFoundError, RefusedError, UnavailableError

DEADLINE_SECONDS = 5.0
MAX_BODY_BYTES = 64 * 1024
READONLY = "/api/v1/bookie/state/readonly"
DISK = "/api/v1/bookie/info"
RECOVER = "/api/v1/autorecovery/bookie"


class HttpBookies:
    """Calls bookies and auto-recovery pods by their host names."""

    def __init__(
        self, *, port: int = BOOKKEEPER_HTTP_PORT, deadline: float = DEADLINE_SECONDS, fence: Fence = open_fence
    ) -> None:
        """``port`` is that of BookKeeper's HTTP servers. ``deadline`` is the time limit of a call in seconds."""
        self._port, self._deadline, self._fence = port, deadline, fence

    async def readonly(self, host: str) -> bool:
        """See ports.BookiePort."""
        return _flag(await self._call("GET", host, READONLY), f"GET {READONLY} at {host}")

    async def set_readonly(self, host: str, readonly: bool) -> None:
        """Sets the state; see ports.BookiePort. Raises UnavailableError if the answer has the other state, because the
        disk monitor changed it."""
        words = f"PUT {READONLY} at {host}"
        if _flag(await self._call("PUT", host, READONLY, {"readOnly": readonly}), words) is not readonly:
            raise UnavailableError(
                f"{words} had no effect, because the bookie is still {'writable' if readonly else 'read-only'}"
            )

    async def disk(self, host: str) -> DiskInfo:
        """See ports.BookiePort."""
        answer, words = await self._call("GET", host, DISK), f"GET {DISK} at {host}"
        return DiskInfo(_bytes(answer, "freeSpace", words), _bytes(answer, "totalSpace", words))

    async def recover(self, host: str, bookie: str) -> None:
        """See ports.BookiePort."""
        # The cookie is deleted with a connection that is closed by then: never asked for.
        await self._call("PUT", host, RECOVER, {"bookie_src": [bookie], "delete_cookie": False}, text=True)

    async def _call(self, method: str, host: str, path: str, body: Any = None, *, text: bool = False) -> Any:
        """Returns the decoded JSON of a success, or the text."""
        words = f"{method} {path} at {host}"
        if method != "GET":
            self._fence(words)
        try:
            url = URL.build(scheme="http", host=host, port=self._port, path=path)
        except ValueError as error:
            raise UnavailableError(f"{words} failed, because the host name is not valid") from error
        try:
            async with asyncio.timeout(self._deadline):
                status, page, content = await _attempt(method, url, body)
        except TimeoutError:
            raise UnavailableError(f"{words} got no answer within {self._deadline:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error).split("\n", 1)[0][:200] or type(error).__name__
            raise UnavailableError(f"{words}: {reason}") from error
        return _interpret(status, page, content, words, text=text)


async def _attempt(method: str, url: URL, body: Any) -> tuple[int, bool, bytes]:
    """Makes one request. Returns the status, whether the body is an HTML page, and the body, truncated after
    MAX_BODY_BYTES and one."""
    async with (
        aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # the caller's deadline is the only one
            trust_env=False,
            headers={"User-Agent": f"pulsar-operator/{__version__}"},
        ) as session,
        session.request(method, url, json=body, allow_redirects=False) as response,
    ):
        content = b""
        while len(content) <= MAX_BODY_BYTES and not response.content.at_eof():
            content += await response.content.read(MAX_BODY_BYTES + 1 - len(content))
        return response.status, response.content_type == "text/html", content


def _interpret(status: int, page: bool, content: bytes, words: str, *, text: bool) -> Any:
    answered = "" if page else content[:500].decode("utf-8", "replace").strip().split("\n", 1)[0]
    message = f"{words} returned HTTP {status}" + (f": {answered}" if answered else "")
    if 200 <= status < 300 and len(content) <= MAX_BODY_BYTES:
        if text:
            return answered
        try:
            return json.loads(content)
        except ValueError as error:
            raise UnavailableError(f"{words} returned HTTP {status} with a body that is not JSON") from error
    if status == 404 and (page or not answered):
        raise NotFoundError(f"{message}, because the bookie has no such endpoint")
    if 400 <= status < 500 and status not in (408, 429):
        raise RefusedError(message, status=status)
    raise UnavailableError(message, status=status)


def _flag(answer: Any, words: str) -> bool:
    found = answer.get("readOnly") if isinstance(answer, dict) else None
    if not isinstance(found, bool):
        raise UnavailableError(f"{words} returned an answer without readOnly")
    return found


def _bytes(answer: Any, key: str, words: str) -> int:
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise UnavailableError(f"{words} returned an answer without {key}")
    return found
