"""Fixtures of tests against one real Pulsar: a standalone process that all modules share, without Kubernetes.

What is made in it stays until it ends; whatever concerns other tests (isolation policies, groups, clusters, dynamic
settings) is taken away again, the rest is in a tenant of the module's own.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.kind.paths import paths
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.admin import local_cluster
from tests.support.contracts.policies import Place, placed, with_other, with_tenant
from tests.support.core.recorder import CountingMetrics
from tests.support.faults.summary import SEED, seed
from tests.support.standalone.entry_filter import with_entry_filters
from tests.support.standalone.server import Standalone, open_standalone
from tests.support.standalone.site import asked

HERE = Path(__file__).parent
BALANCED = {
    # A standalone's own load manager knows no brokers and no isolation policies.
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "loadBalancerEnabled": "true",
    # What tests find moved or cut, they moved or cut themselves.
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    # The statistics that balancing reads are made anew so often; by default once a minute.
    "statsUpdateInitialDelayInSecs": "5",
    "statsUpdateFrequencyInSecs": "5",
}
"""Settings of a broker that is balanced."""


def pytest_report_header(config: pytest.Config) -> str:
    """Which sample of hostile text is taken."""
    return f"hostile text: sample of {SEED}={seed()}; make hostile takes all of it"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with a Pulsar of their own come first, so that two of them are never there at once."""
    places = [number for number, item in enumerate(items) if item.path.is_relative_to(HERE)]
    shared = {items[number].path for number in places if "standalone" in getattr(items[number], "fixturenames", ())}
    ordered = sorted((items[number] for number in places), key=lambda item: item.path in shared)
    for number, item in zip(places, ordered, strict=True):
        items[number] = item


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """The Pulsar, without security, with entry filters and a load manager."""
    folder, home = tmp_path_factory.mktemp("standalone"), paths().pulsar_home
    settings = with_entry_filters(home, folder / "entry-filters") | BALANCED
    with open_standalone(home, folder, settings) as running:
        yield running


@pytest.fixture(scope="session")
def endpoint(standalone: Standalone) -> AdminEndpoint:
    """Its admin REST, under the name of its cluster; it also knows a cluster that exists in name only."""

    async def found(admin: AiohttpAdmin) -> AdminEndpoint:
        endpoint = AdminEndpoint(await local_cluster(admin, standalone.admin_url), standalone.admin_url)
        await with_other(admin, endpoint)
        return endpoint

    return asked(found)


@pytest.fixture(scope="module")
def tenant(endpoint: AdminEndpoint, request: pytest.FixtureRequest) -> str:
    """A tenant of the module's own."""
    prefix = request.path.stem.removeprefix("test_").removesuffix("_real")
    return asked(lambda admin: with_tenant(admin, endpoint, prefix))


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The operator's own adapter of the admin REST."""
    found = AiohttpAdmin(CountingMetrics(), deadline=30.0)
    try:
        yield found
    finally:
        await found.close()


@pytest.fixture
async def place(admin: AiohttpAdmin, endpoint: AdminEndpoint, tenant: str) -> Place:
    """A namespace and a topic of the test's own, in the module's tenant."""
    return await placed(admin, endpoint, tenant, f"n-{uuid.uuid4().hex[:10]}")
