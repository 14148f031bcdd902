"""When two brokers exchange bundles: what that must gain, for both bundles' clients reconnect."""

from __future__ import annotations

import pytest

from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from tests.support.balancing.planning import ENDLESS, cluster

A, B = "a:8080", "b:8080"


def swapped(heavy: float, budget: Budget = ENDLESS) -> list[tuple[str | None, str, float]]:
    """What a plan does with two brokers, each with two bundles, of 40 together."""
    model = cluster({A: [heavy, heavy], B: [20 - heavy, 20 - heavy]})
    proposal = plan(model, Options(mode=Mode.MOVE, budget=budget, tolerance=0.0))
    return sorted((move.source, move.destination, move.weight) for move in proposal.moves)


@pytest.mark.parametrize("heavy", [10.3, 10.45, 10.49])
def test_a_swap_that_gains_less_than_a_twentieth_of_what_it_moves_is_left_alone(heavy: float) -> None:
    """20 are moved; all of these gain more than a hundredth of the target, which is asked of every dear step."""
    assert swapped(heavy) == []


@pytest.mark.parametrize("heavy", [10.51, 10.6, 11.0])
def test_a_swap_that_gains_more_is_made(heavy: float) -> None:
    assert swapped(heavy) == [(A, B, heavy), (B, A, 20 - heavy)]


def test_both_bundles_of_a_swap_are_paid_for() -> None:
    """49 of 100 may move: not the 20 of 40 that a swap moves, though each of its bundles alone would be within that."""
    assert swapped(11.0, Budget(max_moves=100, max_moved_percent=49.0)) == []
    assert swapped(11.0, Budget(max_moves=100, max_moved_percent=51.0)) != []
    assert swapped(11.0, Budget(max_moves=1, max_moved_percent=100.0)) == []
    assert swapped(11.0, Budget(max_moves=2, max_moved_percent=100.0)) != []
