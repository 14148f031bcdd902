"""One day of every strategy on one trace, the same traffic and start for all: the raw figures of P6."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

from benchmarks.simulator.faults import MetricFault
from benchmarks.simulator.managers import ModularManager, pulsar_policies
from benchmarks.simulator.operator_policy import OperatorPolicy
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.shedders import AvgShedder
from benchmarks.simulator.state import Policy, Settings
from benchmarks.simulator.traces import DAY, Scenario, scenario
from benchmarks.simulator.world import World, even_bundles
from pulsar_operator.balance.model.cluster import BundleId

OURS = "Operator"
PEERS = ("Avg", "Avg tuned")
"""The bar on reconnects holds against both: Pulsar's defaults, and the 0.5 that PIP-364 advises without the even
distribution of bundles, which otherwise sends every other bundle to a random broker."""
TUNED = Settings(max_unload_share=0.5, distribute_evenly=False)


class Case(NamedTuple):
    """What the strategies are put through, each on its own."""

    trace: str
    sigma: float
    """Of the hidden costs: the standard deviation of their logarithm; 0 = there are none."""
    seed: int
    minutes: int = DAY


@dataclass(frozen=True)
class Run:
    """Raw figures of one strategy in one case."""

    trace: str
    sigma: float
    seed: int
    strategy: str
    unloads: int
    displaced: int
    split_unloads: int
    splits: int
    moved: float
    mean: float
    """Busiest over mean, averaged over the day."""
    p99: float
    bound: float
    overloaded: int
    unavoidable: int

    @property
    def felt(self) -> int:
        """Bundles whose clients had to reconnect."""
        return self.unloads + self.displaced + self.split_unloads


def start(case: Scenario, seed: int) -> dict[BundleId, str]:
    """The placement of a new cluster: Pulsar's default placement, bundle by bundle, before there is any traffic."""
    bundles = even_bundles(case.recording.namespaces, case.bundles_per_namespace)
    manager = ModularManager("start", None, LeastLongTermMessageRate(Random(seed).randrange), None)
    return World(case.recording, case.hosts, bundles, manager, allowed=case.allowed).state.owners


def strategies(seed: int) -> list[tuple[Policy, Settings]]:
    """All that are compared, fresh, each with its own chance."""
    fresh = partial(Random, seed)
    tuned = AvgShedder(fresh().randrange)
    return [
        *((policy, Settings()) for policy in pulsar_policies(fresh)),
        (ModularManager(PEERS[1], tuned, tuned), TUNED),
        (OperatorPolicy(OURS, LeastLongTermMessageRate(fresh().randrange)), Settings()),
    ]


def runs(case: Case) -> list[Run]:
    """Every strategy in one case."""
    trace, sigma, seed, minutes = case
    setting = scenario(trace, Random(seed), minutes, sigma, Random(f"hidden {seed}"))
    owners = start(setting, seed)
    return [day(case, setting, owners, policy, settings) for policy, settings in strategies(seed)]


def day(
    case: Case,
    setting: Scenario,
    owners: Mapping[BundleId, str],
    policy: Policy,
    settings: Settings,
    fault: MetricFault | None = None,
) -> Run:
    """One strategy in one case."""
    world = World(
        setting.recording,
        setting.hosts,
        list(owners),
        policy,
        settings,
        setting.changes,
        owners,
        setting.allowed,
        fault,
    )
    account = world.run()
    ratios = sorted(minute.ratio for minute in account.minutes)
    return Run(
        case.trace,
        case.sigma,
        case.seed,
        policy.name,
        account.unloads,
        account.displaced,
        account.split_unloads,
        account.splits,
        account.moved,
        statistics.fmean(ratios),
        ratios[int(0.99 * len(ratios))],
        statistics.fmean(minute.bound_ratio for minute in account.minutes),
        account.overloaded,
        account.unavoidable,
    )


def all_runs(
    cases: Sequence[Case],
    jobs: int,
    progress: Callable[[int, int], None],
    work: Callable[[Case], list[Run]] = runs,
) -> Iterator[Run]:
    """All runs, as they are done, in the order of the cases; `progress` is told how many of how many cases are."""

    def told(found: Iterator[list[Run]]) -> Iterator[Run]:
        for done, days in enumerate(found, 1):
            progress(done, len(cases))
            yield from days

    if jobs == 1:
        yield from told(map(work, cases))
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from told(pool.map(work, cases))
