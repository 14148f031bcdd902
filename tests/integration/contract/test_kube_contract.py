"""ports.KubePort: the same expectations of the fake and of a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.adapters.clock import SystemClock
from pulsar_operator.adapters.kube import KubeAdapter
from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import KubeClient, load_configuration
from pulsar_operator.api.constants import FINALIZER, FINALIZER_MANAGER, Kind
from pulsar_operator.api.v1alpha1.base import UNOBSERVED
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    ConflictError,
    NotFoundError,
    RefusedError,
)
from tests.support.contracts.kube import Bench, bench
from tests.support.core.objects import config_map, tenant
from tests.support.core.recorder import CountingMetrics

__all__ = ["bench"]

TENANTS = CUSTOM[Kind.TENANT]
NEW = {"observedGeneration": UNOBSERVED}
"""Status of a new object."""


async def test_missing_object_is_none(bench: Bench) -> None:
    assert await bench.kube.get(TENANTS, bench.namespace, "nobody") is None
    assert await bench.kube.get(CONFIG_MAPS, bench.namespace, "nobody") is None
    assert await bench.kube.get(CONFIG_MAPS, "no-such-namespace", "nobody") is None


async def test_a_namespace_tells_that_it_is_being_deleted(bench: Bench) -> None:
    """It is in no namespace itself; what is in it has to go first."""
    found = await bench.kube.get(NAMESPACES, "", bench.namespace)
    assert found is not None and "deletionTimestamp" not in found["metadata"]
    bench.end_namespace()
    found = await bench.kube.get(NAMESPACES, "", bench.namespace)
    assert found is not None and found["metadata"]["deletionTimestamp"]
    assert await bench.kube.get(NAMESPACES, "", "no-such-namespace") is None


async def test_apply_creates_and_is_idempotent(bench: Bench) -> None:
    first = await bench.kube.apply(config_map(bench.namespace, "a", {"k": "v"}, labels={"l": "1"}))
    again = await bench.kube.apply(config_map(bench.namespace, "a", {"k": "v"}, labels={"l": "1"}))
    assert first["metadata"]["uid"] and first["data"] == {"k": "v"} and first["metadata"]["labels"] == {"l": "1"}
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    stored = await bench.kube.get(CONFIG_MAPS, bench.namespace, "a")
    assert stored is not None and stored["metadata"]["uid"] == first["metadata"]["uid"]


async def test_apply_removes_what_is_no_longer_applied(bench: Bench) -> None:
    await bench.kube.apply(config_map(bench.namespace, "a", {"k": "v", "gone": "x"}, labels={"l": "1", "m": "2"}))
    stored = await bench.kube.apply(config_map(bench.namespace, "a", {"k": "w"}, labels={"l": "1"}))
    assert stored["data"] == {"k": "w"} and stored["metadata"]["labels"] == {"l": "1"}


async def test_apply_leaves_other_managers_fields(bench: Bench) -> None:
    await bench.kube.apply(config_map(bench.namespace, "a", {"theirs": "1", "both": "1"}), manager="other")
    await bench.kube.apply(config_map(bench.namespace, "a", {"ours": "1", "both": "1"}))
    stored = await bench.kube.apply(config_map(bench.namespace, "a", {}))
    assert stored["data"] == {"theirs": "1", "both": "1"}


async def test_apply_by_force_takes_a_field_over(bench: Bench) -> None:
    await bench.kube.apply(config_map(bench.namespace, "a", {"k": "theirs"}), manager="other")
    assert (await bench.kube.apply(config_map(bench.namespace, "a", {"k": "ours"})))["data"] == {"k": "ours"}
    stored = await bench.kube.apply(config_map(bench.namespace, "a", {}), manager="other")
    assert stored["data"] == {"k": "ours"}


async def test_generation_counts_spec_only(bench: Bench) -> None:
    manifest = tenant(bench.namespace, annotations={"a": "1"})
    stored = await bench.kube.apply(manifest)
    assert stored["metadata"]["generation"] == 1
    manifest["metadata"]["annotations"] = {"a": "2"}
    stored = await bench.kube.apply(manifest)
    assert stored["metadata"]["generation"] == 1
    manifest["spec"]["adminRoles"] = ["me"]
    stored = await bench.kube.apply(manifest)
    assert stored["metadata"]["generation"] == 2


async def test_status_is_apart_from_spec(bench: Bench) -> None:
    manifest = tenant(bench.namespace)
    manifest["status"] = {"pulsarName": "ignored"}
    stored = await bench.kube.apply(manifest)
    assert (stored.get("status") or NEW) == NEW
    uid = stored["metadata"]["uid"]
    await bench.kube.apply_status(_status(stored, uid, {"pulsarName": "t", "dependents": 3}))
    stored = await bench.kube.apply_status(_status(stored, uid, {"dependents": 4}))
    assert stored["status"] == {**NEW, "dependents": 4}
    assert stored["metadata"]["generation"] == 1 and stored["spec"]["instanceRef"]["name"] == "i"
    before = stored["metadata"]["resourceVersion"]
    stored = await bench.kube.apply_status(_status(stored, uid, {"dependents": 4}))
    assert stored["metadata"]["resourceVersion"] == before
    stored = await bench.kube.apply(tenant(bench.namespace, labels={"l": "1"}))
    assert stored["status"] == {**NEW, "dependents": 4}


async def test_conditions_merge_by_type_and_are_replaced_whole(bench: Bench) -> None:
    stored = await bench.kube.apply(tenant(bench.namespace))
    uid = stored["metadata"]["uid"]
    await bench.kube.apply_status(
        _status(stored, uid, {"conditions": [_condition("Ready", "False"), _condition("Accepted", "True")]})
    )
    stored = await bench.kube.apply_status(_status(stored, uid, {"conditions": [_condition("Ready", "True")]}))
    assert [(c["type"], c["status"]) for c in stored["status"]["conditions"]] == [("Ready", "True")]


async def test_status_of_a_missing_or_another_object(bench: Bench) -> None:
    stored = await bench.kube.apply(tenant(bench.namespace))
    with pytest.raises(ConflictError):
        await bench.kube.apply_status(_status(stored, "5d3f0c39-9a3c-4d7a-8d6e-000000000000", {"dependents": 1}))
    bench.remove(TENANTS, "t")
    with pytest.raises((NotFoundError, ConflictError)):
        await bench.kube.apply_status(_status(stored, stored["metadata"]["uid"], {"dependents": 1}))
    assert await bench.kube.get(TENANTS, bench.namespace, "t") is None


async def test_status_of_an_object_that_changed_since_it_was_read(bench: Bench) -> None:
    """The version given is the one that was read; labels or the spec may have changed meanwhile."""
    read = await bench.kube.apply(tenant(bench.namespace))
    uid, version = read["metadata"]["uid"], read["metadata"]["resourceVersion"]
    await bench.kube.apply(tenant(bench.namespace, labels={"l": "1"}))
    manifest = _status(read, uid, {"dependents": 3})
    manifest["metadata"]["resourceVersion"] = version
    stored = await bench.kube.apply_status(manifest)
    assert stored["status"] == NEW | {"dependents": 3} and stored["metadata"]["labels"] == {"l": "1"}


async def test_apply_with_uid_never_makes_a_new_object(bench: Bench) -> None:
    stored = await bench.kube.apply(tenant(bench.namespace))
    bench.remove(TENANTS, "t")
    with pytest.raises(ConflictError):
        await bench.kube.apply(tenant(bench.namespace, uid=stored["metadata"]["uid"], finalizers=[]))
    assert await bench.kube.get(TENANTS, bench.namespace, "t") is None
    other = await bench.kube.apply(tenant(bench.namespace))
    with pytest.raises(ConflictError):
        await bench.kube.apply(tenant(bench.namespace, uid=stored["metadata"]["uid"]))
    assert other["metadata"]["uid"] != stored["metadata"]["uid"]


async def test_apply_at_a_version_changes_what_was_read_and_nothing_newer(bench: Bench) -> None:
    read = await bench.kube.apply(tenant(bench.namespace))
    at = {key: read["metadata"][key] for key in ("uid", "resourceVersion")}
    manifest = tenant(bench.namespace, labels={"l": "1"})
    manifest["metadata"] |= at
    first = await bench.kube.apply(manifest)
    assert first["metadata"]["labels"] == {"l": "1"}
    manifest["metadata"]["labels"] = {"l": "2"}
    with pytest.raises(ConflictError):
        await bench.kube.apply(manifest)
    found = await bench.kube.get(TENANTS, bench.namespace, "t")
    assert found is not None and found["metadata"]["labels"] == {"l": "1"}


async def test_finalizers_have_their_own_manager(bench: Bench) -> None:
    stored = await bench.kube.apply(tenant(bench.namespace, finalizers=["example.com/theirs"]), manager="other")
    uid = stored["metadata"]["uid"]
    guard = {**_head(stored), "metadata": {"namespace": bench.namespace, "name": "t", "uid": uid}}
    guard["metadata"]["finalizers"] = [FINALIZER]
    stored = await bench.kube.apply(guard, manager=FINALIZER_MANAGER)
    assert sorted(stored["metadata"]["finalizers"]) == ["example.com/theirs", FINALIZER]
    assert stored["spec"]["instanceRef"]["name"] == "i" and stored["metadata"]["generation"] == 1
    guard["metadata"]["finalizers"] = []
    stored = await bench.kube.apply(guard, manager=FINALIZER_MANAGER)
    assert stored["metadata"]["finalizers"] == ["example.com/theirs"]


async def test_finalizer_holds_a_deleted_object(bench: Bench) -> None:
    stored = await bench.kube.apply(tenant(bench.namespace), manager="user")
    uid = stored["metadata"]["uid"]
    guard = {"namespace": bench.namespace, "name": "t", "uid": uid, "finalizers": [FINALIZER]}
    await bench.kube.apply({**_head(stored), "metadata": guard}, manager=FINALIZER_MANAGER)
    await bench.kube.delete(TENANTS, bench.namespace, "t", uid=uid)
    held = await bench.kube.get(TENANTS, bench.namespace, "t")
    assert held is not None and "deletionTimestamp" in held["metadata"] and held["metadata"]["generation"] == 2
    await bench.kube.delete(TENANTS, bench.namespace, "t", uid=uid)
    last = await bench.kube.apply(
        {**_head(held), "metadata": {"namespace": bench.namespace, "name": "t", "uid": uid, "finalizers": []}},
        manager=FINALIZER_MANAGER,
    )
    assert last["metadata"]["uid"] == uid
    assert await bench.kube.get(TENANTS, bench.namespace, "t") is None


async def test_entries_are_removed_whoever_owns_them(bench: Bench) -> None:
    meta = {"namespace": bench.namespace, "name": "c"}
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    ours = await bench.kube.apply({**head, "metadata": meta, "data": {"a": "1"}})
    theirs = await bench.kube.apply({**head, "metadata": meta, "data": {"b": "2", "c": "3"}}, manager="other")
    with pytest.raises(ConflictError):
        await bench.kube.remove_entries(ours, ["/data/b"])
    await bench.kube.remove_entries(theirs, ["/data/b", "/data/c"])
    left = await bench.kube.get(CONFIG_MAPS, bench.namespace, "c")
    assert left is not None and left["data"] == {"a": "1"}


async def test_entries_of_the_status_are_removed_whoever_owns_them(bench: Bench) -> None:
    old = await bench.kube.apply(tenant(bench.namespace))
    status = {"pulsarName": "t", "conditions": [_condition("Ready", "True"), _condition("Odd", "True")]}
    stored = await bench.kube.apply_status(_status(old, old["metadata"]["uid"], status))
    with pytest.raises(ConflictError):
        await bench.kube.remove_entries(old, ["/status/pulsarName"])
    with pytest.raises(ValueError, match="status"):
        await bench.kube.remove_entries(stored, ["/status/pulsarName", "/spec/instanceRef"])
    await bench.kube.remove_entries(stored, ["/status/conditions/1", "/status/pulsarName"])
    left = await bench.kube.get(TENANTS, bench.namespace, "t")
    assert left is not None and "pulsarName" not in left["status"] and left["spec"] == stored["spec"]
    assert [each["type"] for each in left["status"]["conditions"]] == ["Ready"]
    assert left["metadata"]["generation"] == stored["metadata"]["generation"]


async def test_drop_finalizer_whoever_owns_it(bench: Bench) -> None:
    old = await bench.kube.apply(tenant(bench.namespace, finalizers=["example.com/theirs", FINALIZER]), manager="user")
    stored = await bench.kube.apply(tenant(bench.namespace, labels={"l": "1"}))
    with pytest.raises(ConflictError):
        await bench.kube.drop_finalizer(old, FINALIZER)
    await bench.kube.drop_finalizer(stored, FINALIZER)
    left = await bench.kube.get(TENANTS, bench.namespace, "t")
    assert left is not None and left["metadata"]["finalizers"] == ["example.com/theirs"]
    bench.remove(TENANTS, "t")
    held = await bench.kube.get(TENANTS, bench.namespace, "t")
    assert held is not None
    await bench.kube.drop_finalizer(held, "example.com/theirs")
    assert await bench.kube.get(TENANTS, bench.namespace, "t") is None
    await bench.kube.drop_finalizer(held, "example.com/theirs")


async def test_delete_only_the_very_object(bench: Bench) -> None:
    stored = await bench.kube.apply(config_map(bench.namespace, "a", {"k": "v"}))
    with pytest.raises(ConflictError):
        await bench.kube.delete(CONFIG_MAPS, bench.namespace, "a", uid="5d3f0c39-9a3c-4d7a-8d6e-000000000000")
    await bench.kube.delete(CONFIG_MAPS, bench.namespace, "a", uid=stored["metadata"]["uid"])
    await bench.kube.delete(CONFIG_MAPS, bench.namespace, "a", uid=stored["metadata"]["uid"])
    assert await bench.kube.get(CONFIG_MAPS, bench.namespace, "a") is None


async def test_create_refuses_a_second(bench: Bench) -> None:
    stored = await bench.kube.create(config_map(bench.namespace, "a", {"k": "v"}))
    assert stored["metadata"]["uid"]
    with pytest.raises(ConflictError):
        await bench.kube.create(config_map(bench.namespace, "a", {"k": "w"}))
    kept = await bench.kube.get(CONFIG_MAPS, bench.namespace, "a")
    assert kept is not None and kept["data"] == {"k": "v"}


async def test_namespace_that_does_not_exist(bench: Bench) -> None:
    with pytest.raises(NotFoundError):
        await bench.kube.apply(config_map("no-such-namespace", "a", {}))
    with pytest.raises(NotFoundError):
        await bench.kube.create(config_map("no-such-namespace", "a", {}))


async def test_list_is_complete_and_typed(bench: Bench) -> None:
    for n in range(5):
        await bench.kube.apply(config_map(bench.namespace, f"m{n}", {}, labels={"l": str(n % 2), "set": "s"}))
    found = await bench.kube.list(CONFIG_MAPS, bench.namespace, selector="set=s")
    assert [o["metadata"]["name"] for o in found] == [f"m{n}" for n in range(5)]
    assert {(o["apiVersion"], o["kind"]) for o in found} == {("v1", "ConfigMap")}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("l=1", "b"),
        ("l==1", "b"),
        ("l!=1,set", "ac"),
        ("l in (0,1)", "ab"),
        ("l notin (0, 1),set=s", "c"),
        ("!l,set", "c"),
        ("set=s,l=0", "a"),
    ],
)
async def test_label_selectors(bench: Bench, selector: str, names: str) -> None:
    for name, labels in (("a", {"l": "0"}), ("b", {"l": "1"}), ("c", {})):
        await bench.kube.apply(config_map(bench.namespace, name, {}, labels={"set": "s", **labels}))
    found = await bench.kube.list(CONFIG_MAPS, bench.namespace, selector=selector)
    assert "".join(o["metadata"]["name"] for o in found) == names


async def test_list_of_every_namespace(bench: Bench) -> None:
    await bench.kube.apply(tenant(bench.namespace))
    found = await bench.kube.list(TENANTS, None)
    assert (bench.namespace, "t") in {(o["metadata"]["namespace"], o["metadata"]["name"]) for o in found}
    assert {o["kind"] for o in found} == {"PulsarTenant"}


async def test_other_kinds(bench: Bench) -> None:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"namespace": bench.namespace, "name": "sa"},
        "automountServiceAccountToken": False,
    }
    await bench.kube.apply(account)
    found = await bench.kube.get(SERVICE_ACCOUNTS, bench.namespace, "sa")
    assert found is not None and found["automountServiceAccountToken"] is False
    stateful = await bench.kube.apply(_stateful_set(bench.namespace))
    assert stateful["metadata"]["generation"] == 1
    changed = _stateful_set(bench.namespace)
    changed["spec"]["replicas"] = 2
    assert (await bench.kube.apply(changed))["metadata"]["generation"] == 2
    assert [o["metadata"]["name"] for o in await bench.kube.list(STATEFUL_SETS, bench.namespace)] == ["s"]


async def test_event_never_raises(bench: Bench) -> None:
    stored = await bench.kube.apply(tenant(bench.namespace))
    await bench.kube.event(stored, kind="Warning", reason="Test", message="x" * 5000)


async def test_real_server_refuses_with_its_own_words(apiserver: Any) -> None:
    client = KubeClient(await load_configuration(apiserver.kubeconfig))
    recorder = EventRecorder(client, CountingMetrics(), SystemClock(), reporter="test")
    kube = KubeAdapter(client, CountingMetrics(), recorder)
    try:
        wrong = tenant(apiserver.new_namespace())
        del wrong["spec"]["instanceRef"]
        with pytest.raises(RefusedError, match="instanceRef") as refused:
            await kube.apply(wrong)
        assert refused.value.status == 422
    finally:
        await client.close()


def _head(obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}


def _status(obj: dict[str, Any], uid: str, status: dict[str, Any]) -> dict[str, Any]:
    meta = obj["metadata"]
    return {
        **_head(obj),
        "metadata": {"namespace": meta["namespace"], "name": meta["name"], "uid": uid},
        "status": status,
    }


def _condition(kind: str, status: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": "Test",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _stateful_set(namespace: str) -> dict[str, Any]:
    labels = {"app": "s"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": "s"},
        "spec": {
            "serviceName": "s",
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example:1"}]},
            },
        },
    }
