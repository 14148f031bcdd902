"""How busy a broker is, and from which load on it has too much."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from pulsar_operator.balance.model.observation import Usage, overload_load, usage_of


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ({}, None),
        ({"cpu": {"usage": 150.0, "limit": 200.0}}, Usage(0.75, "CPU")),
        (
            {"cpu": {"usage": 20.0, "limit": 200.0}, "bandwidthOut": {"usage": 9e6, "limit": 1e7}},
            Usage(0.9, "network out"),
        ),
        ({"cpu": {"usage": 20.0, "limit": 0.0}}, None),
        (
            {"cpu": {"usage": 20.0, "limit": -1}, "bandwidthIn": {"usage": "NaN", "limit": 5.0}},
            Usage(0.0, "network in"),
        ),
        ({"memory": {"usage": 9.0, "limit": 9.0}, "directMemory": {"usage": 9.0, "limit": 9.0}}, None),
        ({"cpu": "much"}, None),
    ],
)
def test_the_most_used_resource(report: dict[str, Any], found: Usage | None) -> None:
    assert usage_of(report) == found


def test_the_load_from_which_a_broker_has_too_much() -> None:
    usages = {"a": Usage(0.5, "CPU"), "b": Usage(1.0, "CPU"), "idle": Usage(0.9, "CPU"), "gone": Usage(0.9, "CPU")}
    loads = {"a": 100.0, "b": 100.0, "idle": 0.0}
    assert overload_load(loads, usages, 0.85) == pytest.approx(85.0)
    assert overload_load(loads, {}, 0.85) == inf
    assert overload_load({}, usages, 0.85) == inf
