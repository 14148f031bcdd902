"""How many brokers. Pure.

Brokers carry what bundles bring, so that their number is judged by all of them together: a hot broker among idle ones
asks for a rebalance, and a topic hotter than a broker for partitions (the rule of `sizing.provisioning`); neither asks
for a broker, which would stand beside them and be idle as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pulsar_operator.balance.autoscaling.decide import decide as decided
from pulsar_operator.balance.autoscaling.forecast import Profile, growth
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.pressure import Ahead, Pressure, need_of, pressure, unbelievable
from pulsar_operator.balance.autoscaling.values import Need, Policy, Signal, Verdict, Workload
from pulsar_operator.balance.planner.advice import MORE_PARTITIONS
from pulsar_operator.balance.planner.proposal import Advice
from pulsar_operator.balance.sizing.provisioning import hotter_than_a_broker

REBALANCE: Final = "Rebalance"
TRAFFIC = frozenset({"cpuPercent", "bandwidthPercent", "messagesPerSecond"})
"""Targets that a hot topic drives."""
UNEVEN = 1.25
"""Busiest over mean load from which bundles are to be moved; that of `execution.steady`."""
LEAD = 900.0
"""Seconds that a broker is asked for before a recorded rise: it starts, and gets its share."""
HOLD = 3600.0
"""Seconds: a broker that a recorded rise needs again within them does not leave."""


@dataclass(frozen=True)
class HotTopic:
    """The topic, or partition of one, with most load."""

    name: str
    weight: float
    """Byte-equivalents a second."""
    carries: float
    """Byte-equivalents a second that the largest broker can carry."""
    target: float
    """Wanted share of that."""


@dataclass(frozen=True)
class BrokerFacts:
    """What was measured."""

    workload: Workload
    signals: tuple[Signal, ...]
    profile: Profile | None = None
    """Of recorded traffic; None = none is recorded, and nothing is foreseen."""
    hottest: HotTopic | None = None


def decide(facts: BrokerFacts, policy: Policy, state: State, now: float) -> tuple[Verdict, State]:
    """Brokers from now on, and what to remember. ``now`` is in seconds, of the profile's clock."""
    return decided(need(facts, policy, now), facts.workload, policy, state, now)


def need(facts: BrokerFacts, policy: Policy, now: float) -> Need:
    """What the load asks for now, and before the next recorded rise."""
    workload = facts.workload
    why = unbelievable(facts.signals, workload, policy)
    if why is not None:
        return Need(None, why)
    pressures = [_without_excess(pressure(signal, workload), facts.hottest) for signal in facts.signals]
    ahead = Ahead(growth(facts.profile, now, LEAD), growth(facts.profile, now, HOLD))
    found = need_of(pressures, workload, policy, ahead)
    grows = found.wanted is not None and found.wanted > workload.replicas
    advice = _partitions(facts.hottest) or (() if grows else _rebalance(pressures, policy))
    words = "; ".join([found.message, *(each.message for each in advice)])
    return replace(found, message=words, advice=advice)


def _excess(hot: HotTopic | None) -> float:
    """Brokers' worth of load that the hottest topic has above what one broker is wanted to carry."""
    if hot is None or not hotter_than_a_broker(hot.weight, hot.carries, hot.target):
        return 0.0
    return hot.weight / (hot.carries * hot.target) - 1


def _without_excess(found: Pressure, hot: HotTopic | None) -> Pressure:
    """What a topic has above a broker's share stays on its broker, however many others there are."""
    excess = _excess(hot) if found.signal.name in TRAFFIC else 0.0
    return replace(found, pods=max(found.pods - excess, 0.0)) if excess else found


def _partitions(hot: HotTopic | None) -> tuple[Advice, ...]:
    if hot is None or not _excess(hot):
        return ()
    text = f"{hot.name} carries {1 + _excess(hot):.2f}x what a broker should: partitions help there, brokers do not"
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
