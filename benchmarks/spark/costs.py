"""``python -m benchmarks.spark.costs``: what it brings to learn what topics cost, by how far hidden costs differ.

A week of hours is made up for each seed: topics with Zipf traffic, busy at different times, on brokers that exchange
bundles, each topic with a log-normal factor (sigma 0, 0.3, 0.6) that the traffic does not tell. Brokers tell their CPU
with an error in every hour and one of their own that stays. The job's regression learns from that, its factors weigh
the topics, bundles are cut and placed by these weights, and what counts is the true load of the busiest broker over
the mean.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from zlib import crc32

import numpy as np

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_points
from pulsar_operator.balance.sizing.greedy import Piece, busiest, place
from pulsar_operator.balance.sizing.size import NamespaceTraffic, size
from pulsar_sizing.job.costs import BUSY, MOST_TOPICS, factors_for, factors_of
from pulsar_sizing.job.histogram import Array
from pulsar_sizing.job.regression import Evidence, Learned, learn

SIGMAS = (0.0, 0.3, 0.6)
NAMESPACES = 4
BUNDLES = 16
"""Of each namespace, as recorded."""
HOURS = 168
IDLE, MEAN = 0.05, 0.3
"""Share of its CPU that a broker uses at rest, and by its traffic on average."""
NOISE, OWN = 0.05, 0.03
"""Sigmas of the log-normal errors of a broker's CPU: of an hour, and of the broker."""


@dataclass(frozen=True)
class Case:
    """What is made up."""

    sigma: float
    seed: int
    topics: int = 400
    brokers: int = 8
    moves: float = 10.0
    """Bundles that move in a day, on average."""
    wobble: float = 0.3
    """Sigma of each topic's own ups and downs."""


@dataclass(frozen=True)
class World:
    """What was recorded, and what is true."""

    names: list[str]
    weights: Array
    """Of topics in the busy hours, by traffic alone."""
    factors: Array
    evidence: Evidence


@dataclass(frozen=True)
class Row:
    """One run."""

    plain: float
    """True max over mean with the bundles chosen by traffic alone."""
    learned: float
    bound: float
    """Of a cut and placement that knows the truth."""
    error: float
    """Of factors, root of the mean square weighted by traffic, without learning."""
    left: float
    """With it."""
    used: int
    before: float
    """The stated error."""
    after: float


