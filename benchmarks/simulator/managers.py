"""Pulsar's load managers as policies: what the leader does in a minute, and where a bundle without broker goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.simulator.placement import (
    LeastLongTermMessageRate,
    LeastResourceUsageExtensible,
    LeastResourceUsageWithWeight,
    select_broker,
)
from benchmarks.simulator.shedders import (
    AvgShedder,
    ThresholdShedder,
    TransferShedder,
    UniformLoadShedder,
)
from benchmarks.simulator.splits import ExtensibleSplits, ModularSplits
from benchmarks.simulator.state import (
    Action,
    Placement,
    Policy,
    Randomness,
    Shedder,
    State,
    Traffic,
    Unload,
)
from pulsar_operator.balance.model.cluster import BundleId


@dataclass
class ModularManager:
    """ModularLoadManagerImpl: splits by long-term averages, then shedding; a placement strategy names destinations."""

    name: str
    shedder: Shedder | None
    placement: Placement
    splits: ModularSplits | None = field(default_factory=ModularSplits)

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy. A bundle whose placement is the broker it is on stays, and may be picked again at once."""
        actions: list[Action] = [*self.splits.cuts(state, traffic)] if self.splits is not None else []
        cut = {action.bundle for action in actions}
        if self.shedder is None or len(state.hosts) <= 1:
            return actions
        for broker, bundle in self.shedder.select_bundles(state):
            owner = state.owners.get(bundle)
            if owner is None or bundle in cut:
                continue
            destination = self.place(bundle, state)
            if destination not in (broker, owner):
                actions.append(Unload(bundle, owner, destination))
                _preallocate(state, bundle, destination)
        return actions

    def place(self, bundle: BundleId, state: State) -> str:
        """As Policy."""
        return select_broker(self.placement, state.hosts, bundle, state)


@dataclass
class ExtensibleManager:
    """ExtensibleLoadManagerImpl: owners split, the leader transfers, lookups place by resource usage."""

    name: str
    shedder: TransferShedder
    placement: Placement
    splits: ExtensibleSplits

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy."""
        actions: list[Action] = [*self.splits.cuts(state, traffic)]
        cut = {action.bundle for action in actions}
        return actions + [move for move in self.shedder.transfers(state) if move.bundle not in cut]

    def place(self, bundle: BundleId, state: State) -> str:
        """As Policy."""
        able = sorted(broker for broker in state.hosts if state.permits(bundle, broker))
        return self.placement.select(able, bundle, state)


def _preallocate(state: State, bundle: BundleId, broker: str) -> None:
    """Let the next placement of the same minute count what is on its way (Pulsar's preallocated bundle data)."""
    state.preallocated.setdefault(broker, {})[bundle] = None
    counts = state.counts.setdefault(bundle.namespace, {})
    counts[broker] = counts.get(broker, 0) + 1


def pulsar_policies(fresh: Callable[[], Randomness]) -> list[Policy]:
    """Pulsar's balancers in the pairs that it ships or recommends; `fresh` gives each its own chance."""
    avg = AvgShedder(fresh().randrange)
    return [
        ModularManager("Threshold", ThresholdShedder(), LeastLongTermMessageRate(fresh().randrange)),
        ModularManager("Threshold+Usage", ThresholdShedder(), LeastResourceUsageWithWeight(fresh().randrange)),
        ModularManager("Uniform", UniformLoadShedder(), LeastLongTermMessageRate(fresh().randrange)),
        ModularManager("Avg", avg, avg),
        ExtensibleManager(
            "Transfer", TransferShedder(), LeastResourceUsageExtensible(fresh().randrange), ExtensibleSplits()
        ),
    ]
