"""The planner on small named clusters: published examples, every mode, every reason to do nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner import plan as planner
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import balance_of, plan
from pulsar_operator.balance.planner.verify import PlanError
from tests.support.balancing.planning import ENDLESS, NAMESPACE, after, busiest, cluster, loads_of, verify

A, B, C, D = "a:8080", "b:8080", "c:8080", "d:8080"


def test_twenty_hot_bundles_on_one_of_three_brokers() -> None:
    """The book's example: 20 of 60 bundles carry 90 % of the traffic, all at one broker."""
    model = cluster({A: [[2.25, 2.25]] * 20, B: [0.25] * 20, C: [0.25] * 20})
    moved = plan(model, Options(budget=ENDLESS))
    assert not moved.splits
    assert len(moved.moves) == 12
    assert moved.before.ratio == pytest.approx(2.7)
    assert moved.after.ratio <= 1.1
    # Cutting every hot bundle in two, and giving one half to others, leaves the broker with half of the load.
    halves = plan(model, Options(mode=Mode.SPLIT, budget=ENDLESS))
    assert halves.empty
    assert "no bundle needs to be split" in halves.withheld


def test_ten_brokers_at_eighty_percent_and_one_idle() -> None:
    """PIP-220 and #17456: the busiest is at 1.1 times the mean, a threshold of ten points never acts."""
    model = cluster({**{f"b{i}:8080": [4.0] * 20 for i in range(10)}, "new:8080": []})
    for options in (Options(), Options(mode=Mode.ADD_BROKERS, brokers=frozenset({"new:8080"}))):
        proposal = plan(model, options)
        verify(model, proposal, options)
        loads = loads_of(after(model, proposal))
        assert {move.destination for move in proposal.moves} == {"new:8080"}
        assert loads["new:8080"] >= 0.9 * 800 / 11
        assert busiest(after(model, proposal)) == 76.0


def test_ninety_ten_does_not_move_everything_across() -> None:
    """PIP-364: a smoothed load makes two brokers at 90/10 change places; one plan evens them out and is content."""
    model = cluster({A: [9.0] * 10, B: [1.0] * 10})
    proposal = plan(model, Options(budget=ENDLESS))
    assert loads_of(after(model, proposal)) == {A: 54.0, B: 46.0}
    assert plan(after(model, proposal), Options(budget=ENDLESS)).empty


def test_no_broker_is_overplaced() -> None:
    """PIP-364: with 40, 40, 40, 40, 69, 70 no broker is ten points below the mean, and a random one is chosen."""
    loads = {f"b{i}:8080": [2.0] * 20 for i in range(4)} | {"x:8080": [3.45] * 20, "y:8080": [3.5] * 20}
    model = cluster(loads)
    proposal = plan(model, Options(budget=ENDLESS))
    final = loads_of(after(model, proposal))
    assert max(final.values()) <= 1.05 * sum(final.values()) / 6
    assert {move.source for move in proposal.moves} == {"x:8080", "y:8080"}
    assert len(proposal.moves) == 11
    assert proposal.moves[0].source == "y:8080"


def test_a_swap_where_no_bundle_fits() -> None:
    model = cluster({A: [6.0, 6.0], B: [4.0, 4.0]})
    proposal = plan(model, Options(budget=ENDLESS, mode=Mode.MOVE))
    assert sorted((m.source, m.destination, m.weight) for m in proposal.moves) == [(A, B, 6.0), (B, A, 4.0)]
    assert proposal.after.ratio == 1.0


def test_the_piece_that_is_cut_is_the_one_that_is_too_much() -> None:
    model = cluster({A: [[15.0, 5.0, 20.0, 10.0]], B: [10.0]})
    proposal = plan(model, Options(budget=ENDLESS))
    assert len(proposal.splits) == 1
    assert [m.weight for m in proposal.moves] == [20.0]
    assert loads_of(after(model, proposal)) == {A: 30.0, B: 30.0}


def test_a_piece_from_the_middle_takes_two_cuts() -> None:
    model = cluster({A: [[30.0, 10.0, 10.0, 30.0]], B: [40.0]})
    proposal = plan(model, Options(budget=ENDLESS, tolerance=0.02))
    assert len(proposal.splits) == 2
    assert [m.weight for m in proposal.moves] == [20.0]
    assert loads_of(after(model, proposal)) == {A: 60.0, B: 60.0}


