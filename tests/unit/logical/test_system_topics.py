"""Topics that brokers keep for themselves are neither managed nor deleted, whatever admission has let through."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1.topic import SYSTEM_SUFFIX, SYSTEM_TOPICS
from pulsar_operator.domain.logical.pulsar_names import is_system_topic, system_topic_problem, topic_name_problem
from pulsar_operator.ports import CUSTOM
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, TTL, SetWorld
from tests.support.logical.world import NS, LogicalWorld

OWN = [*SYSTEM_TOPICS, f"orders-billing{SYSTEM_SUFFIX}", SYSTEM_SUFFIX]
USERS = ["__change_events2", "x__change_events", f"{SYSTEM_SUFFIX}-x", "__transaction_buffer_snapshot_", "__consumers"]


@pytest.mark.parametrize("name", OWN)
def test_names_of_system_topics(name: str) -> None:
    assert is_system_topic(name) and is_system_topic(f"{name}-partition-3")
    assert "system topic of Pulsar" in (topic_name_problem(name) or "")
    assert "system topic of Pulsar" in (system_topic_problem("t", "n", name) or "")


@pytest.mark.parametrize("name", USERS)
def test_names_of_others(name: str) -> None:
    assert not is_system_topic(name)
    assert topic_name_problem(name) is None and system_topic_problem("t", "n", name) is None
    assert "All topics of namespace pulsar/system are system topics" in (
        system_topic_problem("pulsar", "system", name) or ""
    )
    assert system_topic_problem("pulsar", "functions", name) is None


async def world(tenant: str = "t", namespace: str = "n") -> LogicalWorld:
    """A namespace that the operator has made."""
    w = LogicalWorld("a", "b")
    w.tenant(tenant)
    w.namespace(namespace, tenant=tenant)
    await w.run()
    assert w.condition(Kind.NAMESPACE, namespace)[0] == "True"
    return w


@pytest.mark.parametrize(
    ("tenant", "namespace", "name"), [("t", "n", each) for each in OWN] + [("pulsar", "system", "resource-usage")]
)
@pytest.mark.parametrize("persistent", [True, False])
async def test_a_declared_one_is_refused_and_stays_when_the_object_goes(
    tenant: str, namespace: str, name: str, persistent: bool
) -> None:
    w = await world(tenant, namespace)
    full = f"{'' if persistent else 'non-'}persistent://{tenant}/{namespace}/{name}"
    for cluster in ("a", "b"):
        w.pulsar.topics.setdefault(cluster, {})[full] = FakeTopic()
    spec: dict[str, Any] = {"name": name, "persistent": persistent, "deletionPolicy": "ForceDelete"}
    policies = {"policies": {"messageTTLSeconds": 3}} if persistent else {}
    with w.admin.recording() as writes:
        w.topic(namespace=namespace, **spec, **policies)
        await w.run()
        assert w.condition(Kind.TOPIC, "x")[:2] == ("False", "InvalidSpec")
        assert w.condition(Kind.TOPIC, "x", "Accepted")[:2] == ("False", "InvalidSpec")
        assert "system topic" in w.condition(Kind.TOPIC, "x")[2]
        assert await w.second_pass_writes() == ([], [])
        # As an operator before this rule has left it.
        w.kube.edit(CUSTOM[Kind.TOPIC], NS, "x", lambda o: o["metadata"].update(finalizers=[FINALIZER]))
        w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "x", {"pulsarName": full})
        w.delete(Kind.TOPIC, "x")
        await w.run()
    assert writes == [], "neither written nor deleted"
    assert w.get(Kind.TOPIC, "x") is None
    assert full in w.pulsar.topics["a"] and full in w.pulsar.topics["b"]


@pytest.mark.parametrize("partitions", [None, 2])
async def test_of_a_set_it_is_refused_and_the_others_are_made(partitions: int | None) -> None:
    w = await SetWorld.made()
    template = {**TTL} | ({"partitions": partitions} if partitions else {})
    full = "persistent://t/n/__change_events"
    w.pulsar.topics.setdefault("a", {})[full] = FakeTopic()
    w.topics("s", names=["x", "__change_events"], template=template, deletionPolicy="Delete")
    await w.work()
    assert w.condition(SET, "s")[0] == "False"
    assert w.counts() == {"desired": 2, "ready": 1, "refused": 1}
    (example,) = w.status(SET, "s")["examples"]
    assert (example["name"], example["reason"]) == ("__change_events", "InvalidSpec")
    assert w.policies("x") == {"messageTTL": 60} and w.policies("__change_events") == {}
    w.topics("s", names=["x"], template=template, deletionPolicy="Delete")
    await w.work()
    assert full in w.pulsar.topics["a"], "what left the set was never its own"
    assert w.condition(SET, "s")[0] == "True"
    w.delete(SET, "s")
    await w.work()
    assert full in w.pulsar.topics["a"] and w.get(SET, "s") is None


@pytest.mark.parametrize("selection", [{"names": ["x"]}, {"count": {"prefix": "x-", "number": 2}}])
async def test_of_a_set_in_pulsars_own_namespace_every_topic_is_refused(selection: dict[str, Any]) -> None:
    w = SetWorld()
    w.tenant("pulsar")
    w.namespace("system", tenant="pulsar")
    await w.run()
    for name in ("x", "x-0", "x-1"):
        w.pulsar.topics.setdefault("a", {})[f"persistent://pulsar/system/{name}"] = FakeTopic()
    w.topics("s", namespace="system", **selection, template=TTL, deletionPolicy="Delete")
    await w.work()
    assert w.condition(SET, "s")[0] == "False" and w.status(SET, "s")["ready"] == 0
    before = dict(w.pulsar.topics["a"])
    w.delete(SET, "s")
    await w.work()
    assert w.get(SET, "s") is None and dict(w.pulsar.topics["a"]) == before


@pytest.mark.parametrize("pattern", ["*", "__change_events", "__*", "*_ack"])
async def test_a_pattern_leaves_them_out(pattern: str) -> None:
    w = await SetWorld.made()
    for name in OWN:
        w.pulsar.topics.setdefault("a", {})[f"persistent://t/n/{name}"] = FakeTopic()
    w.pulsar.topics.setdefault("a", {})["persistent://t/n/__mine_ack"] = FakeTopic()
    w.topics("s", patterns=[pattern], template=TTL)
    await w.work()
    assert all(w.policies(name) == {} for name in OWN)
    assert w.counts().get("desired", 0) == (0 if pattern == "__change_events" else 1)
