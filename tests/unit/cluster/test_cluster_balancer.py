"""Who balances: spec.loadBalancing.driver, and what is left when it changes back."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.load_balancer import FLAGS
from pulsar_operator.ports import CUSTOM, Json
from tests.support.cluster.world import NS, ClusterWorld, quickstart

NAME = "east-balancer"


def drive(spec: Json) -> None:
    spec["loadBalancing"] = {"driver": "Operator", "rebalance": {"tolerancePercent": 20}}


def leave(spec: Json) -> None:
    spec["loadBalancing"] = {"driver": "Pulsar"}


async def started() -> ClusterWorld:
    world = ClusterWorld.fakes()
    await world.apply(*quickstart())
    await world.run()
    return world


async def test_the_operator_drives_and_gives_back() -> None:
    world = await started()
    assert world.pulsar.dynamic.get("east", {}) == {}
    world.pulsar.dynamic["east"] = {"loadBalancerSheddingEnabled": "true", "theirs": "1"}
    await world.change(Kind.CLUSTER, "east", drive)
    await world.run()
    assert FLAGS.items() <= world.pulsar.dynamic["east"].items()
    spec = (await world.get(Kind.REBALANCE, NAME))["spec"]
    assert (spec["clusterRef"], spec["autoApprove"], spec["tolerancePercent"]) == ({"name": "east"}, True, 20)
    assert await world.all_ready() == {}
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == {"loadBalancerSheddingEnabled": "true", "theirs": "1"}
    assert await world.live(Kind.REBALANCE, NAME) is None
    assert "balancer" not in await world.status(Kind.CLUSTER, "east")


async def test_somebody_elses_rebalance_of_that_name_is_not_taken_over() -> None:
    world = await started()
    body = {"clusterRef": {"name": "east"}, "mode": "Move"}
    await world.apply(
        {
            "apiVersion": "pulsaroperator.io/v1alpha1",
            "kind": "PulsarRebalance",
            "metadata": {"name": NAME, "namespace": NS},
            "spec": body,
        }
    )
    await world.change(Kind.CLUSTER, "east", drive)
    await world.run()
    status, _, message = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert status == "False" and NAME in message
    assert (await world.get(Kind.REBALANCE, NAME))["spec"] == body


async def test_what_was_there_before_is_written_down_first() -> None:
    world = await started()
    world.pulsar.dynamic["east"] = {"loadBalancerSheddingEnabled": "true"}
    seen: list[bool] = []
    await world.change(Kind.CLUSTER, "east", drive)

    async def look() -> None:
        changed = world.pulsar.dynamic["east"]["loadBalancerSheddingEnabled"] == "false"
        saved = (await world.status(Kind.CLUSTER, "east")).get("balancer", {}).get("saved", [])
        seen.append(changed)
        assert not changed or {"name": "loadBalancerSheddingEnabled", "before": "true"} in saved

    await world.run(each=look)
    assert seen[-1]
    assert CUSTOM[Kind.REBALANCE].plural == "pulsarrebalances"
