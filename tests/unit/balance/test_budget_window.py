"""The budget of moved traffic counts over time: what moved a short time ago is no more there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.load_balancing import StandingRebalance
from pulsar_operator.balance.execution import driver
from pulsar_operator.balance.execution.driver import Memory
from pulsar_operator.balance.execution.steady import STANDING_BUDGET, SteadyOptions
from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.options import Budget, Options
from pulsar_operator.balance.planner.plan import plan
from tests.support.balancing.planning import after, cluster, clusters, loads_of

A, B, C = "a:8080", "b:8080", "c:8080"
OPTIONS = SteadyOptions(rest=0.0)
MINUTE = 60.0


def driven(model: ClusterModel, budget: Budget, hours: float) -> tuple[ClusterModel, list[tuple[float, float]], int]:
    """Looks once a minute; the model in the end, when how many percent moved, and how many cuts were made."""
    memory, now, moved, cuts = Memory(), 0.0, [], 0
    while now < hours * 3600:
        decision, memory = driver.decide(memory, now, model, Options(budget=budget), OPTIONS)
        if decision.act and decision.planned is not None:
            total = sum(bundle.weight for bundle in model.bundles)
            moved += [(now, 100 * move.weight / total) for move in decision.planned.moves]
            cuts += len(decision.planned.splits)
            model = after(model, decision.planned)
            memory = driver.acted(memory, now, [move.bundle for move in decision.planned.moves], OPTIONS)
        now += MINUTE
    return model, moved, cuts


def most_within_an_hour(moved: list[tuple[float, float]]) -> float:
    return max((sum(share for when, share in moved if at <= when < at + 3600) for at, _ in moved), default=0.0)


def test_no_more_than_the_budget_moves_within_an_hour() -> None:
    model = cluster({A: [1.0] * 90, B: [1.0] * 5, C: [1.0] * 5})
    final, moved, _ = driven(model, Budget(max_moved_percent=9.0), hours=8)
    assert 8.0 < most_within_an_hour(moved) <= 9.0 + 1e-9
    assert sum(share for when, share in moved if when < 3600) == pytest.approx(9.0)
    assert max(loads_of(final).values()) < 40


def test_a_bundle_heavier_than_the_budget_goes_alone_once_an_hour_and_is_not_cut() -> None:
    final, moved, cuts = driven(cluster({A: [[1.0, 1.0, 1.0]] * 6, B: [], C: []}), Budget(max_moved_percent=9.0), 8)
    assert (cuts, len(moved)) == (0, 4)
    assert loads_of(final) == {A: 6.0, B: 6.0, C: 6.0}
    times = [when for when, _ in moved]
    assert all(later - before >= 3600 for before, later in pairwise(times))


def test_what_is_left_of_a_budget_makes_no_smaller_pieces() -> None:
    model = cluster({A: [[2.0] * 15], B: [10.0], C: [10.0]})
    whole = plan(model, Options(budget=Budget(max_moved_percent=9.0)))
    rest = plan(model, Options(budget=Budget(max_moved_percent=9.0, spent_percent=4.0)))
    assert whole.splits and rest.empty
    assert rest.withheld == "the budget allows no step that helps"


def test_only_what_was_done_is_charged_and_once() -> None:
    model = cluster({A: [1.0] * 8, B: [1.0] * 2})
    proposal = plan(model, Options(budget=Budget(max_moved_percent=100.0)))
    first, *others = [move.bundle for move in proposal.moves]
    assert others
    memory = driver.intending(Memory(), model, proposal)
    for _ in range(2):
        memory = driver.moved(memory, 5.0, first, OPTIONS)
    assert driver.spent_percent(memory, 5.0, OPTIONS) == pytest.approx(10.0)
    assert (dict(memory.history.moved), memory.history.acted) == ({first: 5.0}, None), "it rests, the plan goes on"
    memory = driver.acted(memory, 65.0, [first, *others], OPTIONS)
    assert driver.spent_percent(memory, 65.0, OPTIONS) == pytest.approx(10.0 * len(proposal.moves))
    assert driver.spent_percent(memory, 3605.0, OPTIONS) == pytest.approx(10.0 * len(others))
    assert driver.spent_percent(memory, 3665.0, OPTIONS) == 0.0
    assert driver.acted(memory, 70.0, [first], OPTIONS).spent == memory.spent, "another one's plan moved it"


@settings(max_examples=40, deadline=None)
@given(clusters(), st.sampled_from([0.0, 3.0, 9.0, 20.0]), st.sampled_from([9.0, 40.0]))
def test_a_plan_keeps_to_what_is_left(model: ClusterModel, spent: float, percent: float) -> None:
    # As in practice: nobody has to leave its broker, which goes before the budget.
    model = replace(model, brokers=tuple(replace(broker, draining=False) for broker in model.brokers), allowed={})
    proposal = plan(model, Options(budget=Budget(max_moved_percent=percent, spent_percent=spent)))
    known = {broker.id for broker in model.brokers}
    total = sum(bundle.weight for bundle in model.bundles if bundle.owner in known)
    if spent or len(proposal.moves) != 1:
        assert proposal.moved_weight <= max(percent - spent, 0.0) / 100 * total * (1 + 1e-6)


def test_the_default_budget_is_the_one_that_is_simulated() -> None:
    shipped = StandingRebalance().budget
    assert shipped.max_traffic_moved_percent == STANDING_BUDGET.max_moved_percent
    assert (shipped.max_moves, shipped.max_splits) == (STANDING_BUDGET.max_moves, STANDING_BUDGET.max_splits)
    assert StandingRebalance.model_validate({"budget": {"maxMoves": 5}}).budget.max_traffic_moved_percent == 60
