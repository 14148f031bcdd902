"""The check of proposals, by spoiled ones, and the re-check of the rest of one against a changed cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_operator.balance.model.cluster import Broker, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Move, Proposal, Split
from pulsar_operator.balance.planner.verify import PlanError, check
from tests.support.balancing.planning import ENDLESS, NAMESPACE, after, cluster

A, B, C = "a:8080", "b:8080", "c:8080"
MODEL = cluster({A: [[4.0, 4.0, 4.0], 6.0, 6.0, 1.0], B: [1.0], C: [1.0]})
OPTIONS = Options(budget=ENDLESS)
HEAVY, SIX, OTHER_SIX, ONE, AT_B, AT_C = MODEL.bundles
CUT = 0x80000
LOWER, UPPER = HEAVY.id._replace(upper=CUT), HEAVY.id._replace(lower=CUT)


def proposal(*steps: Split | Move) -> Proposal:
    """A proposal that is honest about what it does."""
    splits = tuple(step for step in steps if isinstance(step, Split))
    moves = tuple(step for step in steps if isinstance(step, Move))
    empty = plan(cluster({A: [1.0], B: [1.0]}), OPTIONS).before
    before = replace(empty, busiest=25.0, bundles=6)
    try:
        final = after(MODEL, Proposal(splits, moves, before, before, 0.0))
        loads = [sum(b.weight for b in final.bundles if b.owner == broker) for broker in (A, B, C)]
        end = replace(before, busiest=max(loads), bundles=len(final.bundles))
    except (KeyError, ValueError):
        end = before
    return Proposal(splits, moves, before, end, sum(move.weight for move in moves))


def cut(at: int = CUT) -> Split:
    return Split(HEAVY.id, at, "test")


def move(bundle: object = SIX, destination: str = B, source: str | None = A, weight: float | None = None) -> Move:
    return Move(bundle.id, source, destination, bundle.weight if weight is None else weight, "test")  # type: ignore[attr-defined]


def test_good_ones_pass() -> None:
    check(MODEL, proposal(), OPTIONS)
    check(MODEL, proposal(cut(), Move(UPPER, A, B, 8.0, "test"), move(SIX, C)), OPTIONS)
    check(MODEL, plan(MODEL, OPTIONS), OPTIONS)


PINNED = replace(MODEL, pinned=frozenset({NAMESPACE}))
ISOLATED = replace(MODEL, allowed={NAMESPACE: frozenset({A, C})})
DRAINING = replace(MODEL, brokers=(Broker(A), Broker(B, draining=True), Broker(C)))
BAD: list[tuple[str, str, ClusterModel, Proposal, Options]] = [
    ("splits in mode Move", "Mode", MODEL, proposal(cut()), replace(OPTIONS, mode=Mode.MOVE)),
    ("moves in mode Split", "Mode", MODEL, proposal(move()), replace(OPTIONS, mode=Mode.SPLIT)),
    (
        "onto another broker",
        "NewBrokers",
        MODEL,
        proposal(move()),
        Options(mode=Mode.ADD_BROKERS, brokers=frozenset({C}), budget=ENDLESS),
    ),
    (
        "off another broker",
        "Mode",
        MODEL,
        proposal(move()),
        Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({C}), budget=ENDLESS),
    ),
    ("cut outside", "Steps", MODEL, proposal(cut(HEAVY.id.upper)), OPTIONS),
    ("cut of nothing", "Steps", MODEL, proposal(cut(), cut()), OPTIONS),
    ("move of what was cut", "Steps", MODEL, proposal(cut(), move(HEAVY)), OPTIONS),
    ("move of a piece that is not cut", "Steps", MODEL, proposal(Move(LOWER, A, B, 4.0, "")), OPTIONS),
    ("moved twice", "Steps", MODEL, proposal(move(SIX, B), move(SIX, C, B)), OPTIONS),
    ("wrong source", "Steps", MODEL, proposal(move(SIX, B, C)), OPTIONS),
    ("no way at all", "Steps", MODEL, proposal(move(SIX, A)), OPTIONS),
    ("unknown broker", "Steps", MODEL, proposal(move(SIX, "d:8080")), OPTIONS),
    ("wrong weight", "Steps", MODEL, proposal(move(SIX, weight=5.0)), OPTIONS),
    ("pinned, moved", "PinnedNamespaces", PINNED, proposal(move()), OPTIONS),
    ("pinned, cut", "PinnedNamespaces", PINNED, proposal(cut()), OPTIONS),
    ("not selected", "PinnedNamespaces", MODEL, proposal(move()), replace(OPTIONS, namespaces=frozenset({"t/x"}))),
    ("cooling, moved", "Cooling", MODEL, proposal(move()), replace(OPTIONS, cooling=frozenset({SIX.id}))),
    ("cooling, cut", "Cooling", MODEL, proposal(cut()), replace(OPTIONS, cooling=frozenset({HEAVY.id}))),
    ("draining", "DrainingBrokers", DRAINING, proposal(move()), OPTIONS),
    ("isolated", "AllowedBrokers", ISOLATED, proposal(move()), OPTIONS),
    ("moves", "Budget", MODEL, proposal(move(), move(ONE)), replace(OPTIONS, budget=Budget(1, 100.0))),
    ("traffic", "Budget", MODEL, proposal(move(), move(ONE)), Options(budget=Budget(max_moved_percent=20.0))),
    ("splits", "Budget", MODEL, proposal(cut()), Options(budget=Budget(max_splits=0))),
    ("bundles", "Budget", MODEL, proposal(cut()), Options(budget=Budget(max_bundles=6))),
    ("promise", "Promise", MODEL, replace(proposal(move()), after=proposal().before), OPTIONS),
    ("moved weight", "Promise", MODEL, replace(proposal(move()), moved_weight=1.0), OPTIONS),
    ("worse", "BusiestBroker", MODEL, proposal(move(AT_B, A, B), move(AT_C, A, C)), OPTIONS),
]


@pytest.mark.parametrize(("goal", "model", "found", "options"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_ones_are_named(goal: str, model: ClusterModel, found: Proposal, options: Options) -> None:
    with pytest.raises(PlanError) as caught:
        check(model, found, options)
    assert caught.value.goal == goal
    assert str(caught.value).startswith(goal)


def test_namespaces_of_a_group_that_would_meet_are_named() -> None:
    other = replace(AT_C, id=AT_C.id._replace(namespace="shop/other"))
    model = replace(
        MODEL, bundles=(*MODEL.bundles[:-1], other), anti_affinity={NAMESPACE: "apart", "shop/other": "apart"}
    )
    with pytest.raises(PlanError, match="AntiAffinity"):
        check(model, proposal(move(SIX, C)), OPTIONS)
