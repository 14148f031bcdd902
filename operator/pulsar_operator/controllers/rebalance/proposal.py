"""Makes a proposal: observes, plans, publishes, and reports why there is nothing to do or no data."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.rebalance import (
    CostStatus,
    ProposalStatus,
    PulsarRebalanceSpec,
    RebalanceMode,
    TrafficSource,
)
from pulsar_operator.balance.execution.custom_resource import (
    balance_status,
    config_map,
    describe_costs,
    how_to_approve,
    is_proposal,
    options_of,
    presented,
    proposal_status,
    read_steps,
    steps_of,
    steps_that_fit,
)
from pulsar_operator.balance.execution.drain import named_brokers
from pulsar_operator.balance.execution.driver import Decision, Memory, cpu_of, intending, within_budget
from pulsar_operator.balance.execution.learned import Learned, explained
from pulsar_operator.balance.execution.partial import Silence, heard, kept, too_much
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.execution.steady import cooling as resting
from pulsar_operator.balance.execution.steps import brokers_of, identify, short_step_text
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.model.observation import Observed, Usage
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.proposal import Balance, Move, Proposal
from pulsar_operator.balance.sizing.result import clock_problem
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.core.traffic import Traffic, results_url
from pulsar_operator.controllers.rebalance import pacing
from pulsar_operator.controllers.rebalance.modelling import modelled
from pulsar_operator.controllers.rebalance.proposal_messages import (
    distrust_message,
    left_out_message,
    overload_message,
    undecided_message,
)
from pulsar_operator.controllers.rebalance.rebalance_pass import RETRY_SECONDS, RebalancePass, Tools
from pulsar_operator.controllers.rebalance.warming_up import uncounted
from pulsar_operator.domain.conditions import parse_time, seconds_since, timestamp
from pulsar_operator.domain.texts import sentence, without_login
from pulsar_operator.ports import CONFIG_MAPS, PortError

ACT_ABOVE = 2.5
"""A standing rebalance acts if the load exceeds the bound by this multiple of its tolerance, so that a plan lasts."""
DOUBTS = 10
"""Maximum number of entries of status.distrustedFigures."""
SIZING_AGE_SECONDS = 172800
"""Default of spec.sizing.maxAgeSeconds if spec.sizing is unset."""
PENDING_SHOWN = 100
"""Maximum number of steps in status.pendingActions."""
COOLING_SECONDS = int(SteadyOptions().rest)
"""Seconds for which a moved bundle is not moved again: its clients have just reconnected, and rates need time."""


async def propose(tools: Tools, state: RebalancePass, why: Reason | None = None) -> Outcome:
    """Observes, plans and publishes. The object then waits for approval, or is complete if nothing is to be done."""
    removing = state.spec.mode is RebalanceMode.REMOVE_BROKERS
    cooling = () if removing else await _cooling(tools, state)
    unload = pacing.unload_seconds(tools, state)
    if state.was(ConditionType.PROPOSAL_READY) and state.status.proposal is not None:
        state.set(replaced_proposal=state.status.proposal.id)
    state.set(measured=None, measured_brokers=[], progress=None)
    if unload is not None:
        tools.unloads[state.cluster_name] = unload
    try:
        observed, missing = await _observe(tools, state)
    except PortError as error:
        observed, missing = None, str(error)
    if observed is None or missing:
        return _unknown(state, missing or "nothing was observed")
    brokers = named_brokers(state.spec.brokers, observed.brokers)
    excluded = named_brokers(state.spec.excluded_brokers, observed.brokers)
    draining = [*brokers, *excluded] if removing else []
    unknown = sorted(set(brokers) - set(observed.brokers))
    if unknown:
        return _unknown(
            state,
            f"spec.brokers names {', '.join(unknown)}, but only these brokers are registered: "
            f"{', '.join(observed.brokers)}",
        )
    if observed.silent and (why_not := _cannot_do_without(tools, state, observed, brokers)):
        return _unknown(state, why_not)
    assert state.traffic is not None
    state.undecided = undecided_message(observed) + observed.unread_words + left_out_message(observed)
    carried = {}
    if state.spec.traffic_source is TrafficSource.LIVE:
        carried = tools.carried(state.cluster_name, state.now, await state.traffic.stats_period())
    model = await modelled(tools, state, observed, draining=draining, carried=carried)
    if (since := state.pulsar_balances) is not None:
        balance, _ = await tools.measured(model, None)
        return _pulsar_balances(state, balance, since)
    question = replace(options_of(state.spec, observed.boundaries, cooling, brokers), cuts=observed.cuts)
    fit = min(question.budget.max_moves, steps_that_fit(observed.brokers, observed.boundaries))
    question = replace(question, budget=replace(question.budget, max_moves=fit))
    if why is not None or not standing(state.spec):
        if not standing(state.spec):
            proposal = await tools.propose(model, question)
        else:
            known, now = tools.memories.get(state.meta.uid, Memory()), state.now.timestamp()
            question = replace(question, cooling=question.cooling | resting(known.history, now, SteadyOptions()))
            question = within_budget(known, now, question, SteadyOptions())
            proposal = await tools.propose(model, question)
            tools.remember(state.name, state.meta.uid, intending(known, model, proposal))
        return await _publish(tools, state, proposal, sum(b.weight for b in model.bundles), why)
    usages = await state.traffic.usages([broker.id for broker in model.brokers])
    decision = await standing_decision(tools, state, model, question, usages, silent=observed.silent)
    if decision.planned is None or (decision.planned.moves and not decision.act):
        bases = tools.memories[state.meta.uid].learned.bases
        own = {broker: base.share for broker, base in bases.items()}
        notes = overload_message(decision.used or {}, own) + distrust_message(decision.distrusted)
        return _left_alone(state, decision.balance, decision.reason, notes)
    proposal = decision.planned
    return await _publish(tools, state, proposal, sum(b.weight for b in model.bundles), why)


async def _observe(tools: Tools, state: RebalancePass) -> tuple[Observed | None, str]:
    """Returns the observation, and a message about missing data."""
    assert state.traffic is not None
    if state.spec.traffic_source is TrafficSource.LIVE:
        observed = await observed_of(state.traffic, state.spec)
        if not observed.missing and not _task(state.spec):
            observed.silent = {**await uncounted(tools, state, observed), **observed.silent}
    else:
        url = results_url(state.cluster, state.spec.sizing)
        name = state.traffic.endpoint.cluster
        result = await tools.deps.sizing.latest(url, name) if tools.deps.sizing is not None else None
        if result is None:
            return None, (
                f"the sizing service at {without_login(url)} has no result for cluster {name} yet, because the "
                "Spark job has not run or found too little data (see its report)"
            )
        age = (state.now - result.to_time).total_seconds()
        limit = state.spec.sizing.max_age_seconds if state.spec.sizing else SIZING_AGE_SECONDS
        if age > limit:
            return (
                None,
                f"the newest sizing result ends {age / 3600:.1f} h ago, which is more than "
                "spec.sizing.maxAgeSeconds allows",
            )
        ahead = clock_problem(-age)
        if ahead is not None:
            return None, f"the newest sizing result {ahead}"
        observed = await state.traffic.observe_with(result)
    return observed, "; ".join(observed.missing)


def _cannot_do_without(tools: Tools, state: RebalancePass, observed: Observed, named: Collection[str]) -> str | None:
    """Returns why no proposal is possible without the brokers that do not answer, as a message; None if one is.

    A proposal that is requested once covers all brokers: the user sees the whole, and which broker to check.
    """
    if not standing(state.spec) and not _task(state.spec):
        return observed.unknown
    if silent := sorted(set(named) & set(observed.silent)):
        return "; ".join(observed.silent[each] for each in silent)
    why = too_much(tools.silences.get(state.meta.uid, Silence()), observed.brokers, observed.silent)
    return f"{observed.unknown}; {why}" if why is not None else None


async def _cooling(tools: Tools, state: RebalancePass) -> Collection[BundleId]:
    """Returns the bundles that the last execution moved, if it ended less than COOLING_SECONDS ago."""
    last, progress = state.status.proposal, state.status.progress
    ended = parse_time(progress.finished_time if progress else None)
    if last is None or last.config_map_name is None or progress is None or ended is None:
        return ()
    if seconds_since(ended, state.now) > COOLING_SECONDS:
        return ()
    live = await tools.deps.kube.get(CONFIG_MAPS, state.meta.namespace, last.config_map_name)
    try:
        done = read_steps(live, last)[: progress.done or 0]
    except ValueError:
        return ()
    return [step.bundle for step in done if isinstance(step, Move)]


def _unknown(state: RebalancePass, missing: str) -> Outcome:
    """Reports that there is no proposal because data is missing."""
    text = f"There is no proposal, because {missing}"[:4000]
    state.set(proposal=None)
    state.conditions.set(ConditionType.PROPOSAL_READY, False, Reason.NO_DATA, text)
    state.flags(approved=False, executing=False, completed=False, stopped=False, reason=Reason.NO_DATA, text=text)
    state.conditions.set(ConditionType.READY, False, Reason.NO_DATA, text)
    return Outcome(requeue_after=RETRY_SECONDS)


async def _publish(
    tools: Tools, state: RebalancePass, proposal: Proposal, weight: float, why: Reason | None
) -> Outcome:
    moment = timestamp(state.now)
    proposal = presented(proposal, counted=state.spec.traffic_source is TrafficSource.LIVE)
    steps = steps_of(proposal)
    ident = identify(steps, moment)
    name = f"{state.meta.name}-proposal" if steps else None
    expected = pacing.expected(tools, state, steps)
    if name is not None:
        manifest = config_map(state.obj, name, ident, steps, proposal.brokers)
        if manifest is None:
            return _unknown(state, f"its {len(steps)} steps do not fit in a ConfigMap. Lower spec.budget.maxSplits")
        if not state.actor.act:
            return _withheld(state, proposal, proposal_status(proposal, ident, moment, weight, None, expected))
        live = await tools.deps.kube.get(CONFIG_MAPS, state.meta.namespace, name)
        if live is not None and not is_proposal(live, state.meta.uid):
            return _unknown(
                state,
                f"ConfigMap {name} exists and is not owned by this object. Delete or rename the ConfigMap, or "
                "choose another metadata.name",
            )
        await state.actor.apply(manifest, live)
        if state.actor.refused:
            return _unknown(state, f"The steps cannot be stored. {state.actor.refused[0]}")
    shown = proposal_status(proposal, ident, moment, weight, name, expected)
    state.set(proposal=shown)
    before, after = proposal.before, proposal.after
    if not steps:
        return _nothing(state, proposal, moment)
    text = (
        f"{len(proposal.splits)} splits and {len(proposal.moves)} moves reduce the load of the busiest broker "
        f"from {before.ratio:.2f} to {after.ratio:.2f} times the mean (best possible {after.bound_ratio:.2f}). "
        f"{describe_costs(shown)}{state.undecided}"
    )
    state.conditions.set(ConditionType.PROPOSAL_READY, True, why or Reason.PROPOSED, text)
    await state.actor.record_event(Reason.PROPOSED, text)
    waiting_conditions(state)
    return Outcome(requeue_after=1.0 if state.approved_by_spec else float(state.spec.expire_seconds))


def _withheld(state: RebalancePass, proposal: Proposal, shown: ProposalStatus) -> Outcome:
    """Reports what would be proposed in a dry run or pause. Nothing is stored that could be approved."""
    state.set(proposal=shown)
    steps = steps_of(proposal)
    brokers = brokers_of(steps)
    state.actor.pending.extend(short_step_text(step, brokers) for step in steps[:PENDING_SHOWN])
    reason = Reason.PAUSED if state.meta.paused else Reason.DRY_RUN
    text = (
        f"The operator would propose {len(proposal.splits)} splits and {len(proposal.moves)} moves. See "
        "status.pendingActions"
    )
    text += state.undecided
    state.conditions.set(ConditionType.PROPOSAL_READY, False, reason, text)
    state.flags(approved=False, executing=False, completed=False, stopped=False, reason=reason, text=text)
    state.conditions.set(ConditionType.READY, False, reason, text)
    return Outcome(requeue_after=float(state.spec.expire_seconds))


def standing(spec: PulsarRebalanceSpec) -> bool:
    """Whether the object is evaluated repeatedly. A rebalance of certain brokers is executed once, immediately."""
    return spec.repeat_seconds is not None and not _task(spec)


async def observed_of(traffic: Traffic, spec: PulsarRebalanceSpec) -> Observed:
    """Returns the observed traffic: of bundles if none will be split, as in a drain, otherwise of topics. Raises
    PortError."""
    return await (traffic.observe_bundles() if _task(spec) else traffic.observe())


def _task(spec: PulsarRebalanceSpec) -> bool:
    """Whether the rebalance adds or removes certain brokers: a rollout waits for it, and moved bundles count with their
    previous traffic."""
    return spec.mode in (RebalanceMode.ADD_BROKERS, RebalanceMode.REMOVE_BROKERS)


def steady_options(spec: PulsarRebalanceSpec) -> SteadyOptions:
    """Returns the options of the driver. There is no limit for an overload, since the load (in byte equivalents per
    second) of a broker does not show it; only the broker's own measurements do."""
    tolerance = spec.tolerance_percent / 100
    return SteadyOptions(act_above=ACT_ABOVE * tolerance, plan_tolerance=tolerance, overload=inf)


