"""A tenant or a namespace that is deleted by force takes nothing along that another object declares or keeps."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_RETAINED, Kind
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.ports import CUSTOM, ForbiddenError
from tests.fakes.kube_calls import Call
from tests.fakes.pulsar_topics import FakeTopic
from tests.support.logical.world import DRY_RUN, NS, PAUSED, LogicalWorld

X = "persistent://t/n/x"
FORCE = {"deletionPolicy": "ForceDelete"}
FORCED = [(Kind.TENANT, "t"), (Kind.NAMESPACE, "n")]
ALL = [*FORCED, (Kind.TOPIC, "x")]
INSIDE: dict[Kind, tuple[str, dict[str, Any]]] = {
    Kind.TOPIC: ("topic", {}),
    Kind.TOPIC_SET: ("topics", {"names": ["x"]}),
}


async def world(topic: str | None = "Retain", *, kind: Kind = Kind.TOPIC, ns: str = NS) -> LogicalWorld:
    """A tenant and a namespace to be deleted by force, and a topic of another team with 1,000 unread messages."""
    w = LogicalWorld()
    w.pulsar.force_delete_namespace = w.pulsar.force_delete_tenant = True
    w.tenant(**FORCE, allowedKubernetesNamespaces=["*"])
    w.namespace(**FORCE, allowedKubernetesNamespaces=["*"])
    make, spec = INSIDE[kind]
    if topic is not None:
        reference = {"name": "n", "namespace": NS}
        getattr(w, make)("x", ns=ns, **spec, namespaceRef=reference, deletionPolicy=topic)
    await w.run()
    if topic is not None:
        w.pulsar.topics["a"][X] = FakeTopic(backlog={"billing": 1000})
        await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    return w


def confirmation(w: LogicalWorld, kind: Kind, name: str) -> str:
    """The value of confirm-retained that DeletionBlocked prints."""
    _, found, rest = w.condition(kind, name, "DeletionBlocked")[2].partition(f"{ANNOTATION_CONFIRM_RETAINED}=")
    assert found, w.condition(kind, name, "DeletionBlocked")
    return rest.split(".")[0]


def confirm(w: LogicalWorld, kind: Kind, name: str, answer: str) -> None:
    def annotate(obj: dict[str, Any]) -> None:
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_CONFIRM_RETAINED] = answer

    w.kube.edit(CUSTOM[kind], NS, name, annotate)


def unread(w: LogicalWorld) -> bool:
    return X in w.pulsar.topics["a"]


@pytest.mark.parametrize("inside", [Kind.TOPIC, Kind.TOPIC_SET])
@pytest.mark.parametrize(("kind", "name"), FORCED)
async def test_what_a_live_object_of_another_team_declares_stays(kind: Kind, name: str, inside: Kind) -> None:
    w = await world(kind=inside, ns="team")
    w.delete(Kind.NAMESPACE, "n")
    w.delete(kind, name)
    await w.run()
    assert unread(w)
    status, reason, text = w.condition(kind, name, "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    assert f"{inside.value} team/x" in text and f"kubectl -n team delete {inside.value.lower()}/x" in text
    assert f"kubectl -n {NS} patch {kind.value.lower()}/{name}" in text, "how to keep it all"


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("patterns", [{"names": ["y"]}, {"patterns": ["x"]}])
async def test_a_set_counts_whatever_it_selects(patterns: dict[str, Any], *, watched: bool) -> None:
    w = await world("ForceDelete")
    w.topics("s", **patterns)
    if watched:
        deps = w.controllers[Kind.NAMESPACE].deps
        object.__setattr__(deps, "reader", DirectReader(deps))
    w.delete(Kind.TOPIC, "x")
    w.delete(Kind.NAMESPACE, "n")
    await w.reconcile(Kind.NAMESPACE, "n")
    assert f"PulsarTopicSet {NS}/s" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2] and unread(w)


async def test_a_namespace_of_another_team_is_not_taken_along_by_its_tenant() -> None:
    w = await world(None)
    w.namespace("other", ns="team", tenantRef={"name": "t", "namespace": NS})
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    w.delete(Kind.TENANT, "t")
    await w.run()
    assert "t/other" in w.pulsar.namespaces and "t/n" not in w.pulsar.namespaces
    assert "PulsarNamespace team/other" in w.condition(Kind.TENANT, "t", "DeletionBlocked")[2]


async def test_a_topic_whose_namespace_was_let_go_is_not_taken_along_by_the_tenant() -> None:
    w = await world()
    w.namespace(deletionPolicy="Retain", allowedKubernetesNamespaces=["*"])
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None
    w.delete(Kind.TENANT, "t")
    await w.run()
    assert unread(w) and f"PulsarTopic {NS}/x" in w.condition(Kind.TENANT, "t", "DeletionBlocked")[2]


async def test_what_is_in_another_namespace_is_no_obstacle() -> None:
    w = await world(None)
    w.namespace("other")
    w.topic("y", namespace="other")
    w.topic("z", namespace="nowhere")
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "z", {"pulsarName": "persistent://t/elsewhere/z"})
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await w.reconcile(Kind.NAMESPACE, "n")
    assert w.get(Kind.NAMESPACE, "n") is None and "t/n" not in w.pulsar.namespaces


async def test_an_object_whose_parent_is_not_there_may_be_inside() -> None:
    w = await world(None)
    w.topic("z", namespace="nowhere", ns="team")
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert "PulsarTopic team/z" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]


@pytest.mark.parametrize(("spec", "counts"), [({"namespaces": ["t/n"]}, True), ({"namespaces": ["t/nn"]}, False)])
async def test_an_isolation_policy_that_names_it(spec: dict[str, Any], *, counts: bool) -> None:
    w = await world(None)
    w.isolation(primary=[".*"], **spec)
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert (w.get(Kind.NAMESPACE, "n") is not None) is counts
    if counts:
        assert f"PulsarIsolationPolicy {NS}/i" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
        w.delete(Kind.ISOLATION_POLICY, "i")
        await w.run()
        assert w.get(Kind.NAMESPACE, "n") is None


ORDERS = [ALL, ALL[::-1], [ALL[1], ALL[2], ALL[0]]]


@pytest.mark.parametrize("kind", INSIDE)
@pytest.mark.parametrize("order", range(len(ORDERS)))
async def test_all_at_once_keep_what_one_of_them_retains(order: int, kind: Kind) -> None:
    """kubectl delete namespace, helm uninstall: every object is Terminating before the first pass."""
    w = await world(kind=kind)
    objects = [(kind if each is Kind.TOPIC else each, name) for each, name in ORDERS[order]]
    for each, name in objects:
        w.delete(each, name)
    for _ in range(3):
        for each, name in objects:
            await w.reconcile(each, name)
    assert unread(w) and w.get(kind, "x") is None
    for each, name in FORCED:
        status, _, text = w.condition(each, name, "DeletionBlocked")
        assert status == "True" and "Retain" in text and "kubectl" in text
    w.namespace(deletionPolicy="Retain", allowedKubernetesNamespaces=["*"])
    w.tenant(deletionPolicy="Retain", allowedKubernetesNamespaces=["*"])
    await w.run()
    assert unread(w) and w.get(Kind.TENANT, "t") is None


@pytest.mark.parametrize("order", range(len(ORDERS)))
async def test_all_at_once_take_what_each_deletes_by_force(order: int) -> None:
    w = await world("ForceDelete")
    for each, name in ORDERS[order]:
        w.delete(each, name)
    for _ in range(3):
        for each, name in ORDERS[order]:
            await w.reconcile(each, name)
    assert not unread(w) and not w.pulsar.tenants and w.get(Kind.TENANT, "t") is None


async def test_what_is_deleted_only_where_it_is_empty_is_waited_for() -> None:
    w = await world("Delete")
    for each, name in ALL:
        w.delete(each, name)
    await w.run()
    assert unread(w) and f"PulsarTopic {NS}/x" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    w.pulsar.topics["a"][X].backlog.clear()
    await w.run()
    assert not w.pulsar.tenants and w.get(Kind.TENANT, "t") is None


@pytest.mark.parametrize("annotations", [PAUSED, DRY_RUN])
async def test_a_paused_object_is_not_taken_along(annotations: dict[str, str]) -> None:
    w = await world("ForceDelete")
    w.topic("x", **FORCE, annotations=annotations)
    for each, name in ALL:
        w.delete(each, name)
    await w.run()
    assert (
        unread(w)
        and f"annotate pulsartopic/x {next(iter(annotations))}-"
        in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    )
    w.topic("x", **FORCE, annotations={})
    await w.run()
    assert not unread(w) and w.get(Kind.TENANT, "t") is None


async def test_what_was_retained_is_remembered_and_can_be_given_up() -> None:
    w = await world()
    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.restart()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    text = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    assert unread(w) and f"PulsarTopic {NS}/x" in text and X in text
    confirm(w, Kind.NAMESPACE, "n", confirmation(w, Kind.NAMESPACE, "n"))
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and not unread(w)


async def test_an_empty_namespace_goes_although_something_in_it_was_retained() -> None:
    w = await world()
    w.delete(Kind.TOPIC, "x")
    await w.run()
    del w.pulsar.topics["a"][X]
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and "t/n" not in w.pulsar.namespaces


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.TOPIC_SET, Kind.ISOLATION_POLICY])
async def test_a_list_that_cannot_be_read_is_not_empty(kind: Kind) -> None:
    w = await world(None)
    w.delete(Kind.NAMESPACE, "n")

    def refused(call: Call) -> None:
        if call.verb == "list" and call.kind == kind.value:
            raise ForbiddenError(f"{kind} may not be listed")

    w.kube.before.append(refused)
    await w.reconcile(Kind.NAMESPACE, "n")
    assert "t/n" in w.pulsar.namespaces
    status, reason, text = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")
    assert (status, reason) == ("True", "Forbidden") and "may not be listed" in text


async def test_one_applied_since_the_deletion_was_asked_for_counts() -> None:
    w = await world(None)
    w.pulsar.force_delete_namespace = False
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    w.pulsar.force_delete_namespace = True
    w.topic("late")
    w.stepping.forward(60)
    await w.run()
    assert f"PulsarTopic {NS}/late" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
