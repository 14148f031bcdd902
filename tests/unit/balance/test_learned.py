"""What bundles cost beyond their traffic, and brokers use by themselves: balance/execution/learned.py."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from math import exp, fsum, inf, isfinite, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.execution.driver import Memory, acted, decide
from pulsar_operator.balance.execution.learned import (
    Base,
    Learned,
    LearningOptions,
    costed,
    explained,
    inherited,
    learn,
)
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.model.observation import Usage
from pulsar_operator.balance.planner.options import Options

A, B, C = "a:8080", "b:8080", "c:8080"
MINUTE = 60.0
OPTIONS = LearningOptions()
NOTHING = Learned()


def model(*owned: tuple[str | None, float], capacities: Mapping[str, float] | None = None) -> ClusterModel:
    """Bundles of one namespace: owner and weight."""
    brokers = tuple(Broker(each, (capacities or {}).get(each, 1.0)) for each in (A, B, C))
    bundles = tuple(Bundle(BundleId("t/n", n, n + 1), weight, owner) for n, (owner, weight) in enumerate(owned))
    return ClusterModel(brokers, bundles)


def deviation(observed: ClusterModel, known: Learned, cpu: Mapping[str, float]) -> float | None:
    """Of what is believed."""
    found = explained(observed, known, cpu)
    return found.deviation if found is not None else None


def taught(observed: ClusterModel, cpu: Mapping[str, float], minutes: int = 240, known: Learned = NOTHING) -> Learned:
    """What is believed after looks that all saw the same."""
    for _ in range(minutes):
        known = learn(known, observed, cpu, MINUTE)
    return known


def test_brokers_that_use_what_their_load_says_teach_nothing() -> None:
    observed = model((A, 10.0), (B, 20.0), (C, 30.0))
    assert deviation(observed, NOTHING, {A: 0.2, B: 0.4, C: 0.6}) == pytest.approx(0)
    known = taught(observed, {A: 0.2, B: 0.4, C: 0.6})
    assert all(factor == pytest.approx(1) for factor in known.factors.values())
    assert all(load == pytest.approx(0, abs=1e-6) for load in known.loads(observed).values())


def test_a_broker_of_twice_the_capacity_uses_half_the_share() -> None:
    observed = model((A, 10.0), (B, 10.0), capacities={A: 2.0})
    assert deviation(observed, NOTHING, {A: 0.3, B: 0.6}) == pytest.approx(0)


def test_the_brokers_shares_are_explained_in_time() -> None:
    """Whether it is the broker or what it carries, nobody knows yet: each takes a part."""
    observed = model((A, 10.0), (B, 10.0), (C, 10.0))
    cpu = {A: 0.8, B: 0.4, C: 0.4}
    known = taught(observed, cpu)
    costs, bases = costed(observed, {}, known.factors), known.loads(observed)
    loads = [costs[b.id] + bases[b.owner or ""] for b in observed.bundles]
    assert [load / fsum(loads) for load in loads] == pytest.approx([0.5, 0.25, 0.25], rel=0.03)
    assert known.bases[A].share > 0.1 and known.factors[observed.bundles[0].id] > 1.1
    assert deviation(observed, NOTHING, cpu) == pytest.approx(1 / 3)
    assert (deviation(observed, known, cpu) or inf) < 0.03


@pytest.mark.parametrize("foreign", [0.3, 0.0], ids=["the broker's", "the bundles'"])
def test_load_that_comes_and_goes_tells_a_broker_from_its_bundles(foreign: float) -> None:
    """Four bundles on each of three brokers; those of one cost twice as much, or something else runs beside it."""
    rng, known, dear = random.Random(1), NOTHING, 1.0 if foreign else 2.0
    for _ in range(1440):
        observed = model(*((each, 10.0 * rng.lognormvariate(0, 0.4)) for each in (A, B, C) for _ in range(4)))
        cpu = {each: fsum(b.weight for b in observed.bundles if b.owner == each) / 120 for each in (A, B, C)}
        known = learn(known, observed, {**cpu, A: cpu[A] * dear + foreign}, MINUTE)
    assert known.bases[A].share == pytest.approx(foreign, abs=0.07)
    assert known.factors[observed.bundles[0].id] == pytest.approx(dear, rel=0.15)
    assert max(known.bases[each].share for each in (B, C)) < 0.05


def test_a_broker_that_works_hard_whatever_it_carries_has_a_base_once_it_is_empty() -> None:
    known = taught(model((A, 10.0), (B, 10.0), (C, 10.0)), {A: 0.7, B: 0.4, C: 0.4})
    emptied = model((B, 15.0), (C, 15.0))
    known = taught(emptied, {A: 0.7, B: 0.6, C: 0.6}, known=known)
    assert known.bases[A].share == pytest.approx(0.7, abs=0.07)
    assert max(known.factors.values()) / min(known.factors.values()) < 1.03
    assert known.loads(emptied)[A] == pytest.approx(0.7 / 0.04, rel=0.2)


@pytest.mark.parametrize(
    ("owned", "cpu"),
    [
        ([(A, 10.0), (B, 10.0)], {A: 0.09, B: 0.05}),
        ([(A, 10.0), (B, 10.0)], {A: 0.9, B: 0.05}),
        ([(A, 10.0), (B, 10.0)], {A: 0.9}),
        ([(A, 10.0), (A, 10.0)], {A: 0.9, B: 0.4}),
        ([(A, 0.0), (B, 0.0)], {A: 0.9, B: 0.4}),
        ([(None, 10.0), (None, 10.0)], {A: 0.9, B: 0.4}),
        ([], {A: 0.9, B: 0.4}),
    ],
    ids=["idle", "one of two idle", "one silent", "one empty", "no traffic", "nobody serves", "no bundles"],
)
def test_what_teaches_nothing(owned: list[tuple[str | None, float]], cpu: dict[str, float]) -> None:
    observed = model(*owned)
    assert learn(NOTHING, observed, cpu, MINUTE) == NOTHING and deviation(observed, NOTHING, cpu) is None


def test_what_was_learned_is_forgotten() -> None:
    (known,) = model((A, 10.0)).bundles
    believed = Learned({known.id: 2.0}, {A: Base(0.4, 0.01, 0.01)}, 0.02)
    after = learn(believed, model((A, 10.0)), {}, OPTIONS.forget)
    assert after.factors == {known.id: pytest.approx(exp(log(2.0) / exp(1)))}
    assert after.bases[A].share == pytest.approx(0.4 / exp(1))
    own = after.bases[A].own
    assert own is not None and 0.01 < own < OPTIONS.base**2, "less is certain"
    assert learn(believed, model(), {}, MINUTE).factors == {}, "the bundle is gone"
    gone = replace(model(), brokers=(Broker(B),))
    assert learn(believed, gone, {}, MINUTE).bases == {}


def test_what_explains_the_brokers_no_better_than_their_traffic_is_forgotten_soon() -> None:
    observed = model((A, 10.0), (B, 10.0), (C, 10.0))
    wrong = Learned({observed.bundles[0].id: 3.0}, {B: Base(0.3, 1e-9, 1e-9)}, 0.04)
    left = taught(observed, {A: 0.4, B: 0.4, C: 0.4}, 60, wrong)
    assert left.factors[observed.bundles[0].id] < 1.1 and left.bases[B].share < 0.05


def test_pieces_have_the_factor_of_what_they_were_cut_from() -> None:
    whole, other = BundleId("t/n", 0, 100), BundleId("t/m", 0, 100)
    pieces = [Bundle(BundleId("t/n", 0, 40), 1.0, A), Bundle(BundleId("t/n", 40, 100), 1.0, A)]
    strangers = [Bundle(BundleId("t/n", 90, 110), 1.0, A), Bundle(BundleId("t/o", 0, 40), 1.0, A)]
    found = inherited({whole: 3.0, other: 2.0}, [*pieces, *strangers, Bundle(other, 1.0, B)])
    assert found == {pieces[0].id: 3.0, pieces[1].id: 3.0, other: 2.0}


@given(
    st.lists(st.tuples(st.sampled_from([A, B, C, None]), st.floats(0, 1e12)), max_size=12),
    st.dictionaries(st.sampled_from([A, B, C]), st.floats(0, 10)),
    st.floats(0.1, 1e6),
)
def test_what_is_believed_is_bounded_whatever_is_measured(
    owned: list[tuple[str | None, float]], cpu: dict[str, float], seconds: float
) -> None:
    observed, known = model(*owned), NOTHING
    for _ in range(5):
        known = learn(known, observed, cpu, seconds)
        assert all(1 / OPTIONS.bound <= factor <= OPTIONS.bound for factor in known.factors.values())
        assert all(0 <= base.share <= 1 and min(base.own or 0.0, base.cost) >= 0 for base in known.bases.values())
        assert all(isfinite(load) and load >= 0 for load in known.loads(observed).values())
    assert known.factors.keys() <= {bundle.id for bundle in observed.bundles}


def lived(seed: int, sigma: float, *, told: bool, minutes: int = 480) -> tuple[float, int]:
    """True max / mean of the last quarter, and moves, of a cluster with costs that traffic does not tell."""
    rng = random.Random(seed)
    brokers = tuple(Broker(f"b{n}:8080") for n in range(6))
    idents = [BundleId("t/n", n, n + 1) for n in range(90)]
    hidden = {ident: rng.lognormvariate(0, sigma) for ident in idents}
    weights = {ident: rng.lognormvariate(0, 1) for ident in idents}
    owners = {ident: brokers[rng.randrange(6)].id for ident in idents}
    full = fsum(hidden[each] * weights[each] for each in idents) / 6 / 0.5
    memory, moves, seen, options = Memory(), 0, [], SteadyOptions(overload=inf)
    for minute in range(minutes):
        noisy = {ident: weight * rng.uniform(0.9, 1.1) for ident, weight in weights.items()}
        cpu = {
            broker.id: fsum(hidden[i] * noisy[i] for i in idents if owners[i] == broker.id) / full for broker in brokers
        }
        if minute >= 3 * minutes // 4:
            seen.append(max(cpu.values()) / (fsum(cpu.values()) / 6))
        observed = ClusterModel(brokers, tuple(Bundle(i, noisy[i], owners[i]) for i in idents))
        usages = {broker: Usage(share, "CPU", share) for broker, share in cpu.items()} if told else None
        decision, memory = decide(memory, minute * MINUTE, observed, Options(), options, usages=usages)
        if decision.act and decision.planned is not None:
            for move in decision.planned.moves:
                owners[move.bundle] = move.destination
            moves += len(decision.planned.moves)
            memory = acted(memory, minute * MINUTE, [move.bundle for move in decision.planned.moves], options)
    return fsum(seen) / len(seen), moves


@pytest.mark.parametrize("seed", [1, 2])
def test_a_hidden_cost_is_evened_out_when_brokers_say_what_they_use(seed: int) -> None:
    """Without it the loads believed are even, and those that count are not."""
    blind, seeing = lived(seed, 0.8, told=False), lived(seed, 0.8, told=True)
    print(f"\nblind {blind[0]:.2f} ({blind[1]} moves), told {seeing[0]:.2f} ({seeing[1]} moves)")
    assert seeing[0] < 1.27 and seeing[0] < blind[0]


def test_what_brokers_use_costs_no_moves_where_nothing_is_hidden() -> None:
    assert lived(1, 0.0, told=True) == pytest.approx(lived(1, 0.0, told=False), rel=0.02)


def test_recorded_weights_are_not_held_against_the_brokers_of_now() -> None:
    observed = model((A, 10.0), (B, 10.0))
    usages = {A: Usage(0.9, "CPU", 0.9), B: Usage(0.3, "CPU", 0.3)}
    for memory, known in ((600.0, 2), (0.0, 0)):
        _, after = decide(Memory(), 0.0, observed, Options(), replace(SteadyOptions(), memory=memory), usages=usages)
        assert len(after.learned.factors) == len(after.learned.bases) == known