def test_a_cut_is_not_made_for_what_whole_bundles_do_in_the_next_proposal() -> None:
    model = cluster({A: [[2.25, 2.25]] * 20, B: [0.25] * 20, C: [0.25] * 20})
    proposal = plan(model, Options(budget=Budget(max_moved_percent=12.0)))
    assert (len(proposal.splits), len(proposal.moves), proposal.moved_weight) == (0, 2, 9.0)
    assert [advice.reason for advice in proposal.advice] == ["BudgetReached"]


def test_a_bundle_heavier_than_the_budget_is_cut() -> None:
    model = cluster({A: [[2.0] * 15], B: [10.0], C: [10.0]})
    proposal = plan(model, Options(budget=Budget(max_moved_percent=9.0)))
    assert proposal.splits
    assert 0 < proposal.moved_weight <= 0.09 * 50


def test_split_mode_cuts_and_leaves_the_pieces() -> None:
    model = cluster({A: [[10.0] * 8], B: [10.0]})
    options = Options(mode=Mode.SPLIT)
    proposal = plan(model, options)
    assert proposal.splits
    assert not proposal.moves
    assert proposal.after.busiest == proposal.before.busiest
    cut = after(model, proposal)
    assert plan(cut, options).empty
    moved = plan(cut, Options(mode=Mode.MOVE, budget=ENDLESS))
    assert moved.after.busiest == moved.after.bound == 50.0


def test_an_added_broker_gives_nothing_back() -> None:
    """A swap would help, but only the new broker may take."""
    model = cluster({A: [6.0, 6.0], B: [4.0, 4.0]})
    options = Options(mode=Mode.ADD_BROKERS, brokers=frozenset({B}), budget=ENDLESS)
    assert not [move for move in plan(model, options).moves if move.destination == A]


def test_mixed_hardware_is_loaded_by_capacity() -> None:
    model = cluster({A: [1.0] * 30, B: []}, capacity={A: 1.0, B: 2.0})
    loads = loads_of(after(model, plan(model, Options(budget=ENDLESS))))
    assert loads == {A: 10.0, B: 20.0}


def test_removed_broker_gives_all_whatever_it_weighs() -> None:
    model = cluster({A: [9.0, 7.0, 5.0, 3.0], B: [2.0], C: [2.0]})
    options = Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({A}))
    proposal = plan(model, options)
    assert loads_of(after(model, proposal)) == {A: 0.0, B: 14.0, C: 14.0}
    assert proposal.moved_weight == 24.0
    assert all(move.reason.startswith("DrainingBrokers") for move in proposal.moves)


def test_removal_ends_with_the_budget_of_moves_and_says_so() -> None:
    model = cluster({A: [9.0, 7.0, 5.0, 3.0], B: [2.0], C: [2.0]})
    options = Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({A}), budget=Budget(max_moves=3))
    proposal = plan(model, options)
    assert len(proposal.moves) == 3
    assert [advice.reason for advice in proposal.advice if advice.subject == A] == ["NotEmptied"]
    assert plan(after(model, proposal), options).moves


def test_idle_bundles_of_a_removed_broker_are_spread_by_number() -> None:
    model = cluster({A: [0.0] * 10, B: [], C: []})
    final = after(model, plan(model, Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({A}))))
    owners = [bundle.owner for bundle in final.bundles]
    assert (owners.count(A), owners.count(B), owners.count(C)) == (0, 5, 5)


def test_isolation_policy_is_kept_and_restored() -> None:
    model = replace(cluster({A: [8.0, 1.0], B: [], C: []}), allowed={NAMESPACE: frozenset({A, B})})
    final = after(model, plan(model, Options(budget=ENDLESS)))
    assert loads_of(final)[C] == 0.0
    misplaced = replace(cluster({A: [1.0], B: [1.0], C: [1.0]}), allowed={NAMESPACE: frozenset({A, B})})
    proposal = plan(misplaced, Options(budget=ENDLESS))
    assert [(m.source, m.reason.split(":")[0]) for m in proposal.moves] == [(C, "AllowedBrokers")]


