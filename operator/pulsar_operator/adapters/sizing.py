"""Sizing results over HTTP, from the collector that serves them. Implements ports.SizingPort."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import ValidationError
from pydantic_core import from_json

from pulsar_operator.balance.sizing.result import SizingOutlook, SizingResult
from pulsar_operator.domain.texts import without_login, without_userinfo
from pulsar_operator.ports import RefusedError, UnavailableError

DEADLINE_SECONDS = 30.0
MAX_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 1024 * 1024
"""Bytes that are read for an outlook, which precedes all data about bundles. A parsed result takes up to 20 times its
size, and the operator has 384 MiB (values of its chart)."""
OUTLOOK = frozenset(field.alias or name for name, field in SizingOutlook.model_fields.items())
T = TypeVar("T", bound=SizingOutlook)


class HttpSizing:
    """Reads ``GET <url>/v1/sizing/<cluster>``, with one connection per request, since requests are minutes apart."""

    async def latest(self, url: str, cluster: str) -> SizingResult | None:
        """See ports.SizingPort."""
        address = without_login(url)
        body = await _body(url, cluster, MAX_BYTES)
        if body is None:
            return None
        if len(body) > MAX_BYTES:
            raise RefusedError(f"the sizing result at {address} is larger than {MAX_BYTES} bytes")
        return _read(body, SizingResult, cluster, address)

    async def outlook(self, url: str, cluster: str) -> SizingOutlook | None:
        """See ports.SizingPort."""
        # Packed, the service would have to pack all of it before the first byte.
        body = await _body(url, cluster, HEAD_BYTES, {"Accept-Encoding": "identity"})
        if body is None:
            return None
        address = without_login(url)
        if len(body) <= HEAD_BYTES:
            return _read(body, SizingOutlook, cluster, address)
        try:
            begin = from_json(body, allow_partial=True)
        except ValueError as error:
            raise RefusedError(f"the sizing result at {address} cannot be read: {error}") from error
        if isinstance(begin, dict) and begin:
            begin.popitem()  # the last one is cut off
        if not isinstance(begin, dict) or not begin.keys() >= OUTLOOK:
            raise RefusedError(
                f"the sizing result at {address} is larger than {HEAD_BYTES} bytes and does not begin with the "
                "outlook fields, because another job wrote it"
            )
        return _read(begin, SizingOutlook, cluster, address)


async def _body(url: str, cluster: str, most: int, headers: dict[str, str] | None = None) -> bytearray | None:
    """Returns the answer, or slightly more than its first ``most`` bytes; None if there is no result."""
    address = without_login(url)
    where = f"{url.rstrip('/')}/v1/sizing/{quote(cluster, safe='')}"
    body = bytearray()
    try:
        timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            # A service that sends elsewhere is not the one that the user named.
            session.get(where, allow_redirects=False) as answer,
        ):
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise UnavailableError(f"the sizing service at {address} returned HTTP {answer.status}")
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > most:
                    break
    except (aiohttp.InvalidURL, UnicodeError) as error:
        # Python's resolver raises UnicodeError for a name with an empty label, or one of more than 63 characters.
        raise UnavailableError(f"the address of the sizing service, {address}, is not a valid URL") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        reason = without_userinfo(str(error))[:200] or type(error).__name__
        raise UnavailableError(f"the sizing service at {address} did not answer ({reason})") from error
    return body


def _read(found: bytearray | dict[str, object], model: type[T], cluster: str, address: str) -> T:
    try:
        read = model.model_validate(found) if isinstance(found, dict) else model.model_validate_json(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        what = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise RefusedError(f"the sizing result at {address} cannot be read: {what}") from error
    if read.cluster != cluster:
        raise RefusedError(f"the sizing result at {address} belongs to cluster {read.cluster[:100]}, not to {cluster}")
    return read
