"""Which object manages a namespace or topic, as a real Pulsar keeps it: made with it, merged into what is there, and
read again after everything but Pulsar was lost."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.ports import AdminEndpoint, Json
from tests.support.logical.world import LogicalWorld


def restored(w: LogicalWorld, tenant: str, duplicate: str, spec: Json) -> LogicalWorld:
    """The objects in a new API server, without status: the duplicate is seen first, and cuts the retention."""
    new = LogicalWorld(*w.urls, admin=w.admin, urls=w.urls)
    new.tenant(tenant)
    new.namespace("n", tenant=tenant)
    new.topic(duplicate, name="x", policies={"retention": {"timeMinutes": 1, "size": "100Gi"}}, **spec)
    new.topic("x", policies={"retention": {"timeMinutes": 10080, "size": "100Gi"}}, properties={"team": "shop"}, **spec)
    return new


async def ready(w: LogicalWorld, topic: str) -> None:
    """Passes until a topic is Ready: its policies are seen late."""

    async def passed() -> tuple[str, str, str]:
        await w.run()
        return w.condition(Kind.TOPIC, topic)

    await eventually_async(passed, lambda said: said[0] == "True", what=f"PulsarTopic {topic} is Ready", retried=())


@pytest.mark.parametrize("spec", [{}, {"partitions": 2}], ids=["plain", "partitioned"])
async def test_the_record_survives_and_decides(admin: AiohttpAdmin, endpoint: AdminEndpoint, spec: Json) -> None:
    tenant = f"owners-{uuid.uuid4().hex[:8]}"
    w = LogicalWorld(endpoint.cluster, admin=admin, urls={endpoint.cluster: endpoint.url})

    async def ask(*path: str) -> Any:
        return await admin.call(endpoint, "GET", path)

    topic = ("persistent", tenant, "n", "x")
    w.tenant(tenant)
    w.namespace("n", tenant=tenant)
    w.topic("x", policies={"retention": {"timeMinutes": 10080, "size": "100Gi"}}, properties={"team": "shop"}, **spec)
    await ready(w, "x")
    assert (await ask("namespaces", tenant, "n"))["properties"] == {OWNER_PROPERTY: "PulsarNamespace apps/n"}
    assert await ask(*topic, "properties") == {OWNER_PROPERTY: "PulsarTopic apps/x", "team": "shop"}
    # Somebody removes both records.
    await admin.call(endpoint, "DELETE", ("namespaces", tenant, "n", "property", OWNER_PROPERTY), text=True)
    await admin.call(endpoint, "DELETE", (*topic, "properties"), query={"key": OWNER_PROPERTY})
    w.restart()
    await ready(w, "x")
    await w.run()  # the resync: after a start a topic is taken as its status says
    assert (await ask("namespaces", tenant, "n"))["properties"] == {OWNER_PROPERTY: "PulsarNamespace apps/n"}
    assert await ask(*topic, "properties") == {OWNER_PROPERTY: "PulsarTopic apps/x", "team": "shop"}
    assert (OWNER_PROPERTY in str(await ask(*topic, "partitions"))) is bool(spec), (
        "a partitioned one tells it there too"
    )
    new = restored(w, tenant, "a-duplicate", spec)
    await ready(new, "x")
    assert new.condition(Kind.TOPIC, "a-duplicate")[1] == "Duplicate"
    assert (await ask(*topic, "retention"))["retentionTimeInMinutes"] == 10080
    # Who survives takes it over.
    new.delete(Kind.TOPIC, "x")
    await ready(new, "a-duplicate")
    assert (await ask(*topic, "properties"))[OWNER_PROPERTY] == "PulsarTopic apps/a-duplicate"


@pytest.mark.parametrize("kind", [Kind.TENANT, Kind.NAMESPACE])
@pytest.mark.parametrize("spec", [{}, {"partitions": 2}], ids=["plain", "partitioned"])
async def test_what_was_retained_is_found_by_its_record(
    admin: AiohttpAdmin, endpoint: AdminEndpoint, kind: Kind, spec: Json
) -> None:
    """Its parents become ForceDelete after the object is gone; a topic without a record is none of it."""
    tenant = f"retained-{uuid.uuid4().hex[:8]}"
    w = LogicalWorld(endpoint.cluster, admin=admin, urls={endpoint.cluster: endpoint.url})
    w.tenant(tenant)
    w.namespace("n", tenant=tenant)
    w.topic("x", **spec)
    await ready(w, "x")
    await admin.call(endpoint, "PUT", ("persistent", tenant, "n", "of-a-client"))
    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.tenant(tenant, deletionPolicy="ForceDelete")
    w.namespace("n", tenant=tenant, deletionPolicy="ForceDelete")
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    w.delete(Kind.TENANT, tenant)
    await w.run()
    name = tenant if kind is Kind.TENANT else "n"
    status, reason, text = w.condition(kind, name, "DeletionBlocked")
    assert status == "True", (reason, text)
    if kind is Kind.NAMESPACE:
        assert reason == "NotEmpty" and "contains 1 objects that deletionPolicy Retain left" in text
        assert f"persistent://{tenant}/n/x (PulsarTopic apps/x)" in text
    assert await admin.call(endpoint, "GET", ("persistent", tenant, "n", "x", "partitions"))
