"""Bookies are removed and added: 3 -> 2 -> 3 in memory, and what may come between."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable

import pytest

from pulsar_operator.api.constants import ANNOTATION_VERIFIED_EMPTY, Kind
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, COOKIES, READONLY, ledger_path
from pulsar_operator.ports import CUSTOM, PODS, PVCS, STATEFUL_SETS, Json, UnavailableError
from tests.fakes.admin import AdminCall
from tests.support.cluster.ledgers import PULSAR, TOPICS, WORKLOAD, LedgerWorld, bookie
from tests.support.cluster.world import NS
from tests.support.core.journal import BOOKIES, ZOOKEEPER, PortCall

STEPS = ["ReadOnly", "Unloading", "Copying", "Verifying", "Stopping", "Forgetting"]
CLAIMS = (f"journal-0-{WORKLOAD}-2", f"ledgers-0-{WORKLOAD}-2")
COOKIE = f"{COOKIES}/{bookie(2)}"
HOUR = 3600.0


@pytest.fixture(scope="module")
def made() -> dict[str, LedgerWorld]:
    """Worlds that were brought up once."""
    return {}


@pytest.fixture
async def world(made: dict[str, LedgerWorld]) -> LedgerWorld:
    """Three bookies, with ledgers of two topics and closed ones on each pair of them."""
    if "three" not in made:
        made["three"] = await LedgerWorld.up(3)
        for _ in range(3):
            made["three"].ledger(state="CLOSED")
    found = copy.deepcopy(made["three"])
    assert found.naming(2), "nothing would be proved"
    return found


At = Callable[[str], Awaitable[LedgerWorld]]


@pytest.fixture
async def at(made: dict[str, LedgerWorld], world: LedgerWorld) -> At:
    """The world with its third bookie at a step of leaving, brought there once."""

    async def there(step: str) -> LedgerWorld:
        if step not in made:
            await world.resize(2)
            for each in STEPS:
                await world.at(each)
                made[each] = copy.deepcopy(world)
        return copy.deepcopy(made[step])

    return there


async def by_hand(world: LedgerWorld, number: int) -> None:
    """Somebody scales the StatefulSet."""
    await world.backstage.edit(STATEFUL_SETS, NS, WORKLOAD, lambda obj: obj["spec"].update(replicas=number))


async def stays(world: LedgerWorld) -> None:
    """Three bookies, all writable, and nothing is under way."""
    assert await world.replicas() == 3 and await world.all_ready() == {}
    assert {bookie(n) for n in range(3)} <= set(world.store.children(AVAILABLE))
    assert world.store.children(READONLY) == [] and MEMO_PATH not in world.store.nodes
    assert "step" not in ((await world.row(2)) or {})
    assert (await world.progressing())[:2] == ("False", "Ready")
    assert world.lost() == []


async def left(world: LedgerWorld) -> None:
    """Two bookies, and nothing of the third but its claims, which are marked."""
    assert await world.replicas() == 2 and await world.row(2) is None
    assert COOKIE not in world.store.nodes and MEMO_PATH not in world.store.nodes
    for claim in CLAIMS:
        text = (await world.get(PVCS, claim))["metadata"]["annotations"][ANNOTATION_VERIFIED_EMPTY]
        assert json.loads(text).keys() == {"bookieId", "instanceId", "ledgersVerifiedEmpty"}
        assert json.loads(text)["bookieId"] == bookie(2)
    assert world.naming(2) == [] and world.lost() == []
    assert await world.all_ready() == {} and (await world.progressing())[:2] == ("False", "Ready")


async def test_three_to_two_and_back(world: LedgerWorld) -> None:
    steps: list[str | None] = []

    async def look() -> None:
        steps.append(((await world.row(2)) or {}).get("step"))

    before = dict(world.written)
    await world.resize(2)
    await world.run(rounds=200, each=look)
    assert [each for each in dict.fromkeys(steps) if each] == STEPS
    await left(world)
    uid = world.volume(bookie(2))
    await world.resize(3)
    await world.run(rounds=200)
    await stays(world)
    assert world.volume(bookie(2)) not in ("", uid), "a volume that ledgers were on starts no bookie again"
    assert before.items() <= world.written.items()


@pytest.mark.parametrize("step", STEPS)
async def test_raised_again_it_stays(at: At, step: str) -> None:
    """With what it has, until its cookie is gone."""
    world = await at(step)
    uid = world.volume(bookie(2))
    assert COOKIE in world.store.nodes
    await world.resize(3)
    await world.run(rounds=200)
    await stays(world)
    assert world.volume(bookie(2)) == uid
    assert len([event for event in world.journal.events if " stays: " in event.message]) == 1, "said once"


async def test_raised_again_when_its_cookie_is_gone_it_comes_back_as_a_new_one(world: LedgerWorld) -> None:
    uid = world.volume(bookie(2))
    await world.resize(2)

    async def forgotten() -> bool:
        return COOKIE not in world.store.nodes

    await world.until(forgotten)
    assert MEMO_PATH in world.store.nodes, "its claims are not marked yet"
    await world.resize(3)
    await world.run(rounds=200)
    await stays(world)
    assert world.volume(bookie(2)) not in ("", uid)


async def test_a_restart_undoes_read_only_and_it_is_told_again(world: LedgerWorld) -> None:
    world.copies = False
    await world.resize(2)
    await world.at("Copying")
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-2")
    await world.workloads.step()
    await world.workloads.step()
    await world.workloads.step()
    await world.dataplane.step(world.workloads.ready)
    assert bookie(2) in world.store.children(AVAILABLE), "it restarted, and takes entries"
    late = world.ledger(state="CLOSED", on=(bookie(0), bookie(2)))
    world.copies = True
    await world.run(rounds=200)
    await left(world)
    assert len([c for c in world.journal.effects if (c.port, c.verb) == (BOOKIES, "set_readonly")]) >= 2
    assert late.ledger in world.ledgers()


async def test_what_was_placed_on_it_at_the_last_moment_brings_it_back(world: LedgerWorld) -> None:
    """A broker that did not know yet that it is read-only: the second look finds it."""
    await world.resize(2)

    async def lowered() -> bool:
        return await world.replicas() == 2

    await world.until(lowered)
    late = world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    await world.run(rounds=300)
    await left(world)
    assert late.ledger in world.ledgers()
    assert [event for event in world.journal.events if event.message.startswith("Deleted the cookie")][1:] == []


async def test_after_its_time_it_is_writable_again_until_something_changes(world: LedgerWorld) -> None:
    world.copies = False
    await world.resize(2)
    await world.at("Copying")
    world.clock.forward(HOUR)
    await world.run(rounds=200)
    status, reason, message = await world.progressing()
    assert (status, reason) == ("False", "DecommissionStuck")
    assert f"{world.naming(2)[0]}" in message and "step Copying" in message
    assert bookie(2) in world.store.children(AVAILABLE) and await world.replicas() == 3
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True", "it serves"
    assert [event.reason for event in world.journal.events].count("DecommissionStuck") == 1
    world.copies = True
    world.clock.forward(10 * HOUR)
    await world.run()
    assert await world.replicas() == 3, "not by time alone"
    await world.change(
        Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(decommission={"timeoutSeconds": 7200})
    )
    await world.run(rounds=200)
    await left(world)


async def test_a_copy_is_asked_for_once_and_again_without_progress(world: LedgerWorld) -> None:
    world.copies = False
    await world.resize(2)
    await world.at("Copying")
    for _ in range(10):
        await world.round()

    def asked() -> int:
        return len([c for c in world.journal.effects if (c.port, c.verb) == (BOOKIES, "recover")])

    assert asked() == 1
    world.clock.forward(301)
    await world.round()
    await world.round()
    assert asked() == 2


async def test_a_topic_that_does_not_close_its_ledgers_keeps_the_bookie(world: LedgerWorld) -> None:
    """apache/bookkeeper#4812: a copy would close the ledger behind its broker's back."""

    def refuses(call: AdminCall) -> None:
        if call.path[-1] == "unload" and not world.unloads:
            raise UnavailableError("HTTP 500", status=500)

    world.unloads = False
    world.admin.before.append(refuses)
    await world.resize(2)
    for _ in range(40):
        await world.round()
    assert await world.replicas() == 3 and ((await world.row(2)) or {})["step"] == "Unloading"
    assert [c for c in world.journal.effects if (c.port, c.verb) == (BOOKIES, "recover")] == []
    assert world.lost() == []
    world.unloads = True
    await world.run(rounds=200)
    await left(world)


