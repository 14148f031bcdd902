"""Racks of bookies in memory: by label and by ordinal, changed, taken out, with the answer of a write lost."""

from __future__ import annotations

import copy
import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_RACK, Kind
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_racks import RACKS_PATH, RECORD_PATH
from pulsar_operator.domain.bookkeeper.bookie_ids import host_of
from pulsar_operator.domain.bookkeeper.znodes import COOKIES
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import NODES, PODS, STATEFUL_SETS, ForbiddenError, Json, UnavailableError
from tests.support.cluster.data_plane import LOOKS
from tests.support.cluster.ledgers import STORE, WORKLOAD, LedgerWorld, bookie
from tests.support.cluster.world import NS, quickstart
from tests.support.core.journal import KUBERNETES, ZOOKEEPER, PortCall

ZONE = "topology.kubernetes.io/zone"
BY_LABEL = {"topologyKey": ZONE}
BY_ORDINAL = {"byOrdinal": ["a", "b"]}
STRANGER = {"rack": "other", "hostname": "else:3181", "weight": 7}
FOREIGN = {"default": {"else:3181": STRANGER}, "isolated": {"third:3181": {"rack": "/x"}}}


def pod(ordinal: int) -> str:
    return f"{WORKLOAD}-{ordinal}"


async def begun(racks: Json | None, zones: str = "abab", *, foreign: Json = FOREIGN, bookies: int = 3) -> LedgerWorld:
    """The quickstart with racks, applied and not looked at yet; ``zones`` has one for each bookie."""
    world = LedgerWorld.empty()
    world.workloads.zones.update({pod(number): zone for number, zone in enumerate(zones)})
    manifests = quickstart()
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": bookies, **({"racks": racks} if racks else {})}
    await world.apply(*manifests)
    if foreign:
        world.zookeeper.ensemble(STORE).put(RACKS_PATH, json.dumps(foreign))
    return world


MADE: dict[str, LedgerWorld] = {}
"""Worlds that were brought up once."""


async def up(racks: Json | None) -> LedgerWorld:
    """Three bookies in zones a, b and a, with these racks."""
    key = json.dumps(racks)
    if key not in MADE:
        MADE[key] = await begun(racks)
        await MADE[key].run()
    return copy.deepcopy(MADE[key])


def entries(world: LedgerWorld) -> Json:
    return dict(json.loads(world.store.nodes[RACKS_PATH].data))


def ours(world: LedgerWorld) -> dict[str, str]:
    """Racks of the cluster's own bookies, by the pod; and that nothing of others was touched."""
    found = entries(world)
    assert found["default"].pop("else:3181") == STRANGER and found["isolated"] == FOREIGN["isolated"]
    assert all(each["hostname"] == host_of(name) for name, each in found["default"].items())
    return {name.partition(".")[0]: each["rack"] for name, each in found["default"].items()}


async def told(world: LedgerWorld) -> tuple[str, str, str]:
    return await world.condition(Kind.CLUSTER, "east", "RacksKnown")


async def annotated(world: LedgerWorld) -> dict[str, str | None]:
    """What each bookie's pod is told."""
    found = [each for each in await world.backstage.all(PODS) if each["metadata"]["name"].startswith(WORKLOAD)]
    return {p["metadata"]["name"]: (p["metadata"].get("annotations") or {}).get(ANNOTATION_RACK) for p in found}


async def racks_to(world: LedgerWorld, racks: Json | None) -> None:
    def change(spec: Json) -> None:
        spec["bookkeeper"].pop("racks", None)
        if racks is not None:
            spec["bookkeeper"]["racks"] = racks

    await world.change(Kind.CLUSTER, "east", change)


