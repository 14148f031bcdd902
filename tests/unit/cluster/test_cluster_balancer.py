"""Who balances: spec.loadBalancing.driver, and what is left when it changes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, Kind
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, AdminEndpoint, Json, UnavailableError
from tests.support.cluster.copies import made_once, ready_world
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import ADMIN, PortCall

NAME = "east-balancer"
RECORD = "east-load-balancer"
SHEDDING, SPLITTING = FLAGS


def drive(spec: Json) -> None:
    spec["loadBalancing"] = {"driver": "Operator", "rebalance": {"tolerancePercent": 20}}


def leave(spec: Json) -> None:
    spec["loadBalancing"] = {"driver": "Pulsar"}


async def started() -> ClusterWorld:
    world = await ready_world()
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


# --------------------------------------------------------------------------- the settings outlive the custom resource


@made_once
async def held(before: dict[str, str] | None = None) -> ClusterWorld:
    """The operator drives; ``before`` are the dynamic settings that it found."""
    world = await started()
    world.pulsar.dynamic["east"] = dict(before or {})
    await world.change(Kind.CLUSTER, "east", drive)
    await world.run()
    assert FLAGS.items() <= world.pulsar.dynamic["east"].items()
    return world


async def delete(world: ClusterWorld) -> None:
    def confirm(obj: Json) -> None:
        obj["metadata"]["annotations"] = {
            **(obj["metadata"].get("annotations") or {}),
            ANNOTATION_CONFIRM_DELETE: "east",
        }

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", confirm)
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def without_status(world: ClusterWorld) -> None:
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status", None))
    await world.run()


def silent(world: ClusterWorld) -> Callable[[], None]:
    """Brokers do not answer until the answer is called."""

    def hook(call: PortCall) -> None:
        if call.port == ADMIN:
            raise UnavailableError("no connection")

    world.journal.before.append(hook)
    return lambda: world.journal.before.remove(hook)


def reasons(world: ClusterWorld) -> list[str]:
    return [event.reason for event in world.journal.events]


async def test_the_record_is_there_while_the_settings_are_ours() -> None:
    world = await held({SHEDDING: "true"})
    assert (await world.get(CONFIG_MAPS, RECORD))["data"] == {SHEDDING: "true", SPLITTING: ""}
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert await world.live(CONFIG_MAPS, RECORD) is None


async def test_a_deleted_cluster_leaves_a_balancer_that_balances(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await held({SHEDDING: "true", "theirs": "1"})
    url = (await world.status(Kind.CLUSTER, "east"))["endpoints"]["brokerWebServiceUrl"]
    asked: list[tuple[str, int]] = []
    call = world.deps.admin.call

    async def seen(endpoint: AdminEndpoint, method: str, path: Sequence[str], **more: Any) -> Any:
        if method != "GET":
            asked.append((endpoint.url, world.workloads.ready[NS, "east-broker"]))
        return await call(endpoint, method, path, **more)

    monkeypatch.setattr(world.deps.admin, "call", seen)
    await delete(world)
    assert asked == [(url, 1)] * 2, "brokers are asked before they are stopped"
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true", "theirs": "1"}
    assert "LoadBalancerResumed" in reasons(world)
    assert await world.live(CONFIG_MAPS, RECORD) is None
    await world.apply(*quickstart())
    await world.run()
    assert await world.all_ready() == {}
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true", "theirs": "1"}


async def test_a_cluster_made_again_that_drives_again_gives_back_what_was_there_first() -> None:
    world = await held()
    await delete(world)
    manifests = quickstart()
    drive(manifests[1]["spec"])
    await world.apply(*manifests)
    await world.run()
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == {}


async def test_a_status_that_was_lost_does_not_make_our_values_the_ones_before() -> None:
    world = await held({SHEDDING: "true"})
    await without_status(world)
    assert (await world.status(Kind.CLUSTER, "east"))["balancer"]["saved"] == [
        {"name": SHEDDING, "before": "true"},
        {"name": SPLITTING},
    ]
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true"}


async def test_a_status_without_a_record_makes_one() -> None:
    """As an operator left it that kept none."""
    world = await held({SHEDDING: "true"})
    await world.backstage.remove(CONFIG_MAPS, NS, RECORD)
    await world.run()
    assert (await world.get(CONFIG_MAPS, RECORD))["data"] == {SHEDDING: "true", SPLITTING: ""}


async def test_a_record_that_was_restored_without_labels_is_believed() -> None:
    world = await held({SHEDDING: "true"})
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["metadata"].pop("labels"))
    mark = len(world.journal.attempts)
    for _ in range(3):
        await world.round()
    assert not [call for call in world.journal.attempts[mark:] if call.kind == "ConfigMap"]
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true"}
    assert await world.live(CONFIG_MAPS, RECORD) is None


async def test_brokers_that_do_not_answer_hold_no_deletion_and_the_next_cluster_gives_back() -> None:
    world = await held({SHEDDING: "true"})
    answer = silent(world)
    await delete(world)
    assert reasons(world).count("LoadBalancerNotResumed") == 1
    assert (await world.get(CONFIG_MAPS, RECORD))["data"] == {SHEDDING: "true", SPLITTING: ""}
    answer()
    await world.apply(*quickstart())
    await world.run()
    assert await world.all_ready() == {}
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true"}
    assert await world.live(CONFIG_MAPS, RECORD) is None


async def test_what_somebody_set_since_is_not_overwritten_from_an_old_record() -> None:
    world = await held({SHEDDING: "true", SPLITTING: "true"})
    answer = silent(world)
    await delete(world)
    answer()
    del world.pulsar.dynamic["east"][SPLITTING]
    await world.apply(*quickstart())
    await world.run()
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true"}


async def test_an_old_record_is_no_word_on_what_is_set_now() -> None:
    world = await held({SHEDDING: "true"})
    answer = silent(world)
    await delete(world)
    answer()
    world.pulsar.dynamic["east"] = {SPLITTING: "true"}
    manifests = quickstart()
    drive(manifests[1]["spec"])
    await world.apply(*manifests)
    await world.run()
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == {SPLITTING: "true"}


async def test_settings_that_a_user_switched_off_stay_off() -> None:
    world = await held(dict(FLAGS))
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == FLAGS


async def test_data_that_is_deleted_takes_the_record_along() -> None:
    world = await held()
    silent(world)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(reclaimPolicy="Delete"))
    await delete(world)
    assert await world.live(CONFIG_MAPS, RECORD) is None


async def test_somebody_elses_configmap_of_that_name_is_not_taken_over() -> None:
    world = await started()
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": NS, "labels": {"app": "theirs"}},
        "data": {"theirs": "1"},
    }
    await world.backstage.put(theirs)
    await world.change(Kind.CLUSTER, "east", drive)
    await world.run()
    status, _, message = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert status == "False" and RECORD in message
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert (await world.get(CONFIG_MAPS, RECORD))["data"] == {"theirs": "1"}
    assert await world.all_ready() == {}


async def test_what_a_person_wrote_into_the_record_beside_it_is_nothing_of_ours() -> None:
    world = await held({SHEDDING: "true", "theirs": "1"})
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].update(theirs="", note="x" * 300))
    mark = len(world.journal.attempts)
    await without_status(world)
    assert not [call for call in world.journal.attempts[mark:] if call.kind == "ConfigMap"]
    answer = silent(world)
    await delete(world)
    answer()
    await world.apply(*quickstart())
    await world.run()
    assert world.pulsar.dynamic["east"] == {SHEDDING: "true", "theirs": "1"}
