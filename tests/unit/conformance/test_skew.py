"""How the end-to-end tests read and show the balance of brokers; no Pulsar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.support.kubectl import Kubectl
from e2e.support.skew import NAMESPACE, Attempt, Brokers, imbalance, load_of, table


def topic(rate: float, throughput: float) -> dict[str, float]:
    """A topic in a broker's statistics: as much out as in."""
    return {"msgRateIn": rate, "msgRateOut": rate, "msgThroughputIn": throughput, "msgThroughputOut": throughput}


def stats(**topics: dict[str, float]) -> dict[str, Any]:
    """One broker's statistics."""
    return {
        NAMESPACE: {"0x0_0x1": {"persistent": topics}},
        "shop/other": {"0x0_0x1": {"persistent": {"x": topic(9, 9)}}},
    }


class Told(Kubectl):
    """kubectl that answers for each pod."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__("kubectl", None)
        object.__setattr__(self, "answers", answers)

    def run(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        """The pod's answer."""
        pod = args[-1].split("/pods/")[1].split(":", 1)[0]
        found: dict[str, Any] = self.answers  # type: ignore[attr-defined]
        return json.dumps(found[pod])


@pytest.mark.parametrize(
    ("loads", "wanted"),
    [({"a": 3.0, "b": 0.0, "c": 0.0}, 3.0), ({"a": 1.0, "b": 1.0}, 1.0), ({"a": 2.0, "b": 3.0, "c": 4.0}, 4 / 3)],
)
def test_imbalance(loads: dict[str, float], wanted: float) -> None:
    assert imbalance(loads) == pytest.approx(wanted)


def test_no_load_is_no_balance() -> None:
    with pytest.raises(ValueError, match="no broker has any load"):
        imbalance({"a": 0.0})


def test_load_counts_bytes_and_messages_of_the_namespace_alone() -> None:
    assert load_of(stats(one=topic(10, 5000), two=topic(1, 100)), NAMESPACE) == (2 * 5100 + 2 * 1024 * 11, 11)
    assert load_of({}, NAMESPACE) == (0, 0)


def test_rates_that_miss_a_part_or_count_it_twice_are_no_measurement() -> None:
    answers = {"p-0": stats(one=topic(60, 0)), "p-1": stats(two=topic(40, 0))}
    brokers = Brokers(Told(answers), "k", "east", "http://nowhere", ("p-0.x:8080", "p-1.x:8080"))
    assert imbalance(brokers.loads(100)) == pytest.approx(1.2)
    for published in (70, 130):
        with pytest.raises(AssertionError, match=f"100 messages/s in the statistics, not {published}"):
            brokers.loads(published)


def test_owners_are_those_of_the_namespace() -> None:
    answers: dict[str, Any] = {
        "p-0": {f"{NAMESPACE}/0x0_0x1": {}, "shop/other/0x0_0x1": {}},
        "p-1": {f"{NAMESPACE}/0x1_0x2": {}},
    }
    brokers = Brokers(Told(answers), "k", "east", "http://nowhere", ("p-0.x:8080", "p-1.x:8080"))
    assert brokers.owners() == {f"{NAMESPACE}/0x0_0x1": "p-0.x:8080", f"{NAMESPACE}/0x1_0x2": "p-1.x:8080"}


def test_the_table_has_a_line_for_each_attempt() -> None:
    one = Attempt("operator", 38.8, 3, 1.09, 4, 1, 1.258, 0, promised="1.08")
    two = Attempt("Pulsar", 159, 3, 3, 0, 0, 0.46, 2)
    assert [line.split() for line in table(1.0, [one, two]).splitlines()[1:]] == [
        ["operator", "3.00", "1.08", "1.09", "1.00", "39", "s", "4", "1", "1.26", "s", "0"],
        ["Pulsar", "3.00", "-", "3.00", "1.00", "159", "s", "0", "0", "0.46", "s", "2"],
    ]
