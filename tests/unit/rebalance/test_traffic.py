"""controllers/core/traffic.py: what is observed of namespaces."""

from __future__ import annotations

import pytest

from pulsar_operator.balance.model.observation import model_of
from pulsar_operator.controllers.core.traffic import DEFAULT_STATS_PERIOD_SECONDS, Traffic
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


LOOKS_AHEAD = "(?!bank/).*"


async def test_a_namespace_of_an_expression_that_cannot_be_evaluated_stays() -> None:
    world = BalancingWorld()
    world.skewed()
    world.pulsar.isolation = {"odd": {"namespaces": [LOOKS_AHEAD], "primary": [".*"], "secondary": []}}
    traffic = Traffic(world.deps, AdminEndpoint("east", URL))
    observed = await traffic.observe()
    assert observed.undecided == {"shop/orders"} and observed.unevaluated == {"odd": [LOOKS_AHEAD]}
    assert model_of(observed).pinned == {"shop/orders"} and not observed.allowed
    for destination in (None, world.pulsar.brokers[0]):
        why = await traffic.prevents("shop/orders", world.pulsar.brokers, destination=destination)
        assert why is not None and "cannot evaluate" in why


async def test_an_expression_that_backtracks_keeps_nobody_waiting() -> None:
    """Seen on Pulsar 4.0.8, which needs 10 ms for it; Python's own engine does not end."""
    world = BalancingWorld()
    world.skewed()
    hangs = "([a-z0-9./-]+)+!"
    world.pulsar.isolation = {"slow": {"namespaces": [hangs], "primary": [hangs], "secondary": []}}
    world.pulsar.namespace("shop/" + "a" * 60, [0, LAST], world.pulsar.brokers[1])
    observed = await Traffic(world.deps, AdminEndpoint("east", URL)).observe()
    assert not observed.undecided and not observed.allowed


@pytest.mark.parametrize("said", ["9" * 5000, "\u00b2", "\u0661", "x", None])
async def test_a_period_that_is_no_number_is_the_default(said: str | None) -> None:
    world = BalancingWorld()
    world.pulsar.stats_period = said
    assert await Traffic(world.deps, AdminEndpoint("east", URL)).stats_period() == DEFAULT_STATS_PERIOD_SECONDS
