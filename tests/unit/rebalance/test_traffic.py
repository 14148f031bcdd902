"""controllers/core/traffic.py: what is observed of namespaces."""

from __future__ import annotations

from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint
from tests.support.balancing.world import LAST, URL, BalancingWorld


async def test_bundles_without_traffic_are_observed() -> None:
    """What has no traffic now weighs nothing, and is still to be moved where its broker goes."""
    world = BalancingWorld()
    world.skewed()
    world.pulsar.namespace("shop/idle", [0, LAST], world.pulsar.brokers[1])
    observed = await Traffic(world.deps, AdminEndpoint("east", URL)).observe()
    assert sorted(observed.boundaries) == ["shop/idle", "shop/orders"]
    assert observed.boundaries["shop/idle"] == (0, LAST)
    assert not observed.missing
