"""Attacks on the records of who manages an object of Pulsar."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.domain.logical.owners import OWNERS_PATH
from pulsar_operator.ports import CUSTOM
from tests.support.logical.topic_sets import SET, SetWorld
from tests.support.logical.world import NS
from tests.unit.logical.test_owner_records import SERVERS, Stored, parents


async def test_a_store_that_no_status_names_yet_records_nothing() -> None:
    """The instance was made again; its status comes later."""
    w = Stored()
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {})
    w.tenant()
    await w.run()
    assert w.condition(Kind.TENANT, "t")[0] == "True"
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"configurationStoreServers": SERVERS})
    await w.run()
    assert [data for data in w.ensemble.tree(OWNERS_PATH).values() if data], "the record is written once it can be"


@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.TOPIC])
async def test_a_record_that_another_client_removes_comes_back(kind: Kind) -> None:
    w = Stored()
    await parents(w, kind)
    w.declare(kind, "original", 0)
    await w.run()
    if kind is Kind.NAMESPACE:
        w.pulsar.namespaces["t/same"]["properties"] = {}
    else:
        w.pulsar.topic_properties["a", "persistent://t/n/same"] = {}
    w.restart()
    await w.run()
    await w.run()  # the resync: after a start a topic is taken as its status says
    held = (
        w.pulsar.namespaces["t/same"].get("properties")
        if kind is Kind.NAMESPACE
        else w.pulsar.topic_properties.get(("a", "persistent://t/n/same"))
    )
    assert OWNER_PROPERTY in (held or {})


async def test_a_record_of_an_object_of_another_name_is_taken_over() -> None:
    w = Stored()
    await parents(w, Kind.NAMESPACE)
    w.declare(Kind.NAMESPACE, "original", 0)
    await w.run()
    w.pulsar.namespaces["t/same"]["properties"] = {OWNER_PROPERTY: "PulsarNamespace gone/gone"}
    w.lost()
    await w.run()
    await w.run()
    assert w.condition(Kind.NAMESPACE, "original")[0] == "True"
    assert w.pulsar.namespaces["t/same"]["properties"][OWNER_PROPERTY] == "PulsarNamespace apps/original"


@pytest.mark.parametrize("text", ["x", "PulsarNamespace", "Nothing a/b", "PulsarNamespace a/b/c"])
async def test_an_unreadable_record_says_how_to_go_on(text: str) -> None:
    w = Stored()
    await parents(w, Kind.NAMESPACE)
    w.declare(Kind.NAMESPACE, "original", 0)
    await w.run()
    w.pulsar.namespaces["t/same"]["properties"] = {OWNER_PROPERTY: text}
    w.lost()
    await w.run()
    assert w.condition(Kind.NAMESPACE, "original")[:2] == ("Unknown", "RejectedByPulsar")


async def test_a_set_gets_a_topic_back_that_was_made_again_without_a_record() -> None:
    """Somebody deletes a topic of a set and a client makes it again: the set is still to delete it in the end."""
    w = await SetWorld.made()
    w.topics("s", names=["x", "y"], deletionPolicy="Delete")
    await w.work()
    w.pulsar.topic_properties.pop(("a", "persistent://t/n/x"), None)
    w.topics("s", names=["y"], deletionPolicy="Delete")
    await w.work()
    assert "x" in w.local(), "nobody knows whose it is, so it stays"
    assert w.condition(SET, "s")[0] == "True"
