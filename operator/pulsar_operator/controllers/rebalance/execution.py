"""Executes an approved proposal: one step at a time, each verified before and after, stopped at the first unexpected
change.

A step is requested from Pulsar, then verified by reading boundaries or owners. Only a verified step counts, and only
the count is kept in the status. A move that Pulsar lost is requested again (the modular load manager keeps the
destination in memory, and loses it when its leader changes).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isinf

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.rebalance import FailedExecutions, ProgressStatus, RebalanceMode
from pulsar_operator.balance.execution.custom_resource import balance_status, read_steps
from pulsar_operator.balance.execution.drain import named_brokers
from pulsar_operator.balance.execution.driver import Memory, acted, moved
from pulsar_operator.balance.execution.handover import HOLD_SECONDS
from pulsar_operator.balance.execution.pace import ASK_FOR, LATER, next_check
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.execution.steps import (
    Ownership,
    State,
    Step,
    StepState,
    brokers_of,
    short_step_text,
    step_state,
    step_text,
)
from pulsar_operator.balance.execution.table import load_table
from pulsar_operator.balance.model.names import shortened
from pulsar_operator.balance.planner.proposal import Move, Split
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.core.stores import store_unavailable_message_of
from pulsar_operator.controllers.rebalance import pacing
from pulsar_operator.controllers.rebalance.modelling import modelled
from pulsar_operator.controllers.rebalance.proposal import observed_of, standing
from pulsar_operator.controllers.rebalance.rebalance_pass import FOR_ANOTHER, RETRY_SECONDS, RebalancePass, Tools
from pulsar_operator.controllers.rebalance.warming_up import uncounted
from pulsar_operator.domain.conditions import parse_time, seconds_since, timestamp
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import CONFIG_MAPS, ConflictError, PortError, RefusedError, UnavailableError

ASK_AGAIN_SECONDS = 20.0
GIVE_UP_SECONDS = 120.0
"""Seconds until a step fails. Pulsar waits at most namespaceBundleUnloadingTimeoutMs = 60 s for topics to close."""
SILENT_SECONDS = 300.0
"""Seconds without an answer from a broker of the current step after which the execution ends. A standing balancer then
plans without that broker, before Pulsar's balancer would be restored."""
UNMEASURED_SECONDS = 600.0
"""Seconds after which a result that cannot be measured on all brokers is left unmeasured, since one may stay silent."""
MOST_FAILED = 1_000_000
"""Maximum count of consecutive failed executions."""
UNASSIGNED_SECONDS = 15.0
"""Seconds after which a move counts as done if the bundle has no owner because no client looks it up."""


async def begin(tools: Tools, state: RebalancePass) -> Outcome:
    """Starts the execution. Condition Executing requests the balancer."""
    proposal = state.status.proposal
    assert proposal is not None
    reason = Reason.AUTO_APPROVED if state.command != "approve" else Reason.APPROVED
    total = proposal.splits + proposal.moves
    state.set(progress=None, measured=None, measured_brokers=[], replaced_proposal=None, approval_required=None)
    state.progress(done=0, total=total, started_time=timestamp(state.now))
    state.carry(ConditionType.PROPOSAL_READY)
    _executing(state, Reason.WAITING_FOR_BALANCER, "The execution waits until Pulsar's own balancer is off")
    await state.actor.record_event(
        reason, f"Proposal {proposal.id} with {proposal.splits} splits and {proposal.moves} moves is approved"
    )
    return Outcome(requeue_after=ASK_FOR)


