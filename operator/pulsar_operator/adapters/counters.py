"""Metrics of the data plane's pods over HTTP. Implements ports.CountersPort.

A page may have a line for each topic. It is read in pieces, lines that were not requested are dropped immediately, and
the event loop runs other tasks between two pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from pulsar_operator.domain.dataplane.observed.pod_counters import Sample, parse
from pulsar_operator.ports import Clock, RefusedError, Scrape, UnavailableError

DEADLINE_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 15.0
"""Seconds for which an answer is reused: passes run every few seconds, and a page costs a broker work."""
MAX_BYTES: Final = 64 * 1024 * 1024
PIECE: Final = 64 * 1024
LONGEST_LINE: Final = 1024 * 1024


class HttpCounters:
    """Reads pages, with one connection for each, since pages are only read during the minutes of an upgrade."""

    def __init__(self, clock: Clock, *, deadline: float = DEADLINE_SECONDS, max_bytes: int = MAX_BYTES) -> None:
        """``deadline`` is the time limit for a whole page in seconds."""
        self._clock, self._max_bytes = clock, max_bytes
        self._timeout = aiohttp.ClientTimeout(total=deadline)
        self._kept: dict[tuple[str, frozenset[str]], Scrape] = {}

    async def read(self, url: str, names: frozenset[str]) -> Scrape:
        """See ports.CountersPort."""
        now = self._clock.now()
        self._kept = {key: each for key, each in self._kept.items() if (now - each.at).total_seconds() < KEPT_SECONDS}
        found = self._kept.get((url, names))
        if found is None:
            found = self._kept[url, names] = Scrape(now, await self._read(url, names))
        return found

    async def _read(self, url: str, names: frozenset[str]) -> list[Sample]:
        samples: list[Sample] = []
        try:
            async with (
                aiohttp.ClientSession(timeout=self._timeout) as session,
                # A pod that sends elsewhere is no pod to be compared. Its certificate is not verified, since it is not
                # for the address of the pod; the request has no credential, as over plain HTTP.
                session.get(url, allow_redirects=False, ssl=False) as answer,
            ):
                if answer.status != 200:
                    raise UnavailableError(f"{url} returned HTTP {answer.status}", status=answer.status)
                async for lines in self._lines(url, answer.content):
                    samples += parse(lines, names)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnavailableError(f"{url} did not answer ({str(error) or type(error).__name__})") from error
        if not samples:
            raise RefusedError(f"{url} has none of the compared counters")
        return samples

    async def _lines(self, url: str, content: aiohttp.StreamReader) -> AsyncIterator[list[str]]:
        rest, size = b"", 0
        async for piece in content.iter_chunked(PIECE):
            size += len(piece)
            *whole, rest = (rest + piece).split(b"\n")
            if size > self._max_bytes or len(rest) > LONGEST_LINE:
                raise RefusedError(f"the metrics at {url} are larger than the operator reads")
            yield [line.decode(errors="replace") for line in whole]
        yield [rest.decode(errors="replace")]
