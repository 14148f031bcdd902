"""A cluster that is deleted takes itself out of a configuration store that outlives it: in order, and by claim."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.registration.metadata import Marker
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH, claim_path, cluster_path
from pulsar_operator.ports import CONFIG_MAPS, STATEFUL_SETS, UnavailableError
from tests.support.cluster.copies import ready_world
from tests.support.cluster.leaving import (
    CLAIM,
    ENTRY,
    EXTERNAL,
    SHARED,
    again,
    alone,
    blocked,
    confirm,
    ensemble,
    go,
    naming,
    own,
    pair,
    policies,
    put,
    told,
    topic,
)
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import KUBERNETES, ZOOKEEPER, PortCall


def of_east(world: ClusterWorld) -> dict[str, object]:
    nodes = ensemble(world).nodes
    return {path: nodes[path] for path in (claim_path("east"), cluster_path("east"), "/admin/clusters/global")}


async def test_nothing_in_the_store_names_it_any_more_and_the_other_is_as_it_was() -> None:
    world = await pair()
    ensemble(world).put(f"{ENTRY}/failureDomain/rack-1", b'{"brokers":[]}')
    ensemble(world).put(f"{ENTRY}/namespaceIsolationPolicies", b"{}")
    put(world, "shop", {"adminRoles": ["me"], "allowedClusters": ["west", "east"]})
    put(world, "theirs", {"adminRoles": [], "allowedClusters": ["east"]})
    before = of_east(world), ensemble(world).nodes[f"{POLICIES_PATH}/theirs"]
    assert set(naming(world)) >= {CLAIM, ENTRY, f"{POLICIES_PATH}/public", f"{POLICIES_PATH}/pulsar/system"}
    await go(world)
    assert await world.live(Kind.CLUSTER, "west") is None
    assert naming(world) == []
    assert (of_east(world), ensemble(world).nodes[f"{POLICIES_PATH}/theirs"]) == before
    assert policies(world, "shop") == {"adminRoles": ["me"], "allowedClusters": ["east"]}
    system = policies(world, "pulsar/system")
    assert (system["replication_clusters"], system["allowed_clusters"]) == (["east"], ["east"])
    assert await world.all_ready() == {}


async def test_the_order() -> None:
    world = await pair()
    mark = len(world.journal.effects)
    await go(world)
    shared = {ZOOKEEPER: "configuration-store", KUBERNETES: ""}
    steps = [
        f"{call.verb} {call.name}"
        for call in world.journal.since(mark)
        if shared.get(call.port, "none") in call.kind
        and (call.port == ZOOKEEPER or call.verb == "delete" or "instance-id" in call.name)
    ]
    system = f"{POLICIES_PATH}/pulsar/system"
    assert steps == [
        f"set {POLICIES_PATH}/public",
        f"set {POLICIES_PATH}/pulsar",
        "delete west-broker",
        f"set {system}",
        f"delete {ENTRY}",
        "apply west-instance-id",
        f"delete {CLAIM}",
        "delete west-bookie",
        "delete west-autorecovery",
        "delete west-zookeeper",
    ], "\n".join(steps)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_namespace_made_while_tenants_are_narrowed_keeps_it(lost: bool) -> None:
    """Also where the answer to the last of those writes is lost."""
    world = await pair()
    last, made = f"{POLICIES_PATH}/pulsar", []

    def late(call: PortCall) -> None:
        if call.is_write and call.name == last and not made:
            made.append(call)
            put(world, "shop/late", {"replication_clusters": ["east", "west"]})
            if lost:
                raise UnavailableError("the answer was lost")

    world.journal.after.append(late)
    await go(world)
    world.journal.after.remove(late)
    found = await blocked(world)
    assert found is not None and found[0] == "DependentsExist" and "shop/late (its clusters: east, west)" in found[1]
    assert "west-broker" in await world.names(STATEFUL_SETS), "no pod is stopped"
    assert policies(world, "public")["allowedClusters"] == ["east"], "it gets no further one"
    assert "west" in policies(world, "pulsar/system")["allowed_clusters"], "its transactions go on"
    put(world, "shop/late", {"replication_clusters": ["east"]})
    await world.run()
    assert await blocked(world) is None
    assert naming(world) == []


async def test_no_replication_to_it_is_left_while_it_runs_and_its_own_topics_stay_until_then() -> None:
    """Brokers with the Extensible load manager put their clusters into the replication of pulsar/system."""
    world = await pair()
    put(world, "pulsar/system", {"replication_clusters": ["east", "west"], "bundles": {}})
    seen: list[object] = []

    def look(call: PortCall) -> None:
        if (call.verb, call.name) == ("delete", "west-broker"):
            found = policies(world, "pulsar/system")
            seen.append((found["replication_clusters"], found["allowed_clusters"]))

    world.journal.before.append(look)
    await go(world)
    assert seen == [(["east"], ["east", "west"])]
    assert policies(world, "pulsar/system") == {
        "replication_clusters": ["east"], "allowed_clusters": ["east"], "bundles": {},
    }  # fmt: skip


async def test_it_comes_back_under_its_name() -> None:
    world = await pair()
    manifest = again("west", await world.get(Kind.CLUSTER, "west"))
    record = (await world.get(CONFIG_MAPS, "west-instance-id"))["data"]
    await go(world)
    left = await world.get(CONFIG_MAPS, "west-instance-id")
    assert left["data"] == {**record, "registered": "false"}
    await world.apply(manifest)
    await world.run()
    assert await world.all_ready() == {}
    assert (await world.get(CONFIG_MAPS, "west-instance-id"))["data"] == record
    assert json.loads(ensemble(world).nodes[CLAIM].data)["instanceId"] == record["instanceId"]
    assert policies(world, "public")["allowedClusters"] == ["east", "west"]
    assert policies(world, "pulsar/system")["allowed_clusters"] == ["east", "west"]


async def test_another_one_takes_its_name_after_its_data_was_deleted() -> None:
    world = await pair()
    manifest = again("west", await world.get(Kind.CLUSTER, "west"))
    await world.change(Kind.CLUSTER, "west", lambda spec: spec.update(reclaimPolicy="Delete"))
    before = json.loads(ensemble(world).nodes[CLAIM].data)["instanceId"]
    await go(world)
    await world.apply(manifest)
    await world.run()
    assert await world.all_ready() == {}
    assert json.loads(ensemble(world).nodes[CLAIM].data)["instanceId"] != before


@pytest.mark.parametrize("external", [False, True])
async def test_the_last_cluster_leaves_lists_as_they_are_for_itself_to_come_back(external: bool) -> None:
    world = await alone(external)
    servers = EXTERNAL if external else SHARED
    manifest = again("east", await world.get(Kind.CLUSTER, "east"))
    tree = ensemble(world, servers).tree("/admin/policies")
    await go(world, "east")
    assert await world.live(Kind.CLUSTER, "east") is None
    after = ensemble(world, servers).tree()
    assert claim_path("east") not in after and cluster_path("east") not in after
    assert ensemble(world, servers).tree("/admin/policies") == tree
    await world.apply(manifest)
    await world.run()
    assert await world.all_ready() == {}
    assert ensemble(world, servers).tree("/admin/policies") == tree


async def test_a_store_of_its_own_is_left_as_it_is() -> None:
    """It goes, or stays, with the volumes."""
    world = await ready_world()
    tree = own(world, "east").tree("/pulsar-operator") | own(world, "east").tree("/admin/clusters")
    await world.delete_all()
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    assert own(world, "east").tree("/pulsar-operator") | own(world, "east").tree("/admin/clusters") == tree


# ------------------------------------------------------------------------------------------------------- not ours


@pytest.mark.parametrize("whose", ["another", "nobody", "unknown"])
async def test_what_is_not_ours_is_not_touched(whose: str) -> None:
    world = await pair()
    store, before = ensemble(world), ensemble(world).tree()

    def turn(call: PortCall) -> None:
        """While it lives the cluster repairs its claim, so it changes at the last moment."""
        if call.name == POLICIES_PATH and not call.is_write and CLAIM in store.nodes:
            before.update(store.tree())
            if whose == "nobody":
                store.remove(CLAIM)
                before.pop(CLAIM)
            elif store.nodes[CLAIM].data != theirs:
                store.put(CLAIM, theirs)
                before[CLAIM] = theirs

    theirs = Marker("id-of-another", "west", "elsewhere/west").to_bytes() if whose == "another" else b"{}"
    world.journal.before.append(turn)
    await go(world)
    world.journal.before.remove(turn)
    if whose == "unknown":
        found = await blocked(world)
        assert found is not None and found[0] == "MetadataConflict" and "is not readable" in found[1]
        await confirm(world)
        await world.run()
    assert await world.live(Kind.CLUSTER, "west") is None
    assert store.tree() == before
    assert any(ENTRY in text for text in told(world, "NotDeleted"))


async def test_nodes_that_nobody_can_read_are_told_and_hold_nothing() -> None:
    world = await pair()
    put(world, "broken", b"{")
    put(world, "odd", {"allowedClusters": "west"})
    await go(world)
    assert await world.live(Kind.CLUSTER, "west") is None
    assert ensemble(world).nodes[f"{POLICIES_PATH}/broken"].data == b"{"
    assert any(f"does not change {POLICIES_PATH}/broken" in text for text in told(world, "NotDeleted"))
    assert naming(world) == [f"{POLICIES_PATH}/odd"]


async def test_a_tenant_of_this_cluster_alone_may_use_none_then() -> None:
    world = await pair()
    put(world, "acme", {"adminRoles": ["me"], "allowedClusters": ["west"]})
    put(world, "pulsar/mine", {"replication_clusters": ["west"]})
    await go(world)
    assert policies(world, "acme") == {"adminRoles": ["me"], "allowedClusters": []}
    assert any("Tenant acme may no longer use any cluster" in text for text in told(world, "NotDeleted"))
    assert policies(world, "pulsar/mine") == {"replication_clusters": ["west"]}, "no list of a namespace is left empty"


# --------------------------------------------------------------------------------------------- what others keep


async def test_topics_that_no_broker_deleted_are_named() -> None:
    """Their namespace left the cluster while its brokers were down."""
    world = await pair()
    put(world, "shop/left", {"replication_clusters": ["east"], "allowed_clusters": ["east"]})
    for name in ("shop/left/orders", "shop/left/bills", "shop/left/__change_events", "pulsar/system/x"):
        topic(world, "west", name)
    await go(world)
    (text,) = [each for each in told(world, "NotDeleted") if "leaves topics" in each]
    assert "topics of 1 namespaces in its metadata store: shop/left (topics: 2)" in text
    assert "stays on its volumes" in text
    assert any("shop/left/persistent/orders" in path for path in own(world, "west").tree())


@pytest.mark.parametrize("late", [False, True])
async def test_namespaces_that_go_on_to_name_it_are_named(late: bool) -> None:
    """By consent, or made after they were listed the last time."""
    world = await pair()
    shared = {"replication_clusters": ["east", "west"]}

    def make(call: PortCall) -> None:
        if (call.verb, call.name) == ("delete", "west-broker"):
            put(world, "shop/shared", shared)

    if late:
        world.journal.before.append(make)
    else:
        put(world, "shop/shared", shared)
        await confirm(world)
    await go(world)
    assert await blocked(world) is None
    (text,) = [each for each in told(world, "NotDeleted") if "shop/shared" in each]
    assert text.startswith("1 namespaces of users still have west in their lists of clusters")
    assert policies(world, "shop/shared") == shared


async def test_cursors_of_others_are_waited_for() -> None:
    world = await pair()
    world.clock.step = 0.01  # so that looks alone are no half a minute
    topic(world, "east", "shop/mirrored/orders", "pulsar.repl.west", "sub")
    await go(world)
    found = await blocked(world)
    assert found is not None and found[0] == "WaitingForReplication"
    assert "1 topics of east have such a cursor: shop/mirrored/orders" in found[1]
    assert naming(world) == [], "it has left already"
    own(world, "east").remove("/managed-ledgers/shop/mirrored/persistent/orders/pulsar.repl.west")
    await world.run()
    assert await blocked(world) is None
    assert not [text for text in told(world, "NotDeleted") if "pulsar.repl." in text]


async def test_cursors_of_topics_that_nobody_uses_hold_it_for_half_a_minute() -> None:
    world = await pair()
    world.clock.step = 0.01  # so that looks alone are no half a minute
    topic(world, "east", "shop/mirrored/orders", "pulsar.repl.west")
    await go(world)
    assert await blocked(world) is not None
    world.clock.forward(31)
    await world.run()
    assert await blocked(world) is None
    (text,) = [text for text in told(world, "NotDeleted") if "pulsar.repl.west" in text]
    assert "shop/mirrored/orders" in text


async def test_a_neighbour_that_does_not_answer_holds_nothing_for_ever() -> None:
    world = await pair()
    world.clock.step = 0.01  # so that looks alone are no half a minute
    await world.delete(Kind.CLUSTER, "west")
    world.unreachable.add(f"east-zookeeper.{NS}.svc.cluster.local")
    await world.run()
    assert await blocked(world) is not None
    world.clock.forward(31)
    await world.run()
    assert await blocked(world) is None


async def test_a_tenant_that_may_use_all_clusters_is_not_given_it_again() -> None:
    world = await pair()
    tenant = {
        "apiVersion": "pulsaroperator.io/v1alpha1", "kind": "PulsarTenant",
        "metadata": {"name": "shop", "namespace": NS}, "spec": {"instanceRef": {"name": "demo"}},
    }  # fmt: skip
    await world.apply(tenant)
    await world.run()
    assert (await world.status(Kind.TENANT, "shop"))["clusters"] == ["east", "west"]
    assert await world.all_ready() == {}
    fake = world.pulsar.tenants["shop"]
    fake["allowedClusters"] = ["east"]

    async def look() -> None:
        assert world.pulsar.tenants["shop"]["allowedClusters"] == ["east"]

    await world.delete(Kind.CLUSTER, "west")
    await world.run(each=look)
    assert await world.live(Kind.CLUSTER, "west") is None
