"""Decides the number of proxies by connections and bandwidth. Pure.

A connection stays on its proxy, so a new proxy gets only new ones. A removed proxy closes its connections, and the
clients reconnect to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_operator.balance.autoscaling.decide import decide as decided
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.pressure import need_of, needed, pressure
from pulsar_operator.balance.autoscaling.values import Need, Policy, Signal, Verdict, Workload


@dataclass(frozen=True)
class ProxyFacts:
    """Measured facts."""

    workload: Workload
    signals: tuple[Signal, ...]


def decide(facts: ProxyFacts, policy: Policy, state: State, now: float) -> tuple[Verdict, State]:
    """Returns the decision on proxies and the state to keep. ``now`` is in seconds."""
    workload = facts.workload

    def need(signals: Sequence[Signal]) -> Need:
        return need_of([pressure(signal, workload) for signal in signals], workload, policy)

    return decided(needed(facts.signals, workload, policy, need), workload, policy, state, now)
