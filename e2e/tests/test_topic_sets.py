"""A set of topics as an object of the running operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask, find
from e2e.support.changes import look_again
from e2e.support.deploy import QUICKSTART
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_ready

pytestmark = pytest.mark.kind

EXAMPLE = QUICKSTART.parent / "topic-set.yaml"
KIND = "pulsartopicset"
NUMBER = 10


@pytest.fixture
def example(deployed: Deployed) -> Iterator[dict[str, Any]]:
    """The example with few topics that go with it; deleted again, in Pulsar too."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    document["spec"]["count"]["number"] = NUMBER
    document["spec"]["deletionPolicy"] = "Delete"
    yield document
    options = ("-n", deployed.namespace, "--ignore-not-found", "--timeout=60s")
    deployed.kubectl.run("delete", KIND, document["metadata"]["name"], *options, timeout=80)
    assert devices(deployed) == set()


def devices(deployed: Deployed) -> set[str]:
    """Topics of the example that Pulsar has."""
    found = find(deployed.admin_url, "persistent/shop/orders")
    assert found is not None, "the namespace is gone"
    return {name.rsplit("/", 1)[1] for name in found if "/device-" in name}


def test_the_example(deployed: Deployed, example: dict[str, Any]) -> None:
    """Made, drift repaired at a look, three let go of by a smaller number, all deleted with the object."""
    kubectl, namespace, name = deployed.kubectl, deployed.namespace, example["metadata"]["name"]
    ttl = "persistent/shop/orders/device-4/messageTTL?isGlobal=false"

    def ready(number: int) -> None:
        def probe() -> bool:
            obj = kubectl.get(KIND, namespace, name)
            assert is_ready(obj), condition(obj, "Ready")
            status = (obj or {})["status"]
            assert (status["desired"], status["ready"], status["pendingDeletion"]) == (number, number, 0), status
            return True

        # Far less than the operator's resync, which would heal anything.
        eventually(probe, within=60, what=f"{number} topics are as declared")

    kubectl.apply(json.dumps(example))
    ready(NUMBER)
    assert devices(deployed) == {f"device-{n}" for n in range(NUMBER)}
    assert find(deployed.admin_url, f"{ttl}&applied=false") == 3600

    ask(deployed.admin_url, "POST", f"{ttl}&messageTTL=7")

    def repaired() -> bool:
        look_again(kubectl, KIND, namespace, name)
        assert find(deployed.admin_url, f"{ttl}&applied=false") == 3600
        return True

    eventually(repaired, within=60, what="drift is repaired at a look")
    ready(NUMBER)

    example["spec"]["count"]["number"] = NUMBER - 3
    kubectl.apply(json.dumps(example))
    ready(NUMBER - 3)
    assert devices(deployed) == {f"device-{n}" for n in range(NUMBER - 3)}