@pytest.mark.parametrize("racks", [BY_LABEL, BY_ORDINAL])
async def test_brought_up_each_bookie_registers_with_its_rack(racks: Json) -> None:
    world = await begun(racks)
    await world.run(each=lambda: world.idle_steps(2))
    assert await world.all_ready() == {}
    assert ours(world) == {pod(0): "/a", pod(1): "/b", pod(2): "/a"}
    assert await told(world) == ("True", "RacksKnown", "Bookies are in 2 racks (ordinals by rack: /a: 0, 2; /b: 1)")
    assert [((await world.row(n)) or {})["rack"] for n in range(3)] == ["/a", "/b", "/a"]
    waits = racks is BY_LABEL
    assert world.dataplane.unplaced == [] and bool(world.dataplane.waited) == waits
    assert set((await annotated(world)).values()) == ({"/a", "/b"} if waits else {None})
    created = [str(c) for c in world.journal.effects if c.port == ZOOKEEPER and c.name == RACKS_PATH]
    if not waits:
        assert len(created) == 1, "before there is a pod"


async def test_without_racks_nothing_of_it_is_read_or_said() -> None:
    world = await up(None)
    assert entries(world) == FOREIGN and RECORD_PATH not in world.store.nodes
    assert (await told(world))[0] == "absent" and "rack" not in ((await world.row(0)) or {})
    before = len(world.zookeeper.calls)
    await world.round()
    assert RACKS_PATH not in [call.path for call in world.zookeeper.calls[before:]]


async def test_a_bookie_in_another_zone_gets_another_rack() -> None:
    world = await up(BY_LABEL)
    world.workloads.zones[pod(2)] = "c"
    await world.backstage.remove(PODS, NS, pod(2))
    await world.run()
    assert ours(world)[pod(2)] == "/c" and (await annotated(world))[pod(2)] == "/c"
    assert world.dataplane.unplaced == []


async def test_by_the_nodes_label_where_pods_have_none() -> None:
    world = await begun(BY_LABEL)
    world.workloads.copies_zones = False
    for zone in "ab":
        meta = {"name": f"node-of-{zone}", "namespace": "", "labels": {ZONE: zone}}
        world.kube.put({"apiVersion": "v1", "kind": "Node", "metadata": meta})
    await world.run()
    assert await world.all_ready() == {} and ours(world) == {pod(0): "/a", pod(1): "/b", pod(2): "/a"}
    assert world.dataplane.unplaced == []


async def test_nobody_may_read_nodes_and_it_is_said_and_bookies_start_all_the_same() -> None:
    world = await begun(BY_LABEL)
    world.workloads.copies_zones = False

    def forbidden(call: PortCall) -> None:
        if call.port == KUBERNETES and call.kind == NODES.kind:
            raise ForbiddenError("the operator may not get Node")

    world.journal.before.append(forbidden)
    await world.run(each=lambda: world.idle_steps(LOOKS))
    assert await world.all_ready() == {}, "bounded"
    status, reason, message = await told(world)
    assert (status, reason) == ("False", "RackUnknown")
    assert pod(0) in message and ZONE in message and "rbac.readNodes" in message and "(and 2 more)" in message
    assert ours(world) == {} and len(world.dataplane.unplaced) == 3


async def test_a_node_without_the_label_is_named() -> None:
    world = await begun({"topologyKey": "example.com/row"})
    world.kube.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-of-a", "namespace": ""}})
    await world.run()
    message = (await told(world))[2]
    assert "node node-of-a of the pod has no such label either. Label the node" in message and "1.35" not in message


async def test_unscheduled_bookies_are_pending() -> None:
    world = await begun(BY_LABEL, zones="")
    await world.settle(rounds=8)
    assert (await told(world))[:2] == ("Unknown", "Pending")


@pytest.mark.parametrize("racks", [BY_LABEL, BY_ORDINAL])
async def test_racks_leave_the_specification(racks: Json) -> None:
    """With them what the operator wrote, and nothing else."""
    world = await up(racks)
    await racks_to(world, None)
    await world.run()
    assert entries(world) == FOREIGN and RECORD_PATH in world.store.nodes
    assert json.loads(world.store.nodes[RECORD_PATH].data) == {}
    assert (await told(world))[0] == "absent" and "rack" not in ((await world.row(0)) or {})
    assert await world.all_ready() == {}


async def test_what_somebody_else_changed_stays_when_racks_leave() -> None:
    world = await up(BY_ORDINAL)
    await world.pause(Kind.CLUSTER, "east")
    found = entries(world)
    found["default"][bookie(1)]["rack"] = "/by-hand"
    world.store.put(RACKS_PATH, json.dumps(found))
    await racks_to(world, None)
    await world.pause(Kind.CLUSTER, "east", on=False)
    await world.run()
    assert ours(world) == {pod(1): "/by-hand"}


