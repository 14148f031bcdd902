"""BookKeeper's lostBookieRecoveryDelay, raised for a roll that does not go on as it began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import Json
from tests.support.cluster.copies import made_once
from tests.support.cluster.rolls import reason, three, version
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld

STORE = "east-zookeeper.pulsar.svc.cluster.local:2181"
DELAY = "/ledgers/underreplication/lostBookieRecoveryDelay"


def bookies_alone(spec: Json) -> None:
    """Three bookies, and one of the rest."""
    spec["metadataStore"]["managed"]["replicas"] = spec["broker"]["replicas"] = 1
    spec.pop("proxy")


def unreadable(spec: Json) -> None:
    spec["confirmations"] = [{"action": "RollUnderReplicated", "expiresTime": "2026-02-31T00:00:00Z"}]


async def delay(world: ClusterWorld) -> str:
    return (await world.dataplane.tree(STORE))[DELAY]


@made_once
async def a_bookie_away(pod: str = "east-bookie-2") -> ClusterWorld:
    """A bookie of a roll does not come up; by default the first."""
    world = await three(bookies_alone)
    world.workloads.troubles.append(Trouble(pod=pod))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"gcWaitTime": "60000"}))
    await world.run()
    assert world.journal.pods_gone()[-1] == pod and await delay(world) == "660"
    return world


async def test_a_longer_deadline_raises_it_further_while_a_bookie_is_away() -> None:
    world = await a_bookie_away()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(progressDeadlineSeconds=3600))
    await world.run()
    assert await delay(world) == "3660"
    assert (await world.status(Kind.CLUSTER, "east"))["recoveryDelay"] == {"before": 0, "raised": 3660}
    world.workloads.troubles.clear()
    await world.run()
    assert await delay(world) == "0" and "recoveryDelay" not in await world.status(Kind.CLUSTER, "east")


@pytest.mark.parametrize("refused", [version("4.0.9"), unreadable], ids=["refused", "unreadable"])
async def test_it_is_given_back_although_the_specification_is_refused(refused: Callable[[Json], Any]) -> None:
    """Once the bookie is back, since no other will go."""
    world = await a_bookie_away()
    await world.change(Kind.CLUSTER, "east", refused)
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[0] == "False"
    assert await delay(world) == "660", "the bookie is still away"
    world.workloads.troubles.clear()
    await world.run()
    assert await delay(world) == "0" and "recoveryDelay" not in await world.status(Kind.CLUSTER, "east")
    assert world.journal.pods_gone() == ["east-bookie-2"]


async def test_a_store_that_does_not_answer_is_asked_again() -> None:
    world = await a_bookie_away()
    await world.change(Kind.CLUSTER, "east", unreadable)
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-0"))
    await world.workloads.flap("pulsar", "east-zookeeper-0")
    for _ in range(3):
        await world.round()
    assert (await world.status(Kind.CLUSTER, "east"))["recoveryDelay"] == {"before": 0, "raised": 660}
    world.workloads.troubles.clear()
    await world.run()
    assert await delay(world) == "0"


async def test_a_paused_cluster_says_that_it_stays_raised() -> None:
    world = await a_bookie_away("east-bookie-0")
    await world.pause(Kind.CLUSTER, "east")
    world.workloads.troubles.clear()
    await world.run()
    assert await delay(world) == "660"
    assert (await world.status(Kind.CLUSTER, "east"))["recoveryDelay"] == {"before": 0, "raised": 660}
    status, _, message = await world.condition(Kind.CLUSTER, "east", "Replicated")
    assert status == "True" and "raised from 0 to 660 s" in message and "stays raised" in message
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert [each for each in pending if "lostBookieRecoveryDelay from 660 to 0 s" in each]
    await world.pause(Kind.CLUSTER, "east", on=False)
    await world.run()
    assert await delay(world) == "0" and await reason(world) == "Ready"
    assert (await world.condition(Kind.CLUSTER, "east", "Replicated"))[2].count("raised") == 0
