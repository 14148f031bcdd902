"""The operator's Role in a Kubernetes namespace is gone: its objects say which right is missing and what to do, nobody
takes it for a fault of the specification, and with the Role everything goes on."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.ports import CUSTOM, Deps, ForbiddenError, Key, RefusedError
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.clocks import SteppingClock
from tests.support.core.journal import KUBERNETES, PortCall
from tests.support.core.objects import custom
from tests.support.core.recorder import CountingMetrics

CLUSTER = "east"
OURS = {kind.value for kind in Kind}
"""Kinds whose rights outlive the Role: the chart gives them to the whole cluster."""


def without_role(world: ClusterWorld, *, kinds: set[str] | None = None) -> None:
    """Every call about children is forbidden, or those about some kinds."""

    def hook(call: PortCall) -> None:
        if call.port == KUBERNETES and call.kind not in OURS and (kinds is None or call.kind in kinds):
            raise ForbiddenError(f"the operator may not {call.verb} {call.kind} in Kubernetes namespace {NS}")

    world.journal.before.append(hook)


KINDS: list[set[str] | None] = [None, {"StatefulSet"}, {"Pod"}, {"ConfigMap"}, {"Service"}]


@pytest.mark.parametrize(
    ("running", "kinds"),
    # The Secret is read at the beginning alone.
    [(False, {"Secret"}), *((running, kinds) for running in (True, False) for kinds in KINDS)],
)
async def test_the_cluster_says_so_and_goes_on_with_the_role(running: bool, kinds: set[str] | None) -> None:
    world = ClusterWorld.fakes()
    if running:
        await world.bring_up()
    else:
        await world.apply(*quickstart())
    without_role(world, kinds=kinds)
    for _ in range(3):
        await world.round()
    status, reason, message = await world.condition(Kind.CLUSTER, CLUSTER)
    assert (status, reason) == ("Unknown", "Forbidden"), message
    assert f"in Kubernetes namespace {NS}" in message and "helm upgrade" in message
    told = [each["reason"] for each in (await world.status(Kind.CLUSTER, CLUSTER))["conditions"]]
    assert "InvalidSpec" not in told and "InternalError" not in told
    key = Key(Kind.CLUSTER, NS, CLUSTER)
    assert isinstance(found := world.outcomes[key], Outcome) and found.backoff
    world.journal.before.clear()
    await world.bring_up()
    assert await world.all_ready() == {}


async def test_what_admission_denies_is_said_in_its_own_words() -> None:
    world = ClusterWorld.fakes()
    await world.apply(*quickstart())

    def hook(call: PortCall) -> None:
        if (call.verb, call.kind) == ("apply", "StatefulSet"):
            raise RefusedError('admission webhook "guard" denied the request: not on Fridays', status=403)

    world.journal.before.append(hook)
    for _ in range(3):
        await world.round()
    _, reason, message = await world.condition(Kind.CLUSTER, CLUSTER, "Accepted")
    assert reason == "InvalidSpec" and 'admission webhook "guard" denied the request' in message
    assert "helm upgrade" not in message


async def test_an_instance_says_so() -> None:
    world = ClusterWorld.fakes()
    await world.apply(custom(Kind.INSTANCE, NS, "i", {"configurationStore": {"managed": {"replicas": 1}}}))
    without_role(world)
    await world.round()
    status, reason, message = await world.condition(Kind.INSTANCE, "i")
    assert (status, reason) == ("Unknown", "Forbidden") and "helm upgrade" in message
    world.journal.before.clear()
    await world.run()
    assert (await world.condition(Kind.INSTANCE, "i", "ConfigurationStoreReady"))[0] == "True"


async def test_a_rebalance_says_so() -> None:
    kube = FakeKube()
    kube.put(custom(Kind.REBALANCE, NS, "r", {"clusterRef": {"name": "c"}}))
    deps = Deps(kube, None, None, SteppingClock(), None, CountingMetrics(), FakeBookies())  # type: ignore[arg-type]

    def hook(call: Call) -> None:
        if call.kind == "PulsarCluster":
            raise ForbiddenError("the operator may not get pulsarclusters in Kubernetes namespace other")

    kube.before.append(hook)
    assert (await RebalanceController(deps).reconcile(Key(Kind.REBALANCE, NS, "r"))).backoff
    found = kube.live(CUSTOM[Kind.REBALANCE], NS, "r")
    assert found is not None
    (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "Forbidden") and "helm upgrade" in ready["message"]
