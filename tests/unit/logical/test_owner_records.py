"""Who manages an object of Pulsar is recorded beside it, and decides after a restore from a backup without status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.domain.logical.owners import OWNERS_PATH, Claim, Owner, owner_node, winner
from pulsar_operator.ports import CUSTOM, Json, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.logical.world import LOGICAL, NS, LogicalWorld

SERVERS = "zk:2181"
WEEK, MINUTE = {"timeMinutes": 10080, "size": "1Gi"}, {"timeMinutes": 1, "size": "1Mi"}
PARENTS: dict[Kind, Json] = {
    Kind.TENANT: {"instanceRef": {"name": "prod"}},
    Kind.RESOURCE_GROUP: {"instanceRef": {"name": "prod"}},
    Kind.ISOLATION_POLICY: {"instanceRef": {"name": "prod"}, "namespaces": ["t/.*"]},
    Kind.NAMESPACE: {"tenantRef": {"name": "t"}},
    Kind.TOPIC: {"namespaceRef": {"name": "n"}},
}
TWO: dict[Kind, tuple[Json, Json]] = {
    Kind.TENANT: ({"adminRoles": ["team"]}, {"adminRoles": ["others"]}),
    Kind.RESOURCE_GROUP: (
        {"limits": {"publishRate": {"messagesPerSecond": 9}}},
        {"limits": {"publishRate": {"messagesPerSecond": 1}}},
    ),
    Kind.ISOLATION_POLICY: ({"primary": ["a.*"]}, {"primary": ["a.*"], "secondary": ["b.*"]}),
    Kind.NAMESPACE: ({"policies": {"retention": WEEK}}, {"policies": {"retention": MINUTE}}),
    Kind.TOPIC: ({"policies": {"retention": WEEK}}, {"policies": {"retention": MINUTE}}),
}
"""What two objects say of the same object of Pulsar."""


class Stored(LogicalWorld):
    """A world whose configuration store has nothing but records."""

    def __init__(self, *clusters: str) -> None:
        self.zookeeper = FakeZooKeeper()
        self.ensemble = self.zookeeper.ensembles.setdefault(SERVERS, FakeEnsemble(SERVERS))
        super().__init__(*clusters)
        self.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"configurationStoreServers": SERVERS})

    def restart(self) -> None:
        """A new operator process."""
        super().restart()
        deps = replace(self.controllers[Kind.TENANT].deps, zookeeper=self.zookeeper)
        self.controllers = {kind: type(each)(deps) for kind, each in self.controllers.items()}

    def declare(self, kind: Kind, name: str, which: int, *, created: str = "", uid: str = "") -> None:
        """One of two objects that mean the same, named same in Pulsar."""
        self.put(kind, name, {**PARENTS[kind], "name": "same", **TWO[kind][which]})
        if created:
            edit = {"creationTimestamp": created, "uid": uid}
            self.kube.edit(CUSTOM[kind], NS, name, lambda obj: obj["metadata"].update(edit))

    def lost(self) -> None:
        """Every status is lost, but for what the data plane publishes again first."""
        for kind in LOGICAL:
            for obj in self.kube.all(CUSTOM[kind]):
                self.kube.set_status(CUSTOM[kind], NS, obj["metadata"]["name"], {})
        self.restart()


async def parents(w: Stored, kind: Kind) -> None:
    """What the kind needs."""
    if kind in {Kind.NAMESPACE, Kind.TOPIC}:
        w.tenant()
    if kind is Kind.TOPIC:
        w.namespace()
    await w.run()


@pytest.mark.parametrize("uid", ["0", "z"])
@pytest.mark.parametrize("first", ["original", "duplicate"])
@pytest.mark.parametrize("kind", list(TWO))
async def test_the_object_that_managed_it_manages_it_after_a_restore(kind: Kind, first: str, uid: str) -> None:
    """With equal timestamps the smaller UID decided: in half of all restores the duplicate won."""
    w = Stored()
    await parents(w, kind)
    w.declare(kind, "original", 0)
    await w.run()
    assert w.condition(kind, "original")[0] == "True"
    w.lost()
    created = "2026-01-01T00:00:00Z"
    w.declare(kind, "original", 0, created=created, uid="k" * 8)
    w.declare(kind, "duplicate", 1, created=created, uid=uid * 8)
    await parents(w, kind) if kind not in {Kind.NAMESPACE, Kind.TOPIC} else await w.reconcile(Kind.TENANT, "t")
    before = repr(w.pulsar.snapshot())
    await w.reconcile(Kind.NAMESPACE, "n")
    for name in (first, "original", "duplicate"):
        await w.reconcile(kind, name)
    assert w.condition(kind, "original")[0] == "True"
    assert w.condition(kind, "duplicate")[1] == "Duplicate"
    assert repr(w.pulsar.snapshot()) == before
    # Who is left takes it over, and is recorded.
    w.delete(kind, "original")
    await w.run()
    assert w.get(kind, "original") is None and w.condition(kind, "duplicate")[0] == "True"
    assert repr(w.pulsar.snapshot()) != before
    w.declare(kind, "original", 0, created="2020-01-01T00:00:00Z", uid="0000")
    w.lost()
    await w.run()
    assert w.condition(kind, "original")[1] == "Duplicate"


@pytest.mark.parametrize("kind", [Kind.TENANT, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY])
async def test_an_unreadable_store_is_no_absent_record(kind: Kind) -> None:
    w = Stored()
    w.declare(kind, "original", 0)
    w.ensemble.reachable = False
    await w.run()
    assert w.condition(kind, "original")[:2] == ("Unknown", "ConfigurationStoreUnavailable")
    assert not w.admin.writes
    w.ensemble.reachable = True
    await w.run()
    assert w.condition(kind, "original")[0] == "True"
    (node,) = [path for path, data in w.ensemble.tree(OWNERS_PATH).items() if data]
    assert w.ensemble.nodes[node].data.decode() == f"{kind.value} apps/original"
    w.ensemble.put(node, "what is this")
    w.declare(kind, "duplicate", 1)
    with w.admin.recording() as made:
        await w.reconcile(kind, "duplicate")
    assert w.condition(kind, "duplicate")[:2] == ("Unknown", "RejectedByPulsar")
    assert made == []


@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.TOPIC])
async def test_an_unreadable_property_is_no_absent_record(kind: Kind) -> None:
    w = Stored()
    await parents(w, kind)
    w.declare(kind, "original", 0)
    await w.run()
    w.lost()
    await parents(w, kind)

    def mute(call: AdminCall) -> None:
        if call.method == "GET" and (call.path[-1] == "properties" or call.path == ("namespaces", "t", "same")):
            raise UnavailableError("no answer")

    w.admin.before.append(mute)
    w.delete(kind, "original")
    w.declare(kind, "duplicate", 1)
    with w.admin.recording() as made:
        await w.reconcile(kind, "duplicate")
    assert w.condition(kind, "duplicate")[:2] == ("Unknown", "AdminUnreachable")
    assert made == []


async def test_objects_from_before_there_were_records_are_recorded_by_who_manages_them() -> None:
    w = Stored()
    await parents(w, Kind.TOPIC)
    w.declare(Kind.TOPIC, "original", 0)
    await w.run()
    w.pulsar.topic_properties["a", "persistent://t/n/same"].clear()
    status = w.status(Kind.TOPIC, "original")
    del status["ownerRecorded"]
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "original", status)
    w.declare(Kind.TOPIC, "duplicate", 1)
    w.restart()
    await w.run()
    await w.run()
    assert w.pulsar.topic_properties["a", "persistent://t/n/same"][OWNER_PROPERTY] == "PulsarTopic apps/original"
    assert w.condition(Kind.TOPIC, "duplicate")[1] == "Duplicate"


async def test_the_record_is_asked_for_once_and_not_at_rest() -> None:
    w = Stored()
    await parents(w, Kind.TOPIC)
    w.declare(Kind.TOPIC, "original", 0)
    await w.run()
    mark = len(w.admin.calls)
    await w.run()
    await w.run()
    assert not [call for call in w.admin.calls[mark:] if call.path[-1] == "properties"]


async def test_the_reserved_property_is_neither_drift_nor_pruned() -> None:
    w = Stored()
    await parents(w, Kind.NAMESPACE)
    w.namespace("n", prune={"properties": True}, properties={"team": "shop"})
    await w.run()
    w.namespace("n", prune={"properties": True}, properties={})
    await w.run()
    assert w.pulsar.namespaces["t/n"]["properties"] == {OWNER_PROPERTY: "PulsarNamespace apps/n"}
    assert w.status(Kind.NAMESPACE, "n")["drift"] == []


@pytest.mark.parametrize(
    ("recorded", "wins"),
    [
        (None, "apps/old"),
        (Owner(Kind.TOPIC, "apps", "young"), "apps/young"),
        (Owner(Kind.TOPIC, "apps", "gone"), "apps/old"),
        (Owner(Kind.TOPIC, "elsewhere", "young"), "apps/old"),
    ],
)
def test_the_record_decides_before_status_and_age(recorded: Owner | None, wins: str) -> None:
    claims = [Claim(True, "2026", "2", "apps/young"), Claim(False, "2025", "1", "apps/old")]
    assert winner(claims, recorded).text == wins


@pytest.mark.parametrize("text", ["", "PulsarTopic", "PulsarTopic a", "PulsarTopic a/b/c", "Pod a/b", None, 7, ["a"]])
def test_what_names_no_object_is_no_record(text: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        Owner.parse(text)


def test_a_name_is_one_segment_of_a_path() -> None:
    assert owner_node("PulsarTenant", "..") == f"{OWNERS_PATH}/PulsarTenant/%2E%2E"
    assert owner_node("PulsarTopic", "non-persistent://t/n/a/b").count("/") == OWNERS_PATH.count("/") + 2
