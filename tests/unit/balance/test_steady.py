"""When the steady-state driver acts: patience, hysteresis, rest, worth."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.execution.driver import Memory, decide
from pulsar_operator.balance.execution.steady import History, SteadyOptions, Verdict
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.advice import budget_reached
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.proposal import Advice, Balance, BrokerLoad, Move, Proposal

OPTIONS = SteadyOptions()
BUNDLE = BundleId("t/n", 0, 1)
BROKER = "idle"


def balance(ratio: float, mean: float = 0.4, bound: float | None = None) -> Balance:
    return Balance(busiest=mean * ratio, mean=mean, bound=mean if bound is None else bound, bundles=10)


def observe(
    history: History, minute: float, observed: Balance, idle: dict[str, float] | None = None
) -> tuple[steady.Verdict, History]:
    """Where the mean is what the busiest broker would have if topics could be cut."""
    return steady.observe(history, minute * 60.0, observed, observed.mean, idle or {}, OPTIONS)


def first_act(observed: Balance, idle: dict[str, float] | None = None) -> int | None:
    """The minute in which a lasting state is first acted on."""
    history = History()
    for minute in range(60):
        verdict, history = observe(history, minute, observed, idle)
        if verdict.act:
            return minute
    return None


@pytest.mark.parametrize(
    ("observed", "idle", "minute"),
    [
        (balance(1.0), {}, None),
        (balance(1.25), {}, None),  # within the tolerance, for ever
        (balance(1.26), {}, 5),
        (balance(1.5), {}, 3),  # twice as uneven, half as long, in whole minutes
        (balance(3.0, mean=0.2), {}, 1),
        (balance(1.3, mean=0.7), {}, 1),  # 91 %: overloaded
        (balance(1.15, mean=0.75), {}, 1),  # overloaded: only the plan's own tolerance counts
        (balance(1.05, mean=0.9), {}, None),  # full, but even: no move helps
        (balance(1.1), {BROKER: 0.3}, 2),
        (balance(2.0, bound=0.8), {}, None),  # a topic hotter than a broker: nothing to be gained
        (balance(2.2, mean=0.3, bound=0.6), {}, None),  # by a fifth of what each would have, not of the hot one
        (balance(2.26, mean=0.3, bound=0.6), {}, 5),
        (balance(0.0, mean=0.0), {}, None),
    ],
)
def test_patience(observed: Balance, idle: dict[str, float], minute: int | None) -> None:
    assert first_act(observed, idle) == minute


def test_an_idle_broker_shortens_no_patience_with_an_uneven_placement() -> None:
    """It may be idle for good; that noise makes another one busy for a moment is no reason to move."""
    history, verdicts = History(), []
    for minute in range(12):
        verdict, history = observe(history, minute, balance(1.3 if minute >= 6 else 1.1), {BROKER: 0.3})
        verdicts.append((verdict.act, verdict.uneven))
    assert verdicts == [(False, False)] * 2 + [(True, False)] * 9 + [(True, True)]


def test_only_what_is_uneven_for_long_enough_is_overloaded() -> None:
    history = History(idle_since=0.0)
    verdict, history = observe(history, 10, balance(1.3, mean=0.7), {BROKER: 0.3})
    assert (verdict.act, verdict.uneven, verdict.overloaded) == (True, False, False)
    verdict, _ = observe(history, 11, balance(1.3, mean=0.7), {BROKER: 0.3})
    assert (verdict.act, verdict.uneven, verdict.overloaded) == (True, True, True)
    assert (
        verdict.reason
        == "the busiest broker has 1.30 times the mean load and the least busy broker has 0.30 of its share"
    )


def test_one_even_observation_starts_patience_again() -> None:
    acted = []
    for even in ([], [4]):
        history = History()
        for minute in range(10):
            verdict, history = observe(history, minute, balance(1.1 if minute in even else 1.3))
            if verdict.act:
                acted.append(minute)
                break
    assert acted == [5]


def test_after_a_step_it_settles_and_then_goes_on_without_new_patience() -> None:
    history = steady.acted(History(uneven_since=0.0), 600.0)
    verdicts = [observe(history, 10 + after / 60, balance(1.3))[0].act for after in (60, 179, 180)]
    assert verdicts == [False, False, True]


def test_a_plan_that_came_to_nothing_is_not_asked_for_again_at_once() -> None:
    history = steady.refused(History(uneven_since=0.0), 600.0)
    verdicts = [observe(history, 10 + after / 60, balance(2.2))[0].act for after in (60, 119, 120)]
    assert verdicts == [False, False, True]
    assert steady.acted(history, 720.0).refused is None


def test_a_moved_bundle_rests() -> None:
    history = steady.moved(History(), 0.0, BUNDLE, OPTIONS)
    assert history.acted is None, "the plan goes on"
    assert steady.cooling(history, OPTIONS.rest - 1, OPTIONS) == {BUNDLE}
    assert steady.cooling(history, OPTIONS.rest, OPTIONS) == frozenset()
    other = BUNDLE._replace(lower=1)
    assert set(steady.moved(history, OPTIONS.rest, other, OPTIONS).moved) == {other}


UNEVEN, FULL, IDLE = Verdict(True, "", uneven=True), Verdict(True, "", uneven=True, overloaded=True), Verdict(True, "")


def offered(after: float, *destinations: str, advice: tuple[Advice, ...] = ()) -> Proposal:
    """From 1.5 times the mean to so much, by moves of a weight of 1 each."""
    steps = tuple(Move(BUNDLE, "a", each, 1.0, "") for each in destinations)
    return Proposal((), steps, balance(1.5, mean=1.0), balance(after - 1e-9, mean=1.0), 0.0, advice)


@pytest.mark.parametrize(
    ("moves", "after", "verdict", "worth"),
    [
        (0, 1.0, FULL, False),
        (5, 1.4, UNEVEN, True),
        (5, 1.41, UNEVEN, False),
        (5, 1.5, FULL, True),
        (1, 1.48, UNEVEN, True),
        (5, 1.0, IDLE, False),  # whatever it would bring: the busiest one has to be so for long enough
    ],
)
def test_a_proposal_has_to_be_worth_its_moves(moves: int, after: float, verdict: Verdict, worth: bool) -> None:
    assert steady.worthwhile(offered(after, *["b"] * moves), verdict, {}, OPTIONS) is worth


@pytest.mark.parametrize(
    ("destinations", "lacks", "verdict", "worth"),
    [
        ([BROKER] * 2, 4.0, IDLE, True),
        ([BROKER] * 2, 4.1, IDLE, False),  # it stays idle: nothing there fits
        ([BROKER], 4.0, UNEVEN, False),
        (["b"] * 3, 4.0, IDLE, False),
        ([BROKER, BROKER, "b"], 4.0, IDLE, False),  # the third brings nothing
    ],
)
def test_an_idle_broker_has_to_be_filled(destinations: list[str], lacks: float, verdict: Verdict, worth: bool) -> None:
    """Though the busiest one stays as it is."""
    assert steady.worthwhile(offered(1.5, *destinations), verdict, {BROKER: lacks}, OPTIONS) is worth


@pytest.mark.parametrize(
    ("weight", "after", "worth"),
    [
        (1.0, 1.4, True),
        (0.04, 1.41, False),
        (0.02, 1.45, True),  # half of what moves is enough
        (0.02, 1.46, False),
        (0.0, 1.5001, False),  # nothing is gained, and clients that send nothing reconnect too
    ],
)
def test_moves_of_small_bundles_need_bring_no_more_than_half_of_what_they_carry(
    weight: float, after: float, worth: bool
) -> None:
    proposal = offered(after, *["b"] * 5)
    moves = tuple(replace(move, weight=weight) for move in proposal.moves)
    assert steady.worthwhile(replace(proposal, moves=moves), UNEVEN, {}, OPTIONS) is worth


@pytest.mark.parametrize(("hot", "moves", "worth"), [(1, 25, False), (1, 20, True), (3, 60, True), (3, 61, False)])
def test_each_of_the_busiest_brokers_that_is_lowered_pays_for_moves(hot: int, moves: int, worth: bool) -> None:
    """Those that had less than the busiest one has afterwards pay for none, and were the others lower than that."""
    loads = [
        BrokerLoad(f"b{number}", (1.5, 1.1) if number < hot else (1.0, 0.9), (9, 9), (9, 9)) for number in range(9)
    ]
    proposal = replace(offered(1.1, *["b"] * moves), brokers=tuple(loads))
    assert steady.worthwhile(proposal, UNEVEN, {}, OPTIONS) is worth


@pytest.mark.parametrize(("per_broker", "hot"), [(20, 1), (20, 5), (20, 15), (100, 5)])
def test_fifty_brokers_are_evened_out(per_broker: int, hot: int) -> None:
    """Some of which have more than half above the others."""
    chance = Random(1)
    bundles = []
    for number in range(50 * per_broker):
        owner, lower = chance.randrange(50), number % 100 * 1000
        weight = exp(chance.gauss(0.0, 0.5)) * (1.6 if owner < hot else 1.0)
        ident = BundleId(f"t/n{number // 100}", lower, lower + 1000)
        bundles.append(Bundle(ident, weight, f"b{owner}", (Cell(lower, weight, 1, 2),), 1, 2))
    model = ClusterModel(tuple(Broker(f"b{number}") for number in range(50)), tuple(bundles))
    memory, decisions = Memory(), []
    for minute in range(10):
        decision, memory = decide(memory, 60.0 * minute, model, Options(), replace(OPTIONS, overload=inf))
        decisions.append(decision)
        if decision.planned is not None:
            break
    planned = decisions[-1].planned
    assert decisions[-1].act and planned is not None and planned.after.ratio < 1.15


def test_a_budget_that_ended_may_fill_an_idle_broker_in_parts() -> None:
    rest = offered(1.5, BROKER, advice=(budget_reached(),))
    assert steady.worthwhile(rest, IDLE, {BROKER: 40.0}, OPTIONS)


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(0, 5), st.floats(0, 1e9)),
    st.dictionaries(st.integers(0, 5), st.floats(0, 1e9)),
    st.floats(0, 1e5),
)
def test_smoothing_stays_between_what_was_and_what_is(
    before: dict[int, float], seen: dict[int, float], seconds: float
) -> None:
    smoothed = steady.smooth(before, seen, seconds, 600.0)
    assert smoothed.keys() == seen.keys()
    for key, weight in smoothed.items():
        past = before.get(key, seen[key])
        low, high = min(past, seen[key]), max(past, seen[key])
        assert low - 1e-6 * high <= weight <= high * (1 + 1e-6)
    assert steady.smooth(before, seen, 600.0, 600.0) == pytest.approx(seen, abs=1e-6)
