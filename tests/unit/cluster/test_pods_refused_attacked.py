"""Hostile or odd words of admission, and a status that is old: nothing more is evicted, nothing gets stuck."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.adapters.kube_http import BudgetError, error_of
from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, Json, RefusedError
from tests.fakes.kube_calls import Call
from tests.support.cluster.rolls import NEW, OLD, images, reason, three, until, version
from tests.support.cluster.stateful_sets import pod as pod_of
from tests.support.cluster.workloads import Trouble, is_ready
from tests.support.cluster.world import NS
from tests.unit.cluster.test_pods_refused import kube, refusing


@pytest.mark.parametrize("amount", ["1e999999E", "1e99999999999999999999", "NaN", "1.2.3", "sNaN"])
async def test_a_quota_whose_amounts_are_no_numbers_ends_no_pass(amount: str) -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    words = f"exceeded quota: team, requested: pods={amount}, used: pods=1, limited: pods=1"
    kube(world).admission.append(refusing(lambda: RefusedError(words, status=403), image=NEW))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(6):
        await world.round()
    assert world.journal.pods_gone() == []
    assert await reason(world) == "PodRefused"


async def test_control_characters_of_a_webhook_are_in_no_condition() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    words = 'admission webhook "x" denied the request: \x1b[2J\x1b]0;owned\x07\u202e no'
    kube(world).admission.append(refusing(lambda: RefusedError(words, status=403), image=NEW))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    message = (await world.condition(Kind.CLUSTER, "east", "Progressing"))[2]
    assert "denied the request" in message
    assert message.isprintable(), repr(message)


LEAK = "https://u:hunter2@h/ token=hunter2 no"


async def test_secrets_in_the_words_of_a_budget_are_in_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers 429 and speaks of a disruption budget, such as a webhook, is quoted."""
    raw = json.dumps({"kind": "Status", "message": f"disruption budget service: {LEAK}"}).encode()
    words = error_of(429, {}, raw, "POST x")
    assert isinstance(words, BudgetError)
    world = await three(jumps=f"{OLD} -> {NEW}")

    async def evict(namespace: str, name: str, *, uid: str) -> str | None:
        return str(words)

    monkeypatch.setattr(kube(world), "evict", evict)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(6):
        await world.round()
    assert "disruption budget service" in str(await world.status(Kind.CLUSTER, "east"))
    assert "hunter2" not in str(await world.status(Kind.CLUSTER, "east"))


async def test_secrets_in_the_words_of_a_proxy_are_in_no_status() -> None:
    """An API server behind a proxy that answers with a page of its own."""
    world = await three(jumps=f"{OLD} -> {NEW}")

    def hook(call: Call) -> None:
        if call.verb == "evict":
            raise error_of(503, {}, f"<html>{LEAK}</html>".encode(), "POST x")

    kube(world).before.append(hook)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(6):
        await world.round()
    assert "hunter2" not in str(await world.status(Kind.CLUSTER, "east"))


async def test_a_pod_that_was_missing_long_ago_stops_no_roll() -> None:
    """An operator that was away does not know that the pod came back, and finds it missing for a moment once more."""
    world = await three()

    def nobody(pod: Json) -> None:
        if pod["metadata"]["name"] == "east-broker-2" and pod["spec"]["containers"][0]["image"].endswith(NEW):
            raise RefusedError("wait a moment", status=403)

    kube(world).admission.append(nobody)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: "east-broker-2" in gone)
    for _ in range(4):
        await world.round()
    assert [row["name"] for row in (await world.status(Kind.CLUSTER, "east"))["missingPods"]] == ["east-broker-2"]

    kube(world).admission.clear()  # the operator is away from here
    for _ in range(6):
        await world.workloads.step()
    assert is_ready(await world.get(PODS, "east-broker-2"))
    world.clock.forward(4 * 3600)
    kube(world).admission.append(nobody)
    kube(world).reported.clear()
    await world.backstage.remove(PODS, NS, "east-broker-2")  # a node is drained
    for _ in range(3):
        await world.workloads.step()
    world.restart()
    before = len(world.journal.pods_gone())
    await world.reconcile((await world.keys())[1])
    found = await reason(world)
    kube(world).admission.clear()
    await world.run()
    assert found != "RolloutFailed" and await reason(world) != "RolloutFailed", world.journal.pods_gone()[before:]
    assert await reason(world) == "Ready"


async def test_no_bookie_goes_while_another_is_missing() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")
    await world.backstage.remove(PODS, NS, "east-bookie-0")
    kube(world).admission.append(refusing(lambda: RefusedError("quota", status=403), pods="east-bookie-0"))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(20):
        await world.round()
        world.clock.forward(120)
    assert not [name for name in world.journal.pods_gone() if name in ("east-bookie-1", "east-bookie-2")]


async def test_a_webhook_without_dry_run_costs_one_pod_at_most() -> None:
    world = await three(jumps=f"{OLD} -> {NEW}")

    def plugin(pod: Json) -> None:
        name = pod["metadata"]["name"]
        if pod["spec"]["containers"][0]["image"].endswith(NEW) and name.startswith("east-zookeeper"):
            words = "does not support dry run" if name.endswith("-dry-run") else "no"
            raise RefusedError(words, status=400)

    kube(world).admission.append(plugin)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(30):
        await world.round()
        world.clock.forward(60)
    gone = world.journal.pods_gone()
    assert len(gone) == 1, gone
    assert await reason(world) in ("RolloutFailed", "PodRefused")


STORE = "east-zookeeper.pulsar.svc.cluster.local"


@pytest.mark.parametrize("component", ["zookeeper", "bookie", "broker"])
@pytest.mark.parametrize("away", [False, True], ids=["store answers", "store away"])
async def test_a_version_that_does_not_start_takes_no_second_pod_that_restarted(component: str, away: bool) -> None:
    """The second ran out of memory and is back in a moment, as what it was; replaced, it does not start either."""
    world = await three()
    world.workloads.troubles.append(Trouble(pod=f"east-{component}-*", image=f"*:{NEW}", waiting="ErrImagePull"))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: f"east-{component}-2" in gone)
    for _ in range(3):
        await world.round()
    name = f"east-{component}-1"
    assert not is_ready(await world.get(PODS, f"east-{component}-2"))
    status = pod_of(name, ready=False, was_ready=False, once_ready=True, restarts=1)["status"]
    await world.backstage.set_status(PODS, NS, name, status)
    if away:
        world.unreachable.add(STORE)
    for key in await world.keys():
        await world.reconcile(key)
    world.unreachable.clear()
    for _ in range(4):
        await world.round()
    assert (await images(world, f"east-{component}"))[name].endswith(OLD)
    assert is_ready(await world.get(PODS, name))
