"""What is exported from a real Pulsar, applied in dry run: the operator finds nothing to do."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_current
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.constants import ANNOTATION_DRY_RUN
from pulsar_operator.export import Options, export
from tests.support.contracts.policies import Place
from tests.support.export.furnished import furnished

pytestmark = pytest.mark.kind
INSTANCE = "demo"


@pytest.fixture
async def place(admin: AiohttpAdmin, deployed: Deployed) -> AsyncIterator[Place]:
    """A tenant of the test's own, furnished by plain admin calls."""
    async for found in furnished(admin, deployed.admin_url):
        yield found


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
