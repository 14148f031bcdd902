"""P9 in simulation: the rolling restart of N evenly loaded brokers, moves per bundle against Pulsar's own way.

Ours drains one broker after another by plan, the emptiest first, and from the second one on only onto brokers that have
been restarted: then each bundle moves once and the first broker's twice, 1 + 1/N. The broker that came last is empty
then; to fill it costs another 1/N, whoever does it (any bundle on it must have come from a broker that had already been
restarted). With one broker more for the time of the roll (surge) the roll ends even after 1 + 1/N.

Pulsar's way unloads without destination: the load manager places, and later sheds or does not.

Topics have 0.8 to 1.2 times the same traffic, and a number of clients that has nothing to do with it: log-normal with a
median of two and a sigma of 1.2. What each of them sees is printed as reconnects per topic and per client, all that
follows the roll included.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from itertools import accumulate
from math import exp
from pathlib import Path
from random import Random

from benchmarks.simulator.managers import ModularManager, pulsar_policies
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.state import Action, Host, Policy, State, Traffic, Unload
from benchmarks.simulator.traffic import Recording, Topic
from benchmarks.simulator.world import Change, World, even_bundles
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, outcome
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Move

SIZES = (3, 5, 10, 20)
NAMESPACES = 4
BUNDLES = 20
"""Bundles a broker."""
TOPICS = 8
"""Topics a bundle, on average."""
CLIENTS, SPREAD = 2.0, 1.2
"""Median of a topic's producers and consumers, and the standard deviation of its logarithm."""
STEP = 5
"""Minutes from one broker to the next in Pulsar's way."""
SETTLE = 120
"""Minutes that Pulsar's shedder has after the roll."""
ALL = Budget(max_moves=1_000_000, max_moved_percent=100.0)


@dataclass(frozen=True)
class Roll:
    """What one roll cost."""

    brokers: int
    seed: int
    way: str
    during: float
    """Moves per bundle while brokers restart."""
    after: float
    """The same, when all that follows is done."""
    peak: float
    """Highest max/mean over the living brokers while one is away."""
    end: float
    """max/mean at the end."""
    topics: float
    """Times that a topic is closed and loaded again, on average, in all."""
    clients: float
    """Times that a client reconnects, on average, in all."""


@dataclass(frozen=True)
class Crowd:
    """Clients of the topics of a world, as sums up to each topic."""

    sums: Sequence[int]

    @classmethod
    def of(cls, topics: int, seed: int) -> Crowd:
        """Draws the clients of ``topics`` topics."""
        chance = Random(f"clients {seed}")
        counts = (round(CLIENTS * exp(chance.gauss(0.0, SPREAD))) for _ in range(topics))
        return cls(list(accumulate(counts, initial=0)))

    def of_bundle(self, world: World, bundle: BundleId) -> tuple[int, int]:
        """Topics and clients of a bundle."""
        start, end = world.slices[bundle]
        return end - start, self.sums[end] - self.sums[start]

    def felt(self, topics: int, clients: int) -> tuple[float, float]:
        """Converts reconnects of topics and of clients into the mean per topic and per client."""
        return topics / (len(self.sums) - 1), clients / self.sums[-1]


