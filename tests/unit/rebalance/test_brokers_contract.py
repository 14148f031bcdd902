"""The brokers in memory against the contract; the real broker: tests/standalone/test_balancing_contract_real.py."""

from __future__ import annotations

import pytest

from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint
from tests.support.balancing.world import URL, BalancingWorld
from tests.support.contracts.balancing import CHECKS, HALF, LAST, Site


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
async def test_contract(check) -> None:  # type: ignore[no-untyped-def]
    world = BalancingWorld()
    world.pulsar.brokers = ["b0.x:8080"]
    world.pulsar.namespace("bal/n", [0, HALF, LAST], "b0.x:8080")

    async def make(name: str) -> None:
        world.pulsar.rates[name] = 0.0

    await check(Site(Traffic(world.deps, AdminEndpoint("east", URL)), "bal/n", make))
