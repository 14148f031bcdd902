"""PulsarRebalance from proposal to measurement, on brokers in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_REBALANCE, Kind
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM
from tests.support.balancing.world import LAST, NS, BalancingWorld, world

__all__ = ["world"]


async def test_a_proposal_is_shown_and_waits(world: BalancingWorld) -> None:
    world.rebalance()
    await world.run()
    assert world.condition("ProposalReady") == ("True", "Proposed")
    assert world.condition("Ready") == ("False", "WaitingForApproval")
    assert world.pulsar.writes == []
    status = world.status()
    assert status["proposal"]["before"]["imbalance"] == "3.00"
    assert float(status["proposal"]["after"]["imbalance"]) < 1.2
    assert status["summary"].startswith("3.00 -> ")
    steps = world.kube.live(CONFIG_MAPS, NS, status["proposal"]["configMapName"])
    assert steps is not None
    machine = json.loads(steps["data"]["steps.json"])
    assert len(machine) == status["proposal"]["moves"] + status["proposal"]["splits"] > 0
    assert "because" in steps["data"]["steps.txt"]


async def test_an_approved_proposal_is_executed_and_measured(world: BalancingWorld) -> None:
    world.rebalance()
    await world.run()
    promised = float(world.status()["proposal"]["after"]["imbalance"])
    world.command("approve")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    assert world.condition("Ready") == ("True", "Completed")
    status = world.status()
    assert status["progress"]["done"] == status["progress"]["total"] > 0
    assert world.spread() == pytest.approx(promised, abs=0.02)
    assert float(status["measured"]["imbalance"]) == pytest.approx(promised, abs=0.02)
    assert ANNOTATION_REBALANCE not in (world.live()["metadata"].get("annotations") or {})
    assert world.pulsar.dynamic == {}
    events = [e.reason for e in world.kube.events]
    assert events.count("StepDone") == status["progress"]["total"]


async def test_auto_approval(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    assert world.spread() < 1.2


async def test_pulsars_balancer_is_off_during_every_step_and_restored(world: BalancingWorld) -> None:
    world.pulsar.dynamic = {"loadBalancerSheddingEnabled": "true", "other": "7"}
    seen: list[dict[str, str]] = []

    def look(words: str) -> None:
        if "/namespaces/" in words:
            seen.append(dict(world.pulsar.dynamic))

    world.pulsar.before.append(look)
    world.rebalance(autoApprove=True)
    await world.run()
    assert seen and all(FLAGS.items() <= flags.items() for flags in seen)
    assert world.pulsar.dynamic == {"loadBalancerSheddingEnabled": "true", "other": "7"}
    cluster = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert cluster is not None and "balancer" not in cluster["status"]


async def test_a_broker_that_does_not_answer_is_unknown_not_idle(world: BalancingWorld) -> None:
    world.pulsar.mute = {world.pulsar.brokers[2]}
    world.rebalance(autoApprove=True)
    await world.run(seconds=30)
    assert world.condition("ProposalReady") == ("False", "NoData")
    assert world.pulsar.brokers[2] in world.live()["status"]["conditions"][0]["message"]
    assert world.pulsar.writes == []
    world.pulsar.mute = set()
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_nothing_to_do_is_complete(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    await world.run()
    world.rebalance("again", autoApprove=True)
    before = list(world.pulsar.writes)
    await world.run("again")
    assert world.condition("Completed", "again") == ("True", "Balanced")
    assert world.pulsar.writes == before


async def test_stop_ends_after_the_step_and_gives_the_balancer_back(world: BalancingWorld) -> None:
    world.rebalance()
    await world.run()
    total = world.status()["proposal"]["moves"]
    world.command("approve")

    def stop(words: str) -> None:
        if words.endswith("/unload"):
            world.pulsar.after.clear()
            world.command("stop")

    world.pulsar.after.append(stop)
    await world.run()
    assert world.condition("Stopped") == ("True", "StoppedByUser")
    assert sum(w.endswith("/unload") for w in world.pulsar.writes) < total
    assert world.pulsar.dynamic == {}
    assert ANNOTATION_REBALANCE not in (world.live()["metadata"].get("annotations") or {})
    world.command("refresh")
    await world.run()
    assert world.condition("ProposalReady") == ("True", "Refreshed")


def another_move(world: BalancingWorld) -> None:
    for key in list(world.pulsar.owners):
        world.pulsar.owners[key] = world.pulsar.brokers[2]


def another_split(world: BalancingWorld) -> None:
    bounds = world.pulsar.boundaries["shop/orders"]
    for lower, upper in zip(list(bounds), bounds[1:], strict=False):
        world.pulsar._split("shop/orders", (lower, upper), [lower + 12345])


def namespace_gone(world: BalancingWorld) -> None:
    world.pulsar.boundaries.clear()


def broker_gone(world: BalancingWorld) -> None:
    for broker in world.pulsar.brokers[1:]:
        world.pulsar.mute.add(broker)
    del world.pulsar.brokers[1:]


def policy_made(world: BalancingWorld) -> None:
    first = world.pulsar.brokers[0].rsplit(":", 1)[0]
    world.pulsar.isolation = {"only": {"namespaces": ["shop/.*"], "primary": [first], "secondary": []}}


def odd_policy(world: BalancingWorld) -> None:
    world.pulsar.isolation = {"odd": {"namespaces": ["(?=shop).*"], "primary": [".*"], "secondary": []}}


@pytest.mark.parametrize("mode", ["Full", "Split", "Move"])
async def test_an_expression_that_cannot_be_evaluated_is_named_and_its_namespaces_stay(
    world: BalancingWorld, mode: str
) -> None:
    odd_policy(world)
    world.rebalance(mode=mode, autoApprove=True)
    await world.run()
    assert not any(w.endswith(("/unload", "/split")) for w in world.pulsar.writes)
    message = next(c["message"] for c in world.status()["conditions"] if c["type"] == "ProposalReady")
    assert "1 namespaces (such as shop/orders) are neither moved nor split" in message
    assert 'cannot evaluate the expressions "(?=shop).*" of policy "odd"' in message


async def test_a_split_is_not_made_once_an_expression_cannot_be_evaluated(world: BalancingWorld) -> None:
    world.rebalance(mode="Split")
    await world.run()
    odd_policy(world)
    world.command("approve")
    await world.run()
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    assert not any(w.endswith("/split") for w in world.pulsar.writes)


@pytest.mark.parametrize(
    ("surprise", "words"),
    [
        (policy_made, "an isolation policy no longer allows"),
        (odd_policy, "has an expression that the operator cannot evaluate"),
        (another_move, "no longer on"),
        (another_split, "is no longer a bundle"),
        (namespace_gone, "no longer exists"),
        (broker_gone, "no longer exists"),
    ],
)
async def test_the_first_surprise_stops_it(world: BalancingWorld, surprise: Any, words: str) -> None:
    world.rebalance(mode="Move")
    await world.run()
    assert world.condition("ProposalReady")[0] == "True"
    surprise(world)
    world.command("approve")
    await world.run()
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    message = next(c["message"] for c in world.status()["conditions"] if c["type"] == "Stopped")
    assert words in message and "refresh" in message
    assert world.condition("Stalled") == ("True", "PlanInvalidated")
    assert not any(w.endswith(("/unload", "/split")) for w in world.pulsar.writes)
    assert world.pulsar.dynamic == {}


async def test_a_bundle_that_comes_to_another_broker_is_moved_on(world: BalancingWorld) -> None:
    world.pulsar.elsewhere = {world.pulsar.brokers[2]: 1}
    world.rebalance(mode="Move")
    await world.run()
    promised = float(world.status()["proposal"]["after"]["imbalance"])
    world.command("approve")
    await world.run()
    assert world.pulsar.elsewhere == {world.pulsar.brokers[2]: 0}
    assert world.condition("Completed") == ("True", "Completed")
    assert world.spread() == pytest.approx(promised, abs=0.02)
    moves = sum(w.endswith("/unload") for w in world.pulsar.writes)
    assert moves == world.status()["proposal"]["moves"] + 1


async def test_a_bundle_off_a_broker_that_goes_may_be_anywhere(world: BalancingWorld) -> None:
    gone, _, third = world.pulsar.brokers
    world.pulsar.elsewhere = {third: 1}
    world.rebalance(mode="RemoveBrokers", brokers=[gone], autoApprove=True)
    await world.run()
    assert world.condition("Completed")[0] == "True"
    assert gone not in world.pulsar.owners.values() and world.pulsar.elsewhere == {third: 0}
    assert sum(w.endswith("/unload") for w in world.pulsar.writes) == world.status()["proposal"]["moves"]


async def test_an_errand_begins_again_after_a_surprise_alone(world: BalancingWorld) -> None:
    gone = world.pulsar.brokers[0]
    world.rebalance(mode="RemoveBrokers", brokers=[gone], autoApprove=True, repeatSeconds=30)

    def once(words: str) -> None:
        if words.endswith("/unload"):
            world.pulsar.after.clear()
            another_split(world)

    world.pulsar.after.append(once)
    await world.run()
    assert gone not in world.pulsar.owners.values()
    assert any(e.reason == "PlanInvalidated" for e in world.kube.events)
    done = len(world.pulsar.writes)
    for key in list(world.pulsar.owners)[:2]:
        world.pulsar.owners[key] = gone
    await world.run()
    assert len(world.pulsar.writes) == done


async def test_a_split_that_pulsar_answers_and_does_not_do_is_noticed(world: BalancingWorld) -> None:
    world.pulsar.namespace("shop/one", [0, LAST], world.pulsar.brokers[0])
    world.pulsar.rates = {f"persistent://shop/one/t{n}": 500.0 for n in range(30)}
    world.pulsar.split_nothing = True
    world.rebalance(mode="Split", autoApprove=True)
    await world.run(seconds=1200)
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    assert "did not split" in world.status()["conditions"][0]["message"]


async def test_a_move_that_pulsar_forgot_is_asked_again_then_given_up(world: BalancingWorld) -> None:
    world.pulsar.lose_hints = True
    world.rebalance(mode="Move", autoApprove=True)
    await world.run(seconds=1200)
    unloads = [w for w in world.pulsar.writes if w.endswith("/unload")]
    assert 2 < len(unloads) < 12 and len(set(unloads)) == 1
    assert world.condition("Stopped") == ("True", "PlanInvalidated")


async def test_bundles_no_client_requests_count_as_moved(world: BalancingWorld) -> None:
    world.pulsar.clients = False
    world.rebalance(mode="Move", autoApprove=True)
    await world.run(seconds=1200)
    assert world.condition("Completed")[0] == "True"


async def test_one_executes_at_a_time(world: BalancingWorld) -> None:
    world.rebalance("one", autoApprove=True)
    world.rebalance("two", autoApprove=True)
    for name in ("one", "two"):
        await world.once(name)
        await world.once(name)
        await world.once(name)
    assert [world.condition("Executing", n)[0] for n in ("one", "two")] == ["True", "True"]
    await world.cluster_pass()
    await world.cluster_pass()
    await world.once("two")
    assert world.condition("Executing", "two") == ("True", "WaitingForBalancer")
    assert not any("unload" in w for w in world.pulsar.writes)
    await world.run("one")
    await world.run("two")
    assert world.condition("Completed", "one")[0] == "True"


async def test_pause_and_dry_run_change_nothing(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True, annotations={"pulsaroperator.io/dry-run": "true"})
    await world.run(seconds=30)
    assert world.pulsar.writes == []
    assert any("move shop/orders/0x" in each for each in world.status()["pendingActions"])
    assert world.condition("ProposalReady") == ("False", "DryRun")
    assert not [o for o in world.kube.all() if o["kind"] == "ConfigMap"]


async def test_a_changed_configmap_is_not_executed(world: BalancingWorld) -> None:
    world.rebalance()
    await world.run()
    name = world.status()["proposal"]["configMapName"]
    world.kube.edit(CONFIG_MAPS, NS, name, lambda o: o["data"].update({"steps.json": "[{}]"}))
    world.command("approve")
    await world.run()
    assert world.condition("Stopped") == ("True", "PlanInvalidated")


async def test_one_that_comes_again_is_stopped_and_not_stalled(world: BalancingWorld) -> None:
    world.pulsar.lose_hints = True
    world.rebalance(mode="Move", autoApprove=True)
    await world.once()
    await world.once()
    assert world.condition("Executing")[0] == "True"
    world.kube.edit(CUSTOM[Kind.REBALANCE], NS, "once", lambda o: o["spec"].update(repeatSeconds=86400))
    await world.run(seconds=1200)
    assert world.condition("Ready") == ("False", "PlanInvalidated")
    assert "Stalled" not in [each["type"] for each in world.status()["conditions"]]


async def test_an_expired_proposal_is_not_executed_but_created_again(world: BalancingWorld) -> None:
    world.rebalance(expireSeconds=60)
    await world.once()
    first = world.status()["proposal"]["id"]
    world.clock.moment = world.clock.moment.replace(minute=5)
    world.command("approve")
    await world.once()
    assert world.condition("ProposalReady") == ("True", "Expired")
    assert world.status()["proposal"]["id"] != first and world.pulsar.writes == []


async def test_an_unknown_command_is_reported(world: BalancingWorld) -> None:
    world.rebalance()
    await world.run()
    world.command("aprove")
    await world.once()
    assert any("aprove" in e.message for e in world.kube.events)
    assert world.condition("ProposalReady")[0] == "True"


async def test_remove_brokers_empties_them(world: BalancingWorld) -> None:
    gone = world.pulsar.brokers[0]
    world.rebalance(mode="RemoveBrokers", brokers=[gone], autoApprove=True)
    await world.run()
    assert world.condition("Completed")[0] == "True"
    assert gone not in world.pulsar.owners.values()


async def test_brokers_are_named_by_their_pods_too(world: BalancingWorld) -> None:
    gone, full, *_ = world.pulsar.brokers
    pods = [broker.partition(".")[0] for broker in (gone, full)]
    held = {bundle for bundle, owner in world.pulsar.owners.items() if owner == full}
    world.rebalance(mode="RemoveBrokers", brokers=pods[:1], excludedBrokers=pods[1:], autoApprove=True)
    await world.run()
    assert world.condition("Completed")[0] == "True"
    assert gone not in world.pulsar.owners.values()
    assert {bundle for bundle, owner in world.pulsar.owners.items() if owner == full} == held


async def test_a_pod_without_a_broker_is_named(world: BalancingWorld) -> None:
    world.rebalance(mode="RemoveBrokers", brokers=["nobody"])
    await world.run(seconds=10)
    assert (
        "spec.brokers names nobody, but only these brokers are registered" in world.status()["conditions"][0]["message"]
    )


async def test_unknown_brokers_are_named(world: BalancingWorld) -> None:
    world.rebalance(mode="RemoveBrokers", brokers=["nobody:8080"])
    await world.run(seconds=10)
    assert "nobody:8080" in world.status()["conditions"][0]["message"]


async def test_a_sizing_result_that_is_missing_or_old_makes_no_proposal(world: BalancingWorld) -> None:
    world.rebalance(trafficSource="Recorded")
    await world.run(seconds=10)
    assert world.condition("ProposalReady") == ("False", "NoData")
    assert "http://prod-sizing.apps:8080" in world.status()["conditions"][0]["message"]
