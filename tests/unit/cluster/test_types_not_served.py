"""Types and calls that a Kubernetes API server does not serve: they cost what they are for, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.cluster.pipeline import _through
from pulsar_operator.controllers.dataplane.observed.phase import Phase, PhaseContext
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.ports import PDBS, PODS, STATEFUL_SETS, NotServedError, PortError, UnavailableError
from tests.fakes.kube_calls import Call
from tests.support.cluster.rolls import NEW, OLD, images, reason, three, version
from tests.support.cluster.workloads import is_ready
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.unit.cluster.test_pods_refused import kube


def without(world: ClusterWorld, *, verb: str | None = None, kind: str | None = None) -> None:
    def hook(call: Call) -> None:
        if (verb is None or call.verb == verb) and (kind is None or call.kind == kind):
            raise NotServedError("404 page not found")

    kube(world).before.append(hook)


async def test_without_budgets_a_cluster_comes_up_and_says_so() -> None:
    world = ClusterWorld.fakes()
    without(world, kind=PDBS.kind)
    await world.apply(*quickstart()[:2])

    async def proxies() -> bool:
        pods = await world.backstage.all(PODS)
        return any(each["metadata"]["name"] == "east-proxy-0" for each in pods) and all(map(is_ready, pods))

    await world.until(proxies)
    await world.round()
    assert await world.backstage.all(PDBS) == []
    status, _, text = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert status == "False"
    assert "PodDisruptionBudget east-" in text and "does not serve the type" in text


async def test_a_rollout_goes_on_without_budgets() -> None:
    world = await three()
    without(world, kind=PDBS.kind)
    await world.change(Kind.CLUSTER, "east", version(NEW))

    async def done() -> bool:
        found = await images(world, "east")
        return all(image.endswith(NEW) for image in found.values())

    await world.until(done)


async def test_evictions_that_are_not_served_are_about_that_pod_alone() -> None:
    world = await three()
    without(world, verb="evict")

    await world.change(Kind.CLUSTER, "east", lambda spec: (version(NEW)(spec), spec["proxy"].update(replicas=4)))
    for _ in range(8):
        await world.round()
    assert await reason(world) == "EvictionRefused"
    assert all(image.endswith(OLD) for image in (await images(world, "east-zookeeper")).values())
    assert (await world.get(STATEFUL_SETS, "east-proxy"))["spec"]["replicas"] == 4, "the pass goes on"


@pytest.mark.parametrize(
    ("error", "goes_on"), [(NotServedError("404 page not found"), True), (UnavailableError("no answer"), False)]
)
async def test_a_phase_that_asks_for_a_type_that_is_not_served_ends_no_pass(error: PortError, goes_on: bool) -> None:
    ran = []

    async def fails(ctx: PhaseContext) -> None:
        raise error

    async def runs(ctx: PhaseContext) -> None:
        ran.append(ctx)

    owner = {"kind": "PulsarCluster", "metadata": {"name": "east", "uid": "u"}}
    phases = [Phase("first", fails, frozenset()), Phase("second", runs, frozenset())]
    phases.append(Phase("third", runs, frozenset(), frozenset({"first"})))
    facts: Any = None  # no phase here looks at them
    deps: Any = None
    view = await _through(phases, facts, ClusterView(live=Live.of(owner, [])), None, Actor(deps, owner))
    assert view.error == str(error)
    assert len(ran) == goes_on
