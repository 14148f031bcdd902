"""The ConfigMap of a proposal and other people: what is theirs stays, what they wrote into ours is not done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Json
from tests.support.balancing.world import NS, BalancingWorld, world

__all__ = ["world"]

NAME = "once-proposal"


@pytest.mark.parametrize("owner", [None, "another"])
async def test_a_config_map_of_that_name_stays_as_it_is(world: BalancingWorld, owner: str | None) -> None:
    """To own it would be to delete it with the PulsarRebalance."""
    meta: Json = {"name": NAME, "namespace": NS}
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": owner, "controller": True}
        meta["ownerReferences"] = [reference]
    theirs = world.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"mine": "1"}})
    world.rebalance(autoApprove=True)
    await world.run(seconds=60)
    assert world.kube.live(CONFIG_MAPS, NS, NAME) == theirs
    assert world.condition("ProposalReady") == ("False", "NoData") and world.pulsar.writes == []
    assert f"ConfigMap {NAME} exists" in world.status()["conditions"][0]["message"]
    world.kube.remove(CONFIG_MAPS, NS, NAME)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_what_a_former_object_of_the_name_left_is_in_nobodys_way(world: BalancingWorld) -> None:
    """A drain is made again at once, before Kubernetes has collected what belonged to the last one."""
    world.rebalance()
    await world.run(seconds=5)
    left = world.kube.live(CONFIG_MAPS, NS, NAME)
    assert left is not None
    world.kube.remove(CUSTOM[Kind.REBALANCE], NS, "once")
    if world.kube.live(CONFIG_MAPS, NS, NAME) is None:
        world.kube.put(left)
    world.rebalance(autoApprove=True)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


def shorter(steps: list[Any]) -> None:
    del steps[1:]


def another_place(steps: list[Any]) -> None:
    move = next(each["move"] for each in steps if "move" in each)
    move["to"] = "b0.x:8080"


def another_cut(steps: list[Any]) -> None:
    split = next(each["split"] for each in steps if "split" in each)
    split["at"] = f"0x{int(split['at'], 16) + 1:08x}"


@pytest.mark.parametrize("change", [shorter, another_place, another_cut])
async def test_only_the_steps_that_were_approved_are_done(world: BalancingWorld, change: Any) -> None:
    world.rebalance()
    await world.run()

    def edit(live: Json) -> None:
        steps = json.loads(live["data"]["steps.json"])
        change(steps)
        live["data"]["steps.json"] = json.dumps(steps)

    world.kube.edit(CONFIG_MAPS, NS, NAME, edit)
    world.command("approve")
    await world.run()
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    assert "no longer contains the steps as the operator wrote them" in world.status()["conditions"][0]["message"]
    assert not [each for each in world.pulsar.writes if "/namespaces/" in each]
