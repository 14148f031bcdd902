"""Decides the replicas from what the load requires: blocks, windows, ramps, cool-down, limits. Pure.

All automatic scaling of brokers, proxies and bookies ends here; the controller and the benchmark call the functions
`decide` of brokers.py, proxies.py and bookies.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.autoscaling.history import State, covers, extreme, remembered, scaled
from pulsar_operator.balance.autoscaling.values import Block, Need, Policy, Verdict, Workload
from pulsar_operator.domain.texts import sentence

MIN, MAX = "minReplicas", "maxReplicas"
UP, DOWN, WINDOW = "behavior.scaleUp", "behavior.scaleDown", "stabilizationWindowSeconds"
"""Fields of spec.<component>.autoscaling, with which a verdict names what limited it."""
LARGEST = 1048576
"""Maximum replicas in a state: the API has no room for more (`RecommendationStatus`)."""
HOLD = 3600.0
"""Seconds for which a pod is kept instead of being removed and added again."""
PASSED_BY_URGENT = frozenset(
    {
        Reason.UNDER_REPLICATED,
        Reason.ROLLOUT_IN_PROGRESS,
        Reason.DECOMMISSIONING_BOOKIE,
        Reason.REPLACING_VOLUME,
        Reason.CONFIGURATION_STORE_UNAVAILABLE,
    }
)
"""Reasons that do not block an urgent scale-out, because the new bookie helps to resolve them: missing copies are made,
a rollout continues once all bookies are writable, a decommission has room.