async def standing_decision(
    tools: Tools,
    state: RebalancePass,
    model: ClusterModel,
    question: Options,
    usages: Mapping[str, Usage],
    *,
    silent: Collection[str] = (),
) -> Decision:
    """Returns whether a standing rebalance acts now: balance/execution/driver.py, which the simulator runs too.

    ``silent`` brokers are not in the model; what was known of them is kept for a while.
    """
    options = steady_options(state.spec)
    if state.spec.traffic_source is not TrafficSource.LIVE:
        options = replace(options, memory=0.0)  # recorded weights are averages already
    known, now = tools.memories.get(state.meta.uid, Memory()), state.now.timestamp()
    decision, memory = await tools.decide(known, now, model, question, options, usages)
    before = tools.silences.get(state.meta.uid, Silence())
    # In a thread: every bundle, at every observation.
    silence = await asyncio.to_thread(heard, before, now, model, memory, silent)
    memory = await asyncio.to_thread(kept, known, memory, silence, now)
    tools.remember(state.name, state.meta.uid, memory)
    tools.silences[state.meta.uid] = silence
    if options.memory > 0 and decision.used is not None:
        state.set(cost=await asyncio.to_thread(_cost, model, memory, decision.used))
    state.set(
        distrusted_figures=[f"{each} {decision.distrusted[each]}" for each in sorted(decision.distrusted)[:DOUBTS]]
    )
    return decision