async def continue_execution(tools: Tools, state: RebalancePass) -> Outcome:
    """Executes one more step, or ends the execution."""
    state.carry(ConditionType.PROPOSAL_READY)
    if state.command == "stop":
        state.done_command = True
        await state.actor.warn(
            Reason.STOPPED_BY_USER, "The execution was stopped on request. Completed steps are not reverted"
        )
        return stopped(
            tools,
            state,
            Reason.STOPPED_BY_USER,
            f"The execution was stopped on request after {_done(state)}. {sentence(FOR_ANOTHER)}",
        )
    if state.command == "approve":
        state.done_command = True  # it is; a refresh stays on the object and counts after the end
        ident = state.status.proposal.id if state.status.proposal else ""
        if state.approves not in ("", ident):
            text = f"The approval of proposal {state.approves} is refused, because proposal {ident} is being executed"
            await state.actor.warn(Reason.APPROVAL_REFUSED, text)
    if not state.actor.act:
        return _paused(state)
    if (since := state.pulsar_balances) is not None:
        text = (
            f"The execution was stopped after {_done(state)}, because Pulsar has balanced the load since {since}. "
            "See condition BalancingActive of the cluster"
        )
        return stopped(tools, state, Reason.PULSAR_BALANCES, text)
    if (unavailable := await store_unavailable_message_of(tools.deps, state.cluster)) is not None:
        return _wait_for_store(state, unavailable)
    # Before the balancer is asked for: one that cannot continue holds nothing.
    proposal = state.status.proposal
    try:
        if proposal is None or proposal.config_map_name is None:
            raise ValueError("the status does not contain the approved proposal")
        live = await tools.deps.kube.get(CONFIG_MAPS, state.meta.namespace, proposal.config_map_name)
        steps = read_steps(live, proposal)
    except ValueError as error:
        return await _invalidated(tools, state, str(error))
    holder = state.of_cluster.balancer.disabled_for if state.of_cluster.balancer is not None else None
    if holder != state.name:
        state.progress(blocked_since=None)  # resumed after it held nothing any more: it waits for its turn
        whom = f". The balancer is off for PulsarRebalance {holder}, which is executed first" if holder else ""
        _executing(
            state,
            Reason.WAITING_FOR_BALANCER,
            f"The execution waits until Pulsar's own balancer is off for this object{whom}",
        )
        return Outcome(requeue_after=ASK_FOR)
    try:
        outcome = await _advance(tools, state, steps)
    except PortError as error:
        begin = blocked(state)
        if seconds_since(begin, state.now) < SILENT_SECONDS:
            raise
        what = (
            "brokers have not answered"
            if isinstance(error, UnavailableError)
            else ("brokers have refused requests of the operator")
        )
        return await _invalidated(tools, state, f"{what} since {timestamp(begin)}: {error}")
    state.progress(blocked_since=None)
    return outcome


def blocked(state: RebalancePass) -> datetime:
    """Returns the time at which the execution of steps stopped; now if none is recorded."""
    since = parse_time(state.status.progress.blocked_since if state.status.progress else None)
    if since is None or isinf(seconds_since(since, state.now)):
        since = state.now
        state.progress(blocked_since=timestamp(since))
    return since


def hold(state: RebalancePass) -> datetime:
    """Holds the execution, so that a requested step is verified again afterwards, with its full timeout. Returns the
    time at which the execution of steps stopped."""
    since = blocked(state)
    state.progress(current=None, current_since=None)
    return since


def _paused(state: RebalancePass) -> Outcome:
    """Handles a pause during the execution. Pulsar's balancer stays off for a while, since the pause may be short."""
    left = HOLD_SECONDS - seconds_since(hold(state), state.now)
    text = f"The execution is paused after {_done(state)}"
    if left <= 0:
        text += (
            ". Pulsar's own balancer and autoscaling no longer wait for this execution. Remove the annotation to "
            "continue"
        )
        _executing(state, Reason.PAUSED, text)
        return DONE
    until = timestamp(state.now + timedelta(seconds=left))
    _executing(state, Reason.PAUSED, f"{text}. Pulsar's own balancer stays off until {until}")
    return Outcome(requeue_after=left)


def _wait_for_store(state: RebalancePass, unavailable: str) -> Outcome:
    """Waits while the configuration store is unavailable: no bundle can be moved then, and a request may be lost.

    A requested step is verified again afterwards, with its full timeout.
    """
    if state.status.progress is not None:
        state.progress(current=None, current_since=None, blocked_since=None)
    _executing(
        state,
        Reason.CONFIGURATION_STORE_UNAVAILABLE,
        f"The execution waits after {_done(state)}, because {unavailable}",
    )
    return Outcome(requeue_after=RETRY_SECONDS)


