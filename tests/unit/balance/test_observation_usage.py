"""How busy a broker is."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from pulsar_operator.balance.model.observation import Usage, cpu_share, usage_of


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
