"""What brokers could have, and which of them are idle by that: planner/shares.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import fsum, inf

import pytest
from hypothesis import given, settings

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, level_of, utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.shares import fair_shares, idle_brokers
from tests.support.balancing.planning import ENDLESS, after, cluster, clusters, loads_of

A, B, C, D = "a:8080", "b:8080", "c:8080", "d:8080"


def based(model: ClusterModel, **bases: float) -> ClusterModel:
    """With what brokers use by themselves, by their first letter."""
    return replace(model, brokers=tuple(replace(b, base=bases.get(b.id[0], 0.0)) for b in model.brokers))


def kept(model: ClusterModel, **namespaces: tuple[str, ...]) -> ClusterModel:
    """With a namespace for the brokers given alone, with one bundle of weight 1 on the first of them."""
    bundles = [Bundle(BundleId(f"t/{name}", 0, 1), 1.0, brokers[0]) for name, brokers in namespaces.items()]
    allowed = {f"t/{name}": frozenset(brokers) for name, brokers in namespaces.items()}
    return replace(model, bundles=(*model.bundles, *bundles), allowed={**model.allowed, **allowed})


EVEN = cluster({A: [1.0] * 12, B: [], C: []})


@pytest.mark.parametrize(
    ("model", "shares"),
    [
        (EVEN, {A: 4, B: 4, C: 4}),
        (cluster({A: [1.0] * 12, B: [], C: []}, capacity={A: 2.0}), {A: 3, B: 3, C: 3}),
        (cluster({A: [30.0], B: [1.0] * 6, C: []}), {A: 30, B: 3, C: 3}),
        (cluster({A: [30.0, 20.0], B: [1.0] * 6, C: []}), {A: 30, B: 20, C: 6}),
        (cluster({A: [3.0] * 4, B: [], C: []}, unowned=[50.0]), {A: 4, B: 4, C: 4}),
        (based(EVEN, c=3.0), {A: 5, B: 5, C: 5}),
        (based(EVEN, c=9.0), {A: 6, B: 6, C: 9}),
        (replace(EVEN, pinned=frozenset({"shop/orders"})), {A: 12, B: 0, C: 0}),
        (replace(EVEN, allowed={"shop/orders": frozenset({A, B})}), {A: 6, B: 6, C: 0}),
        (kept(EVEN, n=(C, A)), {A: 13 / 3, B: 13 / 3, C: 13 / 3}),
        (kept(replace(EVEN, allowed={"shop/orders": frozenset({A, B})}), n=(C,), m=(B, C)), {A: 6, B: 6, C: 2}),
        (replace(EVEN, brokers=(Broker(A), Broker(B), Broker(C, draining=True))), {A: 6, B: 6}),
        (cluster({A: [], B: []}), {A: 0, B: 0}),
        (ClusterModel((), ()), {}),
    ],
    ids=[
        "even", "sizes", "hot", "two hot", "nobody serves", "base", "base above the rest", "pinned", "isolated",
        "shared pools", "two pools", "draining", "no load", "no brokers",
    ],
)  # fmt: skip
def test_what_each_broker_could_have(model: ClusterModel, shares: Mapping[str, float]) -> None:
    assert fair_shares(model) == pytest.approx(shares, abs=1e-4)


def test_what_may_not_move_stays() -> None:
    assert fair_shares(EVEN, {"t/other"}) == {A: 12.0, B: 0.0, C: 0.0}


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_shares_hold_all_the_load_there_is(model: ClusterModel) -> None:
    shares = fair_shares(model)
    able = {broker.id: broker.capacity for broker in model.brokers if not broker.draining}
    assert shares.keys() == able.keys()
    known = {broker.id for broker in model.brokers}
    # On brokers that are emptied stays what may go nowhere.
    stuck = [
        bundle.weight
        for bundle in model.bundles
        if bundle.owner in known - able.keys()
        and (bundle.id.namespace in model.pinned or not model.allowed.get(bundle.id.namespace, known) & able.keys())
    ]
    total = fsum(b.weight for b in model.bundles if b.owner in known)
    held = fsum(share * able[broker] for broker, share in shares.items()) + fsum(stuck)
    assert held == pytest.approx(total, rel=1e-3, abs=1e-6)


def idle(model: ClusterModel) -> dict[str, float]:
    """Brokers with less than half of what they could have."""
    used = utilizations(model.brokers, model.bundles)
    return idle_brokers(model, used, balance_of(model).mean, 0.5)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (cluster({A: [1.0] * 6, B: [1.0] * 6, C: []}), {C: 4.0}),
        (cluster({A: [1.0] * 5, B: [1.0] * 5, C: [1.0] * 2}), {}),
        (replace(cluster({A: [1.0] * 6, B: [1.0] * 6, C: []}), allowed={"shop/orders": frozenset({A, B})}), {}),
        (cluster({A: [60.0], B: [1.0] * 3, C: [1.0] * 3}), {}),
        (cluster({A: [60.0], B: [1.0] * 6, C: []}), {C: 3.0}),
        (based(cluster({A: [1.0] * 6, B: [1.0] * 6, C: []}), c=4.0), {}),
    ],
    ids=["empty", "little", "isolated", "beside a hot topic", "passed over beside a hot topic", "busy with itself"],
)
def test_idle_is_what_has_less_than_it_could(model: ClusterModel, found: Mapping[str, float]) -> None:
    assert idle(model) == pytest.approx(found)


def test_the_planner_fills_an_idle_broker_with_what_it_could_have_and_no_other() -> None:
    """The hot topic's broker is within the tolerance of the bound, which is the topic: the rest is shared out."""
    full = cluster({A: [60.0], B: [1.0] * 3, C: [1.0] * 3})
    assert plan(full, Options()).empty
    passed = plan(cluster({A: [60.0], B: [1.0] * 6, C: []}), Options())
    assert [(move.source, move.destination) for move in passed.moves] == [(B, C)] * 3
    shut = replace(cluster({A: [1.0] * 6, B: [1.0] * 6, C: []}), allowed={"shop/orders": frozenset({A, B})})
    assert plan(shut, Options()).empty


