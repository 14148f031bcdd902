"""What only a newer Pulsar has, by the operator's controllers, on a standalone of it; ``make newer-pulsar``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.kind import versions
from e2e.kind.paths import paths
from e2e.support.standalone import Standalone, secured_standalone
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.policies import POLICIES, Call, PolicyRow, Scope, too_old
from pulsar_operator.ports import AdminEndpoint
from tests.support.admin_contract import local_cluster
from tests.support.classfile import field_names
from tests.support.logical import World
from tests.support.policy_classes import (
    LOCAL_POLICIES_CLASS,
    POLICIES_CLASS,
    TOPIC_POLICIES_CLASS,
    unknown_local,
    unknown_of_namespace,
    unknown_of_topic,
)
from tests.support.recorder import CountingMetrics

pytestmark = [pytest.mark.kind, pytest.mark.slow]

OPEN = {"authenticationEnabled": "false", "authorizationEnabled": "false"}
NEWER = tuple(row for row in POLICIES if too_old(row, versions.PULSAR))
PASSES = 150
PAUSE_SECONDS = 0.1


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A newer Pulsar without security."""
    folder: Path = tmp_path_factory.mktemp("standalone")
    with secured_standalone(paths().newer_pulsar_home, folder, OPEN) as found:
        yield found


@dataclass
class Site:
    """A tenant with namespace n and topic x, declared as objects."""

    world: World
    admin: AiohttpAdmin
    endpoint: AdminEndpoint
    tenant: str

    async def call(self, call: Call) -> Any:
        """A plain call, as another writer makes it."""
        return await self.admin.call(
            self.endpoint, call.method, call.path, query=call.query, body=call.body, text=call.text
        )

    def base(self, row: PolicyRow) -> tuple[str, ...]:
        """Path of the object a row belongs to."""
        return (
            ("namespaces", self.tenant, "n") if row.scope is Scope.NAMESPACE else ("persistent", self.tenant, "n", "x")
        )

    def declare(self, row: PolicyRow, value: Any) -> tuple[Kind, str]:
        """Apply the object with this value, without the policy where None."""
        policies = {} if value is None else {"policies": {row.path.removeprefix("policies."): value}}
        if row.scope is Scope.NAMESPACE:
            self.world.namespace("n", tenant=self.tenant, replicationClusters=[self.endpoint.cluster], **policies)
            return Kind.NAMESPACE, "n"
        self.world.topic("x", namespace="n", policyScope=row.field.partition("@")[2] or "Local", **policies)
        return Kind.TOPIC, "x"

    async def read(self, row: PolicyRow) -> Any:
        """The live value."""
        base = self.base(row)
        return row.read(
            await self.call(row.get_call(base) if row.own_get else Call("GET", base)), self.endpoint.cluster
        )

    async def until(self, row: PolicyRow, wanted: Any, *, by: tuple[Kind, str] | None = None) -> None:
        """Until Pulsar has the value, None = none is set; with passes of the operator for the object ``by``."""
        said: Any = None
        for _ in range(PASSES):
            if by is not None:
                await self.world.reconcile(*by)
            live = await self.read(row)
            ready = by is None or self.world.condition(*by)[1] == "Ready"
            if ready and (row.in_sync(wanted, live) if wanted is not None else not row.is_set(live)):
                return
            said = live, by and self.world.condition(*by)
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"{row.field} is not {wanted!r}: {said}")


@pytest.fixture
async def site(running: Standalone) -> AsyncIterator[Site]:
    """The objects, Ready."""
    admin = AiohttpAdmin(CountingMetrics(), deadline=30.0)
    try:
        cluster = await local_cluster(admin, running.admin_url)
        world = World(cluster, admin=admin, urls={cluster: running.admin_url})
        world.version = versions.NEWER_PULSAR
        world.cluster(cluster)
        found = Site(world, admin, AdminEndpoint(cluster, running.admin_url), f"newer-{uuid.uuid4().hex[:10]}")
        world.tenant(found.tenant, allowedClusters=[cluster])
        await world.reconcile(Kind.TENANT, found.tenant)
        world.namespace("n", tenant=found.tenant, replicationClusters=[cluster])
        await world.reconcile(Kind.NAMESPACE, "n")
        yield found
    finally:
        await admin.close()


@pytest.mark.parametrize("row", NEWER, ids=lambda row: f"{row.scope}-{row.field}")
async def test_set_kept_and_taken_away(site: Site, row: PolicyRow) -> None:
    """Every example is read back, what others change comes back, and without it nothing is set."""
    one, other = row.examples[:2]
    await site.until(row, None, by=site.declare(row, None))
    for value in (*row.examples, one):
        await site.until(row, value, by=site.declare(row, value))
    kind, _ = by = site.declare(row, one)
    for drift in (row.set_call(site.base(row), other), row.remove_call(site.base(row))):
        assert drift is not None
        await site.call(drift)
        await site.until(row, other if drift.method != "DELETE" else None)
        await site.until(row, one, by=by)
    assert "DriftRepaired" in site.world.reasons(kind)
    await site.until(row, None, by=site.declare(row, None))


async def test_every_key_of_a_namespace_is_known(site: Site) -> None:
    """A policy that it shows, and no row reads, fails here by its name."""
    assert unknown_of_namespace(await site.call(Call("GET", ("namespaces", site.tenant, "n")))) == set()


def test_every_field_of_the_classes_of_policies_is_known() -> None:
    """The same for its classes."""
    for jar, class_name, unknown in (
        ("pulsar-client-admin-api", POLICIES_CLASS, unknown_of_namespace),
        ("pulsar-common", LOCAL_POLICIES_CLASS, unknown_local),
        ("pulsar-common", TOPIC_POLICIES_CLASS, unknown_of_topic),
    ):
        (file,) = (paths().newer_pulsar_home / "lib").glob(f"*{jar}-[0-9]*.jar")
        names = field_names(file, class_name)
        assert names and unknown(names) == set(), class_name


def test_there_are_such_policies() -> None:
    assert {row.path for row in NEWER} == {
        "policies.allowedTopicPropertyKeysForMetrics",
        "policies.subscriptionExpirationMinutes",
    }
