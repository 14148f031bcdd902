"""What the standing balancer does with what it learned of costs and brokers: balance/execution/driver.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import pytest

from pulsar_operator.balance.execution.driver import Decision, Memory, _overload, decide, remembered
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


def acted_on(
    figures: Callable[[int], Mapping[str, float]], loads: Mapping[str, list[float]], minutes: int = 60
) -> list[int]:
    """The minutes in which it acts, on a placement that stays what it is."""
    memory, found = Memory(), []
    model = cluster(loads)
    for minute in range(minutes):
        usages = {broker: Usage(share, "CPU", share) for broker, share in figures(minute).items()}
        decision, memory = decide(memory, minute * 60.0, model, Options(Mode.FULL, BUDGET), OPTIONS, usages=usages)
        if decision.act:
            found.append(minute)
    return found


SLIGHTLY_UNEVEN = {A: [1.0] * 12, B: [1.0] * 10, C: [1.0] * 9}
"""A has 1.16 times the mean, which only a broker at its limit is a reason to change."""


def breath(minute: int) -> float:
    """What makes one look another than the last."""
    return minute * 1e-6


@pytest.mark.parametrize("every", [1000, 50, 20, 7])
def test_a_busy_minute_of_one_broker_overloads_no_other(every: int) -> None:
    """By the first rule the utilization of A was too much as soon as C, with less, had used 85 % of its CPU once."""

    def figures(minute: int) -> Mapping[str, float]:
        spike = 0.4 * (minute % every == 5)
        return {A: 0.6 + breath(minute), B: 0.5 + breath(minute), C: 0.45 + spike + breath(minute)}

    assert acted_on(figures, SLIGHTLY_UNEVEN) == []


def test_a_broker_at_its_limit_is_relieved_after_three_observations() -> None:
    def figures(minute: int) -> Mapping[str, float]:
        return {A: 0.96 + breath(minute), B: 0.8 + breath(minute), C: 0.72 + breath(minute)}

    assert acted_on(figures, SLIGHTLY_UNEVEN)[0] == 2


@pytest.mark.parametrize(
    "loads",
    [
        {A: [3.0] * 4, B: [3.0] * 3 + [1.0], C: [1.0]},  # C carries too little for moves to help
        {A: [3.0] * 4, B: [3.0] * 3 + [1.0], C: [2.0, 2.0, 3.0, 3.0]},  # C has no more than its share
    ],
)
def test_a_broker_at_its_limit_that_moves_do_not_relieve_is_no_reason_to_move(loads: Mapping[str, list[float]]) -> None:
    """What it uses is something else's, and says nothing of the others."""
    reached = ["c:8080"]
    model = cluster(loads)
    used = utilizations(model.brokers, model.bundles)
    mean = sum(used.values()) / 3
    assert _overload(reached, model, used, mean * 1.1) == inf
    assert _overload([*reached, A], model, used, mean * 1.1) == pytest.approx(used[A])
    assert _overload([*reached, A], model, used, mean * 1.1) < used[A]


@pytest.mark.parametrize("share", [0.9, 45.0, 0.0045])
def test_nothing_is_learned_from_a_figure_that_is_distrusted(share: float) -> None:
    """A's figure stands still while its traffic swells, or is no share at all."""
    memory = Memory()
    for minute in range(120):
        loads = dict.fromkeys((A, B, C), 10.0 + minute / 10)
        usages = {each: Usage(0.45 + breath(minute), "CPU", 0.45 + breath(minute)) for each in (B, C)}
        usages[A] = Usage(share, "CPU", share)
        model = cluster({each: [load] for each, load in loads.items()})
        decision, memory = decide(memory, minute * 60.0, model, Options(Mode.MOVE, BUDGET), OPTIONS, usages=usages)
        if minute == 8:
            then = memory.learned
    assert set(decision.distrusted) == {A}
    assert decision.used is not None and set(decision.used) == {B, C}
    assert memory.learned.bases.get(A, Base()).share <= then.bases.get(A, Base()).share
    known, bundle = memory.learned.factors, model.bundles[0].id
    assert abs(known.get(bundle, 1.0) - 1) <= abs(then.factors.get(bundle, 1.0) - 1)


def test_what_was_learned_from_a_drifting_figure_is_forgotten() -> None:
    memory = Memory()
    model = cluster({A: [10.0], B: [10.0], C: [10.0]})
    for minute in range(400):
        usages = {each: Usage(0.45 + breath(minute), "CPU", 0.45 + breath(minute)) for each in (B, C)}
        drifted = 0.45 + 0.02 * minute / 60
        usages[A] = Usage(drifted, "CPU", drifted)
        _, memory = decide(memory, minute * 60.0, model, Options(Mode.MOVE, BUDGET), OPTIONS, usages=usages)
        if minute == 170:
            assert memory.learned.factors[model.bundles[0].id] > 1.02 or memory.learned.bases[A].share > 0.01
    assert A not in memory.learned.bases and model.bundles[0].id not in memory.learned.factors
    assert B in memory.learned.bases


def test_an_idle_broker_that_nothing_fits_is_left_alone() -> None:
    """Whatever noise makes of the others."""
    model = cluster({A: [10.0] * 3, B: [11.0] * 3, C: []})
    filled = [decision for decision in looked(model, {}, minutes=5) if decision.act]
    assert filled and filled[0].planned and {move.destination for move in filled[0].planned.moves} == {C}
    heavy = cluster({A: [30.0], B: [33.0], C: []})
    assert not [decision for decision in looked(heavy, {}) if decision.act]