def test_a_plan_counts_what_brokers_use_by_themselves() -> None:
    model = based(cluster({A: [1.0] * 6, B: [1.0] * 6, C: [1.0] * 6}), a=6.0)
    found = loads_of(after(model, plan(model, Options(budget=ENDLESS))))
    assert found == {A: 2.0, B: 8.0, C: 8.0}
    assert plan(based(model, a=2.0), Options(tolerance=0.3)).empty
    assert balance_of(model).busiest == 12.0 and balance_of(model).mean == 8.0
    gone = plan(model, Options(Mode.REMOVE_BROKERS, brokers=frozenset({A})))
    assert len(gone.moves) == 6


@pytest.mark.parametrize(
    ("model", "bound", "level"),
    [
        (cluster({A: [60.0], B: [1.0] * 3, C: [1.0] * 3}), 60.0, 22.0),
        (based(EVEN, c=9.0), 9.0, 9.0),
        (based(EVEN, c=3.0), 5.0, 5.0),
        (replace(EVEN, allowed={"shop/orders": frozenset({A, B})}), 6.0, 6.0),
    ],
    ids=["hot", "base", "a little base", "isolated"],
)
def test_the_bound_and_what_it_would_be_if_topics_could_be_cut(model: ClusterModel, bound: float, level: float) -> None:
    assert (balance_of(model).bound, level_of(model)) == (bound, level)


@pytest.mark.parametrize("base", [-1.0, inf, float("nan")])
def test_a_base_that_is_none_is_refused_by_name(base: float) -> None:
    with pytest.raises(ValueError, match=f"the base of broker {C} is"):
        plan(based(EVEN, c=base), Options())
