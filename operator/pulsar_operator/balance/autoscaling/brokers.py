"""How many brokers. Pure.

Brokers carry what bundles bring, so that their number is judged by all of them together: a hot broker among idle ones
asks for a rebalance, and a topic hotter than a broker for partitions (the rule of `sizing.provisioning`); neither asks
for a broker, which would stand beside them and be idle as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pulsar_operator.balance.autoscaling.decide import HOLD
from pulsar_operator.balance.autoscaling.decide import decide as decided
from pulsar_operator.balance.autoscaling.forecast import Profile, gain, growth
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.outlook import Foreseen
from pulsar_operator.balance.autoscaling.pressure import Ahead, Pressure, need_of, pressure, unbelievable
from pulsar_operator.balance.autoscaling.values import HotTopic, Input, Need, Policy, Signal, Verdict, Workload
from pulsar_operator.balance.planner.advice import MORE_PARTITIONS
from pulsar_operator.balance.planner.proposal import Advice
from pulsar_operator.balance.sizing.provisioning import hotter_than_a_broker

REBALANCE: Final = "Rebalance"
FORECAST: Final = "forecast"
"""Name of what recorded traffic says, beside those of targets."""
CPU: Final = "cpuPercent"
TRAFFIC = frozenset({CPU, "bandwidthPercent", "messagesPerSecond"})
"""Targets that traffic drives, of which the record is."""
UNEVEN = 1.25
"""Busiest over mean load from which bundles are to be moved; that of `execution.steady`."""
LEAD = 900.0
"""Seconds that a broker is asked for before a recorded rise: it starts, and gets its share."""
BACK = 7200.0
"""Seconds of the record before now: what they had is no rise. An hour without traffic, an outage, is on record until it
falls out of the window, and what comes after it would be a rise from nothing at an hour at which today all is well."""
CORE = 1e6
"""Byte-equivalents a second that one core carries at least, 250 messages of 1 KiB in and out; some 50 times that where
messages are many. So a rise from a message an hour to two does not multiply what idle brokers use, which would be more
with each that is added."""


@dataclass(frozen=True)
class BrokerFacts:
    """What was measured."""

    workload: Workload
    signals: tuple[Signal, ...]
    recorded: Foreseen | None = None
    """Of recorded traffic; None = it is not asked for, and nothing is foreseen."""


def decide(facts: BrokerFacts, policy: Policy, state: State, now: float) -> tuple[Verdict, State]:
    """Brokers from now on, and what to remember. ``now`` is in seconds, of the profile's clock."""
    return decided(need(facts, policy, now), facts.workload, policy, state, now)


def need(facts: BrokerFacts, policy: Policy, now: float) -> Need:
    """What the load asks for now, and before the next recorded rise."""
    workload = facts.workload
    why = unbelievable(facts.signals, workload, policy)
    if why is not None:
        return Need(None, why)
    recorded = facts.recorded or Foreseen()
    measured = [pressure(signal, workload) for signal in facts.signals]
    pressures = [_foreseen(_without_excess(each, recorded.hottest), recorded.profile, now) for each in measured]
    found = need_of(pressures, workload, policy)
    grows = found.wanted is not None and found.wanted > workload.replicas
    advice = _partitions(measured, recorded.hottest) or (() if grows else _rebalance(pressures, policy))
    words = "; ".join(filter(None, [found.message, *(each.message for each in advice), recorded.message]))
    return replace(found, message=words, advice=advice, inputs=(*found.inputs, *_forecast(recorded, now)))


def _foreseen(found: Pressure, profile: Profile | None, now: float) -> Pressure:
    """With what the record says of it: of traffic alone, and of CPU no more than traffic can use."""
    if found.signal.name not in TRAFFIC:
        return found
    soon, later = growth(profile, now, LEAD, BACK), growth(profile, now, HOLD)
    if found.signal.name == CPU and found.total > 0:
        soon = min(soon, 1 + gain(profile, now, LEAD, BACK) / CORE / found.total)
        later = min(later, 1 + gain(profile, now, HOLD) / CORE / found.total)
    return replace(found, ahead=Ahead(soon, later))


def _forecast(recorded: Foreseen, now: float) -> tuple[Input, ...]:
    """By how much the load grows until a broker that is asked for now serves."""
    if recorded.age is None:
        return ()
    grows = None if recorded.profile is None else growth(recorded.profile, now, LEAD, BACK)
    return (Input(FORECAST, grows, 1.0, recorded.age, "times"),)


def _excess(found: Pressure, hot: HotTopic | None) -> float:
    """Brokers' worth of load that the hottest topic has above what one broker is wanted to carry.

    It is on one broker, so that it is no more than the busiest has too much: the record is of the busy hours, and at
    night there may be none.
    """
    if hot is None or not hotter_than_a_broker(hot.weight, hot.carries, hot.target) or found.signal.name not in TRAFFIC:
        return 0.0
    return max(min(hot.weight / (hot.carries * hot.target), found.busiest_share / found.signal.target) - 1, 0.0)


def _without_excess(found: Pressure, hot: HotTopic | None) -> Pressure:
    """What a topic has above a broker's share stays on its broker, however many others there are."""
    return replace(found, pods=max(found.pods - _excess(found, hot), 0.0))


def _partitions(pressures: list[Pressure], hot: HotTopic | None) -> tuple[Advice, ...]:
    if hot is None or not any(_excess(each, hot) > 0 for each in pressures):
        return ()
    times = hot.weight / (hot.carries * hot.target)
    text = f"{hot.name} carries {times:.2f}x what a broker should: partitions help there, brokers do not"
    return (Advice(MORE_PARTITIONS, hot.name, text),)


def _rebalance(pressures: list[Pressure], policy: Policy) -> tuple[Advice, ...]:
    """Where there are brokers enough, and one has too much."""
    for each in pressures:
        limit = each.signal.target * (1 + policy.tolerance)
        if each.busiest_share > limit and each.busiest_share > UNEVEN * each.share:
            text = f"{each.busiest} carries {each.busiest_share:.0%} of what it can ({each.signal.name}), "
            text += f"all together {each.share:.0%}: a rebalance helps, another broker does not"
            return (Advice(REBALANCE, each.busiest, text),)
    return ()
