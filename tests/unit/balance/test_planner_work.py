"""How much the planner looks at: large clusters must not cost the product of bundles and brokers."""

from __future__ import annotations

import pytest

from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.search import Search
from tests.support.balancing.planning import ENDLESS, after, cluster, loads_of


@pytest.mark.parametrize("mixed", [False, True])
def test_what_moves_off_one_broker_is_not_tried_on_all_others(monkeypatch: pytest.MonkeyPatch, mixed: bool) -> None:
    looks = 0
    real = Search._last

    def counted(search: Search, sorted_bundles: list[tuple[int, int]], end: int, least: float, other: int) -> object:
        nonlocal looks
        looks += 1
        return real(search, sorted_bundles, end, least, other)

    monkeypatch.setattr(Search, "_last", counted)
    brokers, bundles = 60, 600
    weights = [1.0 + index / bundles for index in range(bundles)]
    names = [f"b{number:02d}:8080" for number in range(brokers)]
    size = {name: 2.0 if mixed and number % 2 else 1.0 for number, name in enumerate(names)}
    model = cluster({name: weights if name == names[0] else [] for name in names}, capacity=size)
    proposal = plan(model, Options(budget=ENDLESS))
    loads = loads_of(after(model, proposal))
    mean = sum(loads.values()) / sum(size.values())
    assert max(loads[name] / size[name] for name in names) <= 1.1 * mean
    assert looks <= 10 * len(proposal.moves), (looks, len(proposal.moves))
