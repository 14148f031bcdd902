"""The ConfigMap of a proposal: what fits in it, what people read, what an operator of before wrote."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pulsar_operator.api.v1alpha1.rebalance import ProposalStatus
from pulsar_operator.balance.execution.custom_resource import (
    BROKERS_FILE,
    MAX_STEPS_BYTES,
    MAX_TEXT_BYTES,
    STEPS_FILE,
    WORDS_FILE,
    config_map,
    presented,
    read_steps,
    steps_that_fit,
)
from pulsar_operator.balance.execution.steps import Step, from_json, identify, to_json
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Move, Split
from tests.support.balancing.planning import cluster

OBJECT = {
    "apiVersion": "pulsaroperator.io/v1alpha1",
    "kind": "PulsarRebalance",
    "metadata": {"name": "even", "namespace": "pulsar", "uid": "0f3a"},
}
MOMENT = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("tail", "namespace"),
    [
        (".x:8080", "t/n"),
        (".east-broker-headless.pulsar.svc.cluster.local:8080", "public/default"),
        (f".{'long-' * 40}name:8080", f"{'tenant' * 10}/{'namespace' * 10}"),
    ],
)
def test_as_many_steps_as_are_asked_for_fit_with_the_longest_reasons(tail: str, namespace: str) -> None:
    brokers = [f"east-broker-{number}{tail}" for number in range(100)]
    most = steps_that_fit(brokers, [namespace, "t/n"])
    assert 200 < most < 2600
    first, last = brokers[-2:]
    why = (
        f"BusiestBroker: {first} carries 123.45 of its fair share, {last} 123.46; after all steps they carry 100.00 "
        "and 100.00"
    )
    ident = BundleId(namespace, 0xFFFFFFF0, 0xFFFFFFFF)
    moves = [Move(ident, first, last, 1e12, why, 100_000, 100_000)] * most
    model = cluster({broker: [1.0] for broker in brokers})
    shown = presented(plan(model, Options()), counted=True)
    steps = [*presented(replace(shown, moves=tuple(moves)), counted=True).moves]
    made = config_map(OBJECT, "even-proposal", "id", steps, shown.brokers)
    assert made is not None
    sizes = {name: len(text.encode()) for name, text in made["data"].items()}
    assert sizes[STEPS_FILE] <= MAX_STEPS_BYTES
    assert sum(sizes.values()) <= MAX_STEPS_BYTES + MAX_TEXT_BYTES < 1 << 20, "a ConfigMap holds 1 MiB"
    assert len(json.loads(made["data"][STEPS_FILE])) == most
    assert made["data"][WORDS_FILE].splitlines()[-1].endswith(" more)") or most < 1000


def test_what_people_read_has_short_names_and_what_the_operator_reads_has_ids() -> None:
    tail = ".east-broker.pulsar.svc.cluster.local:8080"
    model = cluster({f"b{n}{tail}": [float(6 - n)] * 6 for n in range(4)})
    proposal = presented(plan(model, Options(Mode.MOVE)), counted=True)
    made = config_map(OBJECT, "even-proposal", "id", proposal.moves, proposal.brokers)
    assert made is not None
    assert tail not in made["data"][WORDS_FILE] + made["data"][BROKERS_FILE]
    assert (
        "move shop/orders/0x" in made["data"][WORDS_FILE]
        and "because BusiestBroker: b0 carries" in made["data"][WORDS_FILE]
    )
    assert made["data"][BROKERS_FILE].splitlines()[1].startswith("b0 ")
    assert [each["move"]["to"] for each in json.loads(made["data"][STEPS_FILE])] == [
        m.destination for m in proposal.moves
    ]
    assert all(move.destination.endswith(tail) for move in proposal.moves)


def test_clients_that_nobody_counted_are_not_shown() -> None:
    model = cluster({"a:8080": [1.0] * 8, "b:8080": []})
    proposal = presented(plan(model, Options(Mode.MOVE)), counted=False)
    made = config_map(OBJECT, "even-proposal", "id", proposal.moves, proposal.brokers)
    assert made is not None and proposal.clients is None and proposal.topics == len(proposal.moves)
    assert "CLIENTS" not in made["data"][BROKERS_FILE] and "clients" not in made["data"][STEPS_FILE]


WAYS = [
    Move(BundleId("t/n", 0, 16), "a:8080", "b:8080", 7.0, "why"),
    Move(BundleId("t/n", 0, 16), "a:8080", "b:8080", 7.0, "why", 3, 0),
    Move(BundleId("t/n", 0, 16), None, "b:8080", 7.0, "why", 3),
    Split(BundleId("t/n", 0, 16), 8, "why"),
]


@pytest.mark.parametrize("step", WAYS)
def test_steps_are_read_as_they_were_written(step: Step) -> None:
    assert from_json(json.loads(json.dumps(to_json([step])))) == [step]


def test_the_steps_of_an_operator_of_before_are_those_that_were_approved() -> None:
    """It counted nothing: the id of its proposal is that of the steps as they are read."""
    steps: list[Step] = [WAYS[0], WAYS[3]]
    place = {"namespace": "t/n", "range": "0x00000000_0x00000010"}
    text = json.dumps(
        [
            {
                "move": {
                    "namespace": "t/n",
                    "range": "0x00000000_0x00000010",
                    "from": "a:8080",
                    "to": "b:8080",
                    "weight": 7,
                },
                "reason": "why",
            },
            {"split": {**place, "at": "0x00000008"}, "reason": "why"},
        ],
        indent=1,
    )
    ident = identify(steps, MOMENT)
    live = {"metadata": {"annotations": {"pulsaroperator.io/proposal": ident}}, "data": {STEPS_FILE: text}}
    assert read_steps(live, ProposalStatus(id=ident, computed_time=MOMENT)) == steps


def test_the_default_budget_evens_out_any_placement_with_one_proposal() -> None:
    model = cluster({"a:8080": [[1.0, 1.5]] * 60, "b:8080": [], "c:8080": [], "d:8080": []})
    proposal = plan(model, Options(budget=Budget()))
    assert proposal.before.ratio == pytest.approx(4.0)
    assert proposal.after.ratio < 1.1