def test_anti_affinity_is_never_made_worse() -> None:
    def bundle(namespace: str, index: int, weight: float, owner: str) -> Bundle:
        return Bundle(BundleId(namespace, index << 20, (index + 1) << 20), weight, owner)

    brokers = (Broker(A, domain="east"), Broker(B, domain="west"))
    bundles = (*(bundle("t/x", i, 5.0, A) for i in range(4)), bundle("t/y", 0, 1.0, B))
    free = ClusterModel(brokers, bundles)
    assert plan(free, Options(budget=ENDLESS)).moves
    bound = replace(free, anti_affinity={"t/x": "g", "t/y": "g"})
    proposal = plan(bound, Options(budget=ENDLESS))
    assert proposal.empty
    assert "no allowed move" in proposal.withheld


def test_bundles_without_owner_weigh_nothing_and_stay() -> None:
    model = cluster({A: [5.0, 5.0], B: [5.0, 5.0]}, unowned=[50.0])
    proposal = plan(model, Options())
    assert proposal.empty
    assert proposal.before.bound == proposal.before.busiest == 10.0


def test_hot_topic_asks_for_partitions() -> None:
    model = cluster({A: [30.0, 1.0], B: [1.0], C: [1.0]})
    proposal = plan(model, Options(budget=ENDLESS))
    (advice,) = proposal.advice
    assert advice.reason == "MorePartitions"
    assert advice.subject.startswith(NAMESPACE)
    assert "carries 2.73x a broker's fair share" in advice.message


def test_heavy_bundle_of_unknown_topics_is_named() -> None:
    model = cluster({A: [30.0], B: [1.0], C: [1.0]})
    model = replace(model, bundles=tuple(replace(b, cells=()) for b in model.bundles))
    assert [advice.reason for advice in plan(model, Options()).advice] == ["TopicsUnknown"]


def test_move_mode_points_to_splits() -> None:
    model = cluster({A: [[5.0] * 10, 1.0], B: [1.0]})
    proposal = plan(model, Options(mode=Mode.MOVE, budget=ENDLESS, tolerance=0.01))
    assert proposal.moves
    assert [advice.reason for advice in proposal.advice] == ["CoarseBundles"]


UNEVEN = cluster({A: [2.0, 2.0, 2.0, 2.0], B: []})
NOTHING: list[tuple[str, ClusterModel, Options, str]] = [
    ("no brokers", ClusterModel((), ()), Options(), "no broker is known"),
    ("no bundles", cluster({A: [], B: []}), Options(), "no broker serves a bundle"),
    ("no traffic", cluster({A: [0.0] * 9, B: []}), Options(), "no traffic"),
    ("one broker", cluster({A: [1.0, 2.0]}), Options(), "only one broker"),
    (
        "all drain",
        replace(UNEVEN, brokers=tuple(replace(b, draining=True) for b in UNEVEN.brokers)),
        Options(),
        "all brokers are being drained",
    ),
    ("even", cluster({A: [5.0], B: [5.4]}), Options(), "within the tolerance"),
    ("budget", UNEVEN, Options(budget=Budget(max_moves=0)), "budget"),
    ("traffic budget", UNEVEN, Options(budget=Budget(max_moved_percent=0.0)), "budget"),
    (
        "cooling",
        UNEVEN,
        Options(budget=ENDLESS, cooling=frozenset(b.id for b in UNEVEN.bundles)),
        "4 bundles were moved recently",
    ),
    ("pinned", replace(UNEVEN, pinned=frozenset({NAMESPACE})), Options(budget=ENDLESS), "within the tolerance"),
    ("not selected", UNEVEN, Options(budget=ENDLESS, namespaces=frozenset({"t/other"})), "no allowed move"),
]


@pytest.mark.parametrize(("model", "options", "words"), [c[1:] for c in NOTHING], ids=[c[0] for c in NOTHING])
def test_reasons_to_do_nothing(model: ClusterModel, options: Options, words: str) -> None:
    proposal = plan(model, options)
    assert proposal.empty
    assert words in proposal.withheld


@pytest.mark.parametrize(("weights", "emptied"), [([], True), ([1.0], False)])
def test_a_refused_removal_says_whether_the_broker_is_empty(weights: list[float], emptied: bool) -> None:
    model = cluster({A: weights})
    proposal = plan(model, Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({A})))
    assert proposal.empty and proposal.withheld
    assert proposal.emptied is emptied


