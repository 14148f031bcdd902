"""Objects of others that carry our labels: copies, what another controller made, what somebody debugs with."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, Kind
from pulsar_operator.ports import CUSTOM, PDBS, PODS, STATEFUL_SETS, Json
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.world import NS, ClusterWorld, quickstart


async def three() -> ClusterWorld:
    objects = quickstart()
    objects[1]["spec"]["bookkeeper"]["replicas"] = objects[1]["spec"]["broker"]["replicas"] = 3
    world = await converged(*objects)
    return world


async def copied(component: str, *, owned: bool = False) -> ClusterWorld:
    """A StatefulSet taken by ``kubectl get -o yaml``, renamed and applied with no replicas; its name sorts first."""
    world = await three()
    theirs = copy.deepcopy(await world.get(STATEFUL_SETS, f"east-{component}"))
    meta: Json = {"name": "a-copy", "namespace": NS, "labels": theirs["metadata"]["labels"]}
    if owned:
        meta["ownerReferences"] = theirs["metadata"]["ownerReferences"]
    spec = theirs["spec"] | {"replicas": 0, "selector": {"matchLabels": {"copy": "yes"}}}
    spec["template"]["metadata"]["labels"] = {"copy": "yes"}
    await world.backstage.put({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})
    return world


async def delete(world: ClusterWorld) -> None:
    def confirm(obj: Json) -> None:
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_CONFIRM_DELETE] = "east"

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", confirm)
    await world.delete(Kind.CLUSTER, "east")
    for _ in range(60):
        await world.round()


@pytest.mark.parametrize("component", ["zookeeper", "bookie", "broker"])
@pytest.mark.parametrize("owned", [False, True])
async def test_a_copied_stateful_set_does_not_lend_ours_its_replicas(component: str, owned: bool) -> None:
    """The StatefulSet controller may act on any state between two writes of a pass."""
    world = await copied(component, owned=owned)
    before, mark, seen = await world.uids(PODS), len(world.journal.effects), set()

    async def look() -> None:
        seen.add((await world.get(STATEFUL_SETS, f"east-{component}"))["spec"]["replicas"])

    await world.run(each=look)
    assert seen == {1 if component == "zookeeper" else 3}
    assert await world.uids(PODS) == before
    ours = [c for c in world.journal.since(mark) if (c.kind, c.name) == ("StatefulSet", f"east-{component}")]
    assert ours == [], "not even for a moment"
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


async def test_a_copied_stateful_set_stays_when_the_cluster_goes() -> None:
    world = await copied("broker")
    await delete(world)
    assert await world.live(Kind.CLUSTER, "east") is None
    assert await world.live(STATEFUL_SETS, "a-copy") is not None


async def test_a_budget_that_another_controller_made_is_no_leftover() -> None:
    """It has the labels of our StatefulSet, and the StatefulSet for its controller."""
    world = await ready_world()
    ours = await world.get(STATEFUL_SETS, "east-broker")
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "east-broker", "controller": True}
    meta = {"name": "theirs", "namespace": NS, "labels": ours["metadata"]["labels"]}
    meta["ownerReferences"] = [{**reference, "uid": ours["metadata"]["uid"]}]
    await world.backstage.put({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": {}})
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run()
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
    assert await world.all_ready() == {}
    assert await world.live(PDBS, "theirs") is not None


async def test_a_copy_of_a_pod_does_not_hold_a_deletion() -> None:
    """As ``kubectl debug east-broker-0 --copy-to=debug --keep-labels`` makes it."""
    world = await ready_world()
    pod = copy.deepcopy(await world.get(PODS, "east-broker-0"))
    pod["metadata"] = {"name": "debug", "namespace": NS, "labels": pod["metadata"]["labels"]}
    await world.backstage.put(pod)
    await delete(world)
    assert await world.live(Kind.CLUSTER, "east") is None
    assert await world.live(PODS, "debug") is not None
