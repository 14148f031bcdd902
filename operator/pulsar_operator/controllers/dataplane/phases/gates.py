"""What must be true before a server that holds data is replaced: asked of the storage itself, at each step."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmation
from pulsar_operator.controllers.dataplane.incarnations import own_bookies_in
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.replication import local_store
from pulsar_operator.controllers.dataplane.quorums import broker_groups, widest_ensemble
from pulsar_operator.controllers.dataplane.recovery_delay import raise_delay, seconds_for
from pulsar_operator.controllers.dataplane.replacement import roll_plan
from pulsar_operator.controllers.dataplane.servers import servers_gate
from pulsar_operator.controllers.dataplane.storage_facts import storage_facts
from pulsar_operator.domain.bookkeeper.facts import StorageFacts
from pulsar_operator.domain.bookkeeper.racks import begun_first, ordinal_of
from pulsar_operator.domain.consent import answered, how_to_answer
from pulsar_operator.domain.dataplane.bookie_roll import BookieStep, bookie_gate, question_of
from pulsar_operator.domain.dataplane.quorum_record import default_ensemble
from pulsar_operator.domain.dataplane.rollout import ComponentPods, RollPlan, evaluate
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.domain.stored import readable
from pulsar_operator.ports import PortError


@dataclass(frozen=True)
class Passed:
    """What a gate says of a plan."""

    plan: RollPlan
    """The plan, perhaps with another pod."""
    waiting_for: str | None = None
    """What that pod waits for, in words; None = it may go."""
    confirmed: UsedClusterConfirmation | None = None
    """The confirmation it goes by, or will once the status has it."""


async def gate(step: Step, plan: RollPlan) -> Passed:
    """Whether the pod of a plan may go. Raises PortError of Kubernetes alone."""
    if plan.replace is None:
        return Passed(plan, plan.waiting_for)
    if plan.component is Component.ZOOKEEPER:
        facts = step.facts
        domain = facts.spec.cluster_domain
        return Passed(*await servers_gate(step.hand, step.live, plan, domain, BRING_UP_ORDER, facts.order))
    if plan.component is Component.BOOKIE:
        try:
            return await _bookie(step, plan)
        except PortError as error:
            never_ready = plan.replace.repair and not plan.replace.once_ready
            return Passed(plan, None if never_ready else f"the metadata store to answer: {error}")
    return Passed(plan)


async def _bookie(step: Step, plan: RollPlan) -> Passed:
    """Every other bookie writable, every ledger with all its copies, enough bookies left; then the auditor is told to
    wait, since it takes a restart for a loss."""
    assert plan.replace is not None
    facts, deps, hand, local = step.facts, step.hand.deps, step.hand, local_store(step)
    session = await deps.zookeeper.session(local.servers, local.chroot)
    store = facts.instance.store
    policies = session if facts.instance.own_store else await deps.zookeeper.session(store.servers or "", store.chroot)
    assert step.rendered.quorum is not None
    default = default_ensemble(step.live, step.rendered.quorum.ensemble_size).size
    groups = broker_groups(facts.spec)
    wanted = widest_ensemble(deps, policies, default, facts.obj, local=session, groups=groups)
    storage, widest = await asyncio.gather(storage_facts(session), wanted)
    own = own_bookies_in(facts, storage)
    # Somebody may have scaled by hand: one that is gone and has data is missed like the others.
    gone = {each for each in storage.missing if own.ordinal(each) is not None}
    ids = sorted({own.id(ordinal) for ordinal in range(plan.pods_total)} | gone)
    plan = _unwritable_first(step, _by_rack(step, plan), ids, storage)
    assert plan.replace is not None
    mine = own.id(ordinal_of(plan.replace.name))
    if plan.replace.repair and mine not in storage.registered:
        return Passed(plan)
    others = tuple(each for each in ids if each != mine)
    asked = BookieStep(mine, others, storage, max(widest.size, default), widest.bound, widest.problem)
    answer, by = bookie_gate(asked), None
    question = question_of(_template(step), step.live.stateful_set(Component.BOOKIE))
    if answer.confirmable:
        status = readable(PulsarClusterStatus, facts.obj.get("status"))
        used = [UsedClusterConfirmation.model_validate(each) for each in status.get("usedConfirmations") or ()]
        by = answered(question, facts.spec.confirmations, used, deps.clock.now())
        if by is not None and by not in used:
            return Passed(plan, "the status to say that the confirmation is used", by)
        answer = bookie_gate(replace(asked, confirmed=by is not None))
    if answer.waiting_for is not None:
        if not answer.confirmable:
            return Passed(plan, answer.waiting_for)
        remedy = how_to_answer(question, facts.spec.confirmations, deps.clock.now())
        return Passed(plan, f"{answer.waiting_for}. To roll the bookies without that, {remedy}")
    if hand.act:
        await raise_delay(session, seconds_for(facts.spec))
        if answer.writes_pause is not None:
            await hand.warn(Reason.WRITES_PAUSE, f"Replacing {plan.replace.name}: {answer.writes_pause}")
    return Passed(plan, confirmed=by)


def _by_rack(step: Step, plan: RollPlan) -> RollPlan:
    """The plan with a bookie of the rack that has begun, if one has: all of one rack before the next."""
    known, there = step.facts.racks, step.live.stateful_set(Component.BOOKIE)
    assert plan.replace is not None
    if plan.replace.repair or known is None or there is None:
        return plan
    state = evaluate(ComponentPods(Component.BOOKIE, there, step.live.pods(Component.BOOKIE)))
    racks = {pod.name: rack for pod in state.pods if (rack := known.of.get(pod.ordinal)) is not None}
    outdated = {pod.name for pod in state.outdated}
    chosen = begun_first(racks, outdated, {pod.name for pod in state.pods if pod.name not in outdated})
    return plan if plan.replace.name in chosen else _with_first(step, plan, max(chosen, key=ordinal_of, default=None))


def _with_first(step: Step, plan: RollPlan, first: str | None) -> RollPlan:
    """The plan with this pod, where nothing else comes first."""
    again = roll_plan(step.live, BRING_UP_ORDER, order=step.facts.order, first=first)
    return again if again.replace is not None and again.replace.name == first else plan


def _unwritable_first(step: Step, plan: RollPlan, ids: list[str], storage: StorageFacts) -> RollPlan:
    """The plan with a bookie that takes nothing new first: what is changed may be its cure."""
    assert plan.replace is not None
    least = [each.partition(".")[0] for each in ids if each in storage.readonly]
    if plan.replace.repair or not least or plan.replace.name in least:
        return plan
    return _with_first(step, plan, least[0])


def _template(step: Step) -> str:
    """Hash of the template that bookies get."""
    turn = step.view.turns.of.get(Component.BOOKIE) if step.view.turns is not None else None
    return (turn.template if turn is not None else None) or ""
