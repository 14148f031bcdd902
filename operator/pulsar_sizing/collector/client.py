"""HTTP to a cluster's admin endpoint and to each of its brokers: three GET requests, streamed, with deadlines.

Broker statistics are answered by the broker that is asked, for itself, without a redirect; so every broker is asked at
its own address. An id and its address come from the cluster's answer: one that is no host:port is never dialled, and
no redirect is followed, so that a token goes nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from pulsar_operator.api.hosts import is_host_of
from pulsar_operator.balance.model.pieces import FormatError
from pulsar_sizing.collector.parse import CpuReader

CHUNK_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0
MAX_LIST_BYTES = 4 * 1024 * 1024
_BROKER_ID = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})"
)


class CollectError(Exception):
    """A request failed; the message is a sentence without secrets. ``again``: whether to ask once more."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


@dataclass(frozen=True)
class Target:
    """One cluster and how it is reached."""

    cluster: str
    admin_urls: tuple[str, ...]
    """Tried in turn for the list of brokers."""
    broker_url: str | None = None
    """Template of a broker's web address with {broker} (host:port), {host}, {port}; None if the admin URL's scheme and
    the broker's id. Needed where brokers listen with and without TLS: the id names the port without."""
    token_file: Path | None = None
    """Bearer token, read again for every round."""
    ca_file: Path | None = None
    """CA certificates that servers are checked with, besides none of the system's."""
    token_hosts: tuple[str, ...] = ()
    """Hosts that the token is for; one that begins with a dot stands for all that end with it. Empty = every broker
    that the cluster lists."""

    def address(self, broker: str) -> str:
        """Web address of a broker. Raises CollectError for an id that is not host:port, or of a host that the token is
        not for."""
        found = _BROKER_ID.fullmatch(broker)
        if found is None:
            raise CollectError("its id is not host:port")
        if self.token_file is not None and self.token_hosts and not is_host_of(found["host"], self.token_hosts):
            raise CollectError("its host is none that the token is for: see --token-host")
        template = self.broker_url or urlsplit(self.admin_urls[0]).scheme + "://{broker}"
        return template.replace("{broker}", broker).replace("{host}", found["host"]).replace("{port}", found["port"])


class BrokerClient:
    """Asks one cluster during one round; open it with :func:`connect`."""

    def __init__(self, target: Target, session: aiohttp.ClientSession, deadline: float) -> None:
        self._target = target
        self._session = session
        self._deadline = deadline

    async def brokers(self) -> list[str]:
        """Ids of the registered brokers, by the first admin URL that answers. Raises CollectError."""
        problems = []
        for url in self._target.admin_urls:
            try:
                return await self._list(url.rstrip("/") + "/admin/v2/brokers")
            except CollectError as error:
                problems.append(str(error))
        raise CollectError("no list of brokers: " + "; ".join(problems))

    async def _list(self, url: str) -> list[str]:
        async with _explained(self._deadline), self._session.get(url, allow_redirects=False) as response:
            _check(response.status)
            body = await response.content.read(MAX_LIST_BYTES + 1)
            while len(body) <= MAX_LIST_BYTES and (more := await response.content.read(MAX_LIST_BYTES)):
                body += more
        try:
            ids = json.loads(body)
        except ValueError:
            ids = None
        if not isinstance(ids, list) or not all(isinstance(item, str) and item for item in ids):
            raise CollectError("the answer is no list of broker ids")
        return sorted(set(ids))

    async def read_topics(self, broker: str, consume: Callable[[AsyncIterator[bytes]], Any]) -> None:
        """Give the pieces of a broker's broker-stats/topics to ``consume``, all within the deadline.

        Raises CollectError, and whatever ``consume`` raises.
        """
        await self._read(broker, "topics", consume)

    async def cpu(self, broker: str) -> float | None:
        """Share of its CPU that a broker uses, by its broker-stats/metrics; None where it does not say.

        Raises CollectError.
        """
        reader = CpuReader()

        async def consume(pieces: AsyncIterator[bytes]) -> None:
            async for piece in pieces:
                reader.feed(piece)

        try:
            await self._read(broker, "metrics", consume)
        except FormatError as error:
            raise CollectError(f"its answer is {error}") from None
        return reader.share

    async def _read(self, broker: str, statistics: str, consume: Callable[[AsyncIterator[bytes]], Any]) -> None:
        url = f"{self._target.address(broker)}/admin/v2/broker-stats/{statistics}"
        async with _explained(self._deadline), self._session.get(url, allow_redirects=False) as response:
            _check(response.status)
            await consume(response.content.iter_chunked(CHUNK_BYTES))


@asynccontextmanager
async def connect(target: Target, *, deadline: float) -> AsyncIterator[BrokerClient]:
    """A client for one round: token and CA are read now. ``deadline`` is the total time of a request in seconds.

    Raises CollectError when a file cannot be read.
    """
    headers = {"User-Agent": "pulsar-sizing"}
    if target.token_file is not None:
        headers["Authorization"] = f"Bearer {_token(target.token_file)}"
    connector = aiohttp.TCPConnector(limit=0, ssl=_tls(target.ca_file))
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield BrokerClient(target, session, deadline)


def _token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CollectError(f"token file {path} cannot be read: {type(error).__name__}") from None
    if not token or any(c.isspace() for c in token):
        raise CollectError(f"token file {path} holds no single token")
    return token


def _tls(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise CollectError(f"CA file {ca_file} cannot be read: {type(error).__name__}") from None


def _check(status: int) -> None:
    if status == 200:
        return
    remedy = {
        401: " (no valid token: give --token-file)",
        403: " (the role is no superuser, as broker statistics need)",
        404: " (no Pulsar broker there)",
    }.get(status, "")
    raise CollectError(f"HTTP {status}{remedy}", again=status in {429, 502, 503, 504})


@asynccontextmanager
async def _explained(deadline: float) -> AsyncIterator[None]:
    """Turn what aiohttp raises into sentences without addresses of secrets."""
    try:
        async with asyncio.timeout(deadline):
            yield
    except TimeoutError:
        raise CollectError(f"no whole answer within {deadline:g} s") from None
    except aiohttp.ClientConnectorCertificateError as error:
        why = getattr(error.certificate_error, "verify_message", "") or "its host has another name"
        raise CollectError(f"its TLS certificate is not trusted ({why}): give --ca-file") from None
    except aiohttp.ClientConnectorError as error:
        raise CollectError(f"no connection: {_reason(error.os_error)}", again=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise CollectError(f"the connection broke: {type(error).__name__}", again=True) from None


def _reason(error: OSError) -> str:
    """The operating system's words: asyncio's own repeat the address."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or type(error).__name__


def broker_order(brokers: Sequence[str], turn: int) -> list[str]:
    """Brokers in an order that moves on by one every round: when time runs out it is not always the same ones' loss."""
    at = turn % len(brokers) if brokers else 0
    return [*brokers[at:], *brokers[:at]]
