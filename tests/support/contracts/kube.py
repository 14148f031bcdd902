"""ports.KubePort under test: the fake, and an adapter at a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.ports import NAMESPACES, KubePort
from tests.fakes.kube import FakeKube
from tests.support.core.recorder import CountingMetrics


class Bench:
    """A port under test and what is needed around it."""

    def __init__(
        self, kube: KubePort, namespace: str, remove: Callable[..., None], end_namespace: Callable[[], None]
    ) -> None:
        self.kube = kube
        self.namespace = namespace
        self.remove = remove
        """Somebody deletes an object: remove(kind, name)."""
        self.end_namespace = end_namespace
        """Somebody deletes the Kubernetes namespace."""


@pytest.fixture(params=["fake", "real"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """One after the other, each in a Kubernetes namespace of its own."""
    if request.param == "fake":
        fake = FakeKube(namespaces={"ns", "other"}, watched=())
        meta = {"name": "ns", "namespace": "", "finalizers": ["kubernetes"]}
        fake.put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}})
        yield Bench(
            fake, "ns", lambda kind, name: fake.remove(kind, "ns", name), lambda: fake.remove(NAMESPACES, "", "ns")
        )
        return
    server = request.getfixturevalue("apiserver")
    namespace = server.new_namespace()
    client = KubeClient(await load_configuration(server.kubeconfig))
    metrics = CountingMetrics()
    recorder = EventRecorder(client, metrics, SystemClock(), reporter="test")
    # Small pages, so that every list of more than two objects is read in several.
    adapter = KubeAdapter(client, metrics, recorder, page_size=2)

    def remove(kind: Any, name: str) -> None:
        group = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        assert server.request("DELETE", f"{group}/namespaces/{namespace}/{kind.plural}/{name}").code < 300

    def end_namespace() -> None:
        assert server.request("DELETE", f"/api/v1/namespaces/{namespace}").code < 300

    yield Bench(adapter, namespace, remove, end_namespace)
    await client.close()
