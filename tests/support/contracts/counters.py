"""What every implementation of ports.CountersPort promises."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

from pulsar_operator.domain.dataplane.observed.pod_counters import Sample
from pulsar_operator.ports import CountersPort, RefusedError, UnavailableError

NAMES = frozenset({"lines_total", "requests_total"})
PAGE = """# TYPE lines_total counter
lines_total{cluster="east", level="error",} 3.0
lines_total{cluster="east",level="a \\"b\\", {c}"} 1.795573066266E9
lines_total_created{level="error"} 1.0
requests_total 7
other_total 9
"""


class CountersSite(ABC):
    """An implementation, and pages for it to read."""

    port: CountersPort

    @abstractmethod
    def serve(self, page: str | int) -> str:
        """The URL at which a page is from now on, or a status is answered."""

    @abstractmethod
    def nowhere(self) -> str:
        """A URL at which nobody answers."""


class CountersContract:
    """Tests against the fixture ``site``."""

    async def test_samples_of_these_names_and_no_others(self, site: CountersSite) -> None:
        found = (await site.port.read(site.serve(PAGE), NAMES)).samples
        assert list(found) == [
            Sample("lines_total", {"cluster": "east", "level": "error"}, 3.0),
            Sample("lines_total", {"cluster": "east", "level": 'a \\"b\\", {c}'}, 1795573066.266),
            Sample("requests_total", {}, 7.0),
        ]

    async def test_a_page_without_an_end_of_line(self, site: CountersSite) -> None:
        found = (await site.port.read(site.serve("requests_total 7"), NAMES)).samples
        assert [each.value for each in found] == [7.0]

    async def test_nobody_answers(self, site: CountersSite) -> None:
        with pytest.raises(UnavailableError):
            await site.port.read(site.nowhere(), NAMES)

    @pytest.mark.parametrize("status", [401, 404, 503])
    async def test_no_page(self, site: CountersSite, status: int) -> None:
        with pytest.raises(UnavailableError) as caught:
            await site.port.read(site.serve(status), NAMES)
        assert caught.value.status == status

    @pytest.mark.parametrize("page", ["", "<html>requests_total</html>\n", "other_total 9\n", "requests_total NaN\n"])
    async def test_a_page_with_none_of_them(self, site: CountersSite, page: str) -> None:
        with pytest.raises(RefusedError):
            await site.port.read(site.serve(page), NAMES)
