"""Whatever keeps an object of the logical plane from being deleted is condition DeletionBlocked, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, Kind, Reason
from pulsar_operator.controllers.core.failures import Failure, report_failure
from pulsar_operator.controllers.dataplane.objects.dependents import waited_for
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.ports import CUSTOM, ForbiddenError, Key, RefusedError, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.kube_calls import Call
from tests.support.logical.world import NS, LogicalWorld

KINDS: dict[Kind, tuple[str, dict[str, Any]]] = {
    Kind.TENANT: ("tenant", {}),
    Kind.NAMESPACE: ("namespace", {}),
    Kind.TOPIC: ("topic", {"partitions": 2}),
    Kind.RESOURCE_GROUP: ("group", {"limits": {"publishRate": {"messagesPerSecond": 5}}}),
    Kind.ISOLATION_POLICY: ("isolation", {"namespaces": ["t/n"], "primary": [".*"]}),
    Kind.TOPIC_SET: ("topics", {"names": ["one", "two"]}),
}
OBJECTS = [(kind, "Delete") for kind in KINDS] + [(kind, "ForceDelete") for kind in KINDS if kind is not Kind.TOPIC_SET]
SHARED = [(Kind.TENANT, "Delete"), (Kind.TENANT, "ForceDelete"), (Kind.NAMESPACE, "ForceDelete")]
IN_EACH = [each for each in OBJECTS if each not in SHARED and each[0] is not Kind.RESOURCE_GROUP]
"""What has to be deleted in each cluster."""


def fail(w: LogicalWorld, error: Exception, *, reads: bool = True) -> None:
    def failing(call: AdminCall) -> None:
        if call.method == "DELETE" or (reads and call.method == "GET"):
            raise error

    w.admin.before.append(failing)


def silent(w: LogicalWorld) -> None:
    w.admin.down = {"a", "b"}


def half(w: LogicalWorld) -> None:
    w.admin.down = {"b"}


def without_brokers(w: LogicalWorld) -> None:
    for cluster in "ab":
        w.cluster_status(cluster, ready=False)


def half_without_brokers(w: LogicalWorld) -> None:
    w.cluster_status("b", ready=False)


def broken(w: LogicalWorld) -> None:
    fail(w, UnavailableError("HTTP 500: oops", status=500))


def refused(w: LogicalWorld) -> None:
    fail(w, RefusedError("HTTP 403: you may not", status=403), reads=False)


def unlisted(w: LogicalWorld) -> None:
    def failing(call: Call) -> None:
        if call.verb == "list" and call.kind != Kind.CLUSTER:
            raise ForbiddenError("no right to list")

    w.kube.before.append(failing)


def store_unavailable_message(w: LogicalWorld) -> None:
    conditions = [{"type": "ConfigurationStoreReady", "status": "False", "reason": "Pending", "message": "no quorum"}]
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"conditions": conditions})


async def deleted(kind: Kind, policy: str, obstacle: Callable[[LogicalWorld], None] | None = None) -> LogicalWorld:
    """An object that is being deleted, and what is in the way."""
    w = LogicalWorld("a", "b")
    if kind is not Kind.TENANT:
        w.tenant()
    if kind not in (Kind.TENANT, Kind.NAMESPACE):
        w.namespace()
    make, spec = KINDS[kind]
    getattr(w, make)("it", **spec, deletionPolicy=policy)
    await w.run()
    assert w.condition(kind, "it")[0] == "True", w.condition(kind, "it")
    w.delete(kind, "it")
    if obstacle is not None:
        obstacle(w)
    return w


EVERYWHERE = [silent, without_brokers, broken, store_unavailable_message]


@pytest.mark.parametrize(("kind", "policy"), OBJECTS)
@pytest.mark.parametrize("obstacle", [*EVERYWHERE, refused], ids=lambda each: each.__name__)
async def test_an_obstacle_is_reported_with_a_remedy(kind: Kind, policy: str, obstacle: Callable[..., None]) -> None:
    await stays(kind, policy, obstacle)


@pytest.mark.parametrize(("kind", "policy"), IN_EACH)
@pytest.mark.parametrize("obstacle", [half, half_without_brokers], ids=lambda each: each.__name__)
async def test_one_dead_cluster_is_an_obstacle(kind: Kind, policy: str, obstacle: Callable[..., None]) -> None:
    w = await stays(kind, policy, obstacle)
    assert "cluster b" in w.condition(kind, "it", "DeletionBlocked")[2].lower()


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.TENANT, Kind.NAMESPACE])
@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
async def test_rights_that_are_missing_are_an_obstacle(kind: Kind, policy: str) -> None:
    w = await stays(kind, policy, unlisted)
    assert w.condition(kind, "it", "DeletionBlocked")[1] == "Forbidden"


async def stays(kind: Kind, policy: str, obstacle: Callable[..., None]) -> LogicalWorld:
    w = await deleted(kind, policy, obstacle)
    for _ in range(2):
        await w.reconcile(kind, "it")
    assert w.get(kind, "it") is not None
    status, _, text = w.condition(kind, "it", "DeletionBlocked")
    assert status == "True", w.status(kind, "it")["conditions"]
    assert f"patch {kind.value.lower()}/it" in text and "Retain" in text
    return w


@pytest.mark.parametrize(("kind", "policy"), OBJECTS)
@pytest.mark.parametrize("annotation", [ANNOTATION_PAUSE, ANNOTATION_DRY_RUN])
@pytest.mark.parametrize("obstacle", [None, silent, without_brokers])
async def test_a_pause_is_reported_with_the_command_that_ends_it(
    kind: Kind, policy: str, annotation: str, obstacle: Callable[..., None] | None
) -> None:
    w = await deleted(kind, policy, obstacle)
    w.kube.edit(CUSTOM[kind], NS, "it", lambda o: o["metadata"].update(annotations={annotation: "true"}))
    await w.reconcile(kind, "it")
    status, _, text = w.condition(kind, "it", "DeletionBlocked")
    assert status == "True" and f"kubectl -n {NS} annotate {kind.value.lower()}/it {annotation}-" in text


@pytest.mark.parametrize(("kind", "policy"), OBJECTS)
async def test_an_object_without_obstacle_goes(kind: Kind, policy: str) -> None:
    w = await deleted(kind, policy)
    w.pulsar.force_delete_namespace = w.pulsar.force_delete_tenant = True
    if (kind, policy) == (Kind.NAMESPACE, "ForceDelete"):
        w.pulsar.namespaces["t/it"]["replication_clusters"] = ["a"]
    await w.run()
    assert w.get(kind, "it") is None


async def test_the_clusters_that_answer_are_freed_of_an_isolation_policy() -> None:
    w = await deleted(Kind.ISOLATION_POLICY, "Delete")
    w.admin.down = {"a"}
    await w.reconcile(Kind.ISOLATION_POLICY, "it")
    assert w.pulsar.isolation["a"] and not w.pulsar.isolation["b"]
    assert w.condition(Kind.ISOLATION_POLICY, "it", "DeletionBlocked")[0] == "True"


@pytest.mark.parametrize(("kind", "policy"), IN_EACH)
async def test_a_dead_cluster_that_is_deleted_does_not_wait_for_it(kind: Kind, policy: str) -> None:
    w = await stays(kind, policy, half)
    cluster, dependent = w.get(Kind.CLUSTER, "b"), w.get(kind, "it")
    assert cluster is not None and dependent is not None
    conditions = {each["type"]: each for each in dependent["status"]["conditions"]}
    since = parse_time(conditions["DeletionBlocked"]["lastTransitionTime"])
    assert since is not None
    assert waited_for(cluster, [dependent], since) == [dependent]
    w.stepping.forward(60)
    assert waited_for(cluster, [dependent], w.stepping.now()) == []


@pytest.mark.parametrize("annotation", [ANNOTATION_PAUSE, ANNOTATION_DRY_RUN])
async def test_what_a_person_holds_is_waited_for(annotation: str) -> None:
    w = await deleted(Kind.TOPIC, "Delete")
    w.kube.edit(CUSTOM[Kind.TOPIC], NS, "it", lambda o: o["metadata"].update(annotations={annotation: "true"}))
    await w.reconcile(Kind.TOPIC, "it")
    cluster, held = w.get(Kind.CLUSTER, "b"), w.get(Kind.TOPIC, "it")
    assert cluster is not None and held is not None
    w.stepping.forward(60)
    assert waited_for(cluster, [held], w.stepping.now()) == [held]


async def test_a_pass_that_ends_otherwise_is_an_obstacle() -> None:
    w = await deleted(Kind.TOPIC, "Delete")
    deps, obj = w.controllers[Kind.TOPIC].deps, w.get(Kind.TOPIC, "it")
    assert obj is not None
    await report_failure(deps, Key(Kind.TOPIC, NS, "it"), Failure(Reason.INTERNAL_ERROR, "It took too long"), None)
    assert w.condition(Kind.TOPIC, "it", "DeletionBlocked")[:2] == ("True", "InternalError")
    await w.run()
    assert w.get(Kind.TOPIC, "it") is None
