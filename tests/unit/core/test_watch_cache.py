"""What the watches delivered answers as the API server would."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.controllers.core import index as refindex
from pulsar_operator.controllers.core import watch_cache
from pulsar_operator.controllers.core.index import key_of
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.core.world import World
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.kube import FakeKube

NAMES = ("a", "b")
SPACES = ("one", "two")


def topic(name: str, space: str, pulsar: str | None = None, parent: str = "orders") -> Json:
    spec: Json = {"namespaceRef": {"name": parent, "namespace": "one"}} | ({"name": pulsar} if pulsar else {})
    return {
        "apiVersion": API_VERSION,
        "kind": "PulsarTopic",
        "metadata": {"name": name, "namespace": space},
        "spec": spec,
    }


def namespace(allowed: list[str]) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "PulsarNamespace",
        "metadata": {"name": "orders", "namespace": "one"},
        "spec": {"tenantRef": {"name": "team"}, "allowedKubernetesNamespaces": allowed},
    }


def direct(kube: FakeKube) -> DirectReader:
    return DirectReader(SimpleNamespace(kube=kube))  # type: ignore[arg-type]


changes = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(SPACES),
        st.sampled_from([None, "x", "y"]),
        st.sampled_from(["orders", "other"]),
        st.booleans(),
    ),
    max_size=15,
)


@given(changes, st.sampled_from([[], ["two"], ["*"]]))
@settings(max_examples=60, deadline=None)
async def test_same_answers_as_the_api_server(steps: Any, allowed: list[str]) -> None:
    kube = FakeKube()
    cache = WatchCache(direct(FakeKube()))  # nothing to fall back on
    parent = kube.put(namespace(allowed))
    cache.update(Kind.NAMESPACE, parent)
    for name, space, pulsar, ref, gone in steps:
        if gone:
            found = await kube.get(CUSTOM[Kind.TOPIC], space, name)
            if found is not None:
                kube.remove(CUSTOM[Kind.TOPIC], space, name)
                cache.remove(key_of(Kind.TOPIC, found))
        else:
            cache.update(Kind.TOPIC, kube.put(topic(name, space, pulsar, ref)))
    for kind in (Kind.TOPIC, Kind.NAMESPACE):
        cache.synced(kind)
    real = direct(kube)
    for obj in await kube.list(CUSTOM[Kind.TOPIC], None):
        assert await cache.duplicates_of(obj) == await real.duplicates_of(obj)
    assert await cache.dependents(parent, Kind.TOPIC) == await real.dependents(parent, Kind.TOPIC)
    got = await cache.get(Kind.NAMESPACE, "one", "orders")
    assert got is not None and got["spec"] == parent["spec"]
    assert await cache.get(Kind.NAMESPACE, "two", "orders") is None
    assert [o["metadata"]["uid"] for o in await cache.every(Kind.NAMESPACE)] == [parent["metadata"]["uid"]]


async def test_kinds_not_listed_yet_are_asked_of_the_api_server() -> None:
    kube = FakeKube()
    stored = kube.put(namespace([]))
    kube.put(topic("a", "one"))
    cache = WatchCache(direct(kube))
    assert await cache.get(Kind.NAMESPACE, "one", "orders") is not None
    assert await cache.dependents(stored, Kind.TOPIC) == 1
    cache.synced(Kind.NAMESPACE)
    assert await cache.get(Kind.NAMESPACE, "one", "orders") is None


@pytest.mark.parametrize(("later", "kept"), [("9", "10"), ("11", "11"), ("", "")])
async def test_an_older_state_does_not_replace_a_newer_one(later: str, kept: str) -> None:
    cache = WatchCache(direct(FakeKube()))
    cache.synced(Kind.NAMESPACE)
    world = World(cache)
    for version in ("10", later):
        obj = namespace([])
        obj["metadata"] |= {"uid": "u", "resourceVersion": version}
        world.learn(Kind.NAMESPACE, obj)
    found = await cache.get(Kind.NAMESPACE, "one", "orders")
    assert found is not None and found["metadata"]["resourceVersion"] == kept


async def test_ten_thousand_children_are_counted_without_going_through_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def allows_references(*args: Any, **options: Any) -> bool:
        nonlocal looked
        looked += 1
        return refindex.allows_references(*args, **options)

    monkeypatch.setattr(watch_cache, "allows_references", allows_references)
    cache = WatchCache(direct(FakeKube()))
    for n in range(10_000):
        cache.update(Kind.TOPIC, topic(f"t{n}", SPACES[n % 2]))
    cache.synced(Kind.TOPIC)
    parent = {**namespace(["two"]), "kind": "PulsarNamespace"}
    assert await cache.dependents(parent, Kind.TOPIC) == 10_000
    cache.remove(key_of(Kind.TOPIC, topic("t0", "one")))
    cache.update(Kind.TOPIC, topic("t2", "one", parent="other"))
    assert await cache.dependents(parent, Kind.TOPIC) == 9_998
    assert looked == 2 * len(SPACES)


class Counting(DirectReader):
    """Counts what the API server is asked."""

    def __init__(self, kube: FakeKube) -> None:
        super().__init__(SimpleNamespace(kube=kube))  # type: ignore[arg-type]
        self.lists = 0

    async def dependents(self, target: Json, child: Kind) -> int:
        self.lists += 1
        return await super().dependents(target, child)


async def test_a_question_waits_for_the_first_list_instead_of_making_another() -> None:
    """Every namespace that counts its topics at a start would read all topics there are."""
    asked = Counting(FakeKube())
    cache = WatchCache(asked)
    cache.expect([(Kind.NAMESPACE, None), (Kind.TOPIC, None)])
    questions = [asyncio.create_task(cache.dependents(namespace([]), Kind.TOPIC)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(question.done() for question in questions)
    cache.update(Kind.TOPIC, topic("a", "one"))
    cache.synced(Kind.TOPIC)
    assert await asyncio.gather(*questions) == [1, 1, 1]
    assert asked.lists == 0


async def test_a_first_list_that_does_not_come_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_cache, "FIRST_LIST_SECONDS", 0.01)
    asked = Counting(FakeKube())
    cache = WatchCache(asked)
    cache.expect([(Kind.TOPIC, None)])
    assert [await cache.dependents(namespace([]), Kind.TOPIC) for _ in range(2)] == [0, 0]
    assert asked.lists == 2
