"""Decides the number of brokers. Pure.

Load arrives in bundles, so the number of brokers follows from the total of all brokers. A hot broker among idle ones
needs a rebalance, and a topic hotter than a broker needs partitions (the rule of `sizing.provisioning`). An additional
broker would help neither, and would be idle as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pulsar_operator.balance.autoscaling.decide import HOLD
from pulsar_operator.balance.autoscaling.decide import decide as decided
from pulsar_operator.balance.autoscaling.forecast import Profile, gain, growth
from pulsar_operator.balance.autoscaling.history import State, begun
from pulsar_operator.balance.autoscaling.outlook import Foreseen
from pulsar_operator.balance.autoscaling.pressure import (
    PERSISTS_INTERVALS,
    ROUNDING,
    Ahead,
    Pressure,
    at_least,
    need_of,
    needed,
    pressure,
)
from pulsar_operator.balance.autoscaling.trust import believed, judged
from pulsar_operator.balance.autoscaling.values import (
    HotTopic,
    Input,
    Need,
    Policy,
    Signal,
    TrafficGrowth,
    Verdict,
    Workload,
)
from pulsar_operator.balance.planner.advice import MORE_PARTITIONS
from pulsar_operator.balance.planner.proposal import Advice
from pulsar_operator.balance.sizing.provisioning import hotter_than_a_broker
from pulsar_operator.domain.texts import sentence

REBALANCE: Final = "Rebalance"
FORECAST: Final = "forecast"
"""Name of the input from recorded traffic, besides those of targets."""
CPU: Final = "cpuPercent"
TRAFFIC = frozenset({CPU, "bandwidthPercent", "messagesPerSecond"})
"""Targets that depend on traffic, to which the record applies."""
UNEVEN = 1.25
"""Ratio of the busiest to the mean load above which bundles should be moved, as in `execution.steady`."""
WAITS: Final = "Brokers are added if the next evaluation confirms the need, because traffic did not grow as much"
LEAD = 900.0
"""Seconds by which a broker is added before a recorded rise, since it must start and get its share."""
BACK = 7200.0
"""Seconds of the record before now whose load does not count as a rise. An hour without traffic, such as an outage,
stays in the record until it leaves the window; otherwise the traffic after it would count as a rise on a normal day."""
CORE = 1e6
"""Minimum byte equivalents per second that one core carries: 250 messages of 1 KiB in and out; with many messages it is
about 50 times that. So a rise from one message per hour to two does not multiply the CPU of idle brokers, which would
grow with each added broker."""


ROSE = 1.1
"""Growth of the traffic compared with the minutes before that confirms a rise of CPU."""


@dataclass(frozen=True)
class BrokerFacts:
    """Measured facts."""

    workload: Workload
    signals: tuple[Signal, ...]
    recorded: Foreseen | None = None
    """Recorded traffic; None if it is not used, and there is no forecast."""
    traffic: TrafficGrowth | None = None
    """Traffic of the brokers compared with the minutes before; None if unknown."""


def decide(facts: BrokerFacts, policy: Policy, state: State, now: float) -> tuple[Verdict, State]:
    """Returns the decision on brokers and the state to keep. ``now`` is in seconds, of the profile's clock."""
    state = _watched(facts, policy, state, now)
    return decided(need(facts, policy, now, state), facts.workload, policy, state, now)


def _watched(facts: BrokerFacts, policy: Policy, state: State, now: float) -> State:
    """Returns the state after one observation of saturation and of the forecast. Unknown values are skipped."""
    workload = facts.workload
    if not workload.ready:
        return state
    pressures = [pressure(signal, workload) for signal in at_least(facts.signals, workload, policy)]
    if not pressures:
        return state
    saturated = any(each.saturated for each in pressures)
    if not saturated:
        state = replace(state, saturated=None, saturated_pods=0)
    elif state.saturated is None or state.saturated_pods != len(workload.ready) or state.saturated > now:
        state = replace(state, saturated=now, saturated_pods=len(workload.ready))
    if not any(_presses(each, workload, policy) for each in pressures):
        state = replace(state, pressed=None)
    elif state.pressed is None or state.pressed > now:
        state = replace(state, pressed=now)
    traffic = [each.pods for each in pressures if each.signal.name in TRAFFIC]
    if not traffic:
        return state
    profile = facts.recorded.profile if facts.recorded is not None else None
    return judged(state, max(traffic), growth(profile, now, HOLD), now, saturated=saturated)


def _presses(found: Pressure, workload: Workload, policy: Policy) -> bool:
    """Whether CPU requires more brokers."""
    return found.signal.name == CPU and found.pods > workload.serving * (1 + policy.tolerance) + ROUNDING


@dataclass(frozen=True, slots=True)
class _Belief:
    """How far figures are trusted."""

    lasts: bool
    """Whether CPU has required more brokers for longer than one observation."""
    persists: bool
    """Whether all CPU has been in use for long enough."""
    trust: int
    """Trusted percent of the forecast."""


def _belief(facts: BrokerFacts, policy: Policy, state: State, now: float) -> _Belief:
    # What was seen before a time without decisions, without an observation or with nothing known, is an observation by
    # itself.
    begin = begun(state, now, policy)
    lasts = state.pressed is not None and now - max(state.pressed, begin) >= policy.interval
    saturated = max(state.saturated, begin) if state.saturated is not None else None
    persists = saturated is not None and now - saturated >= PERSISTS_INTERVALS * policy.interval
    return _Belief(lasts, persists, state.trust)


