"""Every field of the logical kinds, changed and changed back on a real Pulsar; see tests/support/mutations/changes.py.

A sample, and all of them by ``make mutations``.
"""

from __future__ import annotations

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.mutations.bench import Bench
from tests.support.mutations.chains import KINDS, Mutation
from tests.support.mutations.changes import mutations

EVERY = 43
"""The sample takes one of so many."""
ALL = [mutation for kind in KINDS for mutation in mutations(kind) if mutation.in_memory is None]


@pytest.fixture
def bench(admin: AiohttpAdmin, endpoint: AdminEndpoint) -> Bench:
    """The shared Pulsar; every mutation has objects of its own there."""
    return Bench(admin, endpoint.cluster, endpoint.url)


@pytest.mark.parametrize("mutation", ALL[::EVERY], ids=lambda m: f"{m.kind}-{m.id}")
async def test_sample(bench: Bench, mutation: Mutation) -> None:
    """S0 to S1 equals a fresh S1; S0 to S1 to S0 equals S0; exceptions are written at the mutation."""
    assert await bench.check(mutation) == []


@pytest.mark.slow
@pytest.mark.parametrize("mutation", ALL, ids=lambda m: f"{m.kind}-{m.id}")
async def test_all(bench: Bench, mutation: Mutation) -> None:
    """The same."""
    assert await bench.check(mutation) == []
