"""When the steady-state driver acts: patience, hysteresis, rest, worth."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.execution.steady import History, SteadyOptions
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.proposal import Balance, Move, Proposal

OPTIONS = SteadyOptions()
BUNDLE = BundleId("t/n", 0, 1)


def balance(ratio: float, mean: float = 0.4, bound: float | None = None) -> Balance:
    return Balance(busiest=mean * ratio, mean=mean, bound=mean if bound is None else bound, bundles=10)


def first_act(observed: Balance, idlest: float = 0.3, history: History | None = None) -> int | None:
    """The minute in which a lasting state is first acted on."""
    history = history or History()
    for minute in range(60):
        verdict, history = steady.look(history, minute * 60.0, observed, idlest, OPTIONS)
        if verdict.act:
            return minute
    return None


@pytest.mark.parametrize(
    ("observed", "idlest", "minute"),
    [
        (balance(1.0), 0.4, None),
        (balance(1.25), 0.35, None),  # within the tolerance, for ever
        (balance(1.26), 0.35, 5),
        (balance(1.5), 0.3, 3),  # twice as uneven, half as long, in whole minutes
        (balance(3.0, mean=0.2), 0.15, 1),
        (balance(1.3, mean=0.7), 0.6, 1),  # 91 %: overloaded
        (balance(1.15, mean=0.75), 0.7, 1),  # overloaded: only the plan's own tolerance counts
        (balance(1.05, mean=0.9), 0.85, None),  # full, but even: no move helps
        (balance(1.1), 0.1, 2),  # an idle broker
        (balance(2.0, bound=0.8), 0.3, None),  # a topic hotter than a broker: nothing to be gained
        (balance(0.0, mean=0.0), 0.0, None),
    ],
)
def test_patience(observed: Balance, idlest: float, minute: int | None) -> None:
    assert first_act(observed, idlest) == minute


def test_one_even_look_starts_patience_anew() -> None:
    acted = []
    for even in ([], [4]):
        history = History()
        for minute in range(10):
            observed = balance(1.1 if minute in even else 1.3)
            verdict, history = steady.look(history, minute * 60.0, observed, 0.3, OPTIONS)
            if verdict.act:
                acted.append(minute)
                break
    assert acted == [5]


def test_after_a_step_it_settles_and_then_goes_on_without_new_patience() -> None:
    history = History(uneven_since=0.0)
    history = steady.acted(history, 600.0, [BUNDLE], OPTIONS)
    verdicts = [steady.look(history, 600.0 + after, balance(1.3), 0.3, OPTIONS)[0].act for after in (60, 179, 180)]
    assert verdicts == [False, False, True]


def test_a_plan_that_came_to_nothing_is_not_asked_for_again_at_once() -> None:
    history = steady.refused(History(uneven_since=0.0), 600.0)
    verdicts = [steady.look(history, 600.0 + after, balance(2.2), 0.3, OPTIONS)[0].act for after in (60, 119, 120)]
    assert verdicts == [False, False, True]
    assert steady.acted(history, 720.0, [], OPTIONS).refused is None


def test_a_moved_bundle_rests() -> None:
    history = steady.acted(History(), 0.0, [BUNDLE], OPTIONS)
    assert steady.cooling(history, OPTIONS.rest - 1, OPTIONS) == {BUNDLE}
    assert steady.cooling(history, OPTIONS.rest, OPTIONS) == frozenset()
    other = BUNDLE._replace(lower=1)
    assert set(steady.acted(history, OPTIONS.rest, [other], OPTIONS).moved) == {other}


@pytest.mark.parametrize(
    ("moves", "after", "urgent", "worth"),
    [
        (0, 1.0, True, False),
        (5, 1.4, False, True),
        (5, 1.41, False, False),
        (5, 1.5, True, True),
        (1, 1.48, False, True),
    ],
)
def test_a_proposal_has_to_be_worth_its_moves(moves: int, after: float, urgent: bool, worth: bool) -> None:
    steps = tuple(Move(BUNDLE, "a", "b", 1.0, "") for _ in range(moves))
    proposal = Proposal((), steps, balance(1.5, mean=1.0), balance(after - 1e-9, mean=1.0), 0.0)
    assert steady.worthwhile(proposal, OPTIONS, urgent=urgent) is worth


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