@dataclass
class Counted:
    """A policy whose moves are counted, and those of bundles that had to leave with their broker."""

    policy: Policy
    crowd: Crowd
    world: World
    name: str = "counted"
    topics: int = 0
    clients: int = 0

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy."""
        actions = self.policy.act(state, traffic)
        for action in actions:
            if isinstance(action, Unload) and state.owners.get(action.bundle) not in (None, action.destination):
                self._count(action.bundle)
        return actions

    def place(self, bundle: BundleId, state: State) -> str:
        """As Policy: asked for bundles that lost their broker."""
        self._count(bundle)
        return self.policy.place(bundle, state)

    def _count(self, bundle: BundleId) -> None:
        topics, clients = self.crowd.of_bundle(self.world, bundle)
        self.topics += topics
        self.clients += clients


class Steady:
    """Constant traffic."""

    def __init__(self, topics: int) -> None:
        self._factors = [1.0] * topics

    def factors(self, minute: int) -> Sequence[float]:
        """As Trace."""
        return self._factors


def cluster(brokers: int, seed: int) -> World:
    """N brokers with 20 bundles each, about evenly loaded, as Pulsar's default placement leaves a new cluster."""
    chance = Random(seed)
    count = brokers * BUNDLES // NAMESPACES
    names = [
        f"persistent://shop/team-{number}/events-{chance.randrange(10**9)}"
        for number in range(NAMESPACES)
        for _ in range(count * TOPICS)
    ]
    recording = Recording([Topic(name, 100.0 * chance.uniform(0.8, 1.2)) for name in names])
    recording.record(Steady(len(names)), brokers * STEP + 10 + SETTLE)
    capacity = recording.total_cost() / brokers / 0.5
    hosts = [Host(f"broker-{number}:8080", capacity, capacity) for number in range(brokers)]
    placement = LeastLongTermMessageRate(chance.randrange)
    return World(
        recording, hosts, even_bundles(recording.namespaces, count), ModularManager("start", None, placement, None)
    )


def model_of(world: World, crowd: Crowd) -> ClusterModel:
    """What our planner sees of it."""
    sums = world.recording.at(0).costs
    bundles = []
    for bundle, (start, end) in world.slices.items():
        topics, clients = crowd.of_bundle(world, bundle)
        weight = sums[end] - sums[start]
        bundles.append(Bundle(bundle, weight, world.state.owners[bundle], topics=topics, clients=clients))
    brokers = (Broker(host.id, host.capacity) for host in world.state.hosts.values())
    return ClusterModel(tuple(brokers), tuple(bundles))


def load_of(model: ClusterModel, broker: str) -> float:
    """Weight that a broker carries."""
    return sum(bundle.weight for bundle in model.bundles if bundle.owner == broker)


def drain(model: ClusterModel, broker: str, destinations: frozenset[str]) -> tuple[ClusterModel, tuple[Move, ...]]:
    """Empty one broker onto others; the model after it and the moves it took."""
    namespaces = {bundle.id.namespace for bundle in model.bundles}
    asked = replace(model, allowed=dict.fromkeys(namespaces, destinations)) if destinations else model
    proposal = plan(asked, Options(Mode.REMOVE_BROKERS, ALL, brokers=frozenset({broker})))
    after = outcome(model, (), proposal.moves)
    if load_of(after, broker) > 0:
        raise RuntimeError(f"{broker} is not empty after its drain: {proposal.withheld or proposal.advice}")
    return after, proposal.moves


def ours(world: World, crowd: Crowd, seed: int, *, surge: bool) -> Roll:
    """Drain, restart, next; then fill the last one, or hand the extra one's bundles to it."""
    model = model_of(world, crowd)
    names = [broker.id for broker in model.brokers]
    extra = "broker-surge:8080"
    restarted: set[str] = set()
    if surge:
        model = replace(model, brokers=(*model.brokers, Broker(extra, model.brokers[0].capacity)))
        restarted.add(extra)
    moves, peak, left = list[Move](), 1.0, set(names)
    last = ""
    while left:
        last = min(left, key=lambda broker: (load_of(model, broker), broker))
        model, made = drain(model, last, frozenset(restarted))
        moves += made
        alive = replace(model, brokers=tuple(broker for broker in model.brokers if broker.id != last))
        peak = max(peak, balance_of(alive).ratio)
        left.remove(last)
        restarted.add(last)
    during = len(moves)
    if surge:
        model, made = drain(model, extra, frozenset({last}))
        model = replace(model, brokers=tuple(broker for broker in model.brokers if broker.id != extra))
    else:
        proposal = plan(model, Options(Mode.ADD_BROKERS, ALL, brokers=frozenset({last})))
        model, made = outcome(model, (), proposal.moves), proposal.moves
    moves += made
    total = len(model.bundles)
    way = "operator, surge" if surge else "operator"
    felt = crowd.felt(sum(move.topics or 0 for move in moves), sum(move.clients or 0 for move in moves))
    return Roll(len(names), seed, way, during / total, len(moves) / total, peak, balance_of(model).ratio, *felt)


