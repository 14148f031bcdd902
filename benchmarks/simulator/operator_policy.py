"""The standing balancer that ships (balance/execution/driver.py) in the simulator, on what brokers would count.

It sees what the operator sees: bytes and messages of topics, capacities relative to each other, and how much of its own
resources each broker says it uses. What a topic truly costs it does not see.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import fsum, inf

from benchmarks.simulator.placement import select_broker
from benchmarks.simulator.state import Action, Cut, Placement, State, Traffic, Unload
from pulsar_operator.balance.execution import steady
from pulsar_operator.balance.execution.driver import Memory, acted, decide
from pulsar_operator.balance.execution.partial import Silence, answering, heard, kept, too_much
from pulsar_operator.balance.execution.steady import STANDING_BUDGET
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.model.observation import CPU, Usage
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Proposal

SECONDS = 60.0
"""Of a step of the simulator, and of Pulsar's statistics."""


@dataclass
class OperatorPolicy:
    """Pulsar's shedding and splitting are off; its placement still decides where a lost broker's bundles go."""

    name: str
    placement: Placement
    options: steady.SteadyOptions = field(default_factory=lambda: steady.SteadyOptions(overload=inf))
    """As the controller's: from which load a broker has too much the driver finds by what brokers use."""
    budget: Budget = STANDING_BUDGET
    mode: Mode = Mode.FULL
    memory: Memory = field(default_factory=Memory)
    silence: Silence = field(default_factory=Silence)
    told: bool = True
    """Whether brokers say what they use of their resources; without, nothing is learned of costs, or of overload."""

    def place(self, bundle: BundleId, state: State) -> str:
        """As Policy: Pulsar decides."""
        staying = [broker for broker in state.hosts if broker not in state.leaving]
        able = [broker for broker in staying if state.permits(bundle, broker)]
        return select_broker(self.placement, able or state.hosts, bundle, state)

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy."""
        now, silent = state.minute * SECONDS, self.unknown(state)
        if not self.decides(state):
            return []
        observed = answering(self._model(state, traffic), silent, unlisted=True)
        if state.leaving:
            return self._empty(state, observed, now)
        question = Options(self.mode, self.budget)
        usages = usages_of(state) if self.told else {}
        decision, memory = decide(self.memory, now, observed, question, self.options, usages=usages)
        self.silence = heard(self.silence, now, observed, memory, silent)
        self.memory = kept(self.memory, memory, self.silence, now)
        return self._steps(decision.planned, now) if decision.act and decision.planned is not None else []

    def unknown(self, state: State) -> frozenset[str]:
        """Brokers that do not answer the operator in this minute."""
        return frozenset(state.hosts.keys() - state.fresh.keys())

    def decides(self, state: State) -> bool:
        """Whether enough is known to decide in this minute, as the controller judges."""
        return too_much(self.silence, tuple(state.hosts), self.unknown(state)) is None

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
            positions, costs = traffic.positions(bundle), traffic.costs(bundle)
            if len(set(positions)) < len(positions):
                cells: dict[int, float] = {}
                for position, cost in zip(positions, costs, strict=True):
                    cells[position] = cells.get(position, 0.0) + cost
                positions, costs = tuple(cells), tuple(cells.values())
            parts = tuple(map(Cell, positions, costs))
            bundles.append(Bundle(bundle, fsum(costs), state.owners[bundle], parts, traffic.topics(bundle)))
        mean = fsum(host.capacity for host in state.hosts.values()) / len(state.hosts)
        brokers = (
            Broker(host.id, host.capacity / mean, None, host.id in state.leaving) for host in state.hosts.values()
        )
        return ClusterModel(tuple(brokers), tuple(bundles), state.allowed)


def usages_of(state: State) -> dict[str, Usage]:
    """What brokers measured of themselves in the last minute, as the operator reads it of them."""
    found = {}
    for broker, report in state.fresh.items():
        figures = {"network in": report.bandwidth_in, "network out": report.bandwidth_out}
        if report.cpu_known:
            figures[CPU] = report.cpu
        resource = max(figures, key=lambda each: figures[each])
        found[broker] = Usage(figures[resource], resource, figures.get(CPU))
    return found
