"""Every field of the logical kinds, changed and changed back on a real Pulsar; see tests/support/mutations.py.

A sample through the proxy of the test cluster; all of them, by ``make mutations``, on a standalone of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from e2e.kind.paths import paths
from e2e.support.standalone import OPEN, secured_standalone
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.admin_contract import local_cluster
from tests.support.mutation_bench import OTHER, Bench
from tests.support.mutation_chains import KINDS, Mutation
from tests.support.mutations import mutations
from tests.support.recorder import CountingMetrics

pytestmark = pytest.mark.kind

EVERY = 43
"""The sample takes one of so many."""
ALL = [mutation for kind in KINDS for mutation in mutations(kind) if mutation.in_memory is None]
NOWHERE = {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"}


def _once(url: str, step: Callable[[AiohttpAdmin], Awaitable[str]]) -> str:
    async def run() -> str:
        admin = AiohttpAdmin(CountingMetrics(), deadline=30.0)
        try:
            return await step(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def _two_clusters(url: str) -> Iterator[tuple[str, str]]:
    """Address and cluster of a Pulsar, with a second cluster that exists in name only."""

    async def start(admin: AiohttpAdmin) -> str:
        await admin.call(AdminEndpoint("-", url), "PUT", ("clusters", OTHER), body=NOWHERE)
        return await local_cluster(admin, url)

    async def end(admin: AiohttpAdmin) -> str:
        await admin.call(AdminEndpoint("-", url), "DELETE", ("clusters", OTHER))
        return ""

    yield url, _once(url, start)
    _once(url, end)


@pytest.fixture(scope="module")
def shared(admin_url: str) -> Iterator[tuple[str, str]]:
    """The Pulsar of the test cluster."""
    yield from _two_clusters(admin_url)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A standalone without security."""
    folder: Path = tmp_path_factory.mktemp("standalone")
    with secured_standalone(paths().pulsar_home, folder, OPEN) as running:
        yield from _two_clusters(running.admin_url)


@pytest.mark.parametrize("mutation", ALL[::EVERY], ids=lambda m: f"{m.kind}-{m.id}")
async def test_sample(admin: AiohttpAdmin, shared: tuple[str, str], mutation: Mutation) -> None:
    """S0 to S1 equals a fresh S1; S0 to S1 to S0 equals S0; exceptions are written at the mutation."""
    url, cluster = shared
    assert await Bench(admin, cluster, url).check(mutation) == []


@pytest.mark.slow
@pytest.mark.parametrize("mutation", ALL, ids=lambda m: f"{m.kind}-{m.id}")
async def test_all(admin: AiohttpAdmin, alone: tuple[str, str], mutation: Mutation) -> None:
    """The same."""
    url, cluster = alone
    assert await Bench(admin, cluster, url).check(mutation) == []
