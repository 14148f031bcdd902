"""The steps after the target is reached: made where they are worth it, taken back without a trace where not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.bundle_placement import Placement
from pulsar_operator.balance.planner.finish import MIN_CUT_GAIN, Finish
from pulsar_operator.balance.planner.goals import Limits
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.search import Search
from pulsar_operator.balance.planner.splitting import Splitter
from tests.support.balancing.planning import ENDLESS, cluster, clusters

A, B, C, D = (f"{letter}:8080" for letter in "abcd")
REST = {B: [8.0], C: [8.0], D: [8.0]}


@pytest.mark.parametrize(("beside", "gone"), [(1.1, True), (0.3, False)])
def test_a_light_bundle_leaves_the_broker_of_the_hottest_topic_if_that_pays(beside: float, gone: bool) -> None:
    """24 is the bound, 25.2 the target: what is beside the topic could stay."""
    proposal = plan(cluster({A: [24.0, beside, 4.0], **REST}), Options(mode=Mode.MOVE, budget=ENDLESS))
    assert sorted(move.weight for move in proposal.moves) == ([beside, 4.0] if gone else [4.0])
    assert proposal.after.busiest == pytest.approx(24.0 if gone else 24.0 + beside)


@pytest.mark.parametrize(("beside", "cuts"), [(1.1, 1), (0.8, 0)])
def test_the_hottest_topic_is_cut_free_if_that_pays(beside: float, cuts: int) -> None:
    proposal = plan(cluster({A: [[24.0, beside], 4.0], **REST}), Options(budget=ENDLESS))
    assert len(proposal.splits) == cuts
    assert proposal.after.busiest == pytest.approx(24.0 if cuts else 24.0 + beside)


def test_no_cut_pays_for_many_brokers_that_are_a_little_above() -> None:
    names = [f"b{number}:8080" for number in range(8)]
    loads = {name: [[1.0] * 10] for name in names[1:-1]}
    model = cluster({names[0]: [[1.0] * 10, 3.0], **loads, names[-1]: [3.0]})
    proposal = plan(model, Options(budget=ENDLESS, tolerance=0.3))
    assert (len(proposal.splits), len(proposal.moves)) == (0, 1)


@settings(max_examples=30, deadline=None)
@given(clusters(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_is_not_worth_it_leaves_no_trace(model: ClusterModel, share: float, dear: float) -> None:
    placement = Placement(model)
    limits = Limits(ENDLESS, placement.total, Mode.FULL)
    search = Search(placement, model, [limits], limits, placement.busiest, ENDLESS.max_moves)
    mean = placement.total / sum(placement.capacity)
    if not mean:
        return
    finish = Finish(search, Splitter(search, Budget()), mean)

    def state() -> object:
        shelves = [
            placement.sorted_bundles(b, k) for b in range(len(placement.brokers)) for k in range(placement.kinds)
        ]
        kept = [[list(entry) for entry in entries] for entries in shelves]
        known = [(index, placement.at[index], placement.home[index]) for index in placement.living()]
        found = [each for each in known if each[1] >= 0]
        numbers = (placement.moves, placement.moved, dict(placement.cause), dict(placement.pieces))
        return kept, found, numbers, list(placement.load), list(placement.count), placement.ascending()

    before, busiest = state(), placement.busiest
    changed = finish.run([mean + (busiest - mean) * part for part in (share, share * dear)])
    if not changed:
        assert state() == before
    else:
        worth = busiest - placement.busiest - MIN_CUT_GAIN * mean * len(placement.pieces)
        assert worth > -1e-6 * mean
