"""What balancing believes of Pulsar, on a real broker; see tests/support/contracts/balancing.py."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint
from tests.support.balancing.world import BalancingWorld
from tests.support.contracts.balancing import CHECKS, HALF, Site

BOUNDARIES = ["0x00000000", "0x80000000", "0xffffffff"]


def a_namespace(tenant: str) -> str:
    """A name whose system topic is in the upper bundle: in the lower one it would count as a topic to split."""
    while True:
        name = f"{tenant}/bal-{secrets.token_hex(3)}"
        if topic_hash(f"persistent://{name}/__change_events") >= HALF:
            return name


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
async def test_contract(admin: AiohttpAdmin, endpoint: AdminEndpoint, tenant: str, check: Any) -> None:
    async def ask(method: str, *path: str, body: Any = None) -> Any:
        return await admin.call(endpoint, method, path, body=body)

    namespace = a_namespace(tenant)
    await ask("PUT", "namespaces", *namespace.split("/"), body={"bundles": {"boundaries": BOUNDARIES, "numBundles": 2}})
    made: set[str] = set()

    async def make(name: str) -> None:
        path = name.replace("://", "/").split("/")
        if name not in made:
            await ask("PUT", *path)
            made.add(name)
        # The broker counts a topic once it is loaded.
        await ask("GET", *path, "stats")

    await check(Site(Traffic(replace(BalancingWorld().deps, admin=admin), endpoint), namespace, make))