async def _advance(tools: Tools, state: RebalancePass, steps: list[Step]) -> Outcome:
    """Verifies the current step. Requests it, or the next one."""
    progress = state.status.progress or ProgressStatus(total=len(steps))
    done = progress.done
    if done < len(steps):
        if (left := pacing.pause(tools, state, steps[done - 1] if done else None)) > 0:
            # An event, or a new process, made this pass: the pace is a promise to clients anyway.
            _executing(state, Reason.EXECUTING, _done(state))
            return Outcome(requeue_after=left)
        step = steps[done]
        brokers = brokers_of(steps)
        asked = _asked(progress, step, brokers)
        observed = await _observe_step(state, step, asked=asked is not None)
        waited = seconds_since(asked, state.now) if asked else 0.0
        if isinf(waited):
            state.progress(current_since=pacing.precisely(state))
            waited = 0.0
        idle = isinstance(step, Move) and (step.weight == 0 or step.clients == 0)
        if observed.state is State.UNASSIGNED and (asked is None or idle or waited >= UNASSIGNED_SECONDS):
            observed = StepState(State.DONE, "the bundle was unloaded and is assigned on the next lookup")
        match observed.state:
            case State.INVALIDATED:
                return await _invalidated(tools, state, observed.message)
            case State.DONE:
                return await _verified(tools, state, steps, observed)
            case State.UNKNOWN if asked is None:
                raise UnavailableError(observed.message)
            case _ if asked is not None and waited >= GIVE_UP_SECONDS:
                step_name = short_step_text(step, brokers)
                why = f": {observed.message}" if observed.state is State.UNKNOWN else ""
                return await _invalidated(tools, state, f"Pulsar did not {step_name} within {GIVE_UP_SECONDS:g} s{why}")
            case State.TO_DO | State.ELSEWHERE if asked is None or _again(tools, state, waited):
                return await _ask(tools, state, step, brokers, first=asked is None)
            case _:
                step_name = short_step_text(step, brokers)
                note = f" ({observed.message})" if observed.state is State.UNKNOWN else ""
                _executing(
                    state,
                    Reason.EXECUTING,
                    f"{_done(state)} are done. The operator waits for Pulsar to {step_name}{note}",
                )
                return Outcome(requeue_after=next_check(waited))
    return _finished(state)


def _asked(progress: ProgressStatus, step: Step, brokers: set[str]) -> datetime | None:
    """Returns when a step was first requested from Pulsar; None if not yet. Earlier versions of the operator wrote the
    ids of brokers."""
    under_way = progress.current in (short_step_text(step, brokers), step_text(step))
    return parse_time(progress.current_since) if under_way else None


def _again(tools: Tools, state: RebalancePass, waited: float) -> bool:
    """Whether a step that was first requested ``waited`` seconds ago is requested once more."""
    last = tools.asked.get(state.name)
    return waited >= ASK_AGAIN_SECONDS and (last is None or seconds_since(last, state.now) >= ASK_AGAIN_SECONDS)


async def _observe_step(state: RebalancePass, step: Step, *, asked: bool) -> StepState:
    traffic = state.traffic
    assert traffic is not None
    boundaries = await traffic.boundaries(step.bundle.namespace)
    if boundaries is None:
        return StepState(State.INVALIDATED, f"namespace {step.bundle.namespace} no longer exists")
    if isinstance(step, Split):
        observed = step_state(step, boundaries, Ownership(), ())
        why = await traffic.prevents(step.bundle.namespace, ()) if observed.state is State.TO_DO else None
        return StepState(State.INVALIDATED, why) if why is not None else observed
    brokers = await traffic.brokers()
    first = [each for each in (step.destination, step.source) if each]
    ownership = await traffic.owner(step.bundle, first, brokers)
    observed = step_state(step, boundaries, ownership, brokers, asked=asked)
    emptied = state.spec.brokers if state.spec.mode is RebalanceMode.REMOVE_BROKERS else None
    may_have_it = {ownership.broker, *ownership.unanswered}
    if (
        observed.state in (State.ELSEWHERE, State.UNKNOWN)
        and emptied
        and not may_have_it & {*named_brokers(emptied, brokers), *named_brokers(state.spec.excluded_brokers, brokers)}
    ):
        # It is off the brokers that go: to move it again would only disturb its clients.
        return StepState(State.DONE, observed.message)
    if observed.state is State.TO_DO:
        why = await traffic.prevents(step.bundle.namespace, brokers, destination=step.destination)
        return StepState(State.INVALIDATED, why) if why is not None else observed
    return observed


async def _ask(tools: Tools, state: RebalancePass, step: Step, brokers: set[str], *, first: bool) -> Outcome:
    traffic, step_name = state.traffic, short_step_text(step, brokers)
    assert traffic is not None
    if first:
        state.progress(current=step_name, current_since=pacing.precisely(state))
    tools.asked[state.name] = state.now
    try:
        if isinstance(step, Split):
            await traffic.split(step.bundle, step.boundary)
        else:
            await traffic.move(step.bundle, step.destination)
    except (RefusedError, ConflictError) as error:  # 409: "unload namespace bundle to inactive destination broker"
        return await _invalidated(tools, state, f"Pulsar refused to {step_name}: {error}")
    _executing(
        state,
        Reason.EXECUTING,
        f"{_done(state)} are done. The operator requested Pulsar to {step_name}, because {step.reason}",
    )
    return Outcome(requeue_after=next_check(0.0) if first else LATER)