def test_every_plan_is_checked_before_it_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise PlanError("wrong", "wrong")

    monkeypatch.setattr(planner, "check", wrong)
    with pytest.raises(PlanError):
        plan(UNEVEN, Options(budget=ENDLESS))


WRONG: list[tuple[str, ClusterModel, Options, str]] = [
    ("capacity", cluster({A: [1.0], B: []}, capacity={A: 0.0}), Options(), "is 0.0, but must be a positive number"),
    ("weight", cluster({A: [float("nan")], B: []}), Options(), "is nan, but must be 0 or a positive number"),
    ("twice", ClusterModel((Broker(A), Broker(A)), ()), Options(), "listed twice"),
    (
        "overlap",
        replace(UNEVEN, bundles=(*UNEVEN.bundles, Bundle(BundleId(NAMESPACE, 1, 9), 0.0, None))),
        Options(),
        "overlaps",
    ),
    ("unknown broker", UNEVEN, Options(mode=Mode.ADD_BROKERS, brokers=frozenset({D})), "d:8080"),
    ("no broker named", UNEVEN, Options(mode=Mode.REMOVE_BROKERS), "require"),
    ("broker named", UNEVEN, Options(brokers=frozenset({A})), "only AddBrokers and RemoveBrokers take brokers"),
    ("tolerance", UNEVEN, Options(tolerance=-0.1), "tolerance is -0.1"),
    ("moves", UNEVEN, Options(budget=Budget(max_moves=-1)), "maxMoves is -1"),
]


