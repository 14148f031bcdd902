"""Every row of the policy table on a real Pulsar: encode, REST, read back, decode, and reset.

Parametrised over the table itself: a row with fewer than two different test values fails the collection.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.domain.policies import POLICIES, Call, PolicyRow, Scope
from pulsar_operator.ports import AdminEndpoint, NotFoundError, UnavailableError
from tests.support.admin_contract import local_cluster
from tests.support.recorder import CountingMetrics

pytestmark = pytest.mark.kind

OTHER = "policy-test-other"
"""A second cluster that exists in name only, for policies that list clusters."""


def cases() -> list[Any]:
    """One case per test value of each row."""
    found = []
    for row in POLICIES:
        if len(row.examples) < 2 or row.examples[0] == row.examples[1]:
            raise AssertionError(f"policy row {row.scope}/{row.field} needs two different examples")
        found += [pytest.param(row, value, id=f"{row.scope}-{row.field}-{i}") for i, value in enumerate(row.examples)]
    return found


@dataclass
class Place:
    """A namespace and a topic of a test's own."""

    admin: AiohttpAdmin
    endpoint: AdminEndpoint
    cluster: str
    tenant: str

    async def call(self, call: Call) -> Any:
        """One call."""
        return await self.admin.call(self.endpoint, call.method, call.path, query=call.query, body=call.body)

    def base(self, row: PolicyRow) -> tuple[str, ...]:
        """Path of the object a row belongs to."""
        if row.scope is Scope.NAMESPACE:
            return ("namespaces", self.tenant, "n")
        return ("persistent", self.tenant, "n", "x")

    async def read(self, row: PolicyRow) -> Any:
        """The live value of a row."""
        base = self.base(row)
        return row.read(await self.call(Call("GET", base) if row.scope is Scope.NAMESPACE else row.get_call(base)))

    def real(self, value: Any) -> Any:
        """Examples name clusters by placeholder."""
        if not isinstance(value, list):
            return value
        return [v.format(cluster=self.cluster, other=OTHER) if isinstance(v, str) else v for v in value]


@pytest.fixture
async def place(admin_url: str) -> AsyncIterator[Place]:
    """A tenant that may use the local cluster and one that exists in name only."""
    admin = AiohttpAdmin(CountingMetrics(), deadline=30.0)
    endpoint = AdminEndpoint("real", admin_url)

    async def call(method: str, *path: str, body: Any = None, **query: str) -> Any:
        return await admin.call(endpoint, method, path, query=query, body=body)

    cluster = await local_cluster(admin, admin_url)
    tenant = f"policies-{uuid.uuid4().hex[:10]}"
    other = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"}
    if OTHER not in await call("GET", "clusters"):
        await call("PUT", "clusters", OTHER, body=other)
    await call("PUT", "tenants", tenant, body={"adminRoles": [], "allowedClusters": [cluster, OTHER]})
    await call("PUT", "namespaces", tenant, "n", body={"replication_clusters": [cluster]})
    await call("PUT", "persistent", tenant, "n", "x")
    try:
        yield Place(admin, endpoint, cluster, tenant)
    finally:
        await call("POST", "namespaces", tenant, "n", "replication", body=[cluster])
        for full in await call("GET", "persistent", tenant, "n"):
            await call("DELETE", "persistent", tenant, "n", full.split("/", 4)[4], force="true")
        await call("DELETE", "namespaces", tenant, "n")
        async with asyncio.timeout(60):
            while True:
                try:
                    await call("DELETE", "tenants", tenant)
                    break
                except UnavailableError:
                    # Pulsar answers 500 while the deleted namespace's own nodes are still going.
                    await asyncio.sleep(0.5)
        with contextlib.suppress(NotFoundError):
            await call("DELETE", "clusters", OTHER)
        await admin.close()


async def eventually(place: Place, row: PolicyRow, wanted: Any) -> Any:
    """Read until the value is there: topic policies travel through a topic."""
    found: Any = None
    for _ in range(50):
        found = await place.read(row)
        if found == wanted or (wanted is not None and row.in_sync(wanted, found)):
            return found
        await asyncio.sleep(0.2)
    return found


@pytest.mark.parametrize(("row", "value"), cases())
async def test_a_value_survives_the_round_trip_and_the_reset(place: Place, row: PolicyRow, value: Any) -> None:
    """Set, read back equal, reset, read back as it was."""
    wanted = place.real(value)
    before = await place.read(row)
    await place.call(row.set_call(place.base(row), wanted))
    found = await eventually(place, row, wanted)
    assert row.in_sync(wanted, found), f"{row.field}: wrote {wanted!r}, read {found!r}"
    remove = row.remove_call(place.base(row))
    if remove is not None:
        await place.call(remove)
        assert await eventually(place, row, before) == before
        await place.call(remove)  # a reset repeated after a crash


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.scope}-{r.field}") for r in POLICIES])
async def test_one_value_replaces_another(place: Place, row: PolicyRow) -> None:
    """Nothing of the first value is left in the second."""
    for value in (row.examples[0], row.examples[1], row.examples[0]):
        wanted = place.real(value)
        await place.call(row.set_call(place.base(row), wanted))
        found = await eventually(place, row, wanted)
        assert row.in_sync(wanted, found), f"{row.field}: wrote {wanted!r}, read {found!r}"
