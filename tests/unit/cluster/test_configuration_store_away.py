"""The configuration store stops answering, at every moment: it is told, nothing is begun, and all goes on when it is
back, without a human."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.instance.configuration_store_check import READ_SECONDS, unavailability
from pulsar_operator.domain.dataplane.registration.registration import CLUSTERS_PATH
from pulsar_operator.ports import CUSTOM, PODS, STATEFUL_SETS, Json, RefusedError, UnavailableError
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.copies import converged
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.journal import ADMIN, ZOOKEEPER, PortCall
from tests.support.core.virtual_time import run_virtual

MANAGED, OWN = (f"{name}.pulsar.svc.cluster.local" for name in ("demo-configuration-store", "east-zookeeper"))
AWAY = "ConfigurationStoreUnavailable"
PATIENT = {"metadataStoreSessionTimeoutMillis": "86400000"}
"""Of brokers, as the servers grant it: no outage here outlasts their sessions (test_store_sessions.py has such)."""
LOOKS = 3
"""Rounds in which nothing may happen."""


async def up(*, own: bool = False, change: Callable[[Json], Any] = lambda spec: None) -> ClusterWorld:
    """The quickstart with two brokers, and a store of its own or the cluster's."""
    manifests = quickstart()
    if not own:
        managed = {"replicas": 1, "storage": {"size": "1Gi"}, "config": {"maxSessionTimeout": "86400000"}}
        manifests[0]["spec"]["configurationStore"] = {"managed": managed}
    manifests[1]["spec"]["broker"] |= {"replicas": 2, "drain": {"enabled": False}, "config": dict(PATIENT)}
    change(manifests[1]["spec"])
    world = await converged(*manifests)
    assert await world.all_ready() == {}
    return world