def _cost(model: ClusterModel, memory: Memory, usages: Mapping[str, Usage]) -> CostStatus | None:
    """Returns the deviation of the brokers' CPU from what their load explains, without and with what was learned."""
    cpu = cpu_of(usages)
    plain, learned = explained(model, Learned(), cpu), explained(model, memory.learned, cpu)
    if plain is None or learned is None:
        return None
    return CostStatus(brokers=plain.brokers, deviation=f"{plain.deviation:.2f}", learned=f"{learned.deviation:.2f}")


def _left_alone(state: RebalancePass, balance: Balance, why: str, notes: str) -> Outcome:
    """Completes an evaluation in which the standing rebalance does not act."""
    moment = timestamp(state.now)
    text = (
        f"There is nothing to do now, because {why} (the busiest broker has {balance.ratio:.2f} times the mean load, "
        f"best possible {balance.bound_ratio:.2f})"
    )
    text += notes + state.undecided
    state.set(proposal=ProposalStatus(id="none", computed_time=moment, before=balance_status(balance)))
    state.progress(done=0, total=0, finished_time=moment)
    state.conditions.set(ConditionType.PROPOSAL_READY, False, Reason.BALANCED, text)
    state.flags(approved=False, executing=False, completed=True, stopped=False, reason=Reason.BALANCED, text=text)
    return Outcome(requeue_after=float(state.spec.repeat_seconds or COOLING_SECONDS))


