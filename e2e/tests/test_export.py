"""What is exported from a real Pulsar is what it has: controllers find nothing to do."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_current
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import ANNOTATION_DRY_RUN
from pulsar_operator.domain.policies import GLOBAL_POLICIES, LOCAL_POLICIES, NAMESPACE_POLICIES, OLDEST
from pulsar_operator.export import Options, export
from tests.support.export import dry_run, exported, manifests, notes
from tests.support.export_site import DEFINITION, HOSTILE, PROPERTIES, SUBSCRIPTION, furnished, loadable
from tests.support.policy_contract import Place

pytestmark = pytest.mark.kind
INSTANCE = "demo"
RATE = {"messagesPerPeriod": 7, "periodSeconds": 1, "relativeToPublishRate": False}
SHADOWING = ("policies.retention", "policies.backlogQuotas", "policies.replicationClusters")
"""Policies Pulsar compares with others, so that it may refuse one of them here: replication clusters of scope Global
need a namespace that is replicated."""


@pytest.fixture
async def place(admin: AiohttpAdmin, admin_url: str) -> AsyncIterator[Place]:
    """A tenant of the test's own, furnished by plain admin calls."""
    async for found in furnished(admin, admin_url):
        yield found


async def test_controllers_find_nothing_to_do(place: Place, admin_url: str) -> None:
    """The controllers of this process, on the real Pulsar, with the manifests in dry run."""
    found = await exported(place.admin, admin_url=admin_url, tenants=re.compile(place.tenant))
    assert not found.failed and notes(found) == []
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
    assert await dry_run(place.admin, found, place.cluster, urls={place.cluster: admin_url}) == []


def _has(spec: Any, path: str) -> bool:
    for step in path.split("."):
        spec = (spec or {}).get(step)
    return spec is not None


def _may_lack(row: Any) -> bool:
    """Pulsar may refuse the example, or shows it as what nobody set."""
    newer = row.since_version != OLDEST
    return newer or row.path.startswith(SHADOWING) or any(not row.is_set(example) for example in row.examples)


async def test_applied_with_kubectl_in_dry_run(place: Place, deployed: Deployed, tmp_path: Path) -> None:
    """The command's own output, on the operator of the cluster."""
    file = tmp_path / "export.yaml"
    options = Options(
        deployed.admin_url,
        instance=INSTANCE,
        namespace=deployed.namespace,
        tenants=re.compile(place.tenant),
        output=str(file),
    )
    assert await export(options, err=io.StringIO()) == 0
    documents = [document for document in yaml.safe_load_all(file.read_text()) if document is not None]
    kubectl = deployed.kubectl
    # What the file says is what is applied; the annotation alone is added.
    kubectl.run("create", "--dry-run=server", "--validate=strict", "-f", str(file))
    try:
        for document in documents:
            document["metadata"]["annotations"] = {ANNOTATION_DRY_RUN: "true"}
            kubectl.apply(json.dumps(document))

        def settled() -> bool:
            for document in documents:
                kind, name = document["kind"].lower(), document["metadata"]["name"]
                obj = kubectl.get(kind, deployed.namespace, name)
                assert obj is not None and is_current(obj), f"{kind} {name} has not been looked at"
                assert not obj["status"].get("pendingActions"), obj["status"]["pendingActions"]
                ready = condition(obj, "Ready")
                assert (ready.get("status"), ready.get("reason")) == ("True", "Ready"), (name, ready)
                assert condition(obj, "Drifted").get("status") == "False", (name, condition(obj, "Drifted"))
            return True

        assert eventually(settled, within=180, what="nothing is pending on any exported object", every=2.0)
    finally:
        for document in reversed(documents):
            kind, name = document["kind"].lower(), document["metadata"]["name"]
            delete_childless(kubectl, kind, deployed.namespace, name, seconds=60)
