"""What a plan says besides its steps: hot topics, budgets that were not to blame, crumbs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_operator.balance.model.cluster import Broker
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from tests.support.balancing.planning import ENDLESS, NAMESPACE, cluster

A, B, C = "a:8080", "b:8080", "c:8080"


def advice(loads: dict[str, list[float]], options: Options | None = None, **more: object) -> list[str]:
    model = replace(cluster(loads), **more)  # type: ignore[arg-type]
    return [each.reason for each in plan(model, options or Options(budget=ENDLESS)).advice]


@pytest.mark.parametrize(
    ("brokers", "told"), [([A], []), ([A, B], ["MorePartitions"]), ([A, B, C], ["MorePartitions"])]
)
def test_a_topic_hotter_than_a_broker_is_reported_where_there_is_another_broker(
    brokers: list[str], told: list[str]
) -> None:
    loads = {broker: [1.0] for broker in brokers} | {A: [90.0, 1.0]}
    assert [each for each in advice(loads) if each == "MorePartitions"] == told


def test_a_draining_broker_is_no_other_broker() -> None:
    brokers = (Broker(A), Broker(B, draining=True))
    assert "MorePartitions" not in advice({A: [90.0, 1.0], B: [1.0]}, brokers=brokers)


def test_a_bundle_that_may_go_nowhere_is_not_held_by_the_budget() -> None:
    options = Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({A}), budget=ENDLESS)
    brokers = (Broker(A, draining=True), Broker(B))
    kept = advice({A: [5.0, 6.0], B: [1.0]}, options, brokers=brokers, allowed={NAMESPACE: frozenset({A})})
    assert kept and "BudgetReached" not in kept
    # One of the two may go: the other one is told, and not as a matter of the budget.
    model = cluster({A: [5.0], B: [1.0]})
    stuck = replace(cluster({A: [6.0]}, namespace="shop/stuck").bundles[0])
    both = replace(model, bundles=(*model.bundles, stuck), brokers=brokers, allowed={"shop/stuck": frozenset({A})})
    found = plan(both, options)
    assert len(found.moves) == 1 and "BudgetReached" not in [each.reason for each in found.advice]
    short = plan(both, replace(options, budget=Budget(max_moves=0)))
    assert not short.moves


@pytest.mark.parametrize(("moves", "made"), [(1, 0), (2, 1), (100, 1)])
def test_a_crumb_is_moved_only_where_the_budget_has_room_for_many(moves: int, made: int) -> None:
    """0.35 of the 5 that are too much: less than a tenth of what the one move there is should do."""
    model = cluster({A: [[72.0, 73.35], 0.35], B: [[67.7, 68.0]]})
    budget = Budget(max_moves=moves, max_moved_percent=100.0)
    assert len(plan(model, Options(mode=Mode.MOVE, tolerance=0.0, budget=budget)).moves) == made
