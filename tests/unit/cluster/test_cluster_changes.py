"""Changes of a running cluster: one pod at a time, scaling, pruning, foreign names, refused specifications."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, PODS, SERVICES, STATEFUL_SETS, Json, Key
from tests.support.cluster.backstage import FakeBackstage
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.workloads import Trouble, revision_of
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import EVICT, KUBERNETES, PortCall


async def three_of_each() -> ClusterWorld:
    """ZooKeeper, bookies, brokers and proxies of three."""
    manifests = quickstart()
    spec = manifests[1]["spec"]
    spec["metadataStore"]["managed"]["replicas"] = 3
    spec["bookkeeper"]["replicas"] = spec["broker"]["replicas"] = spec["proxy"]["replicas"] = 3
    world = await converged(*manifests)
    assert await world.all_ready() == {}
    return world


def images(spec: Json) -> None:
    spec["image"] = {"broker": "pulsar-broker:new", "bookie": "pulsar-bookie:new", "proxy": "pulsar-proxy:new"}


def bookie_config(spec: Json) -> None:
    spec["bookkeeper"]["config"] = {"gcWaitTime": "600000"}


def broker_config(spec: Json) -> None:
    spec["broker"]["config"] = {"maxProducersPerTopic": "7"}


@pytest.mark.parametrize(
    ("change", "rolled", "reason"),
    [
        (images, ["zookeeper", "bookie", "autorecovery", "broker", "proxy"], "the image changed from"),
        (broker_config, ["broker"], "the configuration changed (hash"),
    ],
)
async def test_a_change_is_rolled_one_by_one_in_order_and_only_where_it_applies(
    change: Callable[[Json], None], rolled: list[str], reason: str
) -> None:
    world = await three_of_each()
    before = await world.uids(PODS)
    await world.change(Kind.CLUSTER, "east", change)
    reasons: list[str] = []
    most_deleted = 0

    async def look() -> None:
        nonlocal most_deleted
        rollout = (await world.status(Kind.CLUSTER, "east")).get("rollout")
        if rollout:
            reasons.append(rollout["reason"])
        missing = 0
        for sts in await world.backstage.all(STATEFUL_SETS):
            name = sts["metadata"]["name"]
            missing += sts["spec"]["replicas"] - world.workloads.ready[NS, name]
        most_deleted = max(most_deleted, missing)

    await world.run(each=look)
    assert most_deleted == 1
    assert all(down <= 1 for down in world.workloads.most_down.values())
    deleted = world.journal.pods_gone()
    expected = [
        f"east-{component}-{n}" for component in rolled for n in ((0,) if component == "autorecovery" else (2, 1, 0))
    ]
    assert deleted == expected
    assert reasons
    assert all(text.startswith(reason) for text in reasons)
    assert any(e.reason == "PodReplaced" and reason in e.message for e in world.journal.events)
    after = await world.uids(PODS)
    assert {name for name in before if before[name] != after[name]} == set(expected)
    for sts in await world.backstage.all(STATEFUL_SETS):
        revisions = {
            pod["metadata"]["labels"]["controller-revision-hash"]
            for pod in await world.backstage.all(PODS)
            if pod["metadata"]["name"].rpartition("-")[0] == sts["metadata"]["name"]
        }
        assert revisions == {revision_of(sts)}
    assert (await world.condition(Kind.CLUSTER, "east", "UpToDate"))[0] == "True"
    assert "rollout" not in await world.status(Kind.CLUSTER, "east")


async def test_a_roll_stops_at_a_pod_that_does_not_come_back_and_goes_on_when_it_is_corrected() -> None:
    world = await three_of_each()
    world.workloads.troubles.append(Trouble(image="*:broken", waiting="ErrImagePull", message="not found"))

    def image(name: str) -> Callable[[Json], None]:
        def change(spec: Json) -> None:
            spec["image"] = {"broker": name}

        return change

    await world.change(Kind.CLUSTER, "east", image("pulsar-broker:broken"))
    await world.run()
    assert world.journal.pods_gone() == ["east-broker-2"]
    assert world.workloads.ready[NS, "east-broker"] == 2
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
    assert (status, reason) == ("False", "ImagePullFailed")
    assert "pulsar-broker:broken" in message
    await world.change(Kind.CLUSTER, "east", image("pulsar-broker:good"))
    await world.run()
    assert await world.all_ready() == {}
    assert world.workloads.most_down["east-broker"] == 1
    assert (await world.condition(Kind.CLUSTER, "east", "UpToDate"))[0] == "True"


async def test_logical_objects_do_not_notice_one_broker_of_three_restarting() -> None:
    """Two brokers answer: no status of a tenant, namespace or topic is written, and work goes on."""
    world = await three_of_each()
    world.workloads.troubles.append(Trouble(image="*:broken"))

    def change(spec: Json) -> None:
        spec["image"] = {"broker": "pulsar-broker:broken"}

    await world.change(Kind.CLUSTER, "east", change)
    mark = len(world.journal.effects)
    await world.run()
    assert world.workloads.ready[NS, "east-broker"] == 2
    kinds = {c.kind for c in world.journal.since(mark) if c.verb == "status"}
    assert kinds == {"PulsarCluster", "PulsarInstance"}

    def grow(spec: Json) -> None:
        spec["partitions"] = 5

    await world.change(Kind.TOPIC, "clicks", grow)
    await world.run()
    assert world.pulsar.partitioned["persistent://shop/orders/clicks"] == 5


@pytest.mark.parametrize("replicas", [1, 2, 5, 0])
async def test_brokers_are_scaled_by_spec_without_touching_other_pods(replicas: int) -> None:
    world = await three_of_each()
    before = await world.uids(PODS)

    def change(spec: Json) -> None:
        spec["broker"]["replicas"] = replicas

    await world.change(Kind.CLUSTER, "east", change)
    mark = len(world.journal.effects)
    await world.run()
    after = await world.uids(PODS)
    assert sum(name.startswith("east-broker-") for name in after) == replicas
    assert {n: u for n, u in after.items() if n in before} == {n: before[n] for n in after if n in before}
    # The record of templates has how many pods ran the newest one.
    assert {(c.verb, c.kind) for c in world.journal.since(mark) if c.port == KUBERNETES and c.verb != "status"} == {
        ("apply", "StatefulSet"),
        *([("apply", "ConfigMap")] if replicas else []),
    }
    status = await world.status(Kind.CLUSTER, "east")
    assert status["broker"]["ready"] == replicas


async def test_a_proxy_taken_out_of_the_spec_is_pruned_and_nothing_else() -> None:
    world = await ready_world()
    before = await world.uids(PODS)
    configuration = await world.configuration("east-proxy")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("proxy"))
    mark = len(world.journal.effects)
    await world.run()
    deleted = {(c.kind, c.name) for c in world.journal.since(mark) if c.verb == "delete"}
    assert deleted == {
        ("StatefulSet", "east-proxy"),
        ("Service", "east-proxy"),
        ("Service", "east-proxy-headless"),
        ("ConfigMap", configuration),
        ("ConfigMap", "east-proxy-templates"),
        ("PodDisruptionBudget", "east-proxy"),
    }
    after = await world.uids(PODS)
    assert after == {name: uid for name, uid in before.items() if not name.startswith("east-proxy")}
    assert await world.all_ready() == {}
    assert (await world.condition(Kind.CLUSTER, "east", "ProxiesReady"))[1] == "NotApplicable"


async def test_an_identity_of_proxies_alone_is_kept_until_no_proxy_has_it() -> None:
    world = await ready_world()
    account = {"serviceAccountAnnotations": {"iam.gke.io/gcp-service-account": "a@b"}}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["proxy"].update(pod=account))
    await world.run()
    proxies = [pod for name, pod in (await world.uids(PODS)).items() if name.startswith("east-proxy-")]
    assert proxies
    mark = len(world.journal.effects)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["proxy"].pop("pod"))
    await world.run()
    gone = [c for c in world.journal.since(mark) if c.verb in ("delete", EVICT) and c.kind != "ConfigMap"]
    deleted = [(c.kind, c.name) for c in gone]
    assert deleted == [
        *(("Pod", f"east-proxy-{n}") for n in reversed(range(len(proxies)))),
        ("ServiceAccount", "east-proxy"),
    ]


async def test_a_name_taken_by_a_foreign_service_is_refused_and_the_rest_converges() -> None:
    world = ClusterWorld.fakes()
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "east-proxy", "namespace": NS, "labels": {"app": "theirs"}},
        "spec": {"ports": [{"port": 80}]},
    }
    theirs = await world.backstage.put(foreign)
    await world.bring_up()
    assert await world.live(SERVICES, "east-proxy") == theirs
    status, _, message = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert status == "False"
    assert f"Service {NS}/east-proxy exists and does not belong to this object" in message
    assert "Delete or rename it" in message
    assert (await world.condition(Kind.CLUSTER, "east", "BrokersReady"))[0] == "True"
    assert (await world.condition(Kind.TOPIC, "clicks"))[0] == "True"
    await world.backstage.remove(SERVICES, NS, "east-proxy")
    await world.run()
    assert await world.all_ready() == {}


def _reserved(spec: Json) -> None:
    spec["broker"]["config"] = {"metadataStoreUrl": "zk:elsewhere:2181"}


def _quorum(spec: Json) -> None:
    spec["bookkeeper"]["ensemble"] = {"ensembleSize": 3}


def _schema(spec: Json) -> None:
    spec["broker"]["replicas"] = "many"


def _message_size(spec: Json) -> None:
    spec["broker"]["maxMessageSize"] = 1073741824


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_reserved, ("spec.broker.config", "metadataStoreUrl")),
        (_quorum, ("spec.bookkeeper.ensemble.ensembleSize = 3", "Raise replicas to 3 or lower")),
        (_schema, ("spec.broker.replicas", "valid integer")),
        (_message_size, ("spec.broker.maxMessageSize", "lower maxMessageSize")),
    ],
)
async def test_a_refused_specification_is_told_with_field_and_remedy_and_what_runs_stays(
    change: Callable[[Json], None], words: tuple[str, ...]
) -> None:
    world = await ready_world()
    pods = await world.uids(PODS)
    status = await world.status(Kind.CLUSTER, "east")
    await world.change(Kind.CLUSTER, "east", change)
    mark = len(world.journal.effects)
    await world.run()
    found = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert found[:2] == ("False", "InvalidSpec")
    for word in words:
        assert word in found[2]
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "False"
    assert {(c.verb, c.kind) for c in world.journal.since(mark)} <= {("status", kind.kind) for kind in CUSTOM.values()}
    assert await world.uids(PODS) == pods
    after = await world.status(Kind.CLUSTER, "east")
    for name in ("endpoints", "instanceId", "broker", "bookkeeper", "zookeeper", "proxy", "metadataStoreServers"):
        assert after.get(name) == status[name], name
    for name in ("tenants/shop", "namespaces/shop/orders"):
        assert world.journal.of("admin", "PUT").count(name) == 1


@pytest.mark.parametrize("change", [_reserved, _quorum, _schema, _message_size])
async def test_a_refused_specification_is_accepted_once_corrected(change: Callable[[Json], None]) -> None:
    world = await ready_world()
    good = (await world.get(Kind.CLUSTER, "east"))["spec"]
    await world.change(Kind.CLUSTER, "east", change)
    await world.run()

    def correct(spec: Json) -> None:
        spec.clear()
        spec.update(good)

    await world.change(Kind.CLUSTER, "east", correct)
    await world.run()
    assert await world.all_ready() == {}


async def test_a_drained_cluster_keeps_its_logical_objects() -> None:
    """Brokers at 0: tenants and topics are unknown, not gone, and nothing is written to Pulsar."""
    world = await ready_world()

    def change(spec: Json) -> None:
        spec["broker"]["replicas"] = 0

    await world.change(Kind.CLUSTER, "east", change)
    pulsar = world.pulsar.snapshot()
    await world.run()
    assert world.pulsar.snapshot() == pulsar
    assert (await world.condition(Kind.TENANT, "shop"))[0] == "Unknown"


@pytest.mark.parametrize("late", ["east-bookie-0", "east-zookeeper-1"])
async def test_pods_are_looked_at_again_before_one_is_deleted(late: str) -> None:
    """A bookie, or a ZooKeeper server, that is not ready any more when the pass comes to the roll stops it."""
    world = await three_of_each()
    backstage = world.backstage
    assert isinstance(backstage, FakeBackstage)
    kube = backstage.kube
    await world.change(Kind.CLUSTER, "east", bookie_config)
    lists: list[PortCall] = []

    def goes_unready(call: PortCall) -> None:
        lists.extend([call] if (call.verb, call.kind) == ("list", "Pod") else [])
        pod = kube.live(PODS, NS, late)
        if len(lists) == 1 and pod is not None:
            conditions = [{**each, "status": "False"} for each in pod["status"]["conditions"]]
            kube.set_status(PODS, NS, late, {**pod["status"], "conditions": conditions})

    world.journal.after.append(goes_unready)
    for _ in range(4):  # the StatefulSet controller needs to see the new template between two passes
        lists.clear()
        await world.workloads.step()
        await world.controllers[Kind.CLUSTER].reconcile(Key(Kind.CLUSTER, NS, "east"))
    assert world.journal.pods_gone() == []
