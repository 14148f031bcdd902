"""Quorums are resolved once: what was recorded at the first bring-up stays until spec.bookkeeper.ensemble changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.registration.metadata import Record, RecordState
from pulsar_operator.domain.render import Quorum
from pulsar_operator.domain.render.config import OVERRIDES_FILE
from pulsar_operator.domain.render.quorum import BROKER_KEYS
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, PODS, STATEFUL_SETS, Json
from tests.fakes.killed import Killed
from tests.support.cluster.copies import converged
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import KUBERNETES, PortCall

RECORD = "east-instance-id"


def objects(bookies: int, ensemble: dict[str, int] | None = None) -> list[Json]:
    found = quickstart()[:2]
    keeper = next(each for each in found if each["kind"] == "PulsarCluster")["spec"]["bookkeeper"]
    keeper["replicas"] = bookies
    if ensemble is not None:
        keeper["ensemble"] = ensemble
    return found


async def brought_up(bookies: int, ensemble: dict[str, int] | None = None) -> ClusterWorld:
    world = await converged(*objects(bookies, ensemble))
    assert await world.all_ready() == {}
    return world


def keeper(bookies: int, **ensemble: int) -> Callable[[Json], None]:
    """A change of the number of bookies and of what is set of ensembles."""

    def change(spec: Json) -> None:
        spec["bookkeeper"] |= {"replicas": bookies, "ensemble": ensemble}

    return change


async def recorded(world: ClusterWorld) -> str | None:
    record = await world.live(CONFIG_MAPS, RECORD)
    return None if record is None else record["data"].get("ensemble")


async def of_brokers(world: ClusterWorld) -> str:
    """What new pods of brokers are given."""
    text = (await world.get(CONFIG_MAPS, await world.configuration("east-broker")))["data"][OVERRIDES_FILE]
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    return "/".join(values[key] for key in BROKER_KEYS)


async def told(world: ClusterWorld) -> str | None:
    """What the status says."""
    found = (await world.status(Kind.CLUSTER, "east")).get("ensemble")
    return found and "/".join(str(found[key]) for key in ("ensembleSize", "writeQuorum", "ackQuorum"))


async def everywhere(world: ClusterWorld) -> set[str | None]:
    return {await recorded(world), await of_brokers(world), await told(world)}


async def test_they_are_on_record_before_any_broker_is_made() -> None:
    world = await brought_up(4)
    assert await everywhere(world) == {"3/3/2"}
    created = [(call.kind, call.name) for call in world.journal.effects if call.port == KUBERNETES]
    assert created.index(("ConfigMap", RECORD)) < created.index(("StatefulSet", "east-bookie"))
    record = await world.get(CONFIG_MAPS, RECORD)
    assert "ownerReferences" not in record["metadata"]


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (1, 3), (5, 3)])
async def test_another_number_of_bookies_changes_no_broker(before: int, after: int) -> None:
    world = await brought_up(before)
    quorum, pods = await of_brokers(world), await world.uids(PODS)
    await world.change(Kind.CLUSTER, "east", keeper(after))
    await world.run()
    assert await everywhere(world) == {quorum}
    broker = "east-broker-0"
    assert (await world.uids(PODS))[broker] == pods[broker]


async def test_fewer_bookies_than_an_ensemble_are_refused_until_it_is_made_smaller() -> None:
    world = await brought_up(4)
    await world.change(Kind.CLUSTER, "east", keeper(2))
    await world.run()
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.bookkeeper.replicas = 2 is less than the recorded ensemble size of 3 bookies" in message
    assert "Set spec.bookkeeper.ensemble.ensembleSize to 2 first" in message
    assert await everywhere(world) == {"3/3/2"}
    await world.change(Kind.CLUSTER, "east", keeper(4, ensembleSize=2))
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[0] == "True"
    assert await everywhere(world) == {"2/2/2"}
    # Taken out again, it stays: only a value changes something.
    await world.change(Kind.CLUSTER, "east", keeper(4))
    await world.run()
    assert await everywhere(world) == {"2/2/2"}


async def test_a_change_is_on_record_before_a_broker_has_it() -> None:
    world = await brought_up(4)
    mark = len(world.journal.effects)
    await world.change(Kind.CLUSTER, "east", keeper(4, writeQuorum=2))
    await world.run()
    assert await everywhere(world) == {"3/2/2"}
    written = [call.name for call in world.journal.since(mark) if call.port == KUBERNETES]
    assert written.index(RECORD) < min(number for number, name in enumerate(written) if name.startswith("east-broker"))


async def nothing(world: ClusterWorld) -> None:
    """Nothing is lost."""


async def record_lost(world: ClusterWorld) -> None:
    await world.backstage.remove(CONFIG_MAPS, NS, RECORD)


async def record_of_before(world: ClusterWorld) -> None:
    """As an operator that kept no quorums wrote it, and no status of them."""
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].pop("ensemble"))
    await status_lost(world)


async def status_lost(world: ClusterWorld) -> None:
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status", None))


async def both_lost(world: ClusterWorld) -> None:
    await record_lost(world)
    await status_lost(world)


async def brokers_lost(world: ClusterWorld) -> None:
    """With their configuration."""
    await world.backstage.remove(STATEFUL_SETS, NS, "east-broker")
    for name in await world.names(CONFIG_MAPS):
        if name.startswith("east-broker-config"):
            await world.backstage.remove(CONFIG_MAPS, NS, name)


async def brokers_and_record_lost(world: ClusterWorld) -> None:
    await record_lost(world)
    await brokers_lost(world)


async def all_but_bookies_lost(world: ClusterWorld) -> None:
    await both_lost(world)
    await brokers_lost(world)


async def object_made_again(world: ClusterWorld) -> None:
    """Deleted with its volumes kept, and applied again."""
    obj = next(each for each in objects(5) if each["kind"] == "PulsarCluster")
    for kind in (Kind.NAMESPACE, Kind.TENANT, Kind.CLUSTER):
        for each in await world.backstage.all(CUSTOM[kind]):
            await world.delete(kind, each["metadata"]["name"])
            await world.run()
    await world.apply(obj)


@pytest.mark.parametrize(
    "loss",
    [
        nothing,
        record_lost,
        record_of_before,
        status_lost,
        both_lost,
        brokers_lost,
        brokers_and_record_lost,
        all_but_bookies_lost,
        object_made_again,
    ],
)
async def test_what_is_lost_loses_no_copies(loss: Callable[[ClusterWorld], Any]) -> None:
    """The number of bookies is lowered in the same moment: three new bookies would get 2/2/2."""
    world = await brought_up(5)
    await loss(world)
    world.restart()
    await world.change(Kind.CLUSTER, "east", keeper(3))
    await world.run()
    assert await everywhere(world) == {"3/3/2"}


async def test_nothing_is_held_to_a_record_before_there_is_a_bookie() -> None:
    world = ClusterWorld.fakes()
    await world.apply(*objects(4))
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-*"))
    await world.run()
    await world.backstage.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RECORD, "namespace": NS},
            "data": Record("id-1", "east", RecordState.INITIALIZING, quorum=Quorum(3, 3, 2)).to_data(),
        }
    )
    world.workloads.troubles.clear()
    await world.change(Kind.CLUSTER, "east", keeper(2))
    await world.run()
    assert await everywhere(world) == {"2/2/2"}


async def put_back(world: ClusterWorld, text: str, *, labels: bool = True) -> None:
    """Somebody restores the record from a backup."""

    def restored(obj: Json) -> None:
        if not labels:
            del obj["metadata"]["labels"]
        obj["data"]["ensemble"] = text

    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, restored)


def repairs(world: ClusterWorld) -> list[str]:
    """What is told of a record that was not believed."""
    return [each.message for each in world.journal.events if each.reason == "DriftRepaired"]


@pytest.mark.parametrize("labels", [True, False])
async def test_a_record_from_an_old_backup_takes_no_copies_away(labels: bool) -> None:
    """The field that asked for more copies is taken out by then, and the list shows what has our labels."""
    world = await brought_up(1)
    old = await recorded(world)
    await world.change(Kind.CLUSTER, "east", keeper(4, ensembleSize=3, writeQuorum=3, ackQuorum=2))
    await world.run()
    await world.change(Kind.CLUSTER, "east", keeper(4))
    await world.run()
    assert (old, await everywhere(world), repairs(world)) == ("1/1/1", {"3/3/2"}, [])
    pods = await world.uids(PODS)
    await put_back(world, "1/1/1", labels=labels)
    await world.run()
    assert await everywhere(world) == {"3/3/2"}
    assert (await world.uids(PODS)) == pods
    (message,) = repairs(world)
    assert f"ConfigMap {RECORD} recorded 1/1/1" in message and "brokers use 3/3/2" in message
    assert "1/1/1, set spec.bookkeeper.ensemble" in message


@pytest.mark.parametrize("change", [{"ensembleSize": 3}, {}])
async def test_a_record_that_cannot_be_read_changes_nothing(change: dict[str, int]) -> None:
    """Until it is repaired: also not where a broker's pod is made anew."""
    world = await brought_up(3)
    await put_back(world, "two of them")
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "MetadataReady"))[1] == "MetadataConflict"
    template = (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"]

    def asked(spec: Json) -> None:
        keeper(3, **change)(spec)
        spec["broker"]["config"] = {"maxProducersPerTopic": "7"}

    await world.change(Kind.CLUSTER, "east", asked)
    await world.run()
    before = await world.uids(PODS)
    await world.backstage.remove(PODS, NS, "east-broker-0")
    await world.run()
    assert before["east-broker-0"] != (await world.uids(PODS))["east-broker-0"]
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"] == template
    assert (await of_brokers(world), await recorded(world)) == ("2/2/2", "two of them")
    rollout = (await world.status(Kind.CLUSTER, "east"))["rollout"]
    assert (rollout["component"], rollout["podsDone"]) == ("broker", 0)
    assert rollout["message"] == f"ConfigMap {RECORD} is damaged. See condition MetadataReady"
    await put_back(world, "2/2/2")
    await world.run()
    assert await everywhere(world) == {"3/2/2" if change else "2/2/2"}
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"] != template


async def test_a_record_that_was_restored_without_labels_is_found() -> None:
    """Without brokers nothing else is known."""
    world = await brought_up(4)
    await brokers_lost(world)
    await put_back(world, "4/3/2", labels=False)
    await world.run()
    assert (await everywhere(world), repairs(world)) == ({"4/3/2"}, [])


async def test_a_change_on_record_is_applied_where_brokers_have_to_wait_for_it() -> None:
    """Killed after the record is written, before any broker has it."""
    world = await brought_up(4)
    written: list[str] = []

    def killed(call: PortCall) -> None:
        if call.port == KUBERNETES and call.is_write and call.name.startswith("east-broker") and not written:
            written.append(call.name)
            raise Killed

    await world.change(Kind.CLUSTER, "east", keeper(4, ensembleSize=2))
    world.journal.before.append(killed)
    with pytest.raises(Killed):
        await world.run()
    assert (written, await recorded(world), await of_brokers(world)) == ([written[0]], "2/2/2", "3/3/2")
    world.restart()
    await world.run()
    assert (await everywhere(world), repairs(world)) == ({"2/2/2"}, [])


async def test_one_pod_has_none() -> None:
    instance, cluster, *_ = quickstart()
    cluster["spec"] = {"instanceRef": cluster["spec"]["instanceRef"], "mode": "Standalone", "standalone": {}}
    world = await converged(instance, cluster)
    assert (await told(world), await world.live(CONFIG_MAPS, RECORD)) == (None, None)


async def test_a_paused_cluster_says_what_it_would_record() -> None:
    world = await brought_up(4)
    await record_of_before(world)
    await world.pause(Kind.CLUSTER, "east")
    await world.run()
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert [each for each in pending if RECORD in each and "quorums 3/3/2" in each]
    assert (await recorded(world), await told(world), await of_brokers(world)) == (None, "3/3/2", "3/3/2")


async def test_who_records_others_in_the_middle_of_a_pass_is_looked_at_first() -> None:
    world = await brought_up(4)
    other = ["2/2/2"]

    def interfere(call: PortCall) -> None:
        if (call.port, call.kind, call.name) == (KUBERNETES, "ConfigMap", RECORD) and call.is_write and other:
            text = other.pop()
            world.backstage.kube.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].update(ensemble=text))

    world.journal.before.append(interfere)
    given: list[str] = []
    await world.change(Kind.CLUSTER, "east", keeper(4, ackQuorum=1))

    async def look() -> None:
        given.append(await of_brokers(world))

    await world.run(each=look)
    assert other == []
    assert await everywhere(world) == {"3/3/1"}
    assert set(given) == {"3/3/2", "3/3/1"}, "never by what nobody asked for"
    assert (
        len(repairs(world)) == 1 and "recorded 2/2/2" in repairs(world)[0] and "now records 3/3/1" in repairs(world)[0]
    )


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_in_a_bring_up_and_changed_then(when: str) -> None:
    """Whatever was brought up for four bookies keeps three copies; what was not is for three. Killed at the writes of
    the record, of the first bookies and of the first brokers."""
    calm = [(call.kind, call.name) for call in (await brought_up(4)).journal.attempts]
    bookies, brokers = ("StatefulSet", "east-bookie"), ("StatefulSet", "east-broker")
    for write in (("ConfigMap", RECORD), bookies, brokers):
        world = ClusterWorld.fakes()
        await world.apply(*objects(4))
        world.journal.arm(calm.index(write), when)
        with pytest.raises(Killed):
            await world.run()
        world.restart()
        begun = await world.live(STATEFUL_SETS, "east-bookie") is not None
        assert begun is (write == brokers or (write, when) == (bookies, "after"))
        await world.change(Kind.CLUSTER, "east", keeper(3))
        await world.run()
        assert await everywhere(world) == {"3/3/2" if begun else "2/2/2"}, f"killed {when} {write}"
