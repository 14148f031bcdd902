"""Brokers that do not answer the operator, and whose turn it is to balance: the functions that ship, minute by minute.

The operator asks brokers by admin REST. Pulsar's own balancer reads load reports from the metadata store, so a broker
that is silent for the operator is none for it. What decides is what the controllers call: balance/execution/partial.py
(who can be done without) and balance/execution/handover.py (when Pulsar's balancer is given back, and taken again).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.simulator.operator_policy import SECONDS, OperatorPolicy
from benchmarks.simulator.state import Action, Policy, State, Traffic
from pulsar_operator.balance.execution.handover import Handover, judge

Silent = Callable[[int], frozenset[str]]
"""Brokers that do not answer the operator in a minute."""


class BothBalanceError(Exception):
    """The operator may move bundles in a minute in which Pulsar's own balancer is on."""


@dataclass
class HandingOver(OperatorPolicy):
    """The standing balancer with ``driver: Operator``, among the brokers that answer, taking turns with Pulsar's."""

    silent: Silent = field(default=lambda _: frozenset())
    pulsar: Policy | None = None
    """Pulsar's balancer, while its settings are on. None: nothing is ever handed over, and one silent broker stops the
    operator, as it was before."""
    handover: Handover = field(default_factory=Handover)
    held: bool = True
    """Whether the cluster's status lets the operator move bundles."""
    settings_on: bool = False
    """Whether the settings of Pulsar's balancer are on."""
    with_pulsar: int = 0
    """Minutes in which Pulsar's balancer was on."""
    minutes_without_balancer: int = 0
    """Minutes in which neither could balance."""

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy. Raises BothBalanceError."""
        able = self.decides(state)
        if self.pulsar is not None:
            self.handover = judge(self.handover, state.minute * SECONDS, able)
        self._settle(operators=self.handover.restored_at is None)
        if self.held and self.settings_on:
            raise BothBalanceError(f"minute {state.minute}")
        actions: list[Action] = []
        if self.settings_on and self.pulsar is not None:
            self.with_pulsar += 1
            actions += self.pulsar.act(state, traffic)
        if self.held and able:
            actions += super().act(state, traffic)
        self.minutes_without_balancer += not self.settings_on and not (self.held and able)
        return actions

    def _settle(self, *, operators: bool) -> None:
        """One step of the cluster controller: what the status says goes before what the settings are."""
        if operators:
            self.held, self.settings_on = not self.settings_on, False
        else:
            self.settings_on, self.held = not self.held, False

    def unknown(self, state: State) -> frozenset[str]:
        """As OperatorPolicy, and those of ``silent``."""
        return super().unknown(state) | (self.silent(state.minute) & state.hosts.keys())

    def decides(self, state: State) -> bool:
        """As OperatorPolicy; as it was before, only where all answer."""
        return super().decides(state) if self.pulsar is not None else not self.unknown(state)
