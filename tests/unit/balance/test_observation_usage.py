"""How busy a broker is, and from which load on it has too much."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from pulsar_operator.balance.model.observation import Usage, cpu_share, overload_load, usage_of


def metrics(**values: object) -> list[dict[str, Any]]:
    """As a broker answers: several dimensions, one of which has the figures."""
    return [
        {"metrics": {"brk_active_connections": 3}, "dimensions": {"broker": "a"}},
        {"metrics": {f"brk_lb_{name}_usage": value for name, value in values.items()}, "dimensions": {}},
    ]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([], None),
        (metrics(), None),
        (metrics(cpu=75.0), Usage(0.75, "CPU", 0.75)),
        (metrics(cpu=10.0, bandwidth_out=90.0, bandwidth_in=1), Usage(0.9, "network out", 0.1)),
        (metrics(bandwidth_in="NaN"), Usage(0.0, "network in")),
        (metrics(cpu=-3, bandwidth_in=5), Usage(0.05, "network in", 0.0)),
        (metrics(memory=90.0, directMemory=90.0), None),
        ({"cpu": {"usage": 9, "limit": 10}}, None),
        (["much", {"metrics": 3}, {}], None),
    ],
)
def test_the_most_used_resource(told: object, found: Usage | None) -> None:
    assert usage_of(told) == found


@pytest.mark.parametrize(
    ("told", "share"),
    [
        ([], None),
        (metrics(), None),
        (metrics(cpu=75.0), 0.75),
        ([*metrics(cpu=7), *metrics(cpu=9)], 0.09),
        (metrics(cpu=0), 0.0),
        (metrics(cpu=-3), None),
        (metrics(cpu=float("nan")), None),
        (metrics(cpu=inf), None),
        (metrics(cpu="NaN"), None),
        (metrics(cpu=None), None),
        ([*metrics(cpu=-3), *metrics(cpu=9)], 0.09),
        ({"cpu": 3}, None),
    ],
)
def test_a_figure_of_the_processor_that_is_none_is_unknown(told: object, share: float | None) -> None:
    assert cpu_share(told) == share


def test_the_load_from_which_a_broker_has_too_much() -> None:
    usages = {"a": Usage(0.5, "CPU"), "b": Usage(1.0, "CPU"), "idle": Usage(0.9, "CPU"), "gone": Usage(0.9, "CPU")}
    loads = {"a": 100.0, "b": 100.0, "idle": 0.0}
    assert overload_load(loads, usages, 0.85) == pytest.approx(85.0)
    assert overload_load(loads, {}, 0.85) == inf
    assert overload_load({}, usages, 0.85) == inf


def test_a_broker_that_works_hard_with_little_traffic_says_nothing_of_the_others() -> None:
    """What it uses is something else's, which no move relieves; and a broker's own base is no bundle's."""
    usages = {"a": Usage(0.5, "CPU"), "b": Usage(0.5, "CPU"), "c": Usage(0.7, "CPU")}
    assert overload_load({"a": 100.0, "b": 100.0, "c": 30.0}, usages, 0.85) == pytest.approx(170.0)
    assert overload_load({"a": 100.0, "b": 100.0, "c": 70.0}, usages, 0.85) == pytest.approx(85.0)
    assert overload_load({"a": 100.0, "b": 100.0, "c": 70.0}, usages, 0.85, {"c": 70.0}) == pytest.approx(170.0)
    assert overload_load({"a": 0.0, "b": 0.0}, usages, 0.85, {"c": 70.0}) == inf
