"""What tests/fakes/kube.py offers beside the port (the port itself is under the contract tests)."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, STATEFUL_SETS, ConflictError, Json, UnavailableError
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.core.objects import config_map, tenant

TENANTS = CUSTOM[Kind.TENANT]


async def test_writes_are_recorded_in_order_and_changes_apart() -> None:
    kube = FakeKube()
    await kube.apply(config_map("ns", "a", {"k": "v"}))
    await kube.apply(config_map("ns", "a", {"k": "v"}))
    stored = await kube.create(config_map("ns", "b", {}))
    await kube.get(CONFIG_MAPS, "ns", "b")
    await kube.delete(CONFIG_MAPS, "ns", "b", uid=stored["metadata"]["uid"])
    assert kube.writes == [
        ("apply", "ConfigMap", "a"),
        ("apply", "ConfigMap", "a"),
        ("create", "ConfigMap", "b"),
        ("delete", "ConfigMap", "b"),
    ]
    assert kube.changes == [("apply", "ConfigMap", "a"), ("create", "ConfigMap", "b"), ("delete", "ConfigMap", "b")]
    assert [call.verb for call in kube.calls] == ["apply", "apply", "create", "get", "delete"]


async def test_faults_before_have_no_effect_and_after_have_one() -> None:
    kube = FakeKube()

    def fail(call: Call) -> None:
        if call.is_write:
            raise UnavailableError("cut")

    kube.before.append(fail)
    with pytest.raises(UnavailableError):
        await kube.apply(config_map("ns", "a", {}))
    assert kube.all() == [] and kube.writes == []
    kube.before.clear()
    kube.after.append(fail)
    with pytest.raises(UnavailableError):
        await kube.apply(config_map("ns", "a", {}))
    assert len(kube.all()) == 1 and kube.writes == [("apply", "ConfigMap", "a")]


async def test_a_failed_call_of_a_read_hook_can_be_awaited() -> None:
    kube = FakeKube()
    seen: list[str] = []

    async def note(call: Call) -> None:
        seen.append(call.verb)

    kube.before.append(note)
    await kube.list(CONFIG_MAPS, None)
    assert seen == ["list"]


async def test_watchers_see_every_change_once() -> None:
    kube = FakeKube()
    seen: list[tuple[str, str]] = []
    kube.subscribe(lambda change, obj: seen.append((change, obj["metadata"]["name"])))
    kube.put(tenant("ns", finalizers=[FINALIZER]))
    kube.put(tenant("ns", finalizers=[FINALIZER]))
    kube.set_status(TENANTS, "ns", "t", {"dependents": 1})
    kube.remove(TENANTS, "ns", "t")
    kube.edit(TENANTS, "ns", "t", lambda obj: obj["metadata"].pop("finalizers"))
    assert seen == [("ADDED", "t"), ("MODIFIED", "t"), ("MODIFIED", "t"), ("DELETED", "t")]


async def test_garbage_goes_with_its_last_owner() -> None:
    kube = FakeKube()
    owner = kube.put(tenant("ns"))
    reference = {"apiVersion": "v1", "kind": "x", "name": "t", "uid": owner["metadata"]["uid"]}
    child = await kube.apply(config_map("ns", "child", {}, ownerReferences=[reference]))
    grandchild = {**reference, "uid": child["metadata"]["uid"]}
    await kube.apply(config_map("ns", "grandchild", {}, ownerReferences=[grandchild]))
    await kube.apply(config_map("ns", "free", {}))
    assert kube.collect_garbage() == []
    kube.remove(TENANTS, "ns", "t")
    assert kube.collect_garbage() == [("ConfigMap", "child"), ("ConfigMap", "grandchild")]
    assert [o["metadata"]["name"] for o in kube.all()] == ["free"]


def spoil(value: Any) -> None:
    """Change everything that can be changed in an object."""
    inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    for each in inner:
        spoil(each)
    if isinstance(value, dict):
        value.update(dict.fromkeys(value, "spoiled"))
    elif isinstance(value, list):
        value[:] = ["spoiled"] * len(value)


STATUS = {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": "t"}]}


def template_of(name: str) -> Json:
    """A StatefulSet with lists that merge and lists that do not."""
    container = {"name": "c", "image": "i", "args": ["a"], "env": [{"name": "E", "value": "1"}]}
    spec = {"replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}
    meta = {"name": name, "namespace": "ns", "labels": {"l": "1"}, "finalizers": [FINALIZER]}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


async def written(kube: FakeKube) -> AsyncIterator[tuple[str, Json | None, Json | None]]:
    """Every way into the store, one after another: its name, what was given, what came back."""
    given = template_of("a")
    yield "apply", given, await kube.apply(given)
    given = {**template_of("a"), "metadata": {**template_of("a")["metadata"], "annotations": {"x": "1"}}}
    yield "apply again", given, await kube.apply(given, manager="other")
    live = await kube.get(STATEFUL_SETS, "ns", "a")
    assert live is not None
    given = {key: copy.deepcopy(live[key]) for key in ("apiVersion", "kind", "metadata")} | {"status": {**STATUS}}
    given = copy.deepcopy(given)
    yield "apply_status", given, await kube.apply_status(given)
    given = template_of("b")
    yield "create", given, await kube.create(given)
    given = template_of("c")
    yield "put", given, kube.put(given)
    given = template_of("c") | {"spec": {"replicas": 2, "list": [{"x": ["y"]}]}}
    yield "put again", given, kube.put(given)
    held: list[Json] = []
    back = kube.edit(STATEFUL_SETS, "ns", "c", lambda obj: (held.append(obj), obj["spec"].update(new=[{"z": 1}]))[0])
    yield "edit", held[0], back
    given = copy.deepcopy(STATUS)
    yield "set_status", given, kube.set_status(STATEFUL_SETS, "ns", "c", given)
    live = await kube.get(STATEFUL_SETS, "ns", "a")
    assert live is not None
    await kube.remove_entries(live, ["/spec/template/spec/containers/0/args/0"])
    yield "remove_entries", live, None
    live = await kube.get(STATEFUL_SETS, "ns", "b")
    assert live is not None
    await kube.drop_finalizer(live, FINALIZER)
    yield "drop_finalizer", live, None
    await kube.delete(STATEFUL_SETS, "ns", "a", uid=kube.all(STATEFUL_SETS)[0]["metadata"]["uid"])
    yield "delete", None, None


async def read(kube: FakeKube) -> list[Json | None]:
    """Every way out of it but the list, whose copies all share who look (test_world_copies.py)."""
    found = [await kube.get(STATEFUL_SETS, "ns", name) for name in "abc"]
    found += [kube.live(STATEFUL_SETS, "ns", name) for name in "abc"]
    return [*found, *kube.all(), *kube.all(STATEFUL_SETS)]


async def test_what_is_given_and_what_is_returned_is_the_callers_own() -> None:
    kube = FakeKube()
    told: list[Json] = []
    kube.subscribe(lambda _, obj: told.append(obj))
    async for way, given, back in written(kube):
        before = copy.deepcopy(kube.all())
        for each in (given, back, *told, *await read(kube)):
            spoil(each)
        assert kube.all() == before, way
        assert "spoiled" not in str(before), way


async def test_a_copy_of_the_store_goes_its_own_way() -> None:
    kube = FakeKube()
    for way in ("apply", "edit", "set_status", "put", "remove", "drop_finalizer", "nothing"):
        async for written_by, _, _ in written(kube):
            before, other = copy.deepcopy(kube.all()), copy.deepcopy(kube)
            for obj in other.all(STATEFUL_SETS):
                name = obj["metadata"]["name"]
                if way == "apply":
                    await other.apply({**template_of(name), "spec": {"replicas": 7}}, manager="third")
                elif way == "edit":
                    other.edit(STATEFUL_SETS, "ns", name, spoil_spec)
                elif way == "set_status":
                    other.set_status(STATEFUL_SETS, "ns", name, {"conditions": []})
                elif way == "put":
                    other.put({**template_of(name), "spec": {"replicas": 8}})
                elif way == "remove":
                    other.remove(STATEFUL_SETS, "ns", name)
                elif way == "drop_finalizer":
                    await other.drop_finalizer(obj, FINALIZER)
            assert kube.all() == before, (way, written_by)
            assert way in ("nothing", "remove", "drop_finalizer") or other.all() != before, (way, written_by)
        kube = FakeKube()


async def test_a_copy_of_the_store_has_owners_of_its_own() -> None:
    kube = FakeKube()
    await kube.apply(config_map("ns", "a", {"mine": "1", "shared": "1"}))
    other = copy.deepcopy(kube)
    await other.apply(config_map("ns", "a", {"mine": "2"}), manager="thief")
    await other.apply(config_map("ns", "a", {}))
    assert other.all()[0]["data"] == {"mine": "2"}
    await kube.apply(config_map("ns", "a", {}))
    assert "data" not in kube.all()[0], "in the first world nobody took a field over"


def spoil_spec(obj: Json) -> None:
    spoil(obj["spec"])


async def test_a_recreated_object_has_another_uid() -> None:
    kube = FakeKube()
    old = kube.put(tenant("ns"))["metadata"]["uid"]
    kube.remove(TENANTS, "ns", "t")
    kube.put(tenant("ns"))
    with pytest.raises(ConflictError):
        await kube.delete(TENANTS, "ns", "t", uid=old)
