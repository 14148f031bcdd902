"""The example of resource groups and isolation policies on a whole cluster, driven by events."""

from __future__ import annotations

import yaml

from pulsar_operator.api.constants import Kind
from tests.support.cluster.copies import ready_world
from tests.support.cluster.world import NS, QUICKSTART

DOCUMENTS = list(
    yaml.safe_load_all((QUICKSTART.parent / "shared-limits-and-isolation.yaml").read_text(encoding="utf-8"))
)


async def test_the_example_becomes_ready_by_events() -> None:
    """Also for namespaces that run before the group they name. The instance counts what refers to it."""
    world = await ready_world()
    await world.apply(*({**each, "metadata": {**each["metadata"], "namespace": NS}} for each in DOCUMENTS))
    await world.run_by_events()
    for document in DOCUMENTS:
        kind, name = Kind(document["kind"]), document["metadata"]["name"]
        assert (await world.condition(kind, name))[:2] == ("True", "Ready"), name
    assert {world.pulsar.namespaces[f"shop/{n}"]["resource_group_name"] for n in ("billing", "invoices")} == {"gold"}
    instance = await world.live(Kind.INSTANCE, "demo")
    assert instance is not None
    assert instance["status"]["dependents"] == 4, "a cluster, a tenant, a resource group, an isolation policy"
