"""Pages of metrics in memory. Held to the real adapter by tests/support/contracts/counters.py."""

from __future__ import annotations

from pulsar_operator.domain.dataplane.observed.pod_counters import parse
from pulsar_operator.ports import Clock, RefusedError, Scrape, UnavailableError


class FakeCounters:
    """Implements ports.CountersPort; what it gives is never older than the question."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pages: dict[str, str | int] = {}
        """By URL: a page, or the status that is answered instead. Nobody answers at any other."""
        self.asked: list[str] = []
        """URLs, in order."""

    async def read(self, url: str, names: frozenset[str]) -> Scrape:
        """See ports.CountersPort."""
        self.asked.append(url)
        page = self.pages.get(url)
        if page is None:
            raise UnavailableError(f"{url} did not answer: nobody is there")
        if isinstance(page, int):
            raise UnavailableError(f"{url} answered {page}", status=page)
        samples = parse(page.splitlines(), names)
        if not samples:
            raise RefusedError(f"{url} has none of the compared counters")
        return Scrape(self._clock.now(), samples)
