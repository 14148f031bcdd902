"""End-to-end fixtures: the kind cluster pulsar-e2e with the operator and the quickstart, shared by all tests.

The cluster is the tests' own, by its own kubeconfig; the user's current context is never used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import story
from e2e.kind.paths import paths
from e2e.support.deploy import NAMESPACE, OPERATOR_NAMESPACE, Helm, install_operator, quickstart
from e2e.support.eventually import eventually
from e2e.support.foreigncluster import NAMESPACE as FOREIGN_NAMESPACE
from e2e.support.geopair import NAMESPACES
from e2e.support.kubectl import Kubectl
from e2e.support.objects import not_ready, pulsar_objects
from e2e.support.skew import Brokers
from e2e.support.threebrokers import three_brokers
from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.support.core.recorder import CountingMetrics

CLUSTER = "pulsar-e2e"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The chapters in their order; a module of the end-to-end tests without a place is an error."""
    here = Path(__file__).parent
    mine = [item for item in items if item.path.is_relative_to(here)]
    if mine:
        try:
            mine.sort(key=lambda item: story.place(item.path.name))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error
        items[:] = [*mine, *(item for item in items if not item.path.is_relative_to(here))]


@dataclass(frozen=True)
class Deployed:
    """The quickstart, running."""

    kubectl: Kubectl
    helm: Helm
    node: str
    namespace: str = NAMESPACE
    service_url: str = "pulsar://127.0.0.1:16650"
    second_url: str = "pulsar://127.0.0.1:16651"
    """Of the proxy that has NodePort SECOND_NODE_PORT."""
    admin_url: str = "http://127.0.0.1:18080"

    def wait_ready(self, *, within: float = 420) -> None:
        """Until every object of the namespace is Ready for its newest specification."""

        def probe() -> bool:
            objects = pulsar_objects(self.kubectl, self.namespace)
            waiting = not_ready(objects)
            assert not waiting, "; ".join(waiting)
            return bool(objects)

        eventually(probe, within=within, what="every object is Ready", every=1.0)


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """kubectl for the tests' kind cluster."""
    where = paths()
    kubeconfig = where["kubeconfigs"].get(CLUSTER)
    if kubeconfig is None:
        pytest.fail(f"the kind cluster {CLUSTER} is not there: run make e2e, which brings it up first")
    return Kubectl(where["kubectl"], Path(kubeconfig))


@pytest.fixture(scope="session")
def helm(kubectl: Kubectl) -> Helm:
    """helm for the tests' kind cluster."""
    return Helm(paths()["helm"], kubectl)


@pytest.fixture(scope="session")
def clean(kubectl: Kubectl, helm: Helm) -> None:
    """Leftovers of an earlier run are removed, so that every run starts from the same state."""
    releases = helm.run("list", "-n", OPERATOR_NAMESPACE, "-q", "-a").split()
    for namespace in (FOREIGN_NAMESPACE, *reversed(NAMESPACES)):
        if releases and kubectl.run("get", "namespace", namespace, "--ignore-not-found", "-o", "name").strip():
            kubectl.run("delete", "namespace", namespace, "--wait=true", "--timeout=240s", timeout=250)
    for release in releases:
        helm.run("uninstall", release, "-n", OPERATOR_NAMESPACE, "--wait", "--timeout", "3m")
    every = (FOREIGN_NAMESPACE, *NAMESPACES)
    kubectl.run("delete", "namespace", *every, "--ignore-not-found", "--timeout=240s", timeout=250)


@pytest.fixture(scope="session")
def deployed(kubectl: Kubectl, helm: Helm, clean: None) -> Iterator[Deployed]:
    """The operator from the chart and examples/quickstart.yaml, every object Ready."""
    install_operator(helm, watch=[NAMESPACE])
    kubectl.apply(quickstart())
    found = Deployed(kubectl, helm, f"{CLUSTER}-control-plane")
    found.wait_ready()
    yield found


@pytest.fixture(scope="session")
def brokers(deployed: Deployed) -> Brokers:
    """Three brokers of the quickstart's cluster; they stay until the session ends."""
    return three_brokers(deployed.kubectl, deployed.namespace, "east", deployed.admin_url)


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The operator's own adapter of the admin REST."""
    found = AiohttpAdmin(CountingMetrics(), deadline=30.0)
    try:
        yield found
    finally:
        await found.close()
