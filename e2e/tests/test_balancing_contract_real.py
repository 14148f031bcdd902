"""What balancing believes of Pulsar, on the quickstart's broker; see tests/support/balancing_contract.py."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask, look_up
from e2e.support.eventually import eventually
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.balance.hashing import topic_hash
from pulsar_operator.controllers.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint
from tests.support.balancing import BalancingWorld
from tests.support.balancing_contract import CHECKS, HALF, Site
from tests.support.recorder import CountingMetrics

BOUNDARIES = ["0x00000000", "0x80000000", "0xffffffff"]


class ThroughProxy(AiohttpAdmin):
    """The broker's own address is known inside Kubernetes alone; with one broker the proxy leads to it."""

    def __init__(self, url: str) -> None:
        super().__init__(CountingMetrics())
        self._url = url

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        there = replace(endpoint, url=self._url)
        return await super().call(
            there, method, path, query=query, body=body, content_type=content_type, deadline=deadline, text=text
        )


def a_namespace() -> str:
    """A name whose system topic is in the upper bundle: in the lower one it would count as a topic to split."""
    while True:
        name = f"shop/bal-{secrets.token_hex(3)}"
        if topic_hash(f"persistent://{name}/__change_events") >= HALF:
            return name


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_contract(deployed: Deployed, check: Any) -> None:
    namespace = a_namespace()
    ask(deployed.admin_url, "PUT", f"namespaces/{namespace}", {"bundles": {"boundaries": BOUNDARIES, "numBundles": 2}})
    made: list[str] = []

    async def make(name: str) -> None:
        path = name.removeprefix("persistent://")
        if name not in made:
            await asyncio.to_thread(ask, deployed.admin_url, "PUT", f"persistent/{path}")
            made.append(name)

        await asyncio.to_thread(look_up, deployed.admin_url, name)
        # The broker counts a topic once it is loaded.
        await asyncio.to_thread(ask, deployed.admin_url, "GET", f"persistent/{path}/stats")

    async def run() -> None:
        port = ThroughProxy(deployed.admin_url)
        try:
            deps = replace(BalancingWorld().deps, admin=port)
            await check(Site(Traffic(deps, AdminEndpoint("east", deployed.admin_url)), namespace, make))
        finally:
            await port.close()

    try:
        asyncio.run(run())
    finally:
        for name in made:
            ask(deployed.admin_url, "DELETE", f"persistent/{name.removeprefix('persistent://')}?force=true")

        def removed() -> bool:
            ask(deployed.admin_url, "DELETE", f"namespaces/{namespace}")
            return True

        eventually(removed, within=60, what="the namespace is gone")
