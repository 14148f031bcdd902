"""What a test has on a standalone: a tenant, objects of it, and the operator's controllers for them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from e2e.support.eventually import eventually_async
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import AdminEndpoint
from tests.support.core.recorder import CountingMetrics
from tests.support.logical.world import LogicalWorld

T = TypeVar("T")

PAUSE_SECONDS = 0.1
NAMES = {Kind.NAMESPACE: "n", Kind.TOPIC: "x"}
"""Name of the one object of each kind."""


@dataclass
class Site:
    """A tenant with namespace n and topic x."""

    world: LogicalWorld
    admin: AiohttpAdmin
    endpoint: AdminEndpoint
    tenant: str

    @classmethod
    @asynccontextmanager
    async def opened(cls, endpoint: AdminEndpoint, prefix: str, *, version: str = "") -> AsyncIterator[Self]:
        """One whose tenant begins with ``prefix``, with its namespace, on the cluster of the endpoint; ``version`` of
        the Pulsar, if not the fake's."""
        admin = AiohttpAdmin(CountingMetrics(), deadline=30.0)
        try:
            cluster = endpoint.cluster
            world = LogicalWorld(cluster, admin=admin, urls={cluster: endpoint.url})
            if version:
                world.version = version
                world.cluster(cluster)
            found = cls(world, admin, endpoint, f"{prefix}-{uuid.uuid4().hex[:10]}")
            world.tenant(found.tenant, allowedClusters=[cluster])
            await world.reconcile(Kind.TENANT, found.tenant)
            found.apply(Kind.NAMESPACE)
            await world.reconcile(Kind.NAMESPACE, NAMES[Kind.NAMESPACE])
            yield found
        finally:
            await admin.close()

    async def ask(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """A plain call, as another writer makes it."""
        return await self.admin.call(self.endpoint, method, path, body=body, query=query)

    async def call(self, call: Call) -> Any:
        """The same as a row of the policy table has it."""
        return await self.admin.call(
            self.endpoint, call.method, call.path, query=call.query, body=call.body, text=call.text
        )

    def path(self, kind: Kind) -> tuple[str, ...]:
        """Path of the namespace or the topic in admin REST."""
        return ("namespaces", self.tenant, "n") if kind is Kind.NAMESPACE else ("persistent", self.tenant, "n", "x")

    def apply(self, kind: Kind, **spec: Any) -> None:
        """A user applies the namespace or the topic, with nothing but this."""
        if kind is Kind.NAMESPACE:
            self.world.namespace("n", tenant=self.tenant, replicationClusters=[self.endpoint.cluster], **spec)
        else:
            self.world.topic("x", namespace="n", **spec)

    def reason(self, kind: Kind) -> str:
        """Reason of the object's condition Ready."""
        return self.world.condition(kind, NAMES[kind])[1]

    async def until(
        self, look: Callable[[], Awaitable[T]], right: Callable[[T], bool], what: str, *, by: Kind | None = None
    ) -> T:
        """Look until it is right, with a pass of the operator over the object of kind ``by`` before each look.

        Raises AssertionError with ``what`` and what was seen last.
        """

        async def looked() -> T:
            if by is not None:
                await self.world.reconcile(by, NAMES[by])
            return await look()

        return await eventually_async(looked, right, what=what, every=PAUSE_SECONDS, retried=())


def asked(step: Callable[[AiohttpAdmin], Awaitable[T]]) -> T:
    """What a step comes to that belongs to no test, with an adapter of its own."""

    async def run() -> T:
        admin = AiohttpAdmin(CountingMetrics(), deadline=30.0)
        try:
            return await step(admin)
        finally:
            await admin.close()

    return asyncio.run(run())
