"""The API server refuses to create a pod, or to let one go: what is evicted, what is reported, what goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import (
    PDBS,
    PODS,
    STATEFUL_SETS,
    DeadlineError,
    ForbiddenError,
    Json,
    PortError,
    RefusedError,
    ServerError,
    UnavailableError,
)
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.cluster.backstage import FakeBackstage
from tests.support.cluster.rolls import NEW, OLD, images, reason, three, two, until, version
from tests.support.cluster.workloads import is_ready
from tests.support.cluster.world import NS, ClusterWorld

NO_CLASS = 'pods "x" is forbidden: no PriorityClass with name gold was found'


def kube(world: ClusterWorld) -> FakeKube:
    assert isinstance(world.backstage, FakeBackstage)
    return world.backstage.kube


def refusing(error: Callable[[], PortError], *, pods: str = "east-", image: str = "") -> Callable[[Json], None]:
    """Admission that refuses pods whose names begin so and whose image ends so."""

    def plugin(pod: Json) -> None:
        if pod["metadata"]["name"].startswith(pods) and pod["spec"]["containers"][0]["image"].endswith(image):
            raise error()

    return plugin


def without_dry_run(pod: Json) -> None:
    """An account that has no right to create pods."""
    if pod["metadata"]["name"].endswith("-dry-run"):
        raise ForbiddenError("the operator may not create pods in Kubernetes namespace pulsar")


async def all_ready(world: ClusterWorld) -> bool:
    return all(map(is_ready, await world.backstage.all(PODS)))


@pytest.mark.parametrize("component", ["zookeeper", "bookie", "autorecovery", "broker", "proxy"])
async def test_a_pod_whose_successor_is_refused_is_not_evicted(component: str) -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    plugin = refusing(lambda: RefusedError(NO_CLASS, status=403), pods=f"east-{component}-", image=NEW)
    kube(world).admission.append(plugin)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert not any(name.startswith(f"east-{component}-") for name in world.journal.pods_gone())
    status, found, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert (status, found) == ("True", "PodRefused")
    assert f"Pod east-{component}-" in message and "no PriorityClass with name gold" in message
    assert await all_ready(world) and (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    kube(world).admission.clear()
    await world.run()
    assert all(image.endswith(NEW) for image in (await images(world, f"east-{component}")).values())


@pytest.mark.parametrize(
    "error", [ServerError('failed calling webhook "policy"'), DeadlineError("no answer within 15 s")]
)
async def test_nothing_is_evicted_while_a_webhook_does_not_answer(error: PortError) -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    kube(world).admission.append(refusing(lambda: error))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert world.journal.pods_gone() == [] and await reason(world) == "PodRefused"
    assert str(error) in (await world.condition(Kind.CLUSTER, "east", "Progressing"))[2]


async def test_a_dry_run_is_of_the_pod_that_will_be_and_stores_nothing() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    seen: list[Json] = []
    kube(world).admission.append(seen.append)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    asked = {pod["metadata"]["name"]: pod for pod in seen if pod["metadata"]["name"].endswith("-dry-run")}
    made = {f"{pod['metadata']['name']}-dry-run": pod for pod in await world.backstage.all(PODS)}
    assert asked and asked.keys() <= made.keys(), "one for each that went, and no other pod is there"
    for name, pod in asked.items():
        real = made[name]
        assert real["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert real["spec"]["containers"] == pod["spec"]["containers"]
        assert sorted(v["name"] for v in real["spec"]["volumes"]) == sorted(v["name"] for v in pod["spec"]["volumes"])


def full(world: ClusterWorld, spare: int) -> Callable[[Json], None]:
    """A quota with room for so many more pods than there are."""
    most = len(kube(world).all(PODS)) + spare

    def plugin(pod: Json) -> None:
        used = len(kube(world).all(PODS))
        if used >= most:
            numbers = f"requested: pods=1, used: pods={used}, limited: pods={most}"
            name = pod["metadata"]["name"]
            raise RefusedError(f'pods "{name}" is forbidden: exceeded quota: team, {numbers}', status=403)

    return plugin


async def test_a_quota_that_is_exactly_full_holds_no_roll() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    kube(world).admission.append(full(world, 0))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert await reason(world) == "Ready" and await all_ready(world)
    assert all(image.endswith(NEW) for image in (await images(world, "east-proxy")).values())


async def test_a_quota_that_was_lowered_holds_it() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    kube(world).admission.append(full(world, -1))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert world.journal.pods_gone() == [] and await reason(world) == "PodRefused"
    assert "exceeded quota: team" in (await world.condition(Kind.CLUSTER, "east", "Progressing"))[2]


@pytest.mark.parametrize("component", ["zookeeper", "bookie", "autorecovery", "broker", "proxy"])
async def test_a_pod_that_nobody_creates_stops_the_roll_and_goes_back(component: str) -> None:
    """Where the operator may not ask before, the pod goes: unknown is not refused."""
    world = await three(jumps=f"{OLD} <-> {NEW}")
    plugin = refusing(lambda: RefusedError(NO_CLASS, status=403), pods=f"east-{component}-", image=NEW)
    kube(world).admission += [without_dry_run, plugin]
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    (gone,) = [name for name in world.journal.pods_gone() if name.startswith(f"east-{component}-")]
    assert [row["name"] for row in (await world.status(Kind.CLUSTER, "east"))["missingPods"]] == [gone]
    status, found, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    # Nobody waits for auto-recovery, so the others have rolled by then, which takes its time.
    alone = component == "autorecovery"
    assert (status, found) == ("True", "Pending" if alone else "PodRefused")
    assert f"od {gone} does not exist: " in message and "no PriorityClass with name gold" in message
    world.clock.forward(0 if alone else 300)
    await world.run()
    assert await reason(world) == ("Pending" if alone else "PodRefused"), "the deadline has not passed"
    kube(world).reported.clear()  # Kubernetes keeps events for an hour; they explain, and decide nothing
    for _ in range(2 if alone else 1):
        world.clock.forward(400)
        await world.run()
    assert await reason(world) == "RolloutFailed"
    message = (await world.condition(Kind.CLUSTER, "east", "Progressing"))[2]
    assert f"Pod {gone} was not created within 600 s" in message
    assert await all_ready(world) and gone in await images(world, f"east-{component}")
    assert all(image.endswith(OLD) for image in (await images(world, f"east-{component}")).values())
    assert not (await world.status(Kind.CLUSTER, "east")).get("missingPods")


async def test_a_pod_that_is_missing_without_a_roll_is_named_with_its_cause() -> None:
    world = await three()
    kube(world).admission.append(full(world, -1))
    await world.backstage.remove(PODS, NS, "east-broker-1")
    await world.run()
    status, found, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
    assert (status, found) == ("False", "PodRefused")
    assert (
        "2 of 3 brokers are ready. Pod east-broker-1 does not exist: " in message and "exceeded quota: team" in message
    )
    (row,) = (await world.status(Kind.CLUSTER, "east"))["missingPods"]
    for _ in range(3):
        world.clock.forward(500)
        await world.run()
    (later,) = (await world.status(Kind.CLUSTER, "east"))["missingPods"]
    assert later["since"] == row["since"], "it keeps its time"
    assert await reason(world) != "RolloutFailed", "nothing is rolled"


async def test_events_that_cannot_be_read_cost_the_words_alone() -> None:
    world = await three()
    kube(world).admission.append(full(world, -1))

    def no_right(call: Call) -> None:
        if call.verb == "warnings":
            raise ForbiddenError("the operator may not list events in Kubernetes namespace pulsar")

    kube(world).before.append(no_right)
    await world.backstage.remove(PODS, NS, "east-broker-1")
    await world.run()
    assert (
        "2 of 3 brokers are ready. Pod east-broker-1 does not exist" in (await world.condition(Kind.CLUSTER, "east"))[2]
    )


async def test_a_server_of_a_configuration_store_stays_and_is_named() -> None:
    world = await two(1)
    store = "demo-configuration-store-0"
    kube(world).admission.append(refusing(lambda: RefusedError(NO_CLASS, status=403), pods="demo-"))
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.update(image={"zookeeper": "new:1"}))
    await world.run()
    assert store not in world.journal.pods_gone()
    message = (await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady"))[2]
    assert f"Pod {store} is not replaced" in message and "no PriorityClass with name gold" in message
    await world.backstage.remove(PODS, NS, store)
    await world.run()
    status, found, message = await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady")
    assert status == "False" and f"Pod {store} does not exist: " in message, (found, message)


# --------------------------------------------------------------------------------------------------- one pod's eviction


def foreign_budget() -> Json:
    meta = {"namespace": NS, "name": "every-pod"}
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {}}}
    return {"apiVersion": PDBS.api_version, "kind": PDBS.kind, "metadata": meta, "spec": spec}


async def test_a_second_budget_is_named_and_the_rest_goes_on() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    await world.backstage.put(foreign_budget())

    def change(spec: Json) -> None:
        spec["version"] = NEW
        spec["proxy"]["replicas"] = 4

    await world.change(Kind.CLUSTER, "east", change)
    for _ in range(8):
        await world.round()
    assert world.journal.pods_gone() == []
    status, found, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert (status, found) == ("True", "EvictionRefused")
    assert "Kubernetes cannot evict pod east-zookeeper-" in message
    assert "Delete PodDisruptionBudget every-pod" in message
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True", "Ready stays what it is"
    assert (await world.get(STATEFUL_SETS, "east-proxy"))["spec"]["replicas"] == 4, "the pass goes on"
    assert "missingPods" not in await world.status(Kind.CLUSTER, "east") or await all_ready(world)
    await world.backstage.remove(PDBS, NS, "every-pod")
    await world.run()
    assert await reason(world) == "Ready" and len(await images(world, "east-proxy")) == 4


@pytest.mark.parametrize(
    "error",
    [
        ServerError('HTTP 500: failed calling webhook "policy"'),
        DeadlineError("POST /api/v1/namespaces/pulsar/pods/x/eviction: no answer within 15 s"),
        RefusedError('admission webhook "policy" denied the request: not today', status=403),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_about_one_eviction_ends_no_pass(error: PortError) -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")

    def hook(call: Call) -> None:
        if call.verb == "evict":
            raise error

    kube(world).before.append(hook)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(version=NEW, proxy={"replicas": 4}))
    for _ in range(6):
        await world.round()
    assert await reason(world) == "EvictionRefused"
    assert str(error) in (await world.condition(Kind.CLUSTER, "east", "Progressing"))[2]
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    assert (await world.get(STATEFUL_SETS, "east-proxy"))["spec"]["replicas"] == 4


@pytest.mark.parametrize("error", [UnavailableError("connection refused"), ForbiddenError("the operator may not")])
async def test_a_server_that_is_away_and_a_missing_right_are_told_as_such(error: PortError) -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")

    def hook(call: Call) -> None:
        if call.verb == "evict":
            raise error

    kube(world).before.append(hook)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(4):
        await world.round()
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "Unknown"


async def test_one_request_without_an_answer_in_time_ends_no_pass_and_the_second_does() -> None:
    """An admission webhook for one kind may hang; an API server that answers nothing is not asked on."""
    world = await three()
    late: list[str] = []

    def hook(call: Call) -> None:
        if call.verb == "apply" and call.kind == "StatefulSet":
            late.append(str(call.name))
            raise DeadlineError("no answer within 15 s")

    def change(spec: Json) -> None:
        for each in ("bookkeeper", "broker", "proxy"):
            spec[each]["replicas"] = 4

    kube(world).before.append(hook)
    await world.change(Kind.CLUSTER, "east", change)
    await world.reconcile((await world.keys())[1])
    assert len(late) <= 2 and late


# ------------------------------------------------------------------------------------------------------- a lost node


async def lose_node(world: ClusterWorld, name: str) -> None:
    """The kubelet of a pod's node does not answer any more, and the node controller marks the pod."""
    await world.backstage.edit(PODS, NS, name, lambda pod: pod["spec"].update(nodeName="node-7"))
    await world.workloads.flap(NS, name)
    pod = await world.get(PODS, name)
    conditions = [*pod["status"]["conditions"], {"type": "ContainersReady", "status": "True"}]
    await world.backstage.set_status(PODS, NS, name, {"conditions": conditions})
    world.workloads.lost.add(name)


async def test_a_pod_on_a_lost_node_is_named_with_its_node_and_the_remedy() -> None:
    world = await three()
    await lose_node(world, "east-broker-1")
    await world.run()
    status, found, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
    assert (status, found) == ("False", "NodeUnreachable")
    assert (
        "2 of 3 brokers are ready. Pod east-broker-1 is not Ready, because the kubelet" in message
        and "node node-7" in message
    )
    await world.backstage.remove(PODS, NS, "east-broker-1")
    world.clock.forward(120)
    await world.run()
    status, found, message = await world.condition(Kind.CLUSTER, "east")
    assert (status, found) == ("False", "NodeUnreachable")
    assert "Pod east-broker-1 has been Terminating since" in message
    assert "kubectl taint node node-7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in message
    world.workloads.lost.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_a_roll_that_waits_for_a_lost_node_says_so() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: "east-bookie-2" in gone)
    await lose_node(world, "east-bookie-0")
    await world.backstage.remove(PODS, NS, "east-bookie-0")
    world.clock.forward(120)
    await world.run()
    status, found, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert (status, found) == ("True", "NodeUnreachable")
    assert (
        message.startswith("The rollout of the bookie pods") and ". Pod east-bookie-0 has been Terminating" in message
    )
