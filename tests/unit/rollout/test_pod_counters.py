"""Which counters are errors: what Pulsar 4.0.8 said in counters/, recorded on one server of each sort."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.observed.pod_counters import SORTS, Tally, counts, names_of, parse

PAGES = Path(__file__).parent / "counters"


@pytest.mark.parametrize(
    ("component", "page", "wanted"),
    [
        (
            Component.BROKER,
            "broker-well",
            {"log": Tally(286, 0), "web": Tally(2, 0), "lookup": Tally(3, 0)},
        ),
        (
            Component.BROKER,
            "broker-bookie-read-only",
            {"log": Tally(11439, 1433), "web": Tally(5, 0), "lookup": Tally(811, 0)},
        ),
        (
            Component.BROKER,
            "broker-zookeeper-gone",
            {"log": Tally(12253, 1490), "web": Tally(25, 6), "lookup": Tally(849, 16)},
        ),
        (Component.BOOKIE, "bookie-read-only", {"add": Tally(314, 1), "read": Tally(444, 0)}),
        (
            Component.PROXY,
            "proxy-full",
            {"log": Tally(152, 0), "web": Tally(2, 1), "connection": Tally(31, 5)},
        ),
        (Component.ZOOKEEPER, "zookeeper-full", {"log": Tally(175, 0), "connection": Tally(41, 24)}),
    ],
)
def test_what_a_component_said(component: Component, page: str, wanted: dict[str, Tally]) -> None:
    lines = (PAGES / f"{page}.txt").read_text(encoding="utf-8").splitlines()
    assert counts(component, parse(lines, names_of(component))) == wanted


def test_a_sort_of_which_a_page_says_nothing_is_not_known() -> None:
    found = parse(['jetty_responses_total{code="2xx"} 4'], names_of(Component.BROKER))
    assert counts(Component.BROKER, found) == {"web": Tally(4, 0)}


def test_names_of_sorts_differ() -> None:
    for component, sorts in SORTS.items():
        assert len({sort.name for sort in sorts}) == len(sorts), component


@given(st.lists(st.text() | st.sampled_from(sorted(names_of(Component.BROKER))), max_size=5), st.text())
def test_whatever_a_page_is_it_is_read(parts: list[str], joint: str) -> None:
    names = names_of(Component.BROKER)
    for tally in counts(Component.BROKER, parse(joint.join(parts).splitlines(), names)).values():
        assert 0 <= tally.errors <= tally.operations
