"""A parent is renamed with what is in it: two objects of Kubernetes stand for one namespace of Pulsar for a while, and
what the one's children let go is declared by the other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from tests.support.logical.topic_sets import SET, SetWorld, count
from tests.support.logical.world import NS

X1 = "persistent://t/n/x-1"
FIVE: dict[str, Any] = count(5, deletionPolicy="Delete")


def topics(w: SetWorld) -> dict[str, int]:
    """The topics of Pulsar, with what tells one from another that was made again."""
    return {name: id(topic) for name, topic in w.pulsar.topics["a"].items()}


async def reconciled(w: SetWorld, *objects: tuple[Kind, str]) -> None:
    """Some passes over some objects, in their order."""
    for _ in range(8):
        for kind, name in objects:
            if w.get(kind, name) is not None:
                await w.reconcile(kind, name)


def a_set(w: SetWorld, name: str, namespace: str) -> tuple[Kind, str]:
    """A set of five."""
    w.topics(name, namespace=namespace, **FIVE)
    return SET, name


def a_topic(w: SetWorld, name: str, namespace: str) -> tuple[Kind, str]:
    """One of the five."""
    w.topic(name, namespace=namespace, name="x-1", deletionPolicy="Delete")
    return Kind.TOPIC, name


MAKE: dict[str, Callable[[SetWorld, str, str], tuple[Kind, str]]] = {"set": a_set, "topic": a_topic}


async def declared(old: str) -> tuple[SetWorld, tuple[Kind, str]]:
    """Something in namespace n that Pulsar has."""
    w = await SetWorld.made()
    first = MAKE[old](w, "old", "n")
    await w.run()
    assert X1 in w.pulsar.topics["a"]
    return w, first


@pytest.mark.parametrize("parent", ["namespace", "tenant"])
@pytest.mark.parametrize("new", MAKE)
@pytest.mark.parametrize("old", MAKE)
async def test_what_is_declared_under_a_renamed_parent_survives(old: str, new: str, parent: str) -> None:
    w, first = await declared(old)
    before = topics(w)
    if parent == "tenant":
        w.tenant("t2", name="t")
    w.namespace("n2", name="n", tenant="t2" if parent == "tenant" else "t")
    second = MAKE[new](w, "new", "n2")
    await w.run()
    w.delete(*first)
    await reconciled(w, first)
    assert w.get(*first) is None, "it is let go"
    assert topics(w)[X1] == before[X1], "the successor's topic was deleted, or deleted and made again"
    w.delete(Kind.NAMESPACE, "n")
    if parent == "tenant":
        w.delete(Kind.TENANT, "t")
    await w.run()
    assert topics(w)[X1] == before[X1]
    assert w.condition(*second)[0] == "True", "it has taken over"


async def test_a_namespace_under_a_renamed_tenant_survives() -> None:
    w = await SetWorld.made()
    w.namespace(deletionPolicy="Delete")
    await w.run()
    w.tenant("t2", name="t")
    w.namespace("n2", name="n", tenant="t2")
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await reconciled(w, (Kind.NAMESPACE, "n"))
    assert w.get(Kind.NAMESPACE, "n") is None
    assert "t/n" in w.pulsar.namespaces
    event = next(each for each in w.kube.events if each.reason == "HandedOver")
    assert f"PulsarNamespace {NS}/n2" in event.message


async def test_a_topic_that_left_a_set_survives_under_the_renamed_namespace() -> None:
    w, _ = await declared("set")
    before = topics(w)
    w.namespace("n2", name="n")
    a_topic(w, "new", "n2")
    await w.run()
    w.topics("old", **count(1, deletionPolicy="Delete"))
    await w.run()
    assert topics(w) == {name: before[name] for name in (X1, "persistent://t/n/x-0")}


@pytest.mark.parametrize("new", MAKE)
@pytest.mark.parametrize("old", MAKE)
async def test_in_doubt_it_is_taken(old: str, new: str) -> None:
    """The other's namespace is not there: nobody knows what it will be called in Pulsar."""
    w, first = await declared(old)
    before = topics(w)
    MAKE[new](w, "new", "coming")
    w.delete(*first)
    await w.run()
    assert w.get(*first) is None
    assert topics(w)[X1] == before[X1]


@pytest.mark.parametrize("new", MAKE)
@pytest.mark.parametrize("old", MAKE)
@pytest.mark.parametrize("elsewhere", ["namespace", "tenant", "gone"])
async def test_the_same_name_elsewhere_is_another_topic(old: str, new: str, elsewhere: str) -> None:
    """Also where the namespace is gone: its status still tells that the object was in another one."""
    w, first = await declared(old)
    if elsewhere == "tenant":
        w.tenant("t2")
        w.namespace("n2", name="n", tenant="t2")
    else:
        w.namespace("n2")
    second = MAKE[new](w, "new", "n2")
    await w.run()
    if elsewhere == "gone":
        assert w.status(*second)["pulsarName"].startswith(("t/n2", "persistent://t/n2/"))
        w.delete(Kind.NAMESPACE, "n2")
    w.delete(*first)
    await w.run()
    assert w.get(*first) is None
    assert X1 not in w.pulsar.topics["a"]


@pytest.mark.parametrize("old", MAKE)
async def test_another_instance_is_another_pulsar(old: str) -> None:
    w, first = await declared(old)
    w.put(Kind.INSTANCE, "other", {"configurationStore": {"external": {"servers": "zk2:2181"}}})
    w.put(Kind.TENANT, "t2", {"instanceRef": {"name": "other"}, "name": "t"})
    w.namespace("n2", name="n", tenant="t2")
    a_set(w, "new", "n2")
    w.delete(*first)
    await w.run()
    assert X1 not in w.pulsar.topics["a"]


async def test_every_object_is_asked_for_only_by_who_has_something_to_delete() -> None:
    w, first = await declared("set")
    w.pulsar.topics["a"][X1].producers = 1
    w.delete(*first)
    lists = []
    for _ in range(3):
        begin = len(w.kube.calls)
        await w.reconcile(*first)
        made = [c for c in w.kube.calls[begin:] if (c.verb, c.kind, c.namespace) == ("list", Kind.TOPIC.value, None)]
        lists.append(len(made))
    assert set(w.local()) == {"x-1"}
    assert lists == [1, 0, 0]
