"""What topics cost, learned by regression: no evidence is no factor, and what the hours tell is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pulsar_sizing.job.regression import BOUND, MIN_HOURS, Evidence, Learned, deviations, learn

BROKERS = 3
NAMES = ("a", "b", "c", "d", "e", "f")


def recorded(factors: Any, *, hours: int = 96, noise: float = 0.0, idle: float = 0.05, seed: int = 1) -> Evidence:
    """Topics of independent traffic that move to some broker every few hours; all of them are heavy."""
    rng = np.random.default_rng(seed)
    many = len(factors)
    costs = rng.lognormal(12.0, 0.4, (hours, many))
    owners = np.repeat(rng.integers(0, BROKERS, (hours // 4 + 1, many)), 4, axis=0)[:hours]
    at = owners[:, None, :] == np.arange(BROKERS)[None, :, None]
    topics = np.where(at, costs[:, None, :], 0.0).reshape(hours * BROKERS, many)
    used = topics @ np.asarray(factors)
    cpu = (idle + 0.4 * used / used.mean()) * rng.lognormal(0.0, noise or 1e-9, len(used))
    number = np.arange(hours * BROKERS)
    return Evidence(number // BROKERS, number % BROKERS, cpu, topics.sum(axis=1), NAMES[:many], topics)


def relative(evidence: Evidence, factors: Any) -> Any:
    """Factors with that of the mean byte as 1; of all observations that count."""
    shares = evidence.topics[evidence.cost > 0].sum(axis=0)
    return np.asarray(factors) / (shares @ np.asarray(factors) / shares.sum())


def found(told: Learned) -> Any:
    return np.array([told.factors[name].factor for name in NAMES[: len(told.factors)]])


true_factors = st.lists(st.floats(0.5, 1.9), min_size=6, max_size=6)


@given(true_factors)
def test_what_is_told_without_error_is_found(factors: list[float]) -> None:
    evidence = recorded(factors)
    told = learn(evidence)
    spread = float(np.std(np.log(factors)))
    if spread > 0.05:
        assert set(told.factors) == set(NAMES)
        assert found(told) == pytest.approx(relative(evidence, factors), rel=0.02)
        assert told.before is not None and told.after is not None and told.after < told.before / 5


@given(true_factors, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_units_of_cpu_and_cost_do_not_matter(factors: list[float], cpu: float, cost: float) -> None:
    evidence = recorded(factors, noise=0.05)
    other = replace(evidence, cpu=evidence.cpu * cpu, cost=evidence.cost * cost, topics=evidence.topics * cost)
    one, same = learn(evidence), learn(other)
    assert set(one.factors) == set(same.factors)
    for name, each in one.factors.items():
        assert same.factors[name].factor == pytest.approx(each.factor, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_topics_that_cost_what_they_say_keep_their_weight(seed: int) -> None:
    told = learn(recorded([1.0] * 6, noise=0.05, seed=seed))
    assert all(abs(each.factor - 1) < 0.03 for each in told.factors.values())
    assert told.others == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_errors_are_as_large_as_they_are_said_to_be(seed: int) -> None:
    factors = [0.5, 0.8, 1.0, 1.2, 1.6, 2.2]
    evidence = recorded(factors, noise=0.1, seed=seed)
    told = learn(evidence)
    away = found(told) - relative(evidence, factors)
    assert np.abs(away / [each.error for each in told.factors.values()]).max() < 4


def test_topics_that_rise_and_fall_together_on_one_broker_are_not_told_apart() -> None:
    """Of what never moves nothing is known but its sum, and that may be the broker's."""
    rng = np.random.default_rng(5)
    hours, many = 96, BROKERS * 2
    level = rng.lognormal(12.0, 0.3, hours)
    owner = np.arange(many) % BROKERS
    topics = np.zeros((hours, BROKERS, many))
    topics[:, owner, np.arange(many)] = level[:, None]
    flat = topics.reshape(-1, many)
    cpu = 0.4 * (flat @ np.linspace(0.5, 2.0, many)) / flat.sum(axis=1).mean()
    number = np.arange(len(flat))
    told = learn(Evidence(number // BROKERS, number % BROKERS, cpu, flat.sum(axis=1), NAMES[:many], flat))
    assert told.factors == {} and told.others == 1.0 and told.before == told.after


def test_a_slower_broker_is_not_held_against_its_topics() -> None:
    evidence = recorded([1.0] * 6, noise=0.02)
    told = learn(replace(evidence, cpu=evidence.cpu * np.array([1.0, 1.0, 1.3])[evidence.brokers]))
    assert all(abs(each.factor - 1) < 0.1 for each in told.factors.values())


def test_the_total_stays_what_it_is() -> None:
    evidence = recorded([0.5, 3.0, 1.0, 1.0, 1.0, 1.0], noise=0.05)
    light = replace(evidence, names=NAMES[:2], topics=evidence.topics[:, :2])
    told = learn(light)
    assert set(told.factors) == {"a", "b"}
    shares = light.topics.sum(axis=0) / light.cost.sum()
    assert shares @ found(told) + (1 - shares.sum()) * told.others == pytest.approx(1.0)


@given(st.lists(st.floats(0.001, 1000.0), min_size=6, max_size=6), st.integers(0, 9))
def test_factors_are_bounded(factors: list[float], seed: int) -> None:
    told = learn(recorded(factors, noise=0.1, seed=seed))
    for each in [*(each.factor for each in told.factors.values()), told.others]:
        assert 1 / BOUND <= each <= BOUND


anything = st.one_of(st.floats(), st.floats(-1, 10))


@given(
    arrays(float, (60,), elements=anything),
    arrays(float, (60,), elements=anything),
    arrays(float, (60, 2), elements=anything),
)
def test_any_figures_give_finite_answers(cpu: Any, cost: Any, topics: Any) -> None:
    number = np.arange(60)
    with np.errstate(all="ignore"):
        told = learn(Evidence(number // 2, number % 2, cpu, cost, ("a", "b"), topics))
    for each in told.factors.values():
        assert 1 / BOUND <= each.factor <= BOUND and each.error >= 0
    assert 1 / BOUND <= told.others <= BOUND
    assert told.after is None or told.before is None or not told.after > told.before


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e-100, 1e100, 1e150])
def test_figures_beyond_what_numbers_can_tell_apart_give_an_answer(scale: float, every: int) -> None:
    """Their squares are 0, or 0 beside others: the normal equations have no solution, or none that is one."""
    evidence = recorded([0.5, 2.0, 1.0, 1.0, 1.0, 1.0], noise=0.05)
    cost, topics = evidence.cost.copy(), evidence.topics.copy()
    cost[::every], topics[::every] = cost[::every] * scale, topics[::every] * scale
    for changed in (replace(evidence, cost=cost), replace(evidence, cost=cost, topics=topics)):
        with np.errstate(all="ignore"):
            told = learn(changed)
        assert all(1 / BOUND <= each.factor <= BOUND for each in told.factors.values())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0])
