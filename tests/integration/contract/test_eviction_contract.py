"""Evictions through ports.KubePort: the same answers of the fake and of a real API server.

No controller of budgets runs beside the real one, so the numbers it would have written are written here; the fake has
to come to the same ones by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.ports import PDBS, PODS, ConflictError, Json, KubePort, ServerError
from tests.fakes.kube import FakeKube
from tests.fakes.kube_evictions import Disruptions, disruptions
from tests.support.cluster.backstage import Backstage, FakeBackstage, HttpBackstage
from tests.support.core.recorder import CountingMetrics
from tests.support.processes.apiserver import ApiServer

LABELS = {"app": "broker"}
OTHER = "5d3f0c39-9a3c-4d7a-8d6e-000000000000"
"""UID of a pod that was there before."""


class Bench:
    """A port, and what other people do around it."""

    def __init__(self, kube: KubePort, backstage: Backstage, namespace: str, fake: FakeKube | None) -> None:
        self.kube, self.backstage, self.namespace, self.fake = kube, backstage, namespace, fake
        self.owner: Json = {}

    async def replicas(self, number: int) -> None:
        """The StatefulSet that the pods belong to."""
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"serviceName": "b", "replicas": number, "selector": {"matchLabels": LABELS}, "template": template}
        meta = {"namespace": self.namespace, "name": "b"}
        self.owner = await self.backstage.put(
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}
        )

    async def pod(self, name: str, *, ready: bool = True, phase: str = "Running", **meta: Any) -> str:
        """A pod in this state; its UID."""
        uid = self.owner["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "b", "uid": uid, "controller": True}
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
        pod["metadata"] = {"namespace": self.namespace, "name": name, "labels": LABELS, "ownerReferences": [owner]}
        pod["metadata"] |= meta
        stored = await self.backstage.put(pod)
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
        await self.backstage.set_status(PODS, self.namespace, name, status)
        return str(stored["metadata"]["uid"])

    async def budget(self, name: str = "budget", **spec: Any) -> None:
        """A PodDisruptionBudget of the pods."""
        spec = {"selector": {"matchLabels": LABELS}, **spec}
        meta = {"namespace": self.namespace, "name": name}
        await self.backstage.put(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
        )

    async def counted(self, *, allowed: int, healthy: int, desired: int, expected: int, name: str = "budget") -> None:
        """The controller of budgets has looked, and found this."""
        found = Disruptions(allowed, healthy, desired, expected)
        if self.fake is None:
            await self.backstage.set_status(PDBS, self.namespace, name, found.status(1))
            return
        budget = self.fake.live(PDBS, self.namespace, name)
        assert budget is not None and disruptions(budget, self.fake.all()) == found

    async def evict(self, name: str, uid: str) -> str | None:
        """As the operator does."""
        return await self.kube.evict(self.namespace, name, uid=uid)

    async def there(self, name: str) -> bool:
        """Whether a pod is there and not ending."""
        found = await self.backstage.live(PODS, self.namespace, name)
        return found is not None and "deletionTimestamp" not in found["metadata"]


@pytest.fixture(params=["fake", "real"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "fake":
        fake = FakeKube()
        yield Bench(fake, FakeBackstage(fake), "ns", fake)
        return
    server: ApiServer = request.getfixturevalue("apiserver")
    namespace = server.new_namespace()
    client = KubeClient(await load_configuration(server.kubeconfig))
    metrics = CountingMetrics()
    kube = KubeAdapter(client, metrics, EventRecorder(client, metrics, SystemClock(), reporter="test"))
    yield Bench(kube, HttpBackstage(client, (namespace,)), namespace, None)
    await client.close()


async def test_without_a_budget_the_very_pod_goes_once(bench: Bench) -> None:
    await bench.replicas(1)
    uid = await bench.pod("b-0")
    with pytest.raises(ConflictError):
        await bench.evict("b-0", OTHER)
    assert await bench.there("b-0")
    assert await bench.evict("b-0", uid) is None
    assert not await bench.there("b-0")
    assert await bench.evict("b-0", uid) is None, "it is gone already"
    assert await bench.kube.evict("no-such-namespace", "b-0", uid=uid) is None


async def test_a_budget_lets_one_go_and_keeps_the_next(bench: Bench) -> None:
    """One that went counts as missing until there is a ready one in its place."""
    await bench.replicas(3)
    uids = [await bench.pod(f"b-{n}") for n in range(3)]
    await bench.budget(maxUnavailable=1)
    await bench.counted(allowed=1, healthy=3, desired=2, expected=3)
    assert await bench.evict("b-2", uids[2]) is None
    await bench.counted(allowed=0, healthy=2, desired=2, expected=3)
    refusal = await bench.evict("b-1", uids[1])
    assert refusal == "The disruption budget budget needs 2 healthy pods and has 2 currently"
    assert await bench.there("b-1")
    await bench.pod("b-2", ready=False)
    await bench.counted(allowed=0, healthy=2, desired=2, expected=3)
    assert await bench.evict("b-1", uids[1]) is not None
    await bench.backstage.set_status(
        PODS, bench.namespace, "b-2", {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    )
    await bench.counted(allowed=1, healthy=3, desired=2, expected=3)
    assert await bench.evict("b-1", uids[1]) is None


async def test_a_pod_that_ends_counts_as_missing_and_may_be_evicted_again(bench: Bench) -> None:
    await bench.replicas(2)
    first = await bench.pod("b-0", finalizers=["example.com/held"])
    second = await bench.pod("b-1")
    await bench.budget(minAvailable=1)
    await bench.counted(allowed=1, healthy=2, desired=1, expected=2)
    assert await bench.evict("b-0", first) is None
    assert await bench.backstage.live(PODS, bench.namespace, "b-0") is not None and not await bench.there("b-0")
    await bench.counted(allowed=0, healthy=1, desired=1, expected=2)
    assert await bench.evict("b-1", second) is not None
    assert await bench.evict("b-0", first) is None


async def test_a_part_is_rounded_up(bench: Bench) -> None:
    await bench.replicas(3)
    uid = await bench.pod("b-0")
    await bench.pod("b-1")
    await bench.budget(minAvailable="50%")
    await bench.counted(allowed=0, healthy=2, desired=2, expected=3)
    assert await bench.evict("b-0", uid) == "The disruption budget budget needs 2 healthy pods and has 2 currently"


@pytest.mark.parametrize(("policy", "goes"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
async def test_an_unready_pod_while_too_few_are_ready(bench: Bench, policy: str, goes: bool) -> None:
    await bench.replicas(3)
    uid = await bench.pod("b-0", ready=False)
    await bench.pod("b-1", ready=False)
    await bench.pod("b-2")
    await bench.budget(maxUnavailable=1, unhealthyPodEvictionPolicy=policy)
    await bench.counted(allowed=0, healthy=1, desired=2, expected=3)
    assert (await bench.evict("b-0", uid) is None) is goes
    assert await bench.there("b-0") is not goes


async def test_an_unready_pod_goes_while_enough_are_ready(bench: Bench) -> None:
    await bench.replicas(3)
    uid = await bench.pod("b-0", ready=False)
    for name in ("b-1", "b-2"):
        await bench.pod(name)
    await bench.budget(maxUnavailable=1)
    await bench.counted(allowed=0, healthy=2, desired=2, expected=3)
    assert await bench.evict("b-0", OTHER) is not None, "a conflict is taken for the pod having become ready"
    assert await bench.there("b-0")
    assert await bench.evict("b-0", uid) is None


async def test_an_unready_pod_that_is_alone_is_refused_for_ever(bench: Bench) -> None:
    """The budget needs 0 pods, which an API server takes for a budget nobody has counted: such a pod is deleted."""
    await bench.replicas(1)
    uid = await bench.pod("b-0", ready=False)
    await bench.budget(maxUnavailable=1, unhealthyPodEvictionPolicy="IfHealthyBudget")
    await bench.counted(allowed=0, healthy=0, desired=0, expected=1)
    refusal = await bench.evict("b-0", uid)
    assert refusal == "The disruption budget budget needs 0 healthy pods and has 0 currently"
    await bench.kube.delete(PODS, bench.namespace, "b-0", uid=uid)
    assert not await bench.there("b-0")


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Succeeded"])
async def test_what_does_not_run_goes_whatever_a_budget_says(bench: Bench, phase: str) -> None:
    await bench.replicas(3)
    uid = await bench.pod("b-0", ready=False, phase=phase)
    await bench.budget(maxUnavailable=0, unhealthyPodEvictionPolicy="IfHealthyBudget")
    await bench.counted(allowed=0, healthy=0, desired=3, expected=3)
    assert await bench.evict("b-0", uid) is None
    assert not await bench.there("b-0")


async def test_another_pod_of_the_name_is_refused_or_a_conflict(bench: Bench) -> None:
    """The budget is asked first."""
    await bench.replicas(1)
    await bench.pod("b-0")
    await bench.budget(maxUnavailable=0)
    await bench.counted(allowed=0, healthy=1, desired=1, expected=1)
    assert await bench.evict("b-0", OTHER) is not None
    await bench.backstage.edit(PDBS, bench.namespace, "budget", lambda found: found["spec"].update(maxUnavailable=1))
    if bench.fake is None:
        await bench.backstage.set_status(PDBS, bench.namespace, "budget", Disruptions(1, 1, 0, 1).status(2))
    with pytest.raises(ConflictError):
        await bench.evict("b-0", OTHER)
    assert await bench.there("b-0")


async def test_two_budgets_are_an_error_in_words(bench: Bench) -> None:
    await bench.replicas(1)
    uid = await bench.pod("b-0")
    for name in ("one", "two"):
        await bench.budget(name, maxUnavailable=1)
        await bench.counted(allowed=1, healthy=1, desired=0, expected=1, name=name)
    with pytest.raises(ServerError, match="more than one PodDisruptionBudget"):
        await bench.evict("b-0", uid)
    assert await bench.there("b-0")


async def test_a_budget_of_other_pods_has_no_say(bench: Bench) -> None:
    await bench.replicas(1)
    uid = await bench.pod("b-0")
    await bench.budget(maxUnavailable=0, selector={"matchLabels": {"app": "bookie"}})
    await bench.budget("nobodys", maxUnavailable=0, selector=None)
    assert await bench.evict("b-0", uid) is None


async def test_an_empty_selector_is_about_every_pod(bench: Bench) -> None:
    await bench.replicas(1)
    uid = await bench.pod("b-0")
    await bench.budget(maxUnavailable=0, selector={})
    await bench.counted(allowed=0, healthy=1, desired=1, expected=1)
    assert await bench.evict("b-0", uid) is not None


async def test_a_budget_nobody_has_counted_yet_is_a_refusal(apiserver: ApiServer) -> None:
    """Of the real API server alone: the fake's numbers are never old."""
    namespace = apiserver.new_namespace()
    client = KubeClient(await load_configuration(apiserver.kubeconfig))
    metrics = CountingMetrics()
    kube = KubeAdapter(client, metrics, EventRecorder(client, metrics, SystemClock(), reporter="test"))
    bench = Bench(kube, HttpBackstage(client, (namespace,)), namespace, None)
    try:
        await bench.replicas(1)
        uid = await bench.pod("b-0")
        await bench.budget(maxUnavailable=1)
        refusal = await bench.evict("b-0", uid)
        assert refusal == "The disruption budget budget is still being processed by the server"
        assert metrics.calls == []
        await bench.counted(allowed=1, healthy=1, desired=0, expected=1)
        assert await bench.evict("b-0", uid) is None
        assert metrics.calls == [("kube_write", "evict", "Pod")]
    finally:
        await client.close()
