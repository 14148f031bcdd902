"""Sizing results over HTTP, from the collector that serves them. Implements ports.SizingPort."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import ValidationError

from pulsar_operator.balance.sizing.result import SizingOutlook, SizingResult
from pulsar_operator.domain.texts import without_userinfo
from pulsar_operator.ports import RefusedError, UnavailableError

DEADLINE_SECONDS = 30.0
MAX_BYTES = 256 * 1024 * 1024
T = TypeVar("T", bound=SizingOutlook)


class HttpSizing:
    """Reads ``GET <url>/v1/sizing/<cluster>``; one connection a question, since questions are minutes apart."""

    async def latest(self, url: str, cluster: str) -> SizingResult | None:
        """See ports.SizingPort."""
        return await self._read(url, cluster, SizingResult)

    async def outlook(self, url: str, cluster: str) -> SizingOutlook | None:
        """See ports.SizingPort."""
        return await self._read(url, cluster, SizingOutlook)

    async def _read(self, url: str, cluster: str, model: type[T]) -> T | None:
        told = without_userinfo(url)
        where = f"{url.rstrip('/')}/v1/sizing/{quote(cluster, safe='')}"
        try:
            timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(where) as answer:
                if answer.status == 404:
                    return None
                if answer.status != 200:
                    raise UnavailableError(f"the sizing service at {told} answered {answer.status}")
                body = await answer.content.read(MAX_BYTES + 1)
                while not answer.content.at_eof() and len(body) <= MAX_BYTES:
                    body += await answer.content.read(MAX_BYTES + 1)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnavailableError(
                f"the sizing service at {told} did not answer: {without_userinfo(str(error)) or type(error).__name__}"
            ) from error
        if len(body) > MAX_BYTES:
            raise RefusedError(f"the sizing result at {told} is larger than {MAX_BYTES} bytes")
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            what = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
            raise RefusedError(f"the sizing result at {told} cannot be read: {what}") from error
