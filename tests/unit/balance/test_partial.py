"""Brokers that do not answer are unknown: they are left out, with their bundles, as long as not too much is unknown."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.execution.driver import Memory, decide
from pulsar_operator.balance.execution.learned import Base, Learned
from pulsar_operator.balance.execution.partial import KEPT_SECONDS, Silence, answering, heard, kept, too_much
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Options
from pulsar_operator.balance.planner.plan import plan

STEP = 1 << 20
BROKERS = tuple("abcde")


def bundle(number: int, weight: float, owner: str | None, namespace: str = "t/n") -> Bundle:
    lower = number * STEP
    halves = (Cell(lower, weight / 2), Cell(lower + STEP // 2, weight / 2))
    return Bundle(BundleId(namespace, lower, lower + STEP), weight, owner, halves, 2)


def cluster(*bundles: Bundle, **more: object) -> ClusterModel:
    return ClusterModel(tuple(Broker(each) for each in BROKERS), bundles, **more)  # type: ignore[arg-type]


def skewed() -> ClusterModel:
    """Twenty bundles: twelve on a, two on each other broker."""
    owners = ["a"] * 12 + [each for each in "bcde" for _ in range(2)]
    return cluster(*(bundle(number, 100.0, owner) for number, owner in enumerate(owners)))


def test_the_unknown_is_neither_idle_nor_gone_nor_a_destination() -> None:
    model = skewed()
    found = answering(model, {"e"}, unlisted=False)
    assert [each.id for each in found.brokers] == list("abcd")
    assert {each.owner for each in found.bundles} == set("abcd")
    proposal = plan(found, Options(budget=Budget(max_moves=100, max_moved_percent=100)))
    assert proposal.moves and all("e" not in (move.source, move.destination) for move in proposal.moves)
    assert proposal.before.mean == 1800 / 4
    assert answering(model, (), unlisted=False) is model


def test_a_bundle_that_nobody_names_may_be_where_nobody_answers() -> None:
    model = cluster(bundle(1, 100.0, "a"), bundle(2, 0.0, None))
    assert [each.owner for each in answering(model, {"e"}, unlisted=True).bundles] == ["a"]
    assert [each.owner for each in answering(model, {"e"}, unlisted=False).bundles] == ["a", None]


def test_groups_of_which_a_part_is_unknown_stay() -> None:
    model = cluster(bundle(1, 100.0, "a"), anti_affinity={"t/n": "group"}, pinned=frozenset({"pulsar/system"}))
    assert answering(model, {"e"}, unlisted=False).pinned == {"pulsar/system", "t/n"}
    assert model.pinned == {"pulsar/system"}


@given(st.sets(st.sampled_from(BROKERS)), st.lists(st.sampled_from([*BROKERS, None]), max_size=30), st.booleans())
def test_no_plan_touches_what_is_unknown(silent: set[str], owners: list[str | None], unlisted: bool) -> None:
    model = cluster(*(bundle(n, 50.0 + 37 * n % 100, owner) for n, owner in enumerate(owners)))
    found = answering(model, silent, unlisted=unlisted)
    proposal = plan(found, Options(budget=Budget(max_moves=100, max_moved_percent=100)))
    hidden = {each.id for each in model.bundles if each.owner in silent}
    for move in proposal.moves:
        assert move.destination not in silent and move.source not in silent
        assert not any(move.bundle.lower < each.upper and each.lower < move.bundle.upper for each in hidden)
    assert not any(split.bundle in hidden for split in proposal.splits)


@pytest.mark.parametrize(
    ("silent", "loads", "words"),
    [
        ("", {}, None),
        ("e", {}, None),
        ("de", {}, "2 of 5 brokers"),
        ("bcde", {}, "fewer than two brokers"),
        ("e", dict.fromkeys(BROKERS, 10.0), None),
        ("e", {**dict.fromkeys(BROKERS, 10.0), "e": 20.0}, None),
        ("e", {**dict.fromkeys(BROKERS, 10.0), "e": 21.0}, "34% of the load"),
        ("e", dict.fromkeys(BROKERS, 0.0), None),
        # A broker that is gone for good counts no more.
        ("e", {**dict.fromkeys(BROKERS, 10.0), "e": 20.0, "z": 500.0}, None),
    ],
)
def test_too_much_is_unknown(silent: str, loads: dict[str, float], words: str | None) -> None:
    found = too_much(Silence(loads=loads), BROKERS, set(silent))
    assert found is None if words is None else found is not None and words in found


@pytest.mark.parametrize(("brokers", "silent", "decides"), [(2, 1, False), (3, 1, True), (3, 2, False), (6, 2, True)])
def test_a_third_of_the_brokers_may_be_silent(brokers: int, silent: int, decides: bool) -> None:
    names = [f"b{n}" for n in range(brokers)]
    assert (too_much(Silence(), names, names[:silent]) is None) is decides


def look(known: tuple[Memory, Silence], now: float, model: ClusterModel, silent: set[str]) -> tuple[Memory, Silence]:
    """As controllers/rebalance/proposal.py."""
    memory, silence = known
    part = answering(model, silent, unlisted=False)
    _, after = decide(memory, now, part, Options(), SteadyOptions(overload=inf))
    silence = heard(silence, now, part, after, silent)
    return kept(memory, after, silence, now), silence


def test_one_observation_without_an_answer_forgets_nothing() -> None:
    known = look((Memory(), Silence()), 0.0, skewed(), set())
    known = look(known, 60.0, skewed(), {"e"})
    assert known[0].weights[bundle(19, 0, None).id] == 100.0 and known[1].since == {"e": 60.0}
    louder = skewed()
    louder = replace(louder, bundles=(*louder.bundles[:-1], bundle(19, 700.0, "e")))
    known = look(known, 120.0, louder, set())
    assert known[0].weights[bundle(19, 0, None).id] == pytest.approx(160.0), "one figure is no trend"
    assert known[1].since == {}


def test_what_is_old_is_forgotten_and_how_much_was_there_is_not() -> None:
    known = look((Memory(), Silence()), 0.0, skewed(), set())
    now = 0.0
    while now <= KEPT_SECONDS + 120:
        now += 60
        known = look(known, now, skewed(), {"a"})
    assert bundle(0, 0, None).id not in known[0].weights
    assert known[1].loads["a"] == 1200.0
    assert "60% of the load" in (too_much(known[1], BROKERS, {"a"}) or "")


def test_what_was_learned_of_it_is_kept_as_well() -> None:
    ident = bundle(19, 0, None).id
    memory = Memory(learned=Learned({ident: 2.0}, {"e": Base(0.3, 0.01)}, 1e-4))
    silence = Silence(owners={ident: "e"})
    after, silence = look((memory, silence), 60.0, skewed(), {"e"})
    assert after.learned.factors[ident] == 2.0 and after.learned.bases["e"].share == 0.3
    gone, _ = look((after, silence), 60.0 + KEPT_SECONDS + 60, skewed(), {"e"})
    assert ident not in gone.learned.factors and "e" not in gone.learned.bases


def test_a_bundle_that_came_to_a_broker_that_answers_is_its_own() -> None:
    known = look((Memory(), Silence()), 0.0, skewed(), set())
    moved = skewed()
    moved = replace(moved, bundles=(*moved.bundles[:-1], bundle(19, 50.0, "b")))
    memory, silence = look(known, 60.0, moved, {"e"})
    assert silence.owners[bundle(19, 0, None).id] == "b"
    assert memory.weights[bundle(19, 0, None).id] == pytest.approx(95.0)
