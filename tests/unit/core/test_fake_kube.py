"""What tests/fakes/kube.py offers beside the port (the port itself is under the contract tests)."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, ConflictError, UnavailableError
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


async def test_returned_objects_are_copies() -> None:
    kube = FakeKube()
    stored = await kube.apply(config_map("ns", "a", {"k": "v"}))
    stored["data"]["k"] = "changed"
    assert (kube.live(CONFIG_MAPS, "ns", "a") or {})["data"] == {"k": "v"}


async def test_a_recreated_object_has_another_uid() -> None:
    kube = FakeKube()
    old = kube.put(tenant("ns"))["metadata"]["uid"]
    kube.remove(TENANTS, "ns", "t")
    kube.put(tenant("ns"))
    with pytest.raises(ConflictError):
        await kube.delete(TENANTS, "ns", "t", uid=old)
