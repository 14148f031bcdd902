"""A cluster that is deleted takes itself out of a configuration store, and never for the price of being stuck: the
store is silent, lost or going too, rights or answers are gone."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.registration.metadata import INSTANCE_ID_PATH
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH, claim_path, cluster_path
from pulsar_operator.ports import CUSTOM, NAMESPACES, STATEFUL_SETS, ForbiddenError, UnavailableError
from tests.support.cluster.leaving import (
    CLAIM,
    ENTRY,
    EXTERNAL,
    again,
    alone,
    blocked,
    confirm,
    ensemble,
    go,
    naming,
    own,
    pair,
    silent,
    told,
)
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS
from tests.support.core.journal import KUBERNETES, PortCall


async def test_a_store_that_does_not_answer_is_waited_for() -> None:
    world = await pair()
    fail = silent(world, CLAIM)
    await go(world)
    found = await blocked(world)
    assert found is not None and found[0] == "ConfigurationStoreUnavailable" and "connection loss" in found[1]
    assert "annotate --overwrite pulsarcluster/west pulsaroperator.io/confirm-delete=west" in found[1]
    world.journal.before.remove(fail)
    await world.run()
    assert await blocked(world) is None
    assert naming(world) == []


async def test_with_consent_the_entry_stays_in_a_store_that_does_not_answer() -> None:
    world = await pair()
    await world.delete(Kind.CLUSTER, "west")
    await confirm(world)
    silent(world, "/")
    await world.run()
    assert await world.live(Kind.CLUSTER, "west") is None
    assert {CLAIM, ENTRY} <= set(naming(world))
    assert any(f"{ENTRY} and {CLAIM}" in text and "as was confirmed" in text for text in told(world, "NotDeleted"))


async def test_a_lost_store_is_left_with_consent_alone() -> None:
    """What others would miss is not known."""
    world = await pair()

    def empty(call: PortCall) -> None:
        if call.name == CLAIM:
            ensemble(world).wipe()

    world.journal.before.append(empty)
    await go(world)
    found = await blocked(world)
    assert found is not None and found[0] == "MetadataLost" and "empty, or it is another store" in found[1]
    await confirm(world)
    await world.run()
    assert await world.live(Kind.CLUSTER, "west") is None


@pytest.mark.parametrize("now", [None, b"of-another"])
async def test_the_entry_of_a_cluster_that_lost_its_own_store_goes_with_consent_alone(now: bytes | None) -> None:
    world = await pair()
    if now is None:
        own(world, "west").remove(INSTANCE_ID_PATH)
    else:
        own(world, "west").put(INSTANCE_ID_PATH, now)
    await go(world)
    found = await blocked(world)
    assert found is not None and found[0] == "DependentsExist" and "The list of its topics is lost" in found[1]
    assert {CLAIM, ENTRY} <= set(naming(world))
    await confirm(world)
    await world.run()
    assert await world.live(Kind.CLUSTER, "west") is None
    assert naming(world) == []


@pytest.mark.parametrize("first", [Kind.INSTANCE, Kind.CLUSTER])
async def test_everything_at_once(first: Kind) -> None:
    world = await pair()
    for kind in (first, Kind.INSTANCE, Kind.CLUSTER):
        for obj in await world.backstage.all(CUSTOM[kind]):
            await world.backstage.remove(CUSTOM[kind], NS, obj["metadata"]["name"])
    await world.run()
    for kind in (Kind.INSTANCE, Kind.CLUSTER):
        assert await world.names(CUSTOM[kind]) == []
    assert not {CLAIM, ENTRY, claim_path("east"), cluster_path("east")} & set(ensemble(world).tree())


async def test_an_instance_with_an_external_store_waits_for_its_clusters_to_leave_it() -> None:
    world = await alone(external=True)
    await world.delete_all()
    await world.run()
    for kind in (Kind.INSTANCE, Kind.CLUSTER):
        assert await world.names(CUSTOM[kind]) == []
    assert not {claim_path("east"), cluster_path("east")} & set(ensemble(world, EXTERNAL).tree())


async def test_a_store_that_goes_with_its_instance_is_not_waited_for() -> None:
    """Kubernetes deletes the pods of all with their namespace, and nobody makes them again."""
    world = await pair()
    for name in ("east", "west"):
        await world.delete(Kind.CLUSTER, name)
    await world.delete(Kind.INSTANCE, "demo")

    async def collect() -> None:
        if await world.live(STATEFUL_SETS, "demo-configuration-store") is not None:
            await world.backstage.remove(STATEFUL_SETS, NS, "demo-configuration-store")

    silent(world, CLAIM, claim_path("east"))
    await world.backstage.edit(
        CUSTOM[Kind.INSTANCE], NS, "demo", lambda obj: obj["metadata"]["finalizers"].append("foregroundDeletion")
    )
    await world.run(each=collect)
    assert await world.names(CUSTOM[Kind.CLUSTER]) == []
    assert any("the store is being deleted too" in text for text in told(world, "FinalizerReleased"))


@pytest.mark.parametrize("external", [False, True])
async def test_a_kubernetes_namespace_that_goes_waits_for_no_store_for_long(external: bool) -> None:
    """For none that goes with it, and two minutes for another one."""
    world = await alone(external=external)
    world.clock.step = 0.01
    meta = {"name": NS, "namespace": "", "finalizers": ["kubernetes"]}
    await world.backstage.put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}})
    silent(world, claim_path("east"))
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and found[0] == "ConfigurationStoreUnavailable"
    await world.backstage.remove(NAMESPACES, "", NS)
    await world.run()
    assert (await world.live(Kind.CLUSTER, "east") is not None) is external
    world.clock.forward(121)
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


@pytest.mark.parametrize("moment", [False, True], ids=["the store answers", "the store does not for a moment"])
async def test_it_leaves_although_the_rights_in_its_kubernetes_namespace_are_gone(moment: bool) -> None:
    """The claim would tie the name to an instance id that nobody has any more."""
    world = await alone(external=True)
    world.clock.step = 0.01
    meta = {"name": NS, "namespace": "", "finalizers": ["kubernetes"]}
    await world.backstage.put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}})
    await world.backstage.remove(NAMESPACES, "", NS)

    def refuse(call: PortCall) -> None:
        if call.port == KUBERNETES and (
            call.kind == "ConfigMap" or (call.verb, call.kind) == ("delete", "StatefulSet")
        ):
            raise ForbiddenError(f"{call.kind} is forbidden")

    world.journal.before.append(refuse)
    hook = silent(world, claim_path("east")) if moment else None
    await world.delete_all()
    if hook is not None:
        for _ in range(5):
            await world.round()
        world.clock.forward(60)
        world.journal.before.remove(hook)
    await world.run()
    for kind in (Kind.INSTANCE, Kind.CLUSTER):
        assert await world.names(CUSTOM[kind]) == []
    assert not {claim_path("east"), cluster_path("east")} & set(ensemble(world, EXTERNAL).tree())


async def test_a_lost_answer_is_no_outage_even_with_consent() -> None:
    world = await pair()
    lost = []

    def once(call: PortCall) -> None:
        if call.is_write and call.name in (ENTRY, f"{POLICIES_PATH}/public") and call.name not in lost:
            lost.append(call.name)
            raise UnavailableError("the answer was lost")

    world.journal.after.append(once)
    await confirm(world)
    await go(world)
    assert len(lost) == 2
    assert await world.live(Kind.CLUSTER, "west") is None
    assert naming(world) == []
    assert told(world, "NotDeleted") == []


async def test_a_cluster_that_was_never_registered_has_nothing_to_leave() -> None:
    world = await pair()
    world.workloads.troubles.append(Trouble(pod="north-zookeeper-*"))
    await world.apply(again("north", await world.get(Kind.CLUSTER, "west")))
    await world.run()
    tree = ensemble(world).tree()
    await go(world, "north")
    assert await world.live(Kind.CLUSTER, "north") is None
    assert ensemble(world).tree() == tree