async def store(world: ClusterWorld) -> tuple[str, str]:
    return (await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady"))[:2]


async def progressing(world: ClusterWorld) -> str:
    return (await world.condition(Kind.CLUSTER, "east", "Progressing"))[1]


def config(spec: Json) -> None:
    spec["broker"]["config"] = {**PATIENT, "maxProducersPerTopic": "7"}


# ---------------------------------------------------------------------------------------------------------- the read


class Silent:
    """A store that accepts a session, or not even that, and says nothing."""

    def __init__(self, *, session: bool) -> None:
        self._session = session

    async def session(self, servers: str, chroot: str | None = None) -> Silent:
        if not self._session:
            await asyncio.Event().wait()
        return self

    async def get(self, path: str) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("session", [False, True])
def test_a_store_that_hangs_is_away_after_five_seconds(session: bool) -> None:
    async def ask() -> tuple[str | None, float]:
        deps = cast(Any, type("Deps", (), {"zookeeper": Silent(session=session)}))
        asyncio.get_running_loop().call_later(1000, lambda: None)
        return await unavailability(deps, "zk:2181", None), asyncio.get_running_loop().time()

    words, seconds = run_virtual(ask())
    assert words is not None
    assert "zk:2181 does not answer a read within 5 s" in words
    assert seconds == READ_SECONDS


@pytest.mark.parametrize("own", [False, True])
async def test_a_store_whose_pods_are_ready_and_that_does_not_answer_is_told_and_comes_back(own: bool) -> None:
    world = await up(own=own)
    host = OWN if own else MANAGED
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    settled = world.outcomes[key]
    assert settled.requeue_after is not None and settled.requeue_after + 2 * READ_SECONDS < 30  # type: ignore[union-attr]
    world.unreachable.add(host)
    await world.reconcile(key)
    assert await store(world) == ("False", AWAY)
    assert world.outcomes[key].requeue_after == 5  # type: ignore[union-attr]
    writes = len(world.journal.attempts)
    await world.reconcile(key)
    assert len(world.journal.attempts) == writes, "said once"
    world.unreachable.clear()
    await world.reconcile(key)
    assert await store(world) == ("True", "Ready")
    await world.run()
    assert await world.all_ready() == {}


@pytest.mark.parametrize(("lost", "told"), [(1, ("True", "Ready")), (2, ("False", AWAY))])
async def test_lost_answers_are_over_at_the_next_look_and_did_nothing(lost: int, told: tuple[str, str]) -> None:
    world = await up()
    pods = await world.uids(PODS)

    def lose(call: PortCall) -> None:
        nonlocal lost
        if call.port == ZOOKEEPER and call.name == CLUSTERS_PATH and lost:
            lost -= 1
            raise UnavailableError("the connection was lost")

    world.journal.after.append(lose)
    await world.round()
    assert await store(world) == told
    await world.run()
    assert await store(world) == ("True", "Ready")
    assert await world.uids(PODS) == pods
    assert await world.all_ready() == {}


async def test_addresses_that_are_none_are_no_outage() -> None:
    class Refuses:
        async def session(self, servers: str, chroot: str | None = None) -> None:
            raise RefusedError("no servers")

    with pytest.raises(RefusedError):
        await unavailability(cast(Any, type("Deps", (), {"zookeeper": Refuses()})), "?", None)


# -------------------------------------------------------------------------------------------------------- data plane


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("gone", [0, 1])
async def test_a_roll_stands_still_wherever_it_is(gone: int, own: bool) -> None:
    world = await up(own=own)
    host = OWN if own else MANAGED
    start = len(world.journal.pods_gone())
    if gone == 0:
        world.unreachable.add(host)
        await world.round()
    await world.change(Kind.CLUSTER, "east", config)
    if gone:

        async def far() -> bool:
            return len(world.journal.pods_gone()) - start >= gone

        await world.until(far)
        world.unreachable.add(host)
        await world.round()
    went = len(world.journal.pods_gone())
    for _ in range(LOOKS):
        world.clock.forward(3600)  # no deadline of a roll counts meanwhile
        await world.round()
    assert len(world.journal.pods_gone()) == went
    rollout = (await world.status(Kind.CLUSTER, "east"))["rollout"]
    assert "answer" in rollout["message"] or "configuration store" in rollout["message"]
    if not own:
        assert await progressing(world) == AWAY
    world.unreachable.clear()
    await world.run()
    assert await world.all_ready() == {}
    assert (await world.condition(Kind.CLUSTER, "east", "UpToDate"))[0] == "True"
    assert len(world.journal.pods_gone()) > went


async def test_brokers_that_ended_are_not_replaced_and_get_no_other_template() -> None:
    world = await up()
    world.unreachable.add(MANAGED)
    world.workloads.troubles.append(Trouble(pod="east-broker-*", waiting="CrashLoopBackOff"))
    await world.round()
    for name in ("east-broker-0", "east-broker-1"):  # their nodes are drained: pods that were never ready come
        await world.backstage.remove(PODS, world.namespace, name)
    for _ in range(LOOKS):
        await world.round()
    assert world.workloads.ready[world.namespace, "east-broker"] == 0
    before, template = await world.uids(PODS), await world.configuration("east-broker")
    await world.change(Kind.CLUSTER, "east", config)
    for _ in range(LOOKS):
        world.clock.forward(3600)
        await world.round()
    assert await world.uids(PODS) == before
    assert await world.configuration("east-broker") == template
    world.unreachable.clear()
    world.workloads.troubles.clear()
    await world.run()
    assert await world.all_ready() == {}
    assert await world.configuration("east-broker") != template
    assert not [each for each in world.journal.events if each.reason == "RolloutFailed"]


async def test_what_a_pass_reads_itself_counts_before_any_status_tells() -> None:
    world = await up()
    world.workloads.troubles.append(Trouble(pod="east-broker-*"))
    for name in ("east-broker-0", "east-broker-1"):
        await world.backstage.remove(PODS, world.namespace, name)
    for _ in range(LOOKS):
        await world.round()
    await world.change(Kind.CLUSTER, "east", config)
    before = len(world.journal.pods_gone())
    world.unreachable.add(MANAGED)
    (key,) = [each for each in await world.keys() if each.kind is Kind.CLUSTER]
    for _ in range(LOOKS):
        await world.reconcile(key)
        await world.workloads.step()
    assert await store(world) == ("True", "Ready"), "nobody looked yet"
    assert len(world.journal.pods_gone()) == before


async def test_a_pod_that_was_replaced_right_before_does_not_stop_its_roll() -> None:
    world = await up()
    await world.change(Kind.CLUSTER, "east", config)

    async def replaced() -> bool:
        return "east-broker-1" in world.journal.pods_gone()

    await world.until(replaced)
    world.unreachable.add(MANAGED)
    world.workloads.troubles.append(Trouble(pod="east-broker-1", waiting="CrashLoopBackOff"))
    for _ in range(LOOKS):
        world.clock.forward(3600)
        await world.round()
    world.unreachable.clear()
    await world.round()
    await world.round()
    assert not [each for each in world.journal.events if each.reason == "RolloutFailed"], "its container waits to start"
    world.workloads.troubles.clear()
    await world.run()
    assert await world.all_ready() == {}


async def test_pods_are_neither_removed_nor_added() -> None:
    world = await up()
    world.unreachable.add(MANAGED)
    await world.round()
    for replicas in (1, 3):
        await world.change(Kind.CLUSTER, "east", lambda spec, n=replicas: spec["broker"].update(replicas=n))
        for _ in range(LOOKS):
            await world.round()
        assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
        assert await progressing(world) == AWAY
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=1))
    world.unreachable.clear()
    await world.run()
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 1
    assert await world.all_ready() == {}