A full disk, or too few writable bookies, would prevent that if the new bookie waited for it. Bookies need no
configuration store. Only a pause is respected.
"""

PASSED_BY_MINIMUM = frozenset({Reason.DECOMMISSIONING_BOOKIE})
"""Reasons that do not block a raised minimum. If the minimum is raised during a decommission, the bookie is kept, whose
data would otherwise be copied twice."""


@dataclass(frozen=True)
class _Step:
    """The desired number of replicas after some of the limits were applied, and the limit that last changed it."""

    desired: int
    reason: Reason
    note: str = ""
    limited_by: str | None = None


def decide(need: Need, workload: Workload, policy: Policy, state: State, now: float) -> tuple[Verdict, State]:
    """Returns the replicas, with the state to keep. Without a decision the number is unchanged."""
    current = workload.replicas
    urgent = need.urgent is not None and need.urgent > current
    passed = PASSED_BY_URGENT if urgent else PASSED_BY_MINIMUM if current < policy.least else frozenset[Reason]()
    standing = [each for each in workload.blocks if each.reason not in passed]
    stop = next((each for each in standing if each.growth), None)
    if stop is not None:
        return Verdict(current, stop.reason, stop.message, None, need.inputs, need.advice), state
    block = standing[0] if standing else None
    if need.replicas is None and current >= policy.least:
        if block is not None:
            return Verdict(current, block.reason, block.message, None, need.inputs), state
        return Verdict(
            current, Reason.NO_DATA, f"No decision was made, because {need.message}.", None, need.inputs
        ), state
    if state.known is not None and need.plain is not None and need.plain >= current:
        state = replace(state, came=True)
    need = _without_surplus(need, state, now)
    if need.replicas is not None:
        state = _noted(need, workload, policy, state, now)
    step = _step(need, workload, policy, state, now, standing)
    if block is not None and (step.desired < current or (need.replicas or 0) <= current == step.desired):
        return Verdict(current, block.reason, block.message, None, need.inputs, need.advice), state
    if step.desired != current:
        state = scaled(state, now, upwards=step.desired > current, known=_guessed(need, step.desired, current, state))
    text = ". ".join(sentence(each) for each in (need.message, step.note) if each) + "."
    return Verdict(step.desired, step.reason, text, step.limited_by, need.inputs, need.advice), state


def _without_surplus(need: Need, state: State, now: float) -> Need:
    """Returns the need without pods that were added for forecast load that did not occur within the hour. Otherwise the
    tolerance below the target would keep them."""
    if state.known is None or state.guessed is None or now - state.guessed <= HOLD:
        return need
    if state.came or need.plain is None or need.replicas is None or need.ahead:
        return need
    return replace(need, replicas=min(need.replicas, max(state.known, need.plain)))


def _noted(need: Need, workload: Workload, policy: Policy, state: State, now: float) -> State:
    """Returns the state with the current need. Replicas beyond the measured load are kept in `State.known`, and do not
    count as a peak for a window."""
    assert need.replicas is not None
    measured = need.replicas if need.known is None else need.known
    high = _clamped(measured, policy, need.floor)
    if any(each.understates for each in workload.blocks):
        high = max(high, workload.replicas)
    return remembered(state, now, _clamped(need.replicas, policy, need.floor), policy, high)


def _guessed(need: Need, desired: int, current: int, state: State) -> int | None:
    """Returns the replicas that the measured load needs, if the change leaves more than that."""
    if desired < current:
        return state.known if state.known is not None and desired > state.known else None
    return need.known if need.known is not None and desired > max(need.known, current) else None


def _clamped(number: int, policy: Policy, floor: int) -> int:
    return min(max(policy.least, min(number, policy.most), min(number, floor)), LARGEST)


def _step(
    need: Need, workload: Workload, policy: Policy, state: State, now: float, blocks: Sequence[Block] = ()
) -> _Step:
    current = workload.replicas
    if current < policy.least:
        return _Step(policy.least, Reason.SCALED_OUT, f"{MIN} is {policy.least}", MIN)
    if current > policy.most:
        return _above(need, workload, policy)
    # One after the other where pods are lost: those that were just added may be among them, and so would be the next.
    if need.urgent is not None and need.urgent > current and not (workload.lost and _cools(policy, state, now)):
        return _up(min(need.urgent, policy.most), need.urgent, current, policy)
    asked = need.replicas if need.replicas is not None else current
    if asked > current:
        unsettled = (each.window for each in blocks if not (need.used and each.counts_twice))
        window = max(policy.up.window, *unsettled, 0.0)
        return _out(asked, workload, policy, state, now, window)
    if asked < current:
        return _in(need, workload, policy, state, now)
    return _Step(current, Reason.WITHIN_TARGET)


def _above(need: Need, workload: Workload, policy: Policy) -> _Step:
    """Lowers the number to a lower maximum immediately, as far as stored data allows."""
    current = workload.replicas
    if need.shrink_blocker:
        return _Step(
            current,
            Reason.AT_LIMIT,
            f"{MAX} is {policy.most}, but no pod is removed, because {need.shrink_blocker}",
            MAX,
        )
    desired = max(policy.most, min(current, need.floor))
    if desired < current:
        return _Step(desired, Reason.SCALED_IN, f"{MAX} is {policy.most}", MAX)
    return _Step(
        current, Reason.AT_LIMIT, f"{MAX} is {policy.most}, but the stored data requires {need.floor} pods", MAX
    )


def _out(asked: int, workload: Workload, policy: Policy, state: State, now: float, window: float) -> _Step:
    current = workload.replicas
    if current >= policy.most:
        return _Step(current, Reason.AT_LIMIT, f"{MAX} is {policy.most}", MAX)
    agreed = extreme(state.lows, now - window) if covers(state.lows, now, window) else current
    if agreed <= current:
        return _stabilizing(current, f"pods are added if the need persists for {window:.0f} s", f"{UP}.{WINDOW}")
    # A change downwards delays none upwards: load that comes back is served.
    if state.scaled is not None and _cools(policy, state, now):
        left = policy.up.cooldown - (now - state.scaled)
        return _Step(
            current,
            Reason.STABILIZING,
            f"pods were added recently and the cool-down ends in {left:.0f} s",
            f"{UP}.cooldownSeconds",
        )
    return _up(min(agreed, policy.most, current + policy.up.most(current)), asked, current, policy)


def _cools(policy: Policy, state: State, now: float) -> bool:
    """Whether the cool-down after a scale-out is running."""
    return state.upwards and state.scaled is not None and now - state.scaled < policy.up.cooldown


def _up(desired: int, asked: int, current: int, policy: Policy) -> _Step:
    if desired <= current:
        return _Step(current, Reason.AT_LIMIT, f"{MAX} is {policy.most}", MAX)
    if desired >= asked:
        return _Step(desired, Reason.SCALED_OUT, f"the number of replicas changes from {current} to {desired}")
    limit = MAX if desired == policy.most else UP
    return _Step(
        desired,
        Reason.SCALED_OUT,
        f"the number of replicas changes from {current} to {desired}, limited by {limit}",
        limit,
    )


def _in(need: Need, workload: Workload, policy: Policy, state: State, now: float) -> _Step:
    current = workload.replicas
    if current <= policy.least:
        return _Step(current, Reason.AT_LIMIT, f"{MIN} is {policy.least}", MIN)
    if need.shrink_blocker:
        return _Step(current, need.shrink_blocker_reason, f"no pod is removed, because {need.shrink_blocker}")
    if (starting := workload.starting - workload.stuck) > 0:
        return _stabilizing(current, f"no pod is removed while {starting} pods are starting", None)
    if workload.unsure:
        return _stabilizing(
            current, f"no pod is removed while {workload.unsure} pods may carry more load than is measured", None
        )
    window = policy.down.window
    agreed = extreme(state.highs, now - window) if covers(state.highs, now, window) else current
    if agreed >= current:
        return _stabilizing(current, f"pods are removed if the need persists for {window:.0f} s", f"{DOWN}.{WINDOW}")
    # A minimum hides how far the load fell, but for what is wanted now.
    still = agreed if agreed > policy.least else need.replicas or 0
    if state.known is not None and state.guessed is not None and still >= state.known and now - state.guessed <= HOLD:
        # A guess, and the load is not below what was measured then: a scale-in now would be followed by the same guess.
        note = "the last pods were added for load that cannot be measured, and are removed once fewer than "
        return _stabilizing(
            current, f"{note}{state.known} pods are needed, or {HOLD:.0f} s after they were requested", None
        )
    if state.scaled is not None and now - state.scaled < policy.down.cooldown:
        left = policy.down.cooldown - (now - state.scaled)
        return _Step(
            current,
            Reason.STABILIZING,
            f"the number of replicas changed recently and the cool-down ends in {left:.0f} s",
            f"{DOWN}.cooldownSeconds",
        )
    desired = max(agreed, policy.least, min(need.floor, current), current - policy.down.most(current))
    if desired >= current:
        return _Step(current, Reason.AT_LIMIT, f"the stored data requires {need.floor} pods", None)
    limit = None if desired <= (need.replicas or 0) else (MIN if desired == policy.least else DOWN)
    note = f"the number of replicas changes from {current} to {desired}" + (f", limited by {limit}" if limit else "")
    return _Step(desired, Reason.SCALED_IN, note, limit)


def _stabilizing(current: int, note: str, limit: str | None) -> _Step:
    return _Step(current, Reason.STABILIZING, note, limit)
