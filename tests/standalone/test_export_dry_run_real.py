"""What is exported from a real Pulsar is what it has: controllers find nothing to do."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.domain.policies import GLOBAL_POLICIES, LOCAL_POLICIES, NAMESPACE_POLICIES, OLDEST
from pulsar_operator.domain.policies.offload import NO_DRIVER
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.policies import Place
from tests.support.export.furnished import DEFINITION, HOSTILE, PROPERTIES, SUBSCRIPTION, furnished, loadable
from tests.support.export.memory import dry_run, exported, manifests, notes
from tests.support.policies.values import values_of

RATE = {"messagesPerPeriod": 7, "periodSeconds": 1, "relativeToPublishRate": False}
SHADOWING = ("policies.retention", "policies.backlogQuotas", "replicationClusters")
"""Policies Pulsar compares with others, so that it may refuse one of them here: replication clusters of scope Global
need a namespace that is replicated."""


@pytest.fixture
async def place(admin: AiohttpAdmin, endpoint: AdminEndpoint) -> AsyncIterator[Place]:
    """A tenant of the test's own, furnished by plain admin calls."""
    async for found in furnished(admin, endpoint.url):
        yield found


async def test_controllers_find_nothing_to_do(place: Place) -> None:
    """The controllers of this process, on the real Pulsar, with the manifests in dry run."""
    found = await exported(place.admin, admin_url=place.endpoint.url, tenants=re.compile(place.tenant))
    assert not found.failed
    # Both namespaces have an offload policy, which the operator does not manage.
    assert [NO_DRIVER in note for note in notes(found)] == [True, True], notes(found)
    specs = {m["metadata"]["name"]: m["spec"] for m in manifests(found)}
    assert {s.get("name") for s in specs.values()} >= {*HOSTILE, "x", "parts", "split", "first", "last", "bare"}
    assert specs[f"{place.tenant}.bare"].keys() == {"tenantRef", "name", "bundles", "replicationClusters"}
    for name in ("first", "n.x", "n.parts"):
        assert specs[f"{place.tenant}.{name}"]["properties"] == PROPERTIES
    kinds = [m["kind"] for m in manifests(found)]
    assert {"PulsarResourceGroup", "PulsarIsolationPolicy"} <= set(kinds)
    for name, kind in (("n.x", "Avro"), ("n.parts", "Json")):
        spec = specs[f"{place.tenant}.{name}"]
        assert spec["subscriptions"] == [
            {"name": SUBSCRIPTION, "properties": {"team": "shop"}},
            {"name": "orders", "dispatchRate": RATE},
        ]
        assert spec["schema"]["type"] == kind and json.loads(spec["schema"]["definition"]) == json.loads(DEFINITION)
        assert spec["schema"]["properties"]["owner"] == "shop"
    assert specs[f"{place.tenant}.n.s1"]["schema"] == {"type": "String", "properties": {"owner": "shop"}}
    for name, rows in (
        (f"{place.tenant}.first", NAMESPACE_POLICIES[1:]),
        (f"{place.tenant}.n.x", loadable(LOCAL_POLICIES)),
        (f"{place.tenant}.n.parts", loadable(GLOBAL_POLICIES)),
    ):
        missing = {row.path for row in rows if row.refused_without is None and not _has(specs[name], row.path)}
        assert missing <= {row.path for row in rows if _may_lack(row)}, f"{name}: {missing}"
    assert await dry_run(place.admin, found, place.cluster, urls={place.cluster: place.endpoint.url}) == []


def _has(spec: Any, path: str) -> bool:
    for step in path.split("."):
        spec = (spec or {}).get(step)
    return spec is not None


def _may_lack(row: Any) -> bool:
    """Pulsar may refuse the example, or shows it as what nobody set; or the operator does not manage it."""
    newer = row.since_version != OLDEST
    return (
        newer
        or row.unavailable is not None
        or row.path.startswith(SHADOWING)
        or any(not row.is_set(example) for example in values_of(row))
    )
