"""The operator's controller and the simulator over the same hours: the same moves and splits at the same minutes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from random import Random

import pytest

from benchmarks.simulator.operator_policy import OperatorPolicy
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.state import Action, Cut, Host, State, Traffic, Unload
from benchmarks.simulator.traces import Day, with_hidden_costs
from benchmarks.simulator.traffic import Recording, Topic
from benchmarks.simulator.world import World, even_bundles
from pulsar_operator.api.v1alpha1.load_balancing import StandingRebalance
from pulsar_operator.balance.model.cluster import BundleId
from tests.support.balancing.world import BalancingWorld

MINUTES = 240
BROKERS = [f"b{number}.x:8080" for number in range(3)]
NAMESPACES = ("shop/a", "shop/b")
INSTANT = 3.0
"""A pass that asks for less than this belongs to the same minute."""
PACE = 0.02
"""Seconds from a pass to the next while steps are done: the simulator makes all of a minute at once."""
Steps = list[tuple[int, str]]


def recording(seed: int, wobble: float, sigma: float) -> Recording:
    """Topics of Zipf's law in two namespaces, each hour otherwise; `sigma` of what they cost and nobody sees.

    Sizes are those that the fake brokers count with.
    """
    chance = Random(seed)
    topics = [
        Topic(f"persistent://{NAMESPACES[n % 2]}/t{chance.randrange(10**6)}-{n}", 4000 / (n + 1), n, 1000.0, 1.0)
        for n in range(60)
    ]
    found = Recording(with_hidden_costs(topics, Random(seed), sigma))
    found.record(Day(found.topics, chance, 0.5, wobble), MINUTES)
    return found


def owners(seed: int) -> dict[BundleId, str]:
    """All on the first brokers, so that there is something to do."""
    chance = Random(seed)
    return {bundle: BROKERS[chance.randrange(2)] for bundle in even_bundles(NAMESPACES, 8)}


class Listened(OperatorPolicy):
    """Takes the steps down."""

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        """As Policy."""
        found = super().act(state, traffic)
        self.steps = [*getattr(self, "steps", []), *((state.minute, words(each)) for each in found)]
        return found


def words(step: Action) -> str:
    """A step, to compare."""
    if isinstance(step, Cut):
        return f"split {step.bundle} at {step.positions[0]}"
    assert isinstance(step, Unload)
    return f"move {step.bundle} to {step.destination}"


def capacity(traffic: Recording) -> float:
    """At which the processor of one broker is full: those of three are half used in a quiet hour."""
    return traffic.total_cost() / len(BROKERS) / 0.5


def used(traffic: Recording, minute: int, spans: Iterable[tuple[tuple[str, int, int], str]]) -> dict[str, float]:
    """What brokers measure of themselves: namespace, bounds and owner of each bundle given."""
    paid, out = traffic.at(minute).paid, dict.fromkeys(BROKERS, 0.0)
    for bundle, owner in spans:
        start, end = traffic.slice(BundleId(*bundle))
        out[owner] += (paid[end] - paid[start]) / capacity(traffic)
    return out


def simulated(traffic: Recording, start: dict[BundleId, str]) -> Steps:
    policy = Listened("o", LeastLongTermMessageRate(Random(1).randrange))
    hosts = [Host(each, capacity(traffic), 1e12) for each in BROKERS]
    World(traffic, hosts, list(start), policy, owners=start).run(MINUTES)
    return list(policy.steps)


async def controlled(traffic: Recording, start: dict[BundleId, str]) -> Steps:
    world = BalancingWorld()
    pulsar = world.pulsar
    pulsar.brokers = list(BROKERS)
    for namespace in NAMESPACES:
        mine = sorted(bundle for bundle in start if bundle.namespace == namespace)
        bounds = [*(bundle.lower for bundle in mine), mine[-1].upper]
        pulsar.namespace(namespace, bounds, [start[bundle] for bundle in mine])
    steps: Steps = []
    minute = 0

    def take(write: str) -> None:
        if "/namespaces/" in write:
            steps.append((minute, write))

    pulsar.before.append(take)
    standing = StandingRebalance().model_dump(mode="json", by_alias=True, exclude_none=True)
    standing["budget"]["movesPerMinute"] = 600
    world.rebalance(mode="Full", **standing)
    for minute in range(MINUTES):
        # From the end of the last steps, as the controller looks again itself.
        world.clock.moment += timedelta(minutes=1)
        at = traffic.at(minute).messages
        for index, topic in enumerate(traffic.topics):
            pulsar.rates[topic.name] = at[index + 1] - at[index]
        pulsar.usage = used(traffic, minute, pulsar.owners.items())
        for _ in range(400):
            outcome = await world.once()
            await world.cluster_pass()
            if outcome.requeue_after is None or outcome.requeue_after >= INSTANT:
                break
            world.clock.moment += timedelta(seconds=min(outcome.requeue_after, PACE))
        else:
            pytest.fail(f"no end of minute {minute}")
    return steps


@pytest.mark.parametrize(("seed", "wobble", "sigma"), [(1, 0.08, 0.0), (2, 0.3, 0.6), (3, 0.6, 0.3), (4, 0.0, 0.6)])
async def test_what_is_measured_is_what_ships(seed: int, wobble: float, sigma: float) -> None:
    traffic, start = recording(seed, wobble, sigma), owners(seed)
    expected = simulated(traffic, start)
    assert expected, "nothing to compare"
    found = await controlled(traffic, start)
    assert [minute for minute, _ in found] == [minute for minute, _ in expected]
    for (_, write), (_, step) in zip(found, expected, strict=True):
        what, _, rest = step.partition(" ")
        bundle = rest.split(" ")[0]
        assert bundle in write and write.endswith("split" if what == "split" else "unload"), (write, step)
