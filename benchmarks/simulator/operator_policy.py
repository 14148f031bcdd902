"""The standing balancer that ships (balance/execution/driver.py) in the simulator, on what brokers would count.

It sees what the operator sees: bytes and messages of topics, capacities relative to each other, and how much of its own
resources each broker says it uses. What a topic truly costs it does not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum

from benchmarks.simulator.placement import select_broker
from benchmarks.simulator.state import Action, Cut, Placement, State, Traffic, Unload
from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.execution.driver import Memory, acted, decide
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.model.observation import Usage, overload_load
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import utilizations
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Proposal

SECONDS = 60.0
"""Of a step of the simulator, and of Pulsar's statistics."""


@dataclass
class OperatorPolicy:
    """Pulsar's shedding and splitting are off; its placement still decides where a lost broker's bundles go."""

    name: str
    placement: Placement
    options: steady.SteadyOptions = field(default_factory=steady.SteadyOptions)
    """Its `overload` is a share of a broker's most used resource; as a load it is found anew at every look."""
    budget: Budget = field(default_factory=Budget)
    mode: Mode = Mode.FULL
    memory: Memory = field(default_factory=Memory)
    learned: Callable[[ClusterModel, Mapping[str, float]], ClusterModel] | None = None
    """What the model becomes beside each broker's measured use of its processor (1 = all of it); None: it stays."""

    def place(self, bundle: BundleId, state: State) -> str:
        """As Policy: Pulsar decides."""
        staying = [broker for broker in state.hosts if broker not in state.leaving]
        return select_broker(self.placement, staying or state.hosts, bundle, state)

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy."""
        now = state.minute * SECONDS
        observed = self._model(state, traffic)
        if state.leaving:
            return self._empty(state, observed, now)
        question = Options(self.mode, self.budget)
        options = replace(self.options, overload=self._overload(state, observed))
        decision, self.memory = decide(self.memory, now, observed, question, options)
        return self._steps(decision.planned, now) if decision.act and decision.planned is not None else []

    def _empty(self, state: State, observed: ClusterModel, now: float) -> list[Action]:
        """Brokers that will be scaled in give everything away, whatever the balance."""
        if not set(state.leaving) & set(state.owners.values()):
            return []
        budget = replace(self.budget, max_moves=len(observed.bundles))
        question = Options(Mode.REMOVE_BROKERS, budget, brokers=frozenset(state.leaving))
        return self._steps(plan(observed, question), now)

    def _steps(self, proposal: Proposal, now: float) -> list[Action]:
        self.memory = acted(self.memory, now, (move.bundle for move in proposal.moves), self.options)
        cuts = [Cut(split.bundle, (split.boundary,), False) for split in proposal.splits]
        moves = [Unload(move.bundle, move.source or "", move.destination) for move in proposal.moves]
        return [*cuts, *moves]

    def _model(self, state: State, traffic: Traffic) -> ClusterModel:
        """Brokers, bundles and cells as observed in the last minute."""
        bundles = []
        for bundle in traffic.bundles():
            cells: dict[int, float] = {}
            for position, cost in zip(traffic.positions(bundle), traffic.costs(bundle), strict=True):
                cells[position] = cells.get(position, 0.0) + cost
            parts = tuple(Cell(position, cost) for position, cost in cells.items())
            total = fsum(cells.values())
            bundles.append(Bundle(bundle, total, state.owners[bundle], parts, traffic.topics(bundle)))
        mean = fsum(host.capacity for host in state.hosts.values()) / len(state.hosts)
        brokers = (
            Broker(host.id, host.capacity / mean, None, host.id in state.leaving) for host in state.hosts.values()
        )
        model = ClusterModel(tuple(brokers), tuple(bundles))
        if self.learned is None:
            return model
        return self.learned(model, {broker: report.cpu for broker, report in state.fresh.items()})

    def _overload(self, state: State, model: ClusterModel) -> float:
        """The load at which the first broker has too much, by its own measure, as the controller finds it."""
        loads = utilizations([broker for broker in model.brokers if not broker.draining], model.bundles)
        usages = {broker: Usage(report.score, "") for broker, report in state.fresh.items()}
        return overload_load(loads, usages, self.options.overload)