def need(facts: BrokerFacts, policy: Policy, now: float, state: State | None = None) -> Need:
    """Returns the brokers that the load requires now, and before the next recorded rise."""
    recorded, belief = facts.recorded or Foreseen(), _belief(facts, policy, state or State(), now)
    found = needed(
        facts.signals,
        facts.workload,
        policy,
        lambda signals: _need(replace(facts, signals=tuple(signals)), policy, now, belief),
    )
    words = ". ".join(filter(None, [found.message, recorded.message]))
    return found if found.replicas is None else replace(found, message=words)


def _need(facts: BrokerFacts, policy: Policy, now: float, belief: _Belief) -> Need:
    workload, recorded = facts.workload, facts.recorded or Foreseen()
    measured = [pressure(signal, workload) for signal in facts.signals]
    pressures = [
        _foreseen(_without_excess(each, recorded.hottest), recorded.profile, now, belief.trust) for each in measured
    ]
    believed_of = [each if belief.lasts else _once(each, workload, policy, facts.traffic) for each in pressures]
    found = need_of(believed_of, workload, policy, persists=belief.persists)
    grows = found.replicas is not None and found.replicas > workload.replicas
    advice = _partitions(measured, recorded.hottest) or (() if grows else _rebalance(pressures, policy))
    waits = [WAITS] if believed_of != pressures else []
    words = ". ".join(sentence(each) for each in (found.message, *waits, *(each.message for each in advice)) if each)
    limit = workload.serving * (1 + policy.tolerance) + ROUNDING
    used = all(each.signal.name == CPU for each in believed_of if each.pods * each.ahead.soon > limit)
    inputs = (*found.inputs, *_forecast(recorded, now))
    return replace(found, message=words, advice=advice, inputs=inputs, used=used)


def _once(found: Pressure, workload: Workload, policy: Policy, traffic: TrafficGrowth | None) -> Pressure:
    """Returns the need after a single observation of high CPU, which alone adds no broker, since it may be a garbage
    collection.

    The need grows at most in proportion to the traffic, and by at most the CPU that the additional traffic can use.
    """
    if not _presses(found, workload, policy):
        return found
    most = workload.serving * (1 + policy.tolerance)
    if traffic is not None:
        used = traffic.gained / CORE / (found.each * found.signal.target)
        times = min(traffic.times, 1 + used / max(most, 1.0))
        most *= times if times >= ROSE - ROUNDING else 1.0
    return replace(found, pods=min(found.pods, most / max(found.ahead.soon, 1.0)))


def _foreseen(found: Pressure, profile: Profile | None, now: float, trust: int) -> Pressure:
    """Returns the pressure with the forecast, as far as it is trusted: for traffic fully, for CPU at most what the
    traffic can use."""
    if found.signal.name not in TRAFFIC:
        return found
    soon, later = growth(profile, now, LEAD, BACK), growth(profile, now, HOLD)
    if found.signal.name == CPU and found.total > 0:
        soon = min(soon, 1 + gain(profile, now, LEAD, BACK) / CORE / found.total)
        later = min(later, 1 + gain(profile, now, HOLD) / CORE / found.total)
    return replace(found, ahead=Ahead(believed(soon, trust), believed(later, trust)))


def _forecast(recorded: Foreseen, now: float) -> tuple[Input, ...]:
    """Returns the predicted growth of the load until a broker that is added now serves."""
    if recorded.age is None:
        return ()
    grows = None if recorded.profile is None else growth(recorded.profile, now, LEAD, BACK)
    return (Input(FORECAST, grows, 1.0, recorded.age, "times"),)


def _excess(found: Pressure, hot: HotTopic | None) -> float:
    """Returns the load of the hottest topic above the target of one broker, in brokers.

    It is at most the excess of the busiest broker, which has the topic: the record is of busy hours, and at night there
    may be no excess.
    """
    if hot is None or not hotter_than_a_broker(hot.weight, hot.carries, hot.target) or found.signal.name not in TRAFFIC:
        return 0.0
    return max(min(hot.weight / (hot.carries * hot.target), found.busiest_share / found.signal.target) - 1, 0.0)


def _without_excess(found: Pressure, hot: HotTopic | None) -> Pressure:
    """Returns the load without the part of a topic that exceeds a broker's target, since that part stays on its broker
    regardless of the number of brokers."""
    return replace(found, pods=max(found.pods - _excess(found, hot), 0.0))


def _partitions(pressures: list[Pressure], hot: HotTopic | None) -> tuple[Advice, ...]:
    if hot is None or not any(_excess(each, hot) > 0 for each in pressures):
        return ()
    times = hot.weight / (hot.carries * hot.target)
    text = (
        f"{hot.name} carries {times:.2f}x the target load of a broker. Add partitions to the topic, because more "
        "brokers do not help"
    )
    return (Advice(MORE_PARTITIONS, hot.name, text),)


def _rebalance(pressures: list[Pressure], policy: Policy) -> tuple[Advice, ...]:
    """Returns advice for a rebalance if there are enough brokers and one has too much load."""
    for each in pressures:
        limit = each.signal.target * (1 + policy.tolerance)
        if each.busiest_share > limit and each.busiest_share > UNEVEN * each.share:
            text = f"{each.busiest} carries {each.busiest_share:.0%} of its capacity ({each.signal.name}), "
            text += f"and all brokers together carry {each.share:.0%}. A rebalance helps, and another broker does not"
            return (Advice(REBALANCE, each.busiest, text),)
    return ()
