"""The quickstart on fakes: order, blocker at each stage, nothing written once converged, hand changes repaired."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PDBS, SERVICE_ACCOUNTS, SERVICES, STATEFUL_SETS, Json, ResourceType
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.journal import ADMIN, BOOKIES, KUBERNETES, ZOOKEEPER


async def test_bring_up_goes_by_observed_readiness_and_says_what_it_waits_for() -> None:
    world = ClusterWorld.fakes()
    await world.apply(*quickstart())
    waited: list[str] = []

    async def look() -> None:
        found = (await world.status(Kind.CLUSTER, "east")).get("blocker")
        if found and found not in waited:
            waited.append(found)

    await world.run(each=look)
    assert await world.all_ready() == {}
    assert waited == [
        "0 of 1 ZooKeeper servers are ready",
        "0 of 1 bookies are ready",
        "0 of 1 brokers are ready",
        "0 of 1 proxies are ready",
    ]
    assert "blocker" not in await world.status(Kind.CLUSTER, "east")
    assert world.journal.of(KUBERNETES, "apply", kind="StatefulSet") == [
        "east-zookeeper",
        "east-bookie",
        "east-autorecovery",
        "east-broker",
        "east-proxy",
    ]


async def test_nothing_is_created_before_what_it_needs_is_ready() -> None:
    """The order of writes over all three ports."""
    world = await ready_world()
    order = [(c.port, c.verb, c.name) for c in world.journal.effects]

    def at(port: str, name: str) -> int:
        return next(n for n, (p, verb, found) in enumerate(order) if p == port and found == name and verb != "status")

    assert at(KUBERNETES, "east-zookeeper") < at(ZOOKEEPER, "/ledgers/INSTANCEID") < at(KUBERNETES, "east-bookie")
    assert at(ZOOKEEPER, "/ledgers/available/readonly") < at(ZOOKEEPER, "/ledgers/INSTANCEID")
    assert at(KUBERNETES, "east-instance-id") < at(ZOOKEEPER, "/ledgers/INSTANCEID")
    assert at(ZOOKEEPER, "/admin/clusters/east") < at(KUBERNETES, "east-broker") < at(KUBERNETES, "east-proxy")
    assert at(KUBERNETES, "east-broker") < at(ADMIN, "tenants/shop") < at(ADMIN, "namespaces/shop/orders")
    finalizer = next(n for n, (_, verb, _name) in enumerate(order) if verb == "finalizer")
    assert finalizer < at(KUBERNETES, "east-pulsar")


@pytest.mark.parametrize(
    ("stuck", "gate"),
    [
        (
            "east-zookeeper-*",
            ("MetadataReady", "WaitingForZooKeeper", "0 of 1 ZooKeeper servers are ready"),
        ),
        (
            "east-bookie-*",
            ("BrokersReady", "WaitingForBookies", "0 of 1 bookies are ready"),
        ),
        (
            "east-broker-*",
            ("ProxiesReady", "WaitingForBrokers", "0 of 1 brokers are ready"),
        ),
    ],
)
async def test_a_component_that_never_gets_ready_holds_what_comes_after_it(
    stuck: str, gate: tuple[str, str, str]
) -> None:
    world = ClusterWorld.fakes()
    world.workloads.troubles.append(Trouble(pod=stuck))
    await world.bring_up()
    type_, reason, message = gate
    assert await world.condition(Kind.CLUSTER, "east", type_) == ("False", reason, message)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "False"
    assert (await world.condition(Kind.CLUSTER, "east", "Progressing"))[0] == "True"
    held = {"east-zookeeper-*": "east-bookie", "east-bookie-*": "east-broker", "east-broker-*": "east-proxy"}[stuck]
    assert held not in await world.names(STATEFUL_SETS)
    world.workloads.troubles.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_a_converged_quickstart_is_only_read() -> None:
    world = await ready_world()
    before, calls = len(world.journal.attempts), len(world.journal.calls)
    await world.run()
    assert world.journal.attempts[before:] == []
    assert {call.port for call in world.journal.calls[calls:]} == {KUBERNETES, ZOOKEEPER, ADMIN, BOOKIES}


async def test_applying_the_same_again_and_a_new_operator_write_nothing() -> None:
    world = await ready_world()
    before = len(world.journal.attempts)
    world.restart()
    await world.apply(*quickstart())
    await world.run()
    assert [str(call) for call in world.journal.attempts[before:]] == []


def _set_replicas(obj: Json) -> None:
    obj["spec"]["replicas"] = 0


def _set_data(obj: Json) -> None:
    obj["data"]["overrides.conf"] = "by hand"


def _set_selector(obj: Json) -> None:
    obj["spec"]["selector"]["app.kubernetes.io/component"] = "other"


def _drop_labels(obj: Json) -> None:
    obj["metadata"]["labels"]["app.kubernetes.io/part-of"] = "other"


def _set_budget(obj: Json) -> None:
    obj["spec"]["maxUnavailable"] = 9


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        (STATEFUL_SETS, "east-proxy", _set_replicas),
        (CONFIG_MAPS, "east-broker", _set_data),
        (SERVICES, "east-proxy", _set_selector),
        (SERVICE_ACCOUNTS, "east-pulsar", _drop_labels),
        (PDBS, "east-bookie", _set_budget),
    ],
    ids=lambda value: getattr(value, "kind", None) or (value if isinstance(value, str) else value.__name__),
)
async def test_a_child_changed_by_hand_is_repaired_with_a_reason(
    kind: ResourceType, name: str, change: Callable[[Json], None], caplog: pytest.LogCaptureFixture
) -> None:
    world = await ready_world()
    name = await world.configuration(name) if kind == CONFIG_MAPS else name
    wanted = await world.get(kind, name)
    await world.backstage.edit(kind, world.namespace, name, change)
    mark, events = len(world.journal.effects), len(world.journal.events)
    with caplog.at_level(logging.DEBUG, "pulsar_operator"):
        await world.run()
    found = await world.get(kind, name)
    assert found.get("spec") == wanted.get("spec")
    assert found.get("data") == wanted.get("data")
    assert found["metadata"]["labels"] == wanted["metadata"]["labels"]
    assert [c.name for c in world.journal.since(mark) if c.verb == "apply"] == [name]
    assert any(f"Updated {kind.kind} {name}, because" in each.getMessage() for each in caplog.records)
    assert world.journal.events[events:] == [], "an internal write is no event"


@pytest.mark.parametrize("kind", [STATEFUL_SETS, SERVICES, CONFIG_MAPS, PDBS, SERVICE_ACCOUNTS], ids=lambda k: k.kind)
async def test_a_child_deleted_by_hand_comes_back(kind: ResourceType) -> None:
    world = await ready_world()
    wanted = await world.names(kind)
    for name in wanted:
        if not name.endswith("-instance-id"):
            await world.backstage.remove(kind, world.namespace, name)
    await world.run()
    assert await world.names(kind) == wanted
    assert await world.all_ready() == {}


async def test_standalone_is_one_pod_and_ready() -> None:
    manifests = quickstart()[:2]
    manifests[1]["spec"] = {"instanceRef": {"name": "demo"}, "mode": "Standalone", "standalone": {}}
    world = await converged(*manifests)
    assert await world.names(STATEFUL_SETS) == ["east-standalone"]
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


async def test_events_alone_are_enough() -> None:
    """Only objects that an event or their own request concerns are looked at; nothing is left undone."""
    world = ClusterWorld.fakes()
    await world.apply(*quickstart())
    await world.run_by_events()
    assert await world.all_ready() == {}
    before = len(world.journal.attempts)
    await world.run()
    assert [str(call) for call in world.journal.attempts[before:]] == []


async def test_the_loop_sees_trouble_in_words() -> None:
    """Each trouble of a pod is the reason of a condition, with the words of Kubernetes."""
    cases: list[tuple[Trouble, str, str]] = [
        (
            Trouble(pod="east-broker-*", waiting="ImagePullBackOff", message="manifest unknown"),
            "ImagePullFailed",
            'cannot pull image "pulsar-broker:4.0.8" (ImagePullBackOff): manifest unknown',
        ),
        (Trouble(pod="east-broker-*", waiting="CrashLoopBackOff", message="no space"), "CrashLooping", "no space"),
        (
            Trouble(pod="east-broker-*", unschedulable=True, message="0/1 nodes: Insufficient cpu"),
            "Unschedulable",
            "Insufficient cpu",
        ),
    ]
    for trouble, reason, words in cases:
        world = ClusterWorld.fakes()
        world.workloads.troubles.append(trouble)
        await world.bring_up()
        status, found, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
        assert (status, found) == ("False", reason)
        assert words in message
        assert await world.condition(Kind.CLUSTER, "east") == (status, found, message)
        world.workloads.troubles.clear()
        await world.run()
        assert await world.all_ready() == {}


def _add_env(obj: Json) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "BY_HAND", "value": "1"})


def _add_selector(obj: Json) -> None:
    obj["spec"]["selector"]["by"] = "hand"


def _add_setting(obj: Json) -> None:
    obj["data"]["more.conf"] = "by hand"


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        (STATEFUL_SETS, "east-broker", _add_env),
        (SERVICES, "east-broker", _add_selector),
        (CONFIG_MAPS, "east-broker", _add_setting),
    ],
)
async def test_what_somebody_adds_to_a_child_is_taken_away(
    kind: ResourceType, name: str, change: Callable[[Json], None]
) -> None:
    world = await ready_world()
    name = await world.configuration(name) if kind == CONFIG_MAPS else name
    wanted = await world.get(kind, name)
    await world.backstage.edit(kind, world.namespace, name, change)
    await world.run()
    found = await world.get(kind, name)
    assert found.get("spec") == wanted.get("spec")
    assert found.get("data") == wanted.get("data")