async def test_no_bookie_begins_to_leave() -> None:
    one = {"ensembleSize": 1, "writeQuorum": 1, "ackQuorum": 1}
    world = await up(change=lambda spec: spec["bookkeeper"].update(replicas=2, ensemble=one))
    world.unreachable.add(MANAGED)
    await world.round()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(replicas=1))
    for _ in range(LOOKS):
        await world.round()
    assert (await world.get(STATEFUL_SETS, "east-bookie"))["spec"]["replicas"] == 2
    assert await progressing(world) == AWAY
    assert "step" not in str((await world.status(Kind.CLUSTER, "east")).get("bookies"))


async def test_no_bundle_is_moved_in_the_middle_of_a_drain() -> None:
    world = await BusyWorld.up(3)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))

    async def asked() -> bool:
        return any("-drain-" in each for each in await world.names(CUSTOM[Kind.REBALANCE]))

    await world.until(asked)
    world.unreachable.add(OWN)
    await world.round()
    moves = world.busy.moves
    for _ in range(LOOKS):
        world.clock.forward(3600)
        await world.round()
    assert world.busy.moves == moves
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 3
    world.unreachable.clear()
    await world.run(rounds=300)
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
    assert world.busy.displaced == [], "handed over, however long it was away"
    assert await world.all_ready() == {}


# ----------------------------------------------------------------------------------------------------- logical plane


async def test_nothing_is_asked_of_pulsar_or_changed_in_it_and_what_is_as_declared_stays_ready() -> None:
    world = await up()
    world.unreachable.add(MANAGED)
    await world.round()
    tenants = [key for key in await world.keys() if key.kind is Kind.TENANT]
    name = tenants[0].name
    writes, asked = len(world.journal.attempts), len(world.journal.calls)
    for key in await world.keys():
        if key.kind in (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC):
            await world.reconcile(key)
    assert len(world.journal.attempts) == writes, "an outage of a store writes no status of each object"
    assert not [call for call in world.journal.calls[asked:] if call.port == ADMIN]
    assert (await world.condition(Kind.TENANT, name))[0] == "True"
    await world.change(Kind.TENANT, name, lambda spec: spec.update(adminRoles=["new"], deletionPolicy="Delete"))
    await world.round()
    assert (await world.condition(Kind.TENANT, name))[:2] == ("Unknown", AWAY)
    assert "new" not in str(world.pulsar.tenants)
    world.unreachable.clear()
    await world.run()
    assert "new" in str(world.pulsar.tenants)
    assert await world.all_ready() == {}


async def test_a_deletion_waits_and_says_so() -> None:
    world = await up()
    (topic,) = [key.name for key in await world.keys() if key.kind is Kind.TOPIC][:1]
    await world.change(Kind.TOPIC, topic, lambda spec: spec.update(deletionPolicy="Delete"))
    await world.run()
    world.unreachable.add(MANAGED)
    await world.round()
    await world.delete(Kind.TOPIC, topic)
    await world.round()
    assert (await world.condition(Kind.TOPIC, topic, "DeletionBlocked"))[:2] == ("True", AWAY)
    world.unreachable.clear()
    await world.run()
    assert await world.live(Kind.TOPIC, topic) is None
