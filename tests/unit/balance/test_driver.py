"""What the standing balancer does with what it learned of costs and brokers: balance/execution/driver.py."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import pytest

from pulsar_operator.balance.execution.driver import Decision, Memory, decide, remembered
from pulsar_operator.balance.execution.learned import Base, Learned
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.model.observation import Usage
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import utilizations
from tests.support.balancing.planning import cluster

A, B, C = "a:8080", "b:8080", "c:8080"
OPTIONS = SteadyOptions(overload=inf)
BUDGET = Budget(max_moves=100, max_moved_percent=100.0)


def looked(model: ClusterModel, cpu: Mapping[str, float], mode: Mode = Mode.FULL, minutes: int = 120) -> list[Decision]:
    """Looks at what stays as it is, whatever is decided."""
    memory, found = Memory(), []
    usages = {broker: Usage(share, "CPU", share) for broker, share in cpu.items()}
    for minute in range(minutes):
        decision, memory = decide(memory, minute * 60.0, model, Options(mode, BUDGET), OPTIONS, usages=usages)
        found.append(decision)
    return found


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.SPLIT])
@pytest.mark.parametrize(("others", "cut"), [(12.0, False), (4.0, True)])
def test_nothing_is_cut_because_of_what_was_learned_alone(mode: Mode, others: float, cut: bool) -> None:
    """It is forgotten where it was wrong; a cut is for ever. The traffic has to call for it as well."""
    found = looked(cluster({A: [[2.0] * 6], B: [others], C: [others]}), {A: 0.8, B: 0.4, C: 0.4}, mode)
    assert any(decision.act and decision.planned and decision.planned.splits for decision in found) is cut
    if not cut:
        assert max(decision.balance.ratio for decision in found) > 1.3, "it is seen"


def test_what_was_learned_is_a_reason_to_move() -> None:
    found = looked(cluster({A: [5.0, 5.0], B: [5.0, 5.0], C: [5.0, 5.0]}), {A: 0.9, B: 0.3, C: 0.3})
    moves = [decision.planned.moves for decision in found if decision.act and decision.planned]
    assert moves and (moves[0][0].source, moves[0][0].destination) == (A, B)


def test_a_brokers_base_is_load_of_its_own() -> None:
    model = cluster({A: [10.0], B: [10.0]})
    memory = Memory(learned=Learned({}, {A: Base(0.5, 0.01, 0.01)}, 0.05))
    believed = remembered(memory, model)
    assert utilizations(believed.brokers, believed.bundles) == pytest.approx({A: 20.0, B: 10.0})


def test_an_idle_broker_that_nothing_fits_is_left_alone() -> None:
    """Whatever noise makes of the others."""
    model = cluster({A: [10.0] * 3, B: [11.0] * 3, C: []})
    filled = [decision for decision in looked(model, {}, minutes=5) if decision.act]
    assert filled and filled[0].planned and {move.destination for move in filled[0].planned.moves} == {C}
    heavy = cluster({A: [30.0], B: [33.0], C: []})
    assert not [decision for decision in looked(heavy, {}) if decision.act]