def _pulsar_balances(state: RebalancePass, balance: Balance, since: str) -> Outcome:
    """Completes an evaluation while Pulsar balances although the operator could decide. The status of the cluster says
    when the operator takes over again."""
    moment = timestamp(state.now)
    text = (
        f"Pulsar has balanced the load since {since}. See condition BalancingActive of the cluster. The busiest "
        f"broker has {balance.ratio:.2f} times the mean load (best possible "
        f"{balance.bound_ratio:.2f}){state.undecided}"
    )
    state.set(proposal=ProposalStatus(id="none", computed_time=moment, before=balance_status(balance)))
    state.progress(done=0, total=0, finished_time=moment)
    state.conditions.set(ConditionType.PROPOSAL_READY, False, Reason.PULSAR_BALANCES, text)
    state.flags(
        approved=False, executing=False, completed=True, stopped=False, reason=Reason.PULSAR_BALANCES, text=text
    )
    return Outcome(requeue_after=float(state.spec.repeat_seconds or COOLING_SECONDS))


def _nothing(state: RebalancePass, proposal: Proposal, moment: str) -> Outcome:
    """Reports that there are no steps: the load is balanced, or no step would improve it."""
    balanced = proposal.before.ratio <= proposal.before.bound_ratio * (1 + state.spec.tolerance_percent / 100)
    reason = (
        Reason.ALREADY_DRAINED if proposal.emptied else Reason.BALANCED if balanced else Reason.NO_IMPROVEMENT_POSSIBLE
    )
    advice = f". {sentence(proposal.advice[0].message)}" if proposal.advice else ""
    text = (
        "There is nothing to do, because "
        f"{proposal.withheld or 'no step would improve the balance'}{advice}{state.undecided}"
    )[:4000]
    state.progress(done=0, total=0, finished_time=moment)
    state.set(replaced_proposal=None)
    state.conditions.set(ConditionType.PROPOSAL_READY, False, reason, text)
    state.flags(approved=False, executing=False, completed=True, stopped=False, reason=reason, text=text)
    return Outcome(requeue_after=float(state.spec.repeat_seconds)) if state.spec.repeat_seconds else DONE


def approval(state: RebalancePass) -> str:
    """Returns how to approve the proposal that is in the status."""
    ident = state.status.proposal.id if state.status.proposal else "ID"
    return how_to_approve(state.meta.namespace, state.meta.name, ident)


def waiting_conditions(state: RebalancePass) -> None:
    """Sets the conditions of a proposal that is not approved yet."""
    review = f"review ConfigMap {state.meta.name}-proposal, then {approval(state)} (or set refresh or stop instead)"
    if state.approved_by_spec:
        reason, text = (
            Reason.AUTO_APPROVED,
            ("spec.autoApprove approved the proposal. Its execution begins in the next pass"),
        )
    elif state.spec.auto_approve:
        reason = Reason.STATUS_UNREADABLE
        text = (
            "The proposal waits for approval despite spec.autoApprove, because the operator could not read the "
            "status, which another version may have written, and an earlier proposal may have been executed. To "
            f"execute it, {review}"
        )
    else:
        reason, text = Reason.WAITING_FOR_APPROVAL, sentence(review)
    state.flags(approved=False, executing=False, completed=False, stopped=False, reason=reason, text=text)
    state.conditions.set(ConditionType.READY, False, reason, text)