async def _verified(tools: Tools, state: RebalancePass, steps: list[Step], observed: StepState) -> Outcome:
    """Counts a verified step, and keeps the pace."""
    progress = state.status.progress or ProgressStatus(total=len(steps))
    step, done = steps[progress.done], progress.done + 1
    note = f" ({observed.message})" if observed.message else ""
    text = f"Step {done} of {len(steps)}: {step_text(step)}{note}"
    brokers = brokers_of(steps)
    await state.actor.record_event(Reason.STEP_DONE, shortened(text, brokers))
    asked = _asked(progress, step, brokers)
    if isinstance(step, Move) or not (state.status.proposal and state.status.proposal.moves):
        state.set(failed_executions=None)
    if isinstance(step, Move):
        # A bundle that no client looked up for a while took no time of any client.
        if asked is not None and (taken := seconds_since(asked, state.now)) < UNASSIGNED_SECONDS:
            pacing.measure(tools, state, step, taken)
        tools.moved(state.cluster_name, step.bundle, step.weight, state.now)
        _moved(tools, state, [each for each in steps[:done] if isinstance(each, Move)])
    since = progress.current_since if asked else None
    state.progress(done=done, total=len(steps), current=None, current_since=since)
    if done >= len(steps):
        _acted(tools, state)
        return _finished(state)
    _executing(state, Reason.EXECUTING, _done(state))
    return Outcome(requeue_after=max(pacing.pause(tools, state, step), 0.01))


def _moved(tools: Tools, state: RebalancePass, moves: list[Move]) -> None:
    """Records the verified moves in the memory of a standing balancer. The last one counts as made now; moves from
    before the start of this process are added."""
    if standing(state.spec):
        known, last = tools.memories.get(state.meta.uid, Memory()), moves[-1].bundle
        for bundle in (each.bundle for each in moves):
            if bundle == last or bundle not in known.history.moved:
                known = moved(known, state.now.timestamp(), bundle, SteadyOptions())
        tools.remember(state.name, state.meta.uid, known)


def _acted(tools: Tools, state: RebalancePass) -> None:
    """Makes the standing balancer wait until the executed steps take effect."""
    if known := tools.memories.get(state.meta.uid):
        tools.remember(state.name, state.meta.uid, acted(known, state.now.timestamp(), (), SteadyOptions()))


def _finished(state: RebalancePass) -> Outcome:
    """Handles the end of all steps. Pulsar's balancer may resume, and rates need two periods before they are
    measured."""
    state.progress(current=None, current_since=None, finished_time=timestamp(state.now), duration=pacing.took(state))
    text = (
        f"All {state.status.progress.total if state.status.progress else 0} steps are done. The result is being "
        "measured"
    )
    state.conditions.set(ConditionType.PROPOSAL_READY, False, Reason.MEASURING, text)
    state.flags(approved=True, executing=False, completed=False, stopped=False, reason=Reason.MEASURING, text=text)
    state.conditions.set(ConditionType.READY, False, Reason.MEASURING, text)
    return Outcome(requeue_after=RETRY_SECONDS)