@pytest.mark.parametrize(("model", "options", "words"), [c[1:] for c in WRONG], ids=[c[0] for c in WRONG])
def test_input_that_means_nothing_is_refused(model: ClusterModel, options: Options, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan(model, options)


def test_balance_counts_capacity_of_brokers_that_stay() -> None:
    model = cluster({A: [6.0], B: [2.0], C: [1.0]}, capacity={A: 2.0, B: 1.0, C: 1.0})
    model = replace(model, brokers=(*model.brokers[:2], replace(model.brokers[2], draining=True)))
    found = balance_of(model)
    assert (found.busiest, found.mean, found.bound, found.bundles) == (3.0, 3.0, 3.0, 3)


def test_a_draining_broker_takes_nothing_and_gives_all() -> None:
    model = cluster({A: [4.0] * 6, B: [], C: [1.0]})
    model = replace(model, brokers=(*model.brokers[:2], replace(model.brokers[2], draining=True)))
    final = loads_of(after(model, plan(model, Options(budget=ENDLESS))))
    assert final == {A: 12.0, B: 13.0, C: 0.0}


def test_one_that_leaves_opens_the_way_for_another() -> None:
    """x is at a already and beside y at c: y may come to a only because it leaves x at c, and then from b as well."""
    brokers = (Broker(A), Broker(B, draining=True), Broker(C, draining=True))
    owners = {"t/x": (A, C), "t/y": (B, B, C)}
    model = ClusterModel(
        brokers,
        tuple(
            Bundle(BundleId(namespace, index << 20, (index + 1) << 20), 0.0, owner)
            for namespace, some in owners.items()
            for index, owner in enumerate(some)
        ),
        allowed={"t/y": frozenset({A})},
        anti_affinity={"t/x": "g", "t/y": "g"},
        pinned=frozenset({"t/x"}),
    )
    options = Options(budget=ENDLESS)
    proposal = plan(model, options)
    assert {(move.source, move.destination) for move in proposal.moves} == {(B, A), (C, A)}
    assert len(proposal.moves) == 3
    assert plan(after(model, proposal), options).empty


def test_a_budget_that_hides_further_cuts_is_reported() -> None:
    """Cuts that were tried and given up counted against the budget, and nothing said that asking again would help."""
    parts: dict[tuple[str, int], tuple[float, str, list[tuple[int, float]]]] = {
        ("t/n0", 0): (7.0, "3", []),
        ("t/n0", 5242880): (18.0, "4", []),
        ("t/n0", 6291456): (84.0, "1", [(6291456, 45.0), (6291457, 15.0), (6291458, 7.0), (6291459, 17.0)]),
        ("t/n1", 0): (53.0, "3", []),
        ("t/n1", 1048576): (185.4, "2", [(1048576, 25.4), (1048577, 68.0), (1655367, 92.0)]),
        ("t/n1", 2097152): (102.0, "1", []),
        ("t/n1", 3145728): (47.0, "0", [(3145728, 5.0), (3995279, 42.0)]),
        ("t/n1", 4194304): (161.0, "0", [(4194304, 4.0), (4194305, 58.0), (4194306, 99.0)]),
        ("t/n1", 5242880): (55.0, "4", [(5242890, 55.0)]),
        ("t/n1", 6291456): (5.0, "3", []),
    }
    bundles = tuple(
        Bundle(
            BundleId(namespace, lower, lower + 1048576),
            weight,
            f"b{owner}:8080",
            tuple(Cell(position, part, 1) for position, part in cells),
            topics=max(1, len(cells)),
        )
        for (namespace, lower), (weight, owner, cells) in parts.items()
    )
    model = ClusterModel(tuple(Broker(f"b{n}:8080", 2.0 if n < 3 else 1.0) for n in range(5)), bundles)
    options = Options(budget=Budget(max_moves=2, max_moved_percent=30.0, max_splits=3), tolerance=0.0)
    told = False
    for _ in range(10):
        proposal = plan(model, options)
        if proposal.empty:
            break
        if not told:
            told = not any(advice.reason == "BudgetReached" for advice in proposal.advice)
        else:
            pytest.fail("the one before did not say that there was more to do")
        model = after(model, proposal)


@pytest.mark.parametrize("percent", [9, 20, 100])
def test_no_bundle_is_cut_for_the_sake_of_a_budget(percent: int) -> None:
    """Six equal bundles, all at one of three brokers: each is more than 9 % of the traffic, and a cut is for ever."""
    model = cluster({A: [[1.0, 1.0, 1.0]] * 6, B: [], C: []})
    options = Options(budget=Budget(max_moved_percent=float(percent)))
    splits = moves = 0
    for _ in range(10):
        proposal = plan(model, options)
        if proposal.empty:
            break
        splits, moves, model = splits + len(proposal.splits), moves + len(proposal.moves), after(model, proposal)
    assert loads_of(model) == {A: 6.0, B: 6.0, C: 6.0}
    assert (splits, moves) == (0, 4)


def test_a_piece_from_inside_needs_room_for_two_more_bundles() -> None:
    """The hot topic in the middle has to stay; what may go lies between the two light ends, and one cut is left."""
    cells = tuple(Cell(position, weight, 1) for position, weight in ((10, 9.0), (20, 5.0), (30, 9.0)))
    bundle = Bundle(BundleId("t/n", 0, 100), 23.0, A, cells, topics=3)
    other = Bundle(BundleId("t/m", 0, 100), 13.0, B, (Cell(5, 13.0, 1),), topics=1)
    model = ClusterModel((Broker(A), Broker(B)), (bundle, other))
    for room in (1, 2, 3):
        options = Options(budget=replace(ENDLESS, max_bundles=room), tolerance=0.0)
        proposal = plan(model, options)
        verify(model, proposal, options)
        assert len(proposal.splits) <= room - 1


def test_what_nobody_carries_is_not_measured_by_the_traffic() -> None:
    """It may weigh any number of times as much as all that brokers do carry."""
    carried = Bundle(BundleId("t/n", 0, 100), 2.2250738585072014e-308, A)
    unowned = Bundle(BundleId("t/n", 100, 200), 1.0, None, (Cell(150, 1.0, 1),), topics=1)
    model = ClusterModel((Broker(A, draining=True), Broker(B)), (carried, unowned))
    assert [move.bundle for move in plan(model, Options(budget=ENDLESS)).moves] == [carried.id]


def test_a_bundle_too_heavy_for_its_broker_hides_no_idle_one() -> None:
    """It leaves for the large broker; what the small ones could have is not what they could have with it at home."""
    small = cluster({A: [15.0, 4.0, 3.0], B: [], C: []})
    model = replace(small, brokers=tuple(replace(b, capacity=1.0 if b.id == C else 0.5) for b in small.brokers))
    options = Options(budget=ENDLESS, tolerance=0.0)
    proposal = plan(model, options)
    assert [(move.destination, move.weight) for move in proposal.moves] == [(C, 15.0), (B, 3.0)]
    assert plan(after(model, proposal), options).empty
