"""Figures of brokers that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.balance.model.hashing import topic_hash
from tests.support.balancing.world import BalancingWorld


@pytest.mark.parametrize("rate", [1e308, 1e300, 1.1e12, float("inf"), float("nan"), -5.0, "x"])
@pytest.mark.parametrize("more", [{}, {"repeatSeconds": 60}])
async def test_a_rate_that_nobody_can_have_counts_for_nothing(rate: Any, more: dict[str, Any]) -> None:
    """One such topic was all the load there is: an error, or the word that all is even, as long as it was said."""
    world = BalancingWorld()
    world.skewed()
    wrong = next(iter(world.pulsar.rates))
    world.pulsar.rates[wrong] = rate
    world.rebalance(autoApprove=True, **more)
    await world.run(seconds=900)
    assert world.condition("Completed")[0] == "True"
    load = [
        sum(rate for topic, rate in world.pulsar.rates.items() if topic != wrong and _owner(world, topic) == broker)
        for broker in world.pulsar.brokers
    ]
    assert max(load) * len(load) / sum(load) < 1.3


def _owner(world: BalancingWorld, topic: str) -> str:
    bundle = world.pulsar._bundle("shop/orders", topic_hash(topic))
    return world.pulsar.owners["shop/orders", *bundle]