async def test_a_ledger_whose_topic_is_gone_is_closed_by_the_copy(world: LedgerWorld) -> None:
    custom = {**PULSAR, "pulsar/managed-ledger": b"shop/orders/persistent/gone"}
    orphan = world.ledger(on=(bookie(1), bookie(2)), custom=custom)
    await world.resize(2)
    await world.run(rounds=200)
    await left(world)
    assert orphan.ledger in world.ledgers()


async def test_many_topics_are_unloaded_a_few_at_a_time(world: LedgerWorld) -> None:
    for number in range(45):
        topic = f"persistent://shop/orders/many-{number}"
        world.pulsar.topics["east"][topic] = copy.deepcopy(world.pulsar.topics["east"][TOPICS[0]])
        world.load(topic)
    await world.resize(2)
    most = 0
    mark = len(world.admin.writes)
    for _ in range(60):
        await world.round()
        most = max(most, len([path for _, path in world.admin.writes[mark:] if path.endswith("/unload")]))
        mark = len(world.admin.writes)
    await world.run(rounds=200)
    assert 10 < most <= 20
    await left(world)


@pytest.mark.parametrize("what", ["namespace", "ledger", "undecodable"])
async def test_what_cannot_be_done_without_it_is_named(world: LedgerWorld, what: str) -> None:
    if what == "namespace":
        path, data = "/admin/policies/shop/wide", json.dumps({"persistence": {"bookkeeperEnsemble": 3}})
        said = "namespace shop/wide takes 3"
    elif what == "ledger":
        wide = world.ledger(state="CLOSED", size=3)
        path, data = ledger_path(wide.ledger), ""
        said = f"ledger {wide.ledger}"
    else:
        path, data = ledger_path(4711), "garbage"
        said = ledger_path(4711)
    if data:
        world.store.put(path, data)
    await world.resize(2)
    await world.run()
    status, reason, message = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused") and said in message
    assert await world.replicas() == 3 and MEMO_PATH not in world.store.nodes
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    assert (await world.condition(Kind.CLUSTER, "east", "Stalled"))[:2] == ("True", "DecommissionRefused")
    world.store.remove(path)
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("wanted", [2, 3])
async def test_lowered_by_hand_it_is_raised_again_and_emptied_first(world: LedgerWorld, wanted: int) -> None:
    uid = world.volume(bookie(2))
    await by_hand(world, 2)
    await world.resize(wanted)
    seen: set[int] = set()

    async def look() -> None:
        seen.add(await world.replicas())
        assert COOKIE in world.store.nodes or world.naming(2) == []

    await world.run(rounds=200, each=look)
    assert 3 in seen
    if wanted == 2:
        await left(world)
    else:
        await stays(world)
    assert world.volume(bookie(2)) == uid


