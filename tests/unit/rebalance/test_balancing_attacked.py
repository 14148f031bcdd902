"""Balancing all the time under attack: one broken answer, one refused right, and an operator that does nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.balance.model.observation import model_of
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint, RefusedError, UnavailableError
from tests.support.balancing.answers import answering
from tests.support.balancing.world import LAST, URL, BalancingWorld
from tests.unit.rebalance.test_handover_driven import BEFORE, NAME, driven, gives_back, minutes, pulsars

GARBAGE = [[1, 2], ["x"], "text", 7, [None], {"a": None}]


@pytest.mark.parametrize("answer", GARBAGE)
async def test_a_broker_that_lists_no_bundles_is_unknown_and_no_more(answer: Any) -> None:
    world = BalancingWorld()
    world.skewed()
    odd = world.pulsar.brokers[2]
    answering(world, lambda asked, path: asked == odd and path[-1] == "ownedNamespaces", answer)
    observed = await Traffic(world.deps, AdminEndpoint("east", URL)).observe()
    assert set(observed.silent) == {odd} or answer == {"a": None}


@pytest.mark.parametrize("answer", [{"boundaries": ["x"]}, {"boundaries": 7}, [1], "text", {"boundaries": [None]}])
async def test_boundaries_that_are_none_are_an_answer_that_cannot_be_read(answer: Any) -> None:
    world = BalancingWorld()
    world.skewed()
    answering(world, lambda asked, path: path[-1] == "bundles", answer)
    with pytest.raises(UnavailableError, match="shop/orders"):
        await Traffic(world.deps, AdminEndpoint("east", URL)).observe()


ODD_DOMAINS = [{"d": None}, {"d": ["b0"]}, {"d": {"brokers": 7}}, {"d": {"brokers": [["x"]]}}]


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        *(("failureDomains", each) for each in [*ODD_DOMAINS, ["x"], "text", 7]),
        *((what, each) for what in ("runtime", "namespaceIsolationPolicies") for each in (["x"], "text", 7)),
    ],
    ids=str,
)
async def test_an_answer_that_is_no_such_document_is_told_and_fails_no_pass(what: str, answer: Any) -> None:
    world = BalancingWorld()
    world.skewed()
    answering(world, lambda asked, path: path[-1] == what, answer)
    world.rebalance(autoApprove=True)
    await world.run(seconds=60)
    status, reason = world.condition("Ready")
    assert status == "False" and reason in ("NoData", "AdminUnreachable", "Measuring"), world.status()


async def test_a_broker_that_is_listed_twice_is_one() -> None:
    world = BalancingWorld()
    world.skewed()
    answering(world, lambda asked, path: path == ["brokers"], [*world.pulsar.brokers, world.pulsar.brokers[0]])
    assert await Traffic(world.deps, AdminEndpoint("east", URL)).brokers() == tuple(world.pulsar.brokers)


@pytest.mark.parametrize("what", ["bundles", "antiAffinity"])
async def test_a_namespace_that_is_not_reported_keeps_no_other_from_being_balanced(what: str) -> None:
    world = driven()
    world.pulsar.namespace("bank/odd", [0, LAST], world.pulsar.brokers[3])
    answering(world, lambda asked, path: path[-3:] == ["bank", "odd", what], RefusedError("HTTP 403", status=403))
    await minutes(world, 30)
    assert gives_back(world) == 0 and world.spread() < 1.5
    assert world.pulsar.owners["bank/odd", 0, LAST] == world.pulsar.brokers[3]
    text = next(c["message"] for c in world.status(NAME)["conditions"] if c["type"] == "Ready")
    assert "1 namespaces (such as bank/odd) are neither moved nor split" in text and "HTTP 403" in text


async def test_most_of_the_traffic_that_is_not_reported_is_no_data() -> None:
    world = driven()
    world.pulsar.namespace("bank/small", [0, LAST], world.pulsar.brokers[3])
    answering(world, lambda asked, path: path[-3:] == ["shop", "orders", "bundles"], RefusedError("no", status=403))
    await minutes(world, 20)
    assert world.condition("Ready", NAME) == ("False", "NoData") and gives_back(world) == 1


async def test_what_brokers_list_of_a_namespace_that_is_not_reported_still_counts_as_their_load() -> None:
    world = BalancingWorld()
    world.skewed()
    quarter = (LAST + 1) // 4
    for number in range(3):
        world.pulsar.namespace(f"bank/n{number}", [0, quarter, LAST], world.pulsar.brokers[2])
    world.pulsar.groups = {"bank/n0": "g"}
    world.pulsar.rates |= {f"persistent://bank/n2/t{number}": 100.0 for number in range(8)}
    before = model_of(await Traffic(world.deps, AdminEndpoint("east", URL)).observe())
    answering(world, lambda asked, path: path[-3:] == ["bank", "n2", "bundles"], RefusedError("no", status=403))
    for look in (Traffic.observe, Traffic.observe_bundles):
        observed = await look(Traffic(world.deps, AdminEndpoint("east", URL)))
        model = model_of(observed)
        assert not observed.unknown and set(observed.unread) == {"bank/n2"}
        assert model.pinned == {"bank/n2", "bank/n0"}, "whose group may have more namespaces"
        weights = {bundle.id: pytest.approx(bundle.weight) for bundle in before.bundles}
        assert {bundle.id: bundle.weight for bundle in model.bundles} == weights
        assert {b.id: b.owner for b in model.bundles} == {b.id: b.owner for b in before.bundles}


@pytest.mark.parametrize("status", [403, 409, 500])
async def test_moves_that_pulsar_refuses_let_pulsar_balance(status: int) -> None:
    world = driven()
    error = UnavailableError("HTTP 500", status=500) if status == 500 else RefusedError("HTTP", status=status)
    answering(world, lambda asked, path: path[-1] in ("unload", "split") and path[0] == "PUT", error)
    await minutes(world, 120)
    assert gives_back(world) >= 1


async def test_moves_that_pulsar_does_not_do_let_pulsar_balance() -> None:
    world = driven()
    world.pulsar.lose_hints = True
    await minutes(world, 120)
    assert gives_back(world) >= 1


async def test_refused_moves_are_tried_a_few_times_a_day_and_at_once_on_request() -> None:
    world = driven()
    refuses = True
    answering(
        world, lambda asked, path: refuses and path[-1] == "unload" and path[0] == "PUT", RefusedError("no", status=403)
    )
    with_pulsar = 0

    def count() -> None:
        nonlocal with_pulsar
        with_pulsar += pulsars(world)

    await minutes(world, 24 * 60, act=count)
    assert 4 <= gives_back(world) <= 6
    assert with_pulsar > 0.85 * 24 * 60 * 2, "two looks a minute"
    failed = world.status(NAME)["failedExecutions"]
    assert failed["count"] > 4 and "no" in failed["message"]
    refuses = False
    world.command("refresh", NAME)
    await minutes(world, 60)
    assert not pulsars(world) and world.spread() < 1.5
    assert "failedExecutions" not in world.status(NAME)


async def test_a_bundle_that_another_client_changed_hands_nothing_over() -> None:
    """Once: the next execution moves what is to be moved."""
    world = driven()
    while world.condition("Executing", NAME)[0] != "True":
        await minutes(world, 0.5)
    world.pulsar.lose_hints = True
    while world.condition("Stopped", NAME)[0] != "True":
        await minutes(world, 0.5)
    assert world.status(NAME)["failedExecutions"]["count"] == 1
    world.pulsar.lose_hints = False
    await minutes(world, 120)
    assert gives_back(world) == 0 and world.spread() < 1.5 and "failedExecutions" not in world.status(NAME)


async def test_a_setting_that_pulsar_refuses_lets_pulsar_balance() -> None:
    world = driven()
    answering(
        world, lambda asked, path: path[-2:] == ["loadBalancerAutoBundleSplitEnabled", "false"], RefusedError("no")
    )
    await minutes(world, 120)
    assert gives_back(world) >= 1 and pulsars(world)


async def test_settings_that_pulsar_does_not_report_leave_them_as_they_are() -> None:
    world = driven()
    answering(world, lambda asked, path: path[-1] == "values", RefusedError("HTTP 401", status=401))
    await minutes(world, 60)
    assert world.pulsar.dynamic == BEFORE


async def test_brokers_whose_ids_change_every_hour_are_balanced_and_nothing_of_the_old_ones_is_kept() -> None:
    world = driven()
    for turn in range(6):
        await minutes(world, 60)
        names = {old: f"n{turn}-{at}.x:8080" for at, old in enumerate(world.pulsar.brokers)}
        world.pulsar.brokers = [names[old] for old in world.pulsar.brokers]
        world.pulsar.owners = {bundle: names[owner] for bundle, owner in world.pulsar.owners.items()}
    await minutes(world, 30)
    tools = world.controller._tools
    (memory,), (silence,) = tools.memories.values(), tools.silences.values()
    known = {broker for broker, _ in memory.records.figures} | set(memory.learned.bases) | set(silence.loads)
    assert known <= set(world.pulsar.brokers)
    assert gives_back(world) == 0


@pytest.mark.parametrize("hours", [-48, 48])
async def test_a_clock_that_jumps_never_has_both_on_and_ends_in_the_same_state(hours: int) -> None:
    world = driven()
    await minutes(world, 30)
    world.pulsar.mute = set(world.pulsar.brokers)
    await minutes(world, 10)
    world.clock.moment += timedelta(hours=hours)
    await minutes(world, 30)
    assert gives_back(world) == 1 and pulsars(world)
    world.clock.moment -= timedelta(hours=2 * hours)
    world.pulsar.mute = set()
    await minutes(world, 60)
    assert gives_back(world) == 1 and not pulsars(world)
