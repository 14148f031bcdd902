"""A restart that somebody asked for, and does not ask for any more, while its roll is stopped."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_RESTART, Kind
from tests.support.cluster.rolls import BROKEN, reason, three
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld


async def ask(world: ClusterWorld, why: str | None) -> None:
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_RESTART, why)
    await world.run()


async def deadline(world: ClusterWorld) -> None:
    world.clock.forward(700)
    await world.run()


@pytest.mark.parametrize("before", [False, True])
async def test_taken_off_it_settles_where_it_stopped(before: bool) -> None:
    """There is nothing left to restart, also where the request went before the roll stopped."""
    world = await three()
    world.workloads.troubles.append(Trouble(pod="east-broker-1"))
    await ask(world, "certificates")
    assert world.journal.pods_gone()[-1] == "east-broker-1"
    if before:
        await ask(world, None)
        await deadline(world)
    else:
        await deadline(world)
        assert await reason(world) == "RolloutFailed"
        await ask(world, None)
    world.workloads.troubles.clear()
    await world.run()
    assert await reason(world) == "Ready" and await reason(world, "UpToDate") == "RolloutComplete"
    assert "east-broker-0" not in world.journal.pods_gone(), "nobody asks for it any more"


@pytest.mark.parametrize("before", [False, True])
async def test_taken_off_it_does_not_try_again_what_else_failed(before: bool) -> None:
    world = await three()
    world.workloads.troubles.append(BROKEN)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(image={"proxy": "pulsar-proxy:broken"}))
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_RESTART, "certificates")
    await world.run()
    if before:
        await ask(world, None)
    await deadline(world)
    assert await reason(world) == "RolloutFailed"
    seen = len(world.journal.pods_gone())
    await ask(world, None)
    await deadline(world)
    assert world.journal.pods_gone()[seen:] == [], "the image is as broken as it was"
    assert await reason(world) == "RolloutFailed"
    await ask(world, "try once more")
    proxies = [name for name in world.journal.pods_gone()[seen:] if "proxy" in name]
    assert proxies == ["east-proxy-2"], "asked for again it is tried again"
    await deadline(world)
    await ask(world, None)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("image"))
    await world.run()
    assert await reason(world) == "Ready" and await world.all_ready() == {}