async def test_a_cookie_of_nobody_is_forgotten_once_no_ledger_names_it(world: LedgerWorld) -> None:
    path = f"{COOKIES}/{bookie(11)}"
    world.store.put(path, "cookie")
    await world.run()
    assert path not in world.store.nodes and await world.replicas() == 3


async def test_a_cookie_without_a_volume_is_kept_while_ledgers_name_it(world: LedgerWorld) -> None:
    path = f"{COOKIES}/{bookie(11)}"
    world.store.put(path, "cookie")
    world.put(900, "CLOSED", (bookie(0), bookie(11)), {})
    await world.run()
    assert path in world.store.nodes and await world.replicas() == 3
    told = await world.progressing()
    assert told[:2] == ("False", "DecommissionRefused") and "900" in told[2]


async def test_a_volume_that_is_not_marked_starts_no_bookie(world: LedgerWorld) -> None:
    await world.resize(2)
    await world.run(rounds=200)
    uid = world.volume(bookie(2))

    def strip(obj: Json) -> None:
        del obj["metadata"]["annotations"][ANNOTATION_VERIFIED_EMPTY]

    await world.backstage.edit(PVCS, NS, CLAIMS[1], strip)
    await world.resize(3)
    await world.run()
    told = await world.progressing()
    assert told[:2] == ("False", "ForeignVolume") and CLAIMS[1] in told[2]
    assert await world.replicas() == 2 and world.volume(bookie(2)) == uid
    await world.backstage.remove(PVCS, NS, CLAIMS[1])
    await world.run(rounds=200)
    await stays(world)


async def test_claims_go_where_the_data_may(world: LedgerWorld) -> None:
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy="Delete"))
    await world.resize(2)
    await world.run(rounds=200)
    assert not set(CLAIMS) & set(await world.names(PVCS))
    assert await world.replicas() == 2 and COOKIE not in world.store.nodes and world.lost() == []