async def test_a_bookie_in_a_group_of_somebodys_keeps_it() -> None:
    world = await begun(BY_ORDINAL, foreign={})
    await world.run()
    world.store.put(RACKS_PATH, json.dumps({"isolated": {bookie(0): {"rack": "/old", "note": 1}}}))
    await world.run()
    found = entries(world)
    assert found["isolated"] == {bookie(0): {"rack": "/a", "note": 1}} and set(found["default"]) == {
        bookie(1),
        bookie(2),
    }
    await racks_to(world, None)
    await world.run()
    assert entries(world) == {"isolated": {bookie(0): {"note": 1}}}


@pytest.mark.parametrize("data", [b"no json", b'{"default": {"a": 1}}'])
async def test_what_cannot_be_read_is_said_and_not_written_over(data: bytes) -> None:
    world = await up(BY_ORDINAL)
    world.store.put(RACKS_PATH, data)
    await world.resize(4)
    await world.settle(rounds=12)
    assert world.store.nodes[RACKS_PATH].data == data
    status, reason, message = await told(world)
    assert (status, reason) == ("False", "RacksUnreadable") and RACKS_PATH in message
    assert await world.replicas() == 3, "its rack comes first"
    message = (await world.progressing())[2]
    assert "The rack of bookie" in message and "Repair znode /bookies" in message
    world.store.put(RACKS_PATH, json.dumps(FOREIGN))
    await world.run()
    assert ours(world) == {pod(0): "/a", pod(1): "/b", pod(2): "/a", pod(3): "/b"} and await world.replicas() == 4


@pytest.mark.parametrize("racks", [BY_LABEL, BY_ORDINAL])
async def test_a_bookie_that_leaves_takes_its_rack_with_it(racks: Json) -> None:
    """After its cookie, and before its claims are marked."""
    world = await up(racks)
    await world.resize(2)
    await world.run(rounds=200)
    assert await world.replicas() == 2 and DECOMMISSION_RECORD_PATH not in world.store.nodes
    assert ours(world) == {pod(0): "/a", pod(1): "/b"}
    order = [
        (call.verb, call.name)
        for call in world.journal.effects
        if call.name in (RACKS_PATH, f"{COOKIES}/{bookie(2)}") or call.kind == "PersistentVolumeClaim"
    ]
    assert [verb for verb, _ in order[-4:]] == ["delete", "set", "apply", "apply"], order
    await world.resize(3)
    await world.run(rounds=200)
    assert ours(world)[pod(2)] == "/a" and await world.all_ready() == {} and world.dataplane.unplaced == []


async def test_raised_again_while_it_is_forgotten() -> None:
    world = await up(BY_ORDINAL)
    await world.resize(2)

    async def forgotten() -> bool:
        return f"{COOKIES}/{bookie(2)}" not in world.store.nodes

    await world.until(forgotten)
    await world.resize(3)
    await world.run(rounds=200)
    assert ours(world)[pod(2)] == "/a" and await world.replicas() == 3 and await world.all_ready() == {}


async def test_too_few_racks_are_left() -> None:
    world = await begun({**BY_LABEL, "enforceMinimum": True}, "aab")
    await world.run()
    assert await world.all_ready() == {}
    await world.resize(2)
    await world.run()
    status, reason, message = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused")
    assert "in only 1 of the 2 racks" in message and await world.replicas() == 3
    await racks_to(world, BY_LABEL)
    await world.run(rounds=300)
    assert await world.replicas() == 2


async def test_brokers_wait_for_the_racks_that_they_would_enforce() -> None:
    world = await begun({**BY_LABEL, "enforceMinimum": True}, "aaa")
    await world.run()
    assert await world.live(STATEFUL_SETS, "east-broker") is None
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "BrokersReady")
    assert (status, reason) == ("False", "TooFewRacks") and "bookies are in /a" in message
    assert (await told(world))[1] == "TooFewRacks"
    world.workloads.zones[pod(1)] = "b"
    await world.backstage.remove(PODS, NS, pod(1))
    await world.run()
    assert await world.all_ready() == {} and (await told(world))[0] == "True"


