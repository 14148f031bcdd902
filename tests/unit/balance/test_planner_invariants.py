"""What must be true of every plan, on random clusters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.finish import MIN_CUT_GAIN
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Proposal
from tests.support.balancing.planning import (
    ENDLESS,
    after,
    busiest,
    clusters,
    loads_of,
    questions,
    scaled,
    shuffled,
    verify,
)

MANY = settings(max_examples=60, deadline=None)
ROUNDS = 60


def steps(proposal: Proposal) -> list[object]:
    return [
        *((s.bundle, s.boundary) for s in proposal.splits),
        *((m.bundle, m.source, m.destination) for m in proposal.moves),
    ]


@MANY
@given(st.data())
def test_every_goal_is_kept(data: st.DataObject) -> None:
    model = data.draw(clusters())
    options = data.draw(questions(model))
    verify(model, plan(model, options), options)


@MANY
@given(st.data())
def test_a_plan_on_what_a_plan_leads_to_is_empty(data: st.DataObject) -> None:
    model = data.draw(clusters())
    options = data.draw(questions(model, budget=ENDLESS))
    first = plan(model, options)
    second = plan(after(model, first), options)
    assert second.empty, (first, second)


@MANY
@given(st.data())
def test_small_budgets_get_there_in_rounds_and_stop(data: st.DataObject) -> None:
    model = data.draw(clusters())
    budget = Budget(max_moves=data.draw(st.integers(1, 4)), max_moved_percent=30.0, max_splits=3)
    options = replace(data.draw(questions(model, budget=budget)), cooling=frozenset())
    for _ in range(ROUNDS):
        proposal = plan(model, options)
        if proposal.empty:
            break
        limited = any(advice.reason in ("BudgetReached", "NotEmptied") for advice in proposal.advice)
        model = after(model, proposal)
        if not limited:
            assert plan(model, options).empty
    assert plan(model, options).empty


@MANY
@given(st.data())
def test_order_of_the_input_does_not_matter(data: st.DataObject) -> None:
    model = data.draw(clusters())
    options = data.draw(questions(model))
    assert plan(shuffled(model), options) == plan(model, options)


@MANY
@given(st.data(), st.sampled_from([0.25, 3.0, 1e6, 1e-6]))
def test_unit_of_the_weights_does_not_matter(data: st.DataObject, factor: float) -> None:
    model = data.draw(clusters())
    options = data.draw(questions(model))
    assert steps(plan(scaled(model, factor), options)) == steps(plan(model, options))


def free(model: ClusterModel) -> ClusterModel:
    """Without any rule about where bundles may be."""
    brokers = tuple(replace(broker, draining=False) for broker in model.brokers)
    return replace(model, brokers=brokers, allowed={}, anti_affinity={}, pinned=frozenset())


@MANY
@given(clusters())
def test_nothing_is_left_on_removed_brokers(model: ClusterModel) -> None:
    model = free(model)
    gone = model.brokers[0].id
    options = Options(mode=Mode.REMOVE_BROKERS, brokers=frozenset({gone}))
    final = after(model, plan(model, options))
    assert not [b for b in final.bundles if b.owner == gone and any(x.weight for x in model.bundles if x.owner)]
    others = loads_of(final)
    assert all(others[b.id] >= loads_of(model)[b.id] for b in model.brokers[1:]), "the rest trade nothing"


@MANY
@given(clusters())
def test_a_draining_broker_is_emptied_by_a_full_plan(model: ClusterModel) -> None:
    model = free(model)
    model = replace(model, brokers=(replace(model.brokers[0], draining=True), *model.brokers[1:]))
    final = after(model, plan(model, Options(budget=ENDLESS)))
    assert not [b for b in final.bundles if b.owner == model.brokers[0].id]


@MANY
@given(clusters())
def test_a_new_broker_takes_and_the_others_trade_nothing(model: ClusterModel) -> None:
    model = free(model)
    new = replace(model.brokers[0], id="new:8080")
    model = replace(model, brokers=(*model.brokers, new))
    options = Options(mode=Mode.ADD_BROKERS, brokers=frozenset({new.id}), budget=ENDLESS)
    proposal = plan(model, options)
    assert {move.destination for move in proposal.moves} <= {new.id}
    assert busiest(after(model, proposal)) <= busiest(model) * (1 + 1e-9)


@MANY
@given(clusters())
def test_whole_bundles_come_before_cuts(model: ClusterModel) -> None:
    """Full splits only where Move does not reach the tolerance, or where each cut takes a good part off the busiest."""
    model = free(model)
    full, move = (plan(model, Options(mode=mode, budget=ENDLESS)) for mode in (Mode.FULL, Mode.MOVE))
    if move.after.busiest <= move.after.bound * 1.1:
        gained = move.after.busiest - full.after.busiest
        assert gained >= MIN_CUT_GAIN * full.before.mean * len(full.splits) - 1e-9 * full.before.busiest
    assert full.after.busiest <= move.after.busiest * (1 + 1e-9)
