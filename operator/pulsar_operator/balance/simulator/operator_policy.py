"""Our steady-state driver in the simulator: the planner and `balance.steady`, on what a collector would read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import fsum

from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Balance, Proposal
from pulsar_operator.balance.simulator.placement import fewest_of_namespace
from pulsar_operator.balance.simulator.state import Action, Cut, Placement, State, Traffic, Unload

SECONDS = 60.0
"""Of a step of the simulator, and of Pulsar's statistics."""


@dataclass
class OperatorPolicy:
    """Pulsar's shedding and splitting are off; its placement still decides where a lost broker's bundles go."""

    name: str
    placement: Placement
    options: steady.SteadyOptions = field(default_factory=steady.SteadyOptions)
    budget: Budget = field(default_factory=Budget)
    mode: Mode = Mode.FULL
    history: steady.History = field(default_factory=steady.History)
    weights: dict[BundleId, float] = field(default_factory=dict)
    """Smoothed."""

    def place(self, bundle: BundleId, state: State) -> str:
        """As Policy: Pulsar decides."""
        candidates = [broker for broker in sorted(state.hosts) if broker not in state.leaving] or sorted(state.hosts)
        if state.settings.distribute_evenly:
            candidates = fewest_of_namespace(candidates, bundle, state)
        return self.placement.select(candidates, bundle, state)

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy."""
        now = state.minute * SECONDS
        observed = {bundle: traffic.cost(bundle) for bundle in traffic.bundles()}
        self.weights = steady.smooth(self.weights, observed, SECONDS, self.options.memory)
        if state.leaving:
            return self._empty(state, traffic, now)
        balance, idlest = self._balance(state, traffic)
        verdict, self.history = steady.look(self.history, now, balance, idlest, self.options)
        if not verdict.act:
            return []
        cooling = steady.cooling(self.history, now, self.options)
        question = Options(self.mode, self.budget, tolerance=self.options.plan_tolerance, cooling=cooling)
        proposal = plan(self._model(state, traffic), question)
        if not steady.worthwhile(proposal, self.options, urgent=verdict.urgent):
            self.history = steady.refused(self.history, now)
            return []
        return self._steps(proposal, now)

    def _empty(self, state: State, traffic: Traffic, now: float) -> list[Action]:
        """Brokers that will be scaled in give everything away, whatever the balance."""
        if not set(state.leaving) & set(state.owners.values()):
            return []
        budget = replace(self.budget, max_moves=len(self.weights))
        question = Options(Mode.REMOVE_BROKERS, budget, brokers=frozenset(state.leaving))
        return self._steps(plan(self._model(state, traffic), question), now)

    def _steps(self, proposal: Proposal, now: float) -> list[Action]:
        self.history = steady.acted(self.history, now, (move.bundle for move in proposal.moves), self.options)
        cuts = [Cut(split.bundle, (split.boundary,), False) for split in proposal.splits]
        moves = [Unload(move.bundle, move.source or "", move.destination) for move in proposal.moves]
        return [*cuts, *moves]

    def _balance(self, state: State, traffic: Traffic) -> tuple[Balance, float]:
        """How even the smoothed weights lie, and the least utilization; a hot topic alone bounds the busiest one."""
        loads = dict.fromkeys(state.hosts, 0.0)
        for bundle, weight in self.weights.items():
            loads[state.owners[bundle]] += weight
        capacities = [host.capacity for host in state.hosts.values()]
        mean = sum(loads.values()) / sum(capacities)
        used = [loads[broker] / host.capacity for broker, host in state.hosts.items()]
        return Balance(max(used), mean, max(mean, traffic.hottest() / max(capacities)), len(self.weights)), min(used)

    def _model(self, state: State, traffic: Traffic) -> ClusterModel:
        """Brokers, bundles and cells as observed in the last minute, scaled to the smoothed weights."""
        bundles = []
        for bundle, weight in self.weights.items():
            observed = traffic.cost(bundle)
            scale = weight / observed if observed > 0 else 0.0
            cells: dict[int, float] = {}
            for position, cost in zip(traffic.positions(bundle), traffic.costs(bundle), strict=True):
                cells[position] = cells.get(position, 0.0) + cost * scale
            parts = tuple(Cell(position, cost) for position, cost in cells.items())
            total = fsum(cells.values())
            bundles.append(Bundle(bundle, total, state.owners[bundle], parts, traffic.topics(bundle)))
        brokers = (Broker(host.id, host.capacity, draining=host.id in state.leaving) for host in state.hosts.values())
        return ClusterModel(tuple(brokers), tuple(bundles))