async def test_enforced_later_brokers_keep_what_they_have_until_there_are_racks() -> None:
    world = await begun(BY_LABEL, "aaa")
    await world.run()
    assert "a rack stores more than one copy of an entry" in (await told(world))[2]
    before = await world.configuration("east-broker")
    await racks_to(world, {**BY_LABEL, "enforceMinimum": True})
    await world.run()
    assert await world.configuration("east-broker") == before
    assert (await told(world))[1] == "TooFewRacks"
    world.workloads.zones[pod(1)] = "b"
    await world.backstage.remove(PODS, NS, pod(1))
    await world.run()
    assert await world.configuration("east-broker") != before and await world.all_ready() == {}


async def test_bookies_are_rolled_rack_by_rack() -> None:
    world = await begun(BY_LABEL, bookies=4)
    await world.run()
    before = len(world.journal.effects)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"flushInterval": "70000"}))
    await world.run(rounds=300)
    gone = [c.name for c in world.journal.effects[before:] if c.verb == "evict" and c.name.startswith(WORKLOAD)]
    assert gone == [pod(3), pod(1), pod(2), pod(0)], "all of /b, then all of /a"


async def test_paused_nothing_is_written_and_it_is_told() -> None:
    world = await up(None)
    await world.dry_run(Kind.CLUSTER, "east")
    await racks_to(world, BY_ORDINAL)
    await world.settle(rounds=5)
    assert entries(world) == FOREIGN
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert [each for each in pending if "racks of bookies to znode /bookies" in each]


def dropping(world: LedgerWorld, lost: int | None) -> list[PortCall]:
    """The answer of one write about racks is lost; which writes there were."""
    found: list[PortCall] = []

    def drop(call: PortCall) -> None:
        of_racks = call.name in (RACKS_PATH, RECORD_PATH) or (call.kind == PODS.kind and call.verb == "apply")
        if call.is_write and of_racks:
            found.append(call)
            if len(found) - 1 == lost:
                raise UnavailableError("the answer was lost")

    world.journal.after.append(drop)
    return found


@pytest.mark.parametrize("racks", [pytest.param(BY_LABEL, marks=[pytest.mark.slow, pytest.mark.faults]), BY_ORDINAL])
async def test_the_answer_of_any_write_is_lost_while_racks_come_and_go(racks: Json) -> None:
    base = await up(None)
    number, writes = 0, 1
    while number < writes:
        world = copy.deepcopy(base)
        found = dropping(world, number)
        await racks_to(world, racks)
        await world.run(rounds=200)
        assert ours(world) == {pod(0): "/a", pod(1): "/b", pod(2): "/a"}, str(found[number])
        await racks_to(world, None)
        await world.run(rounds=200)
        assert entries(world) == FOREIGN and json.loads(world.store.nodes[RECORD_PATH].data) == {}
        assert await world.all_ready() == {} and world.dataplane.unplaced == []
        number, writes = number + 1, len(found)
    assert writes >= 4


async def test_the_answer_is_lost_when_a_bookie_that_left_is_taken_out() -> None:
    world = await up(BY_ORDINAL)
    found = dropping(world, 0)
    await world.resize(2)
    await world.run(rounds=200)
    assert ours(world) == {pod(0): "/a", pod(1): "/b"} and [c.name for c in found] == [RACKS_PATH, RECORD_PATH]
    assert await world.replicas() == 2 and DECOMMISSION_RECORD_PATH not in world.store.nodes


async def test_somebody_writes_between_the_look_and_the_write() -> None:
    """Compare-and-set: what the other wrote is kept, and ours comes with the next pass."""
    world = await up(None)
    more = {**FOREIGN, "later": {"new:3181": {"rack": "/n"}}}

    def between(call: PortCall) -> None:
        if call.is_write and call.name == RECORD_PATH:
            world.journal.before.remove(between)
            world.store.put(RACKS_PATH, json.dumps(more))

    world.journal.before.append(between)
    await racks_to(world, BY_ORDINAL)
    await world.run()
    found = entries(world)
    assert found["later"] == more["later"] and found["default"][bookie(1)]["rack"] == "/b"