def pulsars(world: World, crowd: Crowd, seed: int, policy: Policy) -> Roll:
    """Each broker is shut down and comes back a minute later; the load manager does the rest."""
    state = world.state
    names = sorted(state.hosts)
    changes = [
        change
        for number, broker in enumerate(names)
        for change in (
            Change(5 + number * STEP, leaves=(broker,)),
            Change(6 + number * STEP, joins=(state.hosts[broker],)),
        )
    ]
    hosts = list(state.hosts.values())
    counted = Counted(policy, crowd, world)
    rolled = World(world.recording, hosts, list(state.owners), counted, changes=changes, owners=state.owners)
    rolled.run(len(names) * STEP + 5)
    account = rolled.account
    total = len(state.owners)
    during = (account.unloads + account.displaced) / total
    peak = max(minute.ratio for minute in account.minutes[5::STEP])
    rolled.run(SETTLE)
    after = (account.unloads + account.displaced) / total
    felt = crowd.felt(counted.topics, counted.clients)
    return Roll(len(names), seed, policy.name, during, after, peak, account.minutes[-1].ratio, *felt)


def rolls(brokers: int, seed: int) -> list[Roll]:
    """All ways for one cluster."""
    world = cluster(brokers, seed)
    crowd = Crowd.of(len(world.recording.topics), seed)
    found = [ours(world, crowd, seed, surge=False), ours(world, crowd, seed, surge=True)]
    chosen = ("Threshold", "Avg", "Uniform")
    return found + [
        pulsars(world, crowd, seed, policy)
        for policy in pulsar_policies(partial(Random, seed))
        if policy.name in chosen
    ]


def main(argv: Sequence[str]) -> int:
    """Print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance.rolling", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of brokers")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    options = parser.parse_args(argv)
    sizes = [int(text) for text in options.sizes.split(",")]
    found = [roll for size in sizes for seed in range(1, options.seeds + 1) for roll in rolls(size, seed)]
    options.out.mkdir(parents=True, exist_ok=True)
    raw = options.out / "rolling.csv"
    with raw.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([each.name for each in fields(Roll)])
        writer.writerows(astuple(roll) for roll in found)
    print(
        f"{'brokers':>7}  {'way':<18}{'moves a bundle':>15}{'and after':>11}{'a topic':>9}{'a client':>10}{'peak':>7}"
        f"{'end':>7}{'least':>8}{'bar':>7}"
    )
    met = True
    for size in sizes:
        bar = 1.2 if size >= 10 else 1 + 1 / size + 0.1
        for way in dict.fromkeys(roll.way for roll in found):
            group = [roll for roll in found if roll.brokers == size and roll.way == way]
            names = ("during", "after", "topics", "clients", "peak", "end")
            during, after, topics, clients, peak, end = (
                statistics.median(getattr(roll, name) for roll in group) for name in names
            )
            verdict = ""
            if way.startswith("operator"):
                worst = max(roll.during if way == "operator" else roll.after for roll in group)
                verdict = "met" if worst <= bar else "MISSED"
                met &= worst <= bar
            print(
                f"{size:>7}  {way:<18}{during:>15.2f}{after:>11.2f}{topics:>9.2f}{clients:>10.2f}{peak:>7.2f}"
                f"{end:>7.2f}{1 + 1 / size:>8.2f}{bar:>7.2f}  {verdict}"
            )
    print(f"medians of {options.seeds} seeds; the bar is for the worst of them, roll alone (surge: in all); raw: {raw}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
