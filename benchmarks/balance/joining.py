"""Brokers that join a cluster of 20,000 bundles: minutes until they have their share, and what they take on the way.

The plans are those that ship: of the standing balancer (balance/execution/driver.py, once a minute, with its patience
and its settling), and of the fill that the operator makes for brokers which it adds (mode AddBrokers). Traffic is
steady, that of a bundle log-normal with a sigma of 0.5. A move takes a log-normal time with a median of 0.4 s and a
sigma of 0.6, drawn once for each bundle; it is seen to be done at the next look, then the next one may be asked for.

`before` is a constant pace: looks a second apart, steps at least 2 s apart (a fill: 0.5 s), 100 moves a plan (a fill:
3,000). `now` is the pace that ships (balance/execution/pace.py), 1,000 moves a plan.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from math import exp, inf, log
from pathlib import Path
from random import Random

from pulsar_operator.balance.execution.driver import Memory, acted, decide
from pulsar_operator.balance.execution.pace import Pace, averaged, next_check
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.planner.options import Budget, Mode, Options
from pulsar_operator.balance.planner.outcome import balance_of, outcome
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import Move

BROKERS, BUNDLES, TOPICS = 50, 20_000, 4
"""Brokers once all are there, bundles of all, topics a bundle."""
JOINS = "1,5,10"
PER_NAMESPACE = 100
SPREAD = 0.5
"""Standard deviation of the logarithm of a bundle's traffic."""
MEDIAN, SIGMA = 0.4, 0.6
"""Seconds that a move takes."""
MEASURED = 125.0
"""Seconds after the last step at which a promise is measured: two periods of Pulsar's statistics."""
LOOK = 60.0
LONGEST = 6 * 3600.0


@dataclass(frozen=True)
class Rules:
    """How steps follow one another."""

    name: str
    look: Callable[[float], float]
    """Seconds until the next look at a step that was asked for so long ago."""
    moves: int
    """Of one plan of the standing balancer."""
    standing: float | Pace
    """Seconds between two steps, or what they follow from."""
    fill: float | Pace


BEFORE = Rules("before", lambda _: 1.0, 100, 2.0, 0.5)
NOW = Rules("now", next_check, 1000, Pace(600), Pace(600, 1.0))


@dataclass(frozen=True)
class Join:
    """What one join took."""

    joining: int
    seed: int
    way: str
    rules: str
    minutes: float
    """From the join until the last move is verified."""
    plans: int
    moves: int
    reconnecting: float
    """Share of the time of the steps in which some bundle was on its way."""
    end: float
    """Busiest broker over the mean afterwards."""


def cluster(joining: int, seed: int) -> ClusterModel:
    """All bundles at the brokers that were there before, spread evenly by chance."""
    chance = Random(seed)
    width = (1 << 32) // PER_NAMESPACE
    bundles = []
    for number in range(BUNDLES):
        lower = number % PER_NAMESPACE * width
        weight = 1e6 * exp(chance.gauss(0.0, SPREAD))
        cells = tuple(Cell(lower + n * (width // TOPICS), weight / TOPICS, 1, 2) for n in range(TOPICS))
        ident = BundleId(f"tenant/n{number // PER_NAMESPACE:03d}", lower, lower + width)
        owner = f"broker-{chance.randrange(BROKERS - joining)}:8080"
        bundles.append(Bundle(ident, weight, owner, cells, TOPICS, 2 * TOPICS))
    return ClusterModel(tuple(Broker(f"broker-{n}:8080") for n in range(BROKERS)), tuple(bundles))


def steps(moves: Sequence[Move], rules: Rules, pace: float | Pace, seed: int) -> tuple[float, float]:
    """Seconds of all steps, and of these with a bundle on its way."""
    clock = busy = 0.0
    average: float | None = None
    for number, move in enumerate(moves):
        took = exp(log(MEDIAN) + SIGMA * Random(f"{seed} {move.bundle}").gauss(0.0, 1.0))
        looked = rules.look(0.0)
        while looked < took:
            looked += rules.look(looked)
        busy += took
        average = averaged(average, looked)
        apart = pace.apart(average) if isinstance(pace, Pace) else pace
        clock += looked if number == len(moves) - 1 else max(apart, looked)
    return clock, busy


def filled(model: ClusterModel, joining: int, seed: int, rules: Rules) -> Join:
    """By one plan of mode AddBrokers."""
    new = frozenset(f"broker-{BROKERS - 1 - n}:8080" for n in range(joining))
    proposal = plan(model, Options(Mode.ADD_BROKERS, Budget(3000), brokers=new))
    took, busy = steps(proposal.moves, rules, rules.fill, seed)
    end = balance_of(outcome(model, (), proposal.moves)).ratio
    return Join(joining, seed, "fill", rules.name, took / 60, 1, len(proposal.moves), busy / max(took, 1.0), end)


def balanced(model: ClusterModel, joining: int, seed: int, rules: Rules) -> Join:
    """By the standing balancer, plan after plan, until it finds nothing more to do."""
    options, budget = SteadyOptions(overload=inf), Budget(rules.moves, 60.0)
    memory, now, last = Memory(), 0.0, 0.0
    plans = moves = quiet = 0
    took = busy = 0.0
    while now < LONGEST and quiet < 10:
        decision, memory = decide(memory, now, model, Options(budget=budget), options)
        if decision.planned is None or not decision.act:
            now, quiet = now + LOOK, quiet + 1
            continue
        seconds, on_their_way = steps(decision.planned.moves, rules, rules.standing, seed)
        model = outcome(model, decision.planned.splits, decision.planned.moves)
        plans, moves, quiet = plans + 1, moves + len(decision.planned.moves), 0
        took, busy, last = took + seconds, busy + on_their_way, now + seconds
        memory = acted(memory, last, (move.bundle for move in decision.planned.moves), options)
        now = last + max(MEASURED, LOOK)
    ratio = balance_of(model).ratio
    return Join(joining, seed, "standing balancer", rules.name, last / 60, plans, moves, busy / max(took, 1.0), ratio)


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance joining", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--joins", default=JOINS, help="brokers that join, of 50 in the end: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    options = parser.parse_args(argv)
    found: list[Join] = []
    for joining in map(int, options.joins.split(",")):
        for seed in range(1, options.seeds + 1):
            model = cluster(joining, seed)
            found += [way(model, joining, seed, rules) for way in (balanced, filled) for rules in (BEFORE, NOW)]
    options.out.mkdir(parents=True, exist_ok=True)
    raw = options.out / "joining.csv"
    with raw.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([each.name for each in fields(Join)])
        writer.writerows(astuple(join) for join in found)
    print(
        f"{'joining':>7}  {'way':<18}{'pace':<8}{'minutes (spread)':>22}{'plans':>7}{'moves':>7}{'reconnecting':>14}"
        f"{'end':>7}"
    )
    for case in dict.fromkeys((join.joining, join.way, join.rules) for join in found):
        group = [join for join in found if (join.joining, join.way, join.rules) == case]
        minutes = sorted(join.minutes for join in group)
        names = ("plans", "moves", "reconnecting", "end")
        plans, moves, share, end = (statistics.median(getattr(join, name) for join in group) for name in names)
        spread = f"{statistics.median(minutes):.0f} ({minutes[0]:.0f}-{minutes[-1]:.0f})"
        print(f"{case[0]:>7}  {case[1]:<18}{case[2]:<8}{spread:>22}{plans:>7.0f}{moves:>7.0f}{share:>14.0%}{end:>7.2f}")
    print(f"medians of {options.seeds} seeds; raw: {raw}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
