"""The phases of a pass: what each may write, what stays unknown when one ends the pass, who changes numbers of pods."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.cluster.pipeline import PIPELINES
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView
from pulsar_operator.ports import PODS, SERVICES, STATEFUL_SETS, Json, UnavailableError
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.copies import ready_world
from tests.support.core.journal import PortCall


def config(spec: Json) -> None:
    spec["broker"]["config"] = {"maxProducersPerTopic": "7"}


def fewer(spec: Json) -> None:
    spec["broker"]["replicas"] = 2


@pytest.mark.parametrize("mode", ClusterMode)
def test_each_phase_fills_a_field_of_its_own(mode: ClusterMode) -> None:
    fields = [phase.finds for phase in PIPELINES[mode] if phase.finds is not None]
    assert len(fields) == len(set(fields))
    assert set(fields) <= set(ClusterView.__dataclass_fields__)


async def test_a_phase_writes_what_it_may() -> None:
    world = await ready_world()
    cluster, pod = await world.get(Kind.CLUSTER, "east"), await world.get(PODS, "east-broker-0")
    hand = Actor(world.deps, cluster).limited(frozenset({SERVICES}))
    with pytest.raises(ValueError, match="does not write Pod"):
        await hand.delete(PODS, pod, "for a test")
    with pytest.raises(ValueError, match="does not write StatefulSet"):
        await hand.apply(await world.get(STATEFUL_SETS, "east-broker"), None)
    assert await world.live(PODS, "east-broker-0") is not None


@pytest.mark.parametrize("change", [config, fewer])
@pytest.mark.parametrize(("verb", "kind"), [("list", "PersistentVolumeClaim"), ("get", "ConfigMap")])
async def test_what_a_pass_could_not_see_stays_in_the_status(change: Any, verb: str, kind: str) -> None:
    """The times of a drain would start anew otherwise, and a roll look as if it were over."""
    world = await BusyWorld.up(3)
    await world.change(Kind.CLUSTER, "east", change)

    async def draining() -> bool:
        return bool((await world.status(Kind.CLUSTER, "east")).get("drain"))

    await world.until(draining)
    before = await world.status(Kind.CLUSTER, "east")
    failed: list[PortCall] = []

    def fail(call: PortCall) -> None:
        if (call.verb, call.kind) == (verb, kind):
            failed.append(call)
            raise UnavailableError("HTTP 500: internal error")

    world.journal.before.append(fail)
    for _ in range(3):
        await world.round()
    after = await world.status(Kind.CLUSTER, "east")
    assert failed
    parts = ("rollout", "drain", "broker", "endpoints", "dependents", "balancer")
    assert [after.get(part) for part in parts] == [before.get(part) for part in parts]
    for condition in ("Ready", "Progressing"):
        assert (await world.condition(Kind.CLUSTER, "east", condition))[:2] == ("Unknown", "InternalError")
    world.journal.before.remove(fail)
    await world.run(rounds=600)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    assert world.busy.displaced == []


async def test_a_bookie_that_somebody_added_by_hand_is_emptied_and_removed() -> None:
    world = await ready_world()
    have = (await world.get(STATEFUL_SETS, "east-bookie"))["spec"]["replicas"]

    def more(obj: Json) -> None:
        obj["spec"]["replicas"] = have + 1

    await world.backstage.edit(STATEFUL_SETS, world.namespace, "east-bookie", more)
    await world.run()
    assert (await world.get(STATEFUL_SETS, "east-bookie"))["spec"]["replicas"] == have
    assert len([text for text in world.journal.events if text.reason == "BookieDecommissioned"]) > 0
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