@pytest.mark.parametrize("how", ["pause", "dry_run"])
@pytest.mark.parametrize("step", ["ReadOnly", "Copying", "Stopping"])
async def test_paused_nothing_goes_on(at: At, how: str, step: str) -> None:
    world = await at(step)
    hold = getattr(world, how)
    await hold(Kind.CLUSTER, "east")
    await world.round()
    mark = len(world.journal.attempts)
    for _ in range(5):
        await world.round()
    writes = [call for call in world.journal.attempts[mark:] if call.verb != "status"]
    assert writes == [] and ((await world.row(2)) or {})["step"] == step
    await hold(Kind.CLUSTER, "east", on=False)
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("step", STEPS)
async def test_a_lost_status_changes_nothing(at: At, step: str) -> None:
    world = await at(step)
    world.kube.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {})
    assert await world.row(2) is None
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_roll_waits_for_it(world: LedgerWorld, lost: bool) -> None:
    """Also when the status, by which templates are held, is lost again and again."""
    world.copies = False
    await world.resize(2)
    await world.at("Copying")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))
    for _ in range(20):
        if lost:
            world.kube.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {})
        await world.round()
    assert world.journal.pods_gone() == []
    assert f"bookie {bookie(2)} to have left" in (await world.status(Kind.CLUSTER, "east"))["rollout"]["waitingFor"]
    world.copies = True

    async def gone() -> bool:
        return bool(world.journal.pods_gone())

    await world.until(gone, rounds=200)
    assert await world.replicas() == 2 and COOKIE not in world.store.nodes
    await world.run(rounds=300)
    await left(world)


async def test_it_waits_for_a_roll(world: LedgerWorld) -> None:
    def both(spec: Json) -> None:
        spec["broker"]["config"] = {"maxProducersPerTopic": "7"}
        spec["bookkeeper"]["replicas"] = 2

    await world.change(Kind.CLUSTER, "east", both)

    async def begun() -> bool:
        return MEMO_PATH in world.store.nodes

    await world.until(begun, rounds=200)
    assert [name for name in world.journal.pods_gone() if "broker" in name], "the roll came first"
    await world.run(rounds=300)
    await left(world)


@pytest.mark.parametrize("step", ["Unloading", "Stopping", "Forgetting"])
async def test_while_the_store_is_away_nothing_is_done(at: At, step: str) -> None:
    world = await at(step)

    def away(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.verb in ("get", "children"):
            raise UnavailableError("no server answers")

    world.journal.before.append(away)
    before = (await world.replicas(), COOKIE in world.store.nodes)
    await world.round()
    mark = len(world.journal.attempts)
    for _ in range(5):
        await world.round()
    assert [call for call in world.journal.attempts[mark:] if call.port in (ZOOKEEPER, BOOKIES)] == []
    assert (await world.replicas(), COOKIE in world.store.nodes) == before
    world.journal.before.remove(away)
    await world.run(rounds=200)
    await left(world)


@pytest.mark.parametrize("verb", ["get", "apply"])
async def test_scaled_by_hand_right_before_it_is_lowered(at: At, verb: str) -> None:
    """Two replicas less at once would take a bookie that was not emptied."""
    world = await at("Stopping")
    looks: list[str] = []

    def hand(call: PortCall) -> None:
        if (call.verb, call.kind, call.name) == (verb, "StatefulSet", WORKLOAD) and not looks:
            looks.append(call.name)
            world.kube.edit(STATEFUL_SETS, NS, WORKLOAD, lambda obj: obj["spec"].update(replicas=5))

    world.journal.before.append(hand)
    seen: list[int] = []

    async def look() -> None:
        seen.append(await world.replicas())

    await world.run(rounds=400, each=look)
    assert looks and 5 in seen
    numbers = [number for number, before in zip(seen, [3, *seen], strict=False) if number != before]
    assert numbers == [5, 4, 3, 2], "one at a time"
    await left(world)


async def test_a_cluster_that_is_made_again_takes_no_marked_volume(world: LedgerWorld) -> None:
    await world.resize(2)
    await world.run(rounds=200)
    uid = world.volume(bookie(2))
    for name in (f"{WORKLOAD}-{n}" for n in range(3)):
        await world.backstage.remove(PODS, NS, name)
    await world.resize(3)
    await world.backstage.remove(STATEFUL_SETS, NS, WORKLOAD)
    await world.run(rounds=200)
    await stays(world)
    assert world.volume(bookie(2)) not in ("", uid)


async def test_a_statefulset_that_is_made_again_takes_no_foreign_volume(world: LedgerWorld) -> None:
    await world.backstage.remove(STATEFUL_SETS, NS, WORKLOAD)
    for _ in range(3):
        await world.workloads.step()
    node = world.store.nodes.pop(COOKIE)
    for ledger in world.naming(2):
        world.store.remove(ledger_path(ledger))
    await world.run()
    told = await world.condition(Kind.CLUSTER, "east", "BookKeeperReady")
    assert told[:2] == ("False", "ForeignVolume") and CLAIMS[0] in told[2]
    assert await world.live(STATEFUL_SETS, WORKLOAD) is None
    world.store.put(COOKIE, node.data)
    await world.run(rounds=200)
    assert await world.replicas() == 3