def make(case: Case) -> World:
    """A recorded week."""
    rng = np.random.default_rng(case.seed)
    spaces = rng.integers(0, NAMESPACES, case.topics)
    names = [f"persistent://acme/ns-{space}/orders-{n}" for n, space in enumerate(spaces.tolist())]
    bundle = spaces * BUNDLES + np.array([crc32(name.encode()) * BUNDLES >> 32 for name in names])
    rates = rng.permutation(1e8 / np.arange(1, case.topics + 1))
    hidden = rng.normal(size=case.topics)
    factors = np.exp(case.sigma * hidden)
    owners = rng.permutation(np.arange(NAMESPACES * BUNDLES) % case.brokers)
    level = np.zeros(case.topics)
    costs, carried = np.zeros((HOURS, case.topics)), np.zeros((HOURS, case.brokers, case.topics))
    for hour in range(HOURS):
        for moved in rng.integers(0, len(owners), rng.poisson(case.moves / 24)):
            owners[moved] = rng.integers(case.brokers)
        level = 0.9 * level + np.sqrt(1 - 0.81) * case.wobble * rng.normal(size=case.topics)
        day = 1 + 0.6 * np.cos(2 * np.pi * (hour - 14 - 3 * spaces) / 24)
        costs[hour] = rates * day * np.exp(level)
        carried[hour, owners[bundle], np.arange(case.topics)] = costs[hour]
    flat = carried.reshape(-1, case.topics)
    used = flat @ factors
    number = np.arange(len(used))
    own = np.exp(OWN * rng.normal(size=case.brokers))
    cpu = (IDLE + MEAN * used / used.mean()) * own[number % case.brokers] * np.exp(NOISE * rng.normal(size=len(used)))
    heavy = np.argsort(-flat.sum(axis=0))[:MOST_TOPICS]
    tells = cpu < BUSY
    evidence = Evidence(
        (number // case.brokers)[tells],
        (number % case.brokers)[tells],
        cpu[tells],
        flat.sum(axis=1)[tells],
        tuple(names[n] for n in heavy),
        flat[tells][:, heavy],
    )
    busy = np.argsort(-costs.reshape(-1, 24, case.topics).sum(axis=(0, 2)))[:3]
    weights = costs.reshape(-1, 24, case.topics)[:, busy].mean(axis=(0, 1))
    return World(names, weights, factors, evidence)


def ratio(world: World, believed: Array, brokers: int) -> tuple[float, float]:
    """True max over mean with bundles cut and placed by some weights, and their bound if the weights were true."""
    spots = np.array([crc32(name.encode()) for name in world.names])
    able = [Broker(f"b{n}:8080") for n in range(brokers)]
    truth = world.weights * world.factors
    spaces = [name.split("/")[3] for name in world.names]
    traffic, mine = [], []
    even = (*(n * (1 << 32) // BUNDLES for n in range(BUNDLES)), LAST_BOUNDARY)
    for space in sorted(set(spaces)):
        which = np.array([n for n, each in enumerate(spaces) if each == space])
        which = which[np.argsort(spots[which])]
        cells = [Cell(int(spots[n]), float(believed[n])) for n in which]
        traffic.append(NamespaceTraffic(space, cells, even, (None,) * BUNDLES))
        mine.append(which)
    plan = size(traffic, able)
    pieces: list[float] = []
    real: list[float] = []
    for each, which in zip(plan.namespaces, mine, strict=True):
        points = boundary_points(each.boundaries)
        at = [min(bisect_right(points, int(spots[n])), len(points) - 1) - 1 for n in which]
        pieces += np.bincount(at, believed[which], len(points) - 1).tolist()
        real += np.bincount(at, truth[which], len(points) - 1).tolist()
    placed, _ = place([Piece(weight) for weight in pieces], able)
    loads = dict.fromkeys((broker.id for broker in able), 0.0)
    for broker, weight in zip(placed, real, strict=True):
        loads[broker] += weight
    return busiest(loads, able) / (sum(loads.values()) / brokers), plan.after.bound_ratio


def run(case: Case) -> Row:
    """One world, with and without what was learned."""
    world = make(case)
    told = learn(world.evidence)
    whole = np.floor(world.weights + 0.5).astype(np.int64)
    times = np.floor(whole * factors_for(world.names, factors_of(told)) + 0.5)
    share = world.weights / world.weights.sum()
    true = world.factors / (share @ world.factors)
    plain, _ = ratio(world, whole.astype(float), case.brokers)
    learned, _ = ratio(world, times, case.brokers)
    _, bound = ratio(world, world.weights * world.factors, case.brokers)
    error, left = (float(np.sqrt(share @ (each - true) ** 2)) for each in (np.ones(len(true)), _factors(world, told)))
    return Row(plain, learned, bound, error, left, len(told.factors), told.before or 0.0, told.after or 0.0)


def _factors(world: World, told: Learned) -> Array:
    factors = factors_of(told)
    return np.array([factors.topics.get(name, factors.others) for name in world.names])


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def main(argv: Sequence[str] | None = None) -> int:
    """All cases; 1 where learning makes the busiest broker busier in the median."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.costs", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args(argv)
    met = True
    print(f"median (least-most) of {options.seeds} seeds; max/mean is the true one")
    heads = ("max/mean by traffic", "with factors", "bound", "error of factors", "with", "stated error", "with", "used")
    for moves, wobble in ((10.0, 0.3), (2.0, 0.3), (2.0, 0.05)):
        print(f"\n{moves:g} bundles move a day, topics' own ups and downs of {wobble:.0%}")
        print("sigma  " + "".join(f"{head:<22}" for head in heads))
        for sigma in SIGMAS:
            rows = [run(Case(sigma, seed, moves=moves, wobble=wobble)) for seed in range(options.seeds)]
            columns = ("plain", "learned", "bound", "error", "left", "before", "after", "used")
            print(f"{sigma:<7}" + "".join(f"{_spread([getattr(r, c) for r in rows]):<22}" for c in columns), flush=True)
            worse = sum(row.learned > row.plain + 1e-9 for row in rows)
            print(f"       busier with factors in {worse} of {len(rows)} seeds")
            met &= median(row.learned for row in rows) <= median(row.plain for row in rows)
    print(f"\nno busier in the median of any case: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
