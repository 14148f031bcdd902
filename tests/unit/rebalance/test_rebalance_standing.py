"""A PulsarRebalance that repeats: the standing balancer, on brokers in memory."""

from __future__ import annotations

from itertools import islice
from zlib import crc32

from tests.support.balancing.world import BalancingWorld, world

__all__ = ["world"]


async def test_a_standing_balancer_has_patience_then_acts_then_rests(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True, repeatSeconds=30)
    await world.run(seconds=35)
    assert world.condition("Completed") == ("True", "Balanced")
    assert "uneven for" in world.status()["conditions"][0]["message"] and world.pulsar.writes == []
    await world.run(seconds=400)
    assert world.spread() < 1.2
    done = len(world.pulsar.writes)
    await world.run(seconds=900)
    assert len(world.pulsar.writes) == done
    for topic in world.pulsar.rates:
        world.pulsar.rates[topic] = 0.0
    third = [k for k, owner in world.pulsar.owners.items() if owner == world.pulsar.brokers[2]]
    names = (f"persistent://shop/orders/hot{n}" for n in range(200_000))
    inside = (n for n in names if ("shop/orders", *world.pulsar._bundle("shop/orders", crc32(n.encode()))) in third)
    world.pulsar.rates |= dict.fromkeys(islice(inside, 12), 300.0)
    unbalanced = world.spread()
    await world.run(seconds=3000)
    assert world.spread() < unbalanced / 2


async def test_a_broker_that_stays_at_its_limit_is_relieved_where_others_are_left_alone(world: BalancingWorld) -> None:
    """Minutes after its traffic began to cost so much: by one figure nobody can tell that from a busy minute."""
    world.slightly_uneven()
    before = world.spread()
    world.pulsar.usage = dict.fromkeys(world.pulsar.brokers, 0.6)
    world.rebalance(autoApprove=True, repeatSeconds=30)
    await world.run(seconds=900)
    assert world.pulsar.writes == [] and world.spread() == before
    for _ in range(10):
        world.pulsar.usage[world.pulsar.brokers[0]] = 0.95
        await world.run(seconds=30)
        world.pulsar.usage[world.pulsar.brokers[0]] = 0.6
        await world.run(seconds=270)
    assert world.pulsar.writes == [] and world.spread() == before
    world.pulsar.usage[world.pulsar.brokers[0]] = 0.95
    await world.run(seconds=900)
    assert world.spread() < 1.1


async def test_a_cpu_figure_that_is_no_share_is_named_and_decides_nothing(world: BalancingWorld) -> None:
    world.slightly_uneven()
    first, *others = world.pulsar.brokers
    world.pulsar.usage = {first: 60.0} | dict.fromkeys(others, 0.6)
    world.rebalance(autoApprove=True, repeatSeconds=30)
    await world.run(seconds=900)
    assert world.pulsar.writes == []
    assert world.status()["distrustedFigures"] == [f"{first} reports that it uses 6000% of its CPU"]
    message = world.status()["conditions"][0]["message"]
    assert (
        "does not trust the CPU figures of b0, which reports that it uses 6000% of its CPU, and uses the traffic"
        in message
    )
    assert "More brokers help" not in message
    world.pulsar.usage[first] = 0.6
    await world.run(seconds=65)
    assert "does not trust" not in world.status()["conditions"][0]["message"]
    assert not world.status().get("distrustedFigures")


async def test_brokers_that_are_all_busy_need_more_brokers_not_moves(world: BalancingWorld) -> None:
    world.slightly_uneven()
    world.pulsar.rates = dict.fromkeys(world.pulsar.rates, 100.0)
    world.pulsar.usage = dict.fromkeys(world.pulsar.brokers, 0.95)
    world.rebalance(autoApprove=True, repeatSeconds=30)
    await world.run(seconds=300)
    assert world.pulsar.writes == []
    message = world.status()["conditions"][0]["message"]
    assert "and 2 more uses 95% of its CPU. More brokers help" in message
