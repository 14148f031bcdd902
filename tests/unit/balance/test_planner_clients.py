"""Reconnects in the price of a move: the fewest among moves of equal gain, and none that is not worth them."""

from __future__ import annotations

import json
from dataclasses import replace
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.model.cuts import split_bundle
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import Observed, model_of, weighing
from pulsar_operator.balance.model.statistics import TopicTraffic
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of
from pulsar_operator.balance.planner.plan import plan
from tests.support.balancing.planning import WIDTH, clusters, questions, verify

A, B, C = "a:8080", "b:8080", "c:8080"
WHOLE = Budget(max_moves=1000, max_moved_percent=100.0)
Loads = dict[str, list[tuple[float, int]]]


def cluster(loads: Loads) -> ClusterModel:
    """Brokers with the weight and the clients of their bundles, one topic each."""
    bundles = [
        Bundle(BundleId("t/n", 0, 0), weight, broker, (), 1, clients)
        for broker, listed in loads.items()
        for weight, clients in listed
    ]
    ranged = [replace(b, id=BundleId("t/n", n * WIDTH, (n + 1) * WIDTH)) for n, b in enumerate(bundles)]
    return ClusterModel(tuple(Broker(broker) for broker in loads), tuple(ranged))


@pytest.mark.parametrize(
    ("loads", "clients"),
    [
        # Each of the three is enough alone.
        pytest.param({A: [(9.5, 40), (10.0, 7), (10.2, 90), (20.0, 60)], B: [(28.0, 60)]}, 7, id="enough"),
        # The lightest that is enough where clients are the same.
        pytest.param({A: [(9.5, 9), (10.0, 9), (10.2, 9), (20.0, 60)], B: [(28.0, 60)]}, 9, id="equal"),
        # A lighter one would be cheaper and bring less than the others.
        pytest.param({A: [(4.0, 1), (10.0, 30), (10.4, 20), (25.0, 60)], B: [(28.0, 60)]}, 20, id="more gain"),
    ],
)
def test_among_moves_of_equal_gain_the_one_with_the_fewest_clients_is_made(loads: Loads, clients: int) -> None:
    proposal = plan(cluster(loads), Options(mode=Mode.MOVE, budget=WHOLE))
    assert [move.clients for move in proposal.moves] == [clients]
    assert proposal.clients == clients and proposal.topics == 1


def test_an_idle_broker_is_filled_with_bundles_of_few_clients() -> None:
    loads: Loads = {each: [(10.0 + n / 100, 10 if n % 2 else 500) for n in range(12)] for each in (A, B)}
    options = Options(Mode.ADD_BROKERS, WHOLE, brokers=frozenset({C}))
    proposal = plan(cluster({**loads, C: []}), options)
    assert {move.clients for move in proposal.moves} == {10} and len(proposal.moves) == 8


def test_a_move_that_is_not_worth_its_clients_is_left_while_the_rest_is_within_the_tolerance() -> None:
    """Broker b is 8 % above the bound, the tolerance is 10 %: its light bundle has nearly all clients, or few."""
    loads: Loads = {A: [(100.0, 20), (30.0, 20)], B: [(103.0, 20), (5.0, 5000)], C: [(62.0, 20)]}
    options = Options(Mode.MOVE, WHOLE, tolerance=0.1)
    assert [move.weight for move in plan(cluster(loads), options).moves] == [30.0]
    few: Loads = {**loads, B: [(103.0, 20), (5.0, 5)]}
    assert sorted(move.weight for move in plan(cluster(few), options).moves) == [5.0, 30.0]


def test_a_broker_above_the_tolerance_is_relieved_whoever_reconnects() -> None:
    loads: Loads = {A: [(110.0, 20), (20.0, 50_000)], B: [(90.0, 20)], C: [(60.0, 20)]}
    options, model = Options(Mode.MOVE, WHOLE, tolerance=0.1), cluster(loads)
    assert [move.clients for move in plan(model, options).moves] == [20, 20], (
        "a swap helps, of bundles with few clients"
    )
    resting = replace(options, cooling=frozenset({model.bundles[0].id}))
    assert [move.clients for move in plan(model, resting).moves] == [50_000]


def test_pieces_and_other_weights_keep_the_clients() -> None:
    cells = (Cell(10, 1.0, 2, 7), Cell(20, 2.0, 1, 0), Cell(30, 4.0, 3, 5))
    whole = Bundle(BundleId("t/n", 0, 100), 7.0, A, cells, 6, 12)
    assert [(each.topics, each.clients) for each in split_bundle(whole, 20)] == [(2, 7), (4, 5)]
    assert weighing(whole, 70.0).clients == 12
    assert [cell.clients for cell in weighing(whole, 70.0).cells] == [7, 0, 5]
    assert whole.reconnects == 18


def test_clients_are_counted_where_their_topics_are() -> None:
    topic = "persistent://shop/orders/t"
    stats = {"producerCount": 2, "subscriptions": {"s": {"consumers": [{}, {}]}, "idle": {"consumers": []}}}
    observed = Observed((A,), boundaries={"shop/orders": (0, 1 << 31, (1 << 32) - 1)})
    document = {"shop/orders": {"0x0_0x8": {"persistent": {topic: stats}}}}
    for _ in range(2):
        reader = TopicTraffic(CostModel(), lambda _: False)
        reader.feed(json.dumps(document).encode())
        reader.end()
        observed.take_cells(reader.namespaces)
    model = model_of(observed)
    assert sorted((bundle.topics, bundle.clients) for bundle in model.bundles) == [(0, 0), (2, 8)]
    assert sum(cell.clients for bundle in model.bundles for cell in bundle.cells) == 8


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_clients_never_make_a_plan_break_a_rule_or_worse_than_the_tolerance(data: st.DataObject) -> None:
    """The same rules hold, and the order of what was observed does not matter."""
    model = data.draw(clusters())
    counts = data.draw(st.lists(st.integers(0, 100_000), min_size=1, max_size=30))
    peopled = replace(
        model,
        bundles=tuple(
            replace(b, cells=(), clients=counts[n % len(counts)]) if b.cells else b for n, b in enumerate(model.bundles)
        ),
    )
    options = data.draw(questions(peopled))
    proposal = plan(peopled, options)
    verify(peopled, proposal, options)
    assert proposal.clients == sum(move.clients or 0 for move in proposal.moves)
    assert plan(replace(peopled, bundles=peopled.bundles[::-1]), options) == proposal


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(1.0, 10.0), st.integers(0, 10_000)), min_size=30, max_size=60),
    st.integers(2, 6),
)
def test_a_skewed_cluster_is_evened_out_whatever_clients_there_are(bundles: list[tuple[float, int]], n: int) -> None:
    loads: Loads = {f"b{number}:8080": [] for number in range(n)}
    loads["b0:8080"] = bundles
    options = Options(Mode.MOVE, WHOLE, tolerance=0.1)
    proposal = plan(cluster(loads), options)
    plain = plan(cluster({each: [(weight, 0) for weight, _ in listed] for each, listed in loads.items()}), options)
    limit = max(plain.after.busiest, proposal.after.bound * 1.1) * (1 + 1e-9)
    assert proposal.after.busiest <= limit
    assert proposal.after.mean == pytest.approx(fsum(weight for weight, _ in bundles) / n)
    assert balance_of(cluster(loads)).bundles == len(bundles)