def test_an_observation_that_is_none_does_not_count(bad: float) -> None:
    evidence = recorded([0.5, 2.0, 1.0, 1.0, 1.0, 1.0], noise=0.05)
    cpu = evidence.cpu.copy()
    cpu[7] = bad
    kept = np.flatnonzero(np.arange(len(cpu)) != 7)
    parts = {name: getattr(evidence, name)[kept] for name in ("hours", "brokers", "cpu", "cost", "topics")}
    assert learn(replace(evidence, cpu=cpu)) == learn(replace(evidence, **parts))


def test_too_little_tells_nothing() -> None:
    evidence = recorded([0.5, 2.0, 1.0, 1.0, 1.0, 1.0], hours=MIN_HOURS - 1)
    told = learn(evidence)
    assert (told.factors, told.others, told.before, told.brokers) == ({}, 1.0, None, BROKERS)
    empty = np.empty(0)
    assert learn(Evidence(empty, empty, empty, empty)) == Learned()
    whole = recorded([0.5, 2.0, 1.0, 1.0, 1.0, 1.0])
    alone = np.flatnonzero(whole.brokers == 0)
    parts = {name: getattr(whole, name)[alone] for name in ("hours", "brokers", "cpu", "cost", "topics")}
    assert learn(replace(whole, **parts)).before is None, "a broker alone has all of the CPU"


def test_the_deviation_is_that_of_hours_that_were_not_learned_from() -> None:
    """What costs one thing in the first half and another in the second explains neither."""
    first, second = recorded([0.5, 2.0, 1.0, 1.0]), recorded([2.0, 0.5, 1.0, 1.0])
    half = len(first.cpu) // 2
    cpu = np.concatenate([first.cpu[:half], second.cpu[half:]])
    told = learn(replace(first, cpu=cpu))
    before, _ = deviations(first)
    assert before > 0.1
    assert told.before is not None and told.after is not None
    assert told.after > told.before / 2
