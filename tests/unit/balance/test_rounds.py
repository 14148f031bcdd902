"""Plans whose cuts somebody asked for, gone in rounds of a small budget: balance/planner/rounds.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Options
from pulsar_operator.balance.planner.outcome import balance_of
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.rounds import placed_anew, wanted_cuts
from tests.support.balancing.planning import after, clusters, verify

SMALL, MIXED, LARGE = "a:8080", "b:8080", "c:8080"
BROKERS = (Broker(SMALL, 0.5), Broker(MIXED, 1.0), Broker(LARGE, 1.5))


def bundle(lower: int, upper: int, *weights: float, owner: str = SMALL) -> Bundle:
    """With topics of such weights, evenly over its range."""
    step = (upper - lower) // (len(weights) + 1)
    cells = tuple(Cell(lower + step * (n + 1), weight) for n, weight in enumerate(weights))
    return Bundle(BundleId("t/n", lower, upper), sum(weights), owner, cells, len(weights))


HEAVY = ClusterModel(
    BROKERS,
    (
        bundle(0, 100, 86.0, 86.0, 79.0),
        bundle(100, 200, 107.0, 107.0, 62.0, 62.0),
        bundle(200, 300, 100.0, 114.0),
        bundle(300, 400, 97.0, 100.0),
    ),
)
"""All of it at the smallest broker, in four bundles each of which is far more than the budget."""
ASKED = {"t/n": frozenset({0, 70, 100, 150, 200, 300, 400})}
"""Two new boundaries, at the cuts between 172 and 79, and between 214 and 124."""


def rounds(model: ClusterModel, options: Options) -> tuple[list[int], ClusterModel]:
    """Steps of each proposal until one is empty, and where they lead."""
    steps: list[int] = []
    for _ in range(30):
        proposal = plan(model, options)
        if proposal.empty:
            return steps, model
        verify(model, proposal, options)
        reached = after(model, proposal)
        assert balance_of(reached).busiest == pytest.approx(proposal.after.busiest)
        steps.append(len(proposal.splits) + len(proposal.moves))
        model = reached
    raise AssertionError(f"no end: {steps}")


def test_what_was_asked_for_is_reached_in_rounds() -> None:
    """Whole bundles alone, as they fit the budget, end at 1.18 times the mean, where no step helps any more."""
    steps, end = rounds(HEAVY, Options(cuts=ASKED, tolerance=0.05))
    assert balance_of(end).ratio < 1.05
    assert {each.id.lower for each in end.bundles} == {0, 70, 100, 150, 200, 300}
    assert len(steps) <= 6, steps


def test_no_cut_is_made_that_nothing_needs() -> None:
    """Where whole bundles are enough, what was asked for beyond is left."""
    even = replace(HEAVY, brokers=tuple(replace(each, capacity=1.0) for each in BROKERS))
    bundles = tuple(bundle(n * 100, n * 100 + 100, 50.0, 50.0) for n in range(6))
    _, end = rounds(replace(even, bundles=bundles), Options(cuts={"t/n": frozenset(range(0, 600, 50))}))
    assert len(end.bundles) == 6 and balance_of(end).ratio == pytest.approx(1.0)


def test_cuts_are_those_asked_for_where_they_may_be_made() -> None:
    found = wanted_cuts(HEAVY, Options(cuts=ASKED))
    assert [(each.bundle.lower, each.boundary) for each in found] == [(100, 150), (0, 70)], "the heaviest first"
    assert wanted_cuts(HEAVY, Options(cuts=ASKED, budget=Budget(max_splits=1))) == found[:1]
    assert wanted_cuts(HEAVY, Options(cuts=ASKED, budget=Budget(max_bundles=5))) == found[:1]
    assert wanted_cuts(HEAVY, Options(cuts=ASKED, namespaces=frozenset({"t/m"}))) == ()
    assert wanted_cuts(HEAVY, Options(cuts=ASKED, cooling=frozenset({found[0].bundle}))) == found[1:]
    assert wanted_cuts(replace(HEAVY, pinned=frozenset({"t/n"})), Options(cuts=ASKED)) == ()
    several = wanted_cuts(HEAVY, Options(cuts={"t/n": frozenset({120, 150, 170})}))
    assert [(each.bundle.lower, each.boundary) for each in several] == [(100, 120), (120, 150), (150, 170)]


def test_a_placement_from_nothing_is_none_where_not_every_broker_may_serve_everything() -> None:
    assert placed_anew(HEAVY, Options())
    for model in (
        replace(HEAVY, allowed={"t/n": frozenset({SMALL})}),
        replace(HEAVY, anti_affinity={"t/n": "g"}),
        replace(HEAVY, brokers=(*BROKERS[:2], replace(BROKERS[2], draining=True))),
    ):
        assert placed_anew(model, Options()) == ()


@given(clusters(), st.data())
def test_rounds_keep_every_goal_and_end(model: ClusterModel, data: st.DataObject) -> None:
    positions = sorted({cell.position for each in model.bundles for cell in each.cells} | {1})
    points = data.draw(st.frozensets(st.sampled_from(positions)))
    cuts = {name: points for name in {each.id.namespace for each in model.bundles}}
    rounds(model, Options(cuts=cuts, tolerance=0.02))
