"""Reasons of steps: each tells the loads at that step, after those before it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, outcome, utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Move, Proposal
from pulsar_operator.balance.planner.reasons import explained
from tests.support.balancing.planning import ENDLESS, WIDTH, cluster, clusters, questions

A, B, C = "a:8080", "b:8080", "c:8080"
LOADS = re.compile(r"(\S+) carries (\d+\.\d\d) of its fair share and (\S+) carries (\d+\.\d\d)")


def loads_told(model: ClusterModel, proposal: Proposal) -> int:
    """Hold the loads in every move's reason against the outcome of the steps before it; how many were told."""
    told = 0
    for number, move in enumerate(proposal.moves):
        found = LOADS.search(move.reason)
        if found is None:
            continue
        now = outcome(model, proposal.splits, proposal.moves[:number])
        used = utilizations(now.brokers, now.bundles)
        mean = proposal.before.mean
        for broker, share in ((found[1], found[2]), (found[3], found[4])):
            assert broker in (move.source, move.destination)
            assert float(share) == pytest.approx(used[broker] / mean, abs=0.0051)
        told += 1
    return told


def test_a_later_step_shows_less_load_than_the_first() -> None:
    model = cluster({A: [10.0] * 9, B: [], C: []})
    proposal = plan(model, Options(Mode.MOVE, ENDLESS))
    assert loads_told(model, proposal) == len(proposal.moves) == 6
    assert [move.reason.split(" carries ")[1][:4] for move in proposal.moves] == [
        *("3.00", "2.67", "2.33", "2.00", "1.67", "1.33")
    ]


def test_a_broker_that_is_emptied_shows_how_much_is_left() -> None:
    model = cluster({A: [3.0, 2.0, 1.0], B: [1.0]})
    proposal = plan(model, Options(Mode.REMOVE_BROKERS, ENDLESS, brokers=frozenset({A})))
    assert [move.reason for move in proposal.moves] == [
        f"DrainingBrokers: {A} is being emptied and still has {left}" for left in ("3 bundles", "2 bundles", "1 bundle")
    ]


def move(number: int, source: str, destination: str, weight: float) -> Move:
    return Move(
        BundleId("shop/orders", number * WIDTH, (number + 1) * WIDTH), source, destination, weight, "BusiestBroker"
    )


def test_the_way_back_of_a_swap_is_reported_by_the_loads_of_then() -> None:
    model = cluster({A: [12.0, 8.0], B: [7.0, 3.0]})
    heavy, light = move(0, A, B, 12.0), move(3, B, A, 3.0)
    balance = balance_of(model)
    there = explained(model, Proposal((), (heavy, light), balance, balance, 15.0)).moves
    assert there[0].reason == f"BusiestBroker: {A} carries 1.33 of its fair share and {B} carries 0.67"
    assert there[1].reason == f"BusiestBroker: {B} carries 1.47 of its fair share and {A} carries 0.53"
    back = explained(model, Proposal((), (light, heavy), balance, balance, 15.0)).moves
    assert back[0].reason == (
        f"BusiestBroker: {B} carries 0.67 of its fair share and {A} carries 1.33, and {B} makes room for a heavier "
        "bundle"
    )


def test_a_step_towards_the_busier_broker_shows_where_all_steps_lead() -> None:
    model = cluster({A: [12.0, 8.0], B: [7.0, 3.0], C: []})
    away, onto = move(0, A, C, 12.0), move(3, B, A, 3.0)
    balance = balance_of(model)
    told = explained(model, Proposal((), (onto, away), balance, balance, 15.0)).moves[0].reason
    assert told.endswith(", and after all steps they carry 0.70 and 1.10")


def test_a_cut_names_the_load_of_its_broker_and_a_sentence_stays() -> None:
    model = cluster({A: [[7.0, 4.0]], B: [3.0]})
    proposal = plan(model, Options(Mode.FULL, ENDLESS))
    assert len(proposal.splits) == 1
    assert proposal.splits[0].reason.startswith(
        f"BusiestBroker: {A} carries 1.57 of its fair share, and moving one of its whole"
    )
    said = replace(proposal, splits=(replace(proposal.splits[0], reason="somebody wants it"),))
    assert explained(model, said).splits == said.splits
    assert explained(model, said).moves == proposal.moves, "a sentence is not told anew"


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_reason_shows_the_loads_of_its_step(data: st.DataObject) -> None:
    model = data.draw(clusters())
    options = data.draw(questions(model, budget=Budget(max_moves=100, max_moved_percent=100.0)))
    loads_told(model, plan(model, options))