async def measure(tools: Tools, state: RebalancePass) -> Outcome:
    """Compares the promised with the measured balance, two statistics periods after the last step."""
    traffic, progress = state.traffic, state.status.progress
    assert traffic is not None and progress is not None
    ended = parse_time(progress.finished_time)
    assert ended is not None
    period = await traffic.stats_period()
    left = 2 * period + 5 - seconds_since(ended, state.now)
    state.carry(ConditionType.PROPOSAL_READY)
    if left > 0:
        text = f"All {progress.total} steps are done. The result is measured once the rates are {2 * period} s old"
        state.flags(approved=True, executing=False, completed=False, stopped=False, reason=Reason.MEASURING, text=text)
        state.conditions.set(ConditionType.READY, False, Reason.MEASURING, text)
        return Outcome(requeue_after=left)
    observed = await observed_of(traffic, state.spec)
    missing = observed.unknown or "; ".join((await uncounted(tools, state, observed)).values())
    if missing and seconds_since(ended, state.now) >= 2 * period + UNMEASURED_SECONDS:
        return await _completed(
            state, (f"All {progress.total} steps are done. The result could not be measured: {missing}")[:4000]
        )
    if missing:
        text = f"All {progress.total} steps are done. The result cannot be measured yet: {missing}"[:4000]
        state.flags(approved=True, executing=False, completed=False, stopped=False, reason=Reason.MEASURING, text=text)
        state.conditions.set(ConditionType.READY, False, Reason.MEASURING, text)
        return Outcome(requeue_after=RETRY_SECONDS)
    model = await modelled(tools, state, observed)
    # What was learned of the bundles' cost, and of the brokers, is in the promise too.
    balance, loads = await tools.measured(model, tools.memories.get(state.meta.uid))
    measured = balance_status(balance)
    promised = state.status.proposal.after.imbalance if state.status.proposal and state.status.proposal.after else "?"
    text = (
        f"All {progress.total} steps are done{_in_time(state)}. The busiest broker has {measured.imbalance} times "
        f"the mean load, {promised} times was promised, and the best possible is {measured.bound} times"
    )
    state.set(measured=measured, measured_brokers=load_table(loads, planned=False))
    return await _completed(state, text)


async def _completed(state: RebalancePass, text: str) -> Outcome:
    """Completes the execution, measured or not."""
    state.conditions.set(ConditionType.PROPOSAL_READY, False, Reason.COMPLETED, text)
    state.flags(approved=True, executing=False, completed=True, stopped=False, reason=Reason.COMPLETED, text=text)
    if state.actor.act:
        await state.actor.record_event(Reason.COMPLETED, text)
    if not state.spec.repeat_seconds:
        return DONE
    ended = parse_time(state.status.progress.finished_time if state.status.progress else None)
    since = seconds_since(ended, state.now) if ended is not None else 0.0
    return Outcome(requeue_after=max(state.spec.repeat_seconds - since, 0.1))


async def _invalidated(tools: Tools, state: RebalancePass, message: str) -> Outcome:
    """Stops immediately because the live state differs from the proposal's, and reports the difference."""
    text = (f"The execution was stopped after {_done(state)}, because {message}. {sentence(FOR_ANOTHER)}")[:4000]
    _failed(state, message)
    await state.actor.warn(Reason.PLAN_INVALIDATED, shortened(text))
    return stopped(tools, state, Reason.PLAN_INVALIDATED, text)


def _failed(state: RebalancePass, message: str) -> None:
    """Records for a standing balancer that an execution ended without progress."""
    proposal, done = state.status.proposal, state.status.progress.done if state.status.progress else 0
    if proposal is None or not standing(state.spec) or done > (proposal.splits if proposal.moves else 0):
        return
    before = state.status.failed_executions
    count = min(before.count if before is not None else 0, MOST_FAILED) + 1
    failed = FailedExecutions(count=count, last_time=timestamp(state.now), message=shortened(message)[:500])
    state.set(failed_executions=failed)


def stopped(tools: Tools, state: RebalancePass, reason: Reason, text: str) -> Outcome:
    """Ends the execution without completion. Executed steps are kept."""
    if state.status.progress and state.status.progress.done:
        _acted(tools, state)
    state.progress(current=None, current_since=None, blocked_since=None, finished_time=timestamp(state.now))
    state.set(replaced_proposal=None)
    state.conditions.set(ConditionType.PROPOSAL_READY, False, reason, text)
    state.flags(approved=False, executing=False, completed=False, stopped=True, reason=reason, text=text)
    again = state.spec.repeat_seconds if reason is not Reason.STOPPED_BY_USER else None
    return Outcome(requeue_after=float(again)) if again else DONE


def _executing(state: RebalancePass, reason: Reason, text: str) -> None:
    state.flags(approved=True, executing=True, completed=False, stopped=False, reason=reason, text=text)
    state.conditions.set(ConditionType.READY, False, reason, text)


def _in_time(state: RebalancePass) -> str:
    """Returns the actual and the expected duration, as a message."""
    progress, proposal = state.status.progress, state.status.proposal
    if progress is None or progress.duration is None:
        return ""
    expected = proposal.expected_duration if proposal is not None else None
    return f" in {progress.duration}" + (f" (expected {expected})" if expected else "")


def _done(state: RebalancePass) -> str:
    progress = state.status.progress or ProgressStatus()
    return f"{progress.done} of {progress.total} steps"
