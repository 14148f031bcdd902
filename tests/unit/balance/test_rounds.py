"""Plans whose cuts somebody asked for, gone in rounds of a small budget: balance/planner/rounds.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.joining import affordable
from pulsar_operator.balance.planner.options import Budget, Options
from pulsar_operator.balance.planner.outcome import balance_of, outcome, utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Move, Proposal, Split
from pulsar_operator.balance.planner.rounds import first_round, placed_anew, requested_cuts
from tests.support.balancing.planning import after, clusters, verify

SMALL, MIXED, LARGE = "a:8080", "b:8080", "c:8080"
BROKERS = (Broker(SMALL, 0.5), Broker(MIXED, 1.0), Broker(LARGE, 1.5))


def bundle(lower: int, upper: int, *weights: float, owner: str | None = SMALL) -> Bundle:
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
    found = requested_cuts(HEAVY, Options(cuts=ASKED))
    assert [(each.bundle.lower, each.boundary) for each in found] == [(100, 150), (0, 70)], "the heaviest first"
    assert requested_cuts(HEAVY, Options(cuts=ASKED, budget=Budget(max_splits=1))) == found[:1]
    assert requested_cuts(HEAVY, Options(cuts=ASKED, budget=Budget(max_bundles=5))) == found[:1]
    assert requested_cuts(HEAVY, Options(cuts=ASKED, namespaces=frozenset({"t/m"}))) == ()
    assert requested_cuts(HEAVY, Options(cuts=ASKED, cooling=frozenset({found[0].bundle}))) == found[1:]
    assert requested_cuts(replace(HEAVY, pinned=frozenset({"t/n"})), Options(cuts=ASKED)) == ()
    several = requested_cuts(HEAVY, Options(cuts={"t/n": frozenset({120, 150, 170})}))
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


def picked_slowly(model: ClusterModel, whole: Proposal, options: Options) -> list[BundleId]:
    """The same choice as ``first_round``, each candidate judged by the whole placement it leads to."""

    def part(moves: list[Move]) -> Proposal:
        chosen = {move.bundle for move in moves}
        needed = [s for s in whole.splits if any(b != s.bundle and inside(b, s.bundle) for b in chosen)]
        kept = tuple(move for move in whole.moves if move.bundle in chosen)
        return replace(whole, splits=tuple(needed), moves=kept, moved_weight=sum(move.weight for move in kept))

    def busier(placed: ClusterModel, move: Move) -> float:
        used = utilizations(placed.brokers, placed.bundles)
        return max(used.get(broker or "", 0.0) for broker in (move.source, move.destination))

    def parted(made: Proposal, placed: ClusterModel) -> bool:
        return all(len({b.owner for b in placed.bundles if inside(b.id, s.bundle)}) > 1 for s in made.splits)

    cut = outcome(model, whole.splits, ())
    picked: list[Move] = []
    while True:
        now = outcome(cut, (), picked)
        found = []
        for move in whole.moves:
            if move in picked:
                continue
            made, placed = part([*picked, move]), outcome(cut, (), [*picked, move])
            falls = balance_of(placed).busiest <= balance_of(now).busiest and busier(placed, move) < busier(now, move)
            if falls and parted(made, placed) and affordable(made, options, model):
                found.append((balance_of(placed).busiest, -move.weight, move))
        if not found:
            return [move.bundle for move in picked]
        picked.append(min(found, key=lambda each: each[:2])[2])


def inside(piece: BundleId, whole: BundleId) -> bool:
    return piece.namespace == whole.namespace and whole.lower <= piece.lower and piece.upper <= whole.upper


@st.composite
def plans(draw: st.DrawFn) -> tuple[ClusterModel, Proposal]:
    """Whole weights and capacities that are powers of two, so that every sum is exact, and any moves at all."""
    brokers = tuple(Broker(f"b{n}:8080", draw(st.sampled_from((0.5, 1.0, 2.0)))) for n in range(3))
    names = [broker.id for broker in brokers]
    owners = st.sampled_from([*names, None])
    bundles = tuple(
        bundle(n * 100, n * 100 + 100, *map(float, draw(st.tuples(*[st.integers(1, 9)] * 3))), owner=draw(owners))
        for n in range(5)
    )
    model = ClusterModel(brokers, bundles)
    cuts = tuple(Split(each.id, each.id.lower + 60, "") for each in bundles if draw(st.booleans()))
    moves = []
    for each in outcome(model, cuts, ()).bundles:
        goes = draw(st.sampled_from([*names, each.owner]))
        if goes is not None and goes != each.owner:
            moves.append(Move(each.id, each.owner, goes, each.weight, ""))
    at = balance_of(model)
    return model, Proposal(cuts, tuple(moves), at, at, sum(move.weight for move in moves), (), "")


@given(plans(), st.sampled_from((10.0, 30.0, 60.0)), st.integers(1, 4))
def test_the_choice_is_the_one_that_whole_placements_lead_to(
    drawn: tuple[ClusterModel, Proposal], percent: float, most: int
) -> None:
    model, whole = drawn
    options = Options(budget=Budget(max_moves=most, max_moved_percent=percent))
    found = first_round(model, whole, options)
    wanted = picked_slowly(model, whole, options)
    assert sorted(move.bundle for move in found.moves) == sorted(wanted) if found else not wanted


def test_a_round_undoes_nothing_that_the_search_does() -> None:
    """A round that evens brokers of different size out by squares is taken back by the next one, for ever."""
    brokers = (Broker("b0:8080", 2.0), Broker("b1:8080", 1.0), Broker("b2:8080", 1.0))
    small = bundle(0, 100, 13.5, owner="b0:8080")
    others = (
        bundle(100, 200, 379.0, owner="b0:8080"),
        bundle(200, 300, 185.0, owner="b1:8080"),
        bundle(300, 400, 221.0, owner="b2:8080"),
    )
    model = ClusterModel(brokers, (small, *others))
    at = balance_of(model)
    whole = Proposal((), (Move(small.id, "b0:8080", "b1:8080", 13.5, ""),), at, at, 13.5, (), "")
    assert first_round(model, whole, Options()) is None
