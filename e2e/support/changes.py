"""Changes of a running cluster as a user makes them, and the wait until the operator has carried them out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from e2e.support.admin import ask
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition, is_current


def patch_cluster(kubectl: Kubectl, namespace: str, name: str, spec: Mapping[str, object]) -> None:
    """Merge ``spec`` into the cluster's and wait until every pod is of the new revision and Ready."""
    kubectl.run("patch", "pulsarcluster", name, "-n", namespace, "--type=merge", "-p", json.dumps({"spec": dict(spec)}))

    def rolled() -> bool:
        cluster = kubectl.get("pulsarcluster", namespace, name)
        assert cluster is not None
        assert is_current(cluster), f"generation {cluster['metadata']['generation']}: {cluster.get('status')}"
        found = {kind: condition(cluster, kind) for kind in ("Ready", "UpToDate")}
        assert all(each.get("status") == "True" for each in found.values()), found
        return True

    eventually(rolled, within=300, what=f"the pods of {name} rolled")


@contextmanager
def paused(kubectl: Kubectl, kind: str, namespace: str, name: str) -> Iterator[None]:
    """The operator looks at an object and changes nothing of what it stands for."""
    kubectl.run("annotate", kind, name, "-n", namespace, "--overwrite", "pulsaroperator.io/pause=true")
    try:
        yield
    finally:
        kubectl.run("annotate", kind, name, "-n", namespace, "pulsaroperator.io/pause-")


def look_again(kubectl: Kubectl, kind: str, namespace: str, name: str) -> None:
    """Wake the operator for one object, without waiting for its next resync."""
    for value in ("pulsaroperator.io/pause=false", "pulsaroperator.io/pause-"):
        kubectl.run("annotate", kind, name, "-n", namespace, "--overwrite", value)


def answers(admin_url: str) -> None:
    """Wait until admin REST answers through the proxy, which keeps the old pod's address for a moment."""

    eventually(lambda: ask(admin_url, "GET", "clusters"), within=90, what="admin REST through the proxy")
