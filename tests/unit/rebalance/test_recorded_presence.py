"""Recorded traffic moves and cuts only what is of topics that exist now."""

from __future__ import annotations

import logging
import re

import pytest

from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.observation import SYSTEM_NAMESPACE
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint, RefusedError
from tests.support.balancing.answers import answering
from tests.support.balancing.recorded import BYTES, recorded
from tests.support.balancing.world import LAST, URL, BalancingWorld

ORDERS, OTHERS = "shop/orders", "shop/others"
HALF = 1 << 31


def topics(namespace: str, prefix: str, count: int = 12, domain: str = "persistent") -> list[str]:
    return [f"{domain}://{namespace}/{prefix}{n}" for n in range(count)]


def uneven(*names: str) -> BalancingWorld:
    """Namespaces of one bundle with twelve topics, each at the first of three brokers."""
    world = BalancingWorld()
    for name in names or (ORDERS,):
        world.pulsar.namespace(name, [0, LAST], world.pulsar.brokers[0])
        world.pulsar.rates |= {topic: 100.0 + n for n, topic in enumerate(topics(name, "t"))}
    return world


def cuts(world: BalancingWorld, namespace: str = ORDERS) -> list[int]:
    """Below the fifth and the ninth topic."""
    found = sorted(topic_hash(t) for t in world.pulsar.rates if f"://{namespace}/" in t)
    return [found[4], found[8]]


def remember(world: BalancingWorld, *names: str) -> None:
    world.sizing.result = recorded(world, {name: cuts(world, name) for name in names or (ORDERS,)})


async def ran(world: BalancingWorld) -> list[str]:
    """Every write of an approved rebalance."""
    world.rebalance(trafficSource="Recorded", autoApprove=True, tolerancePercent=1)
    await world.run(seconds=60)
    return [each for each in world.pulsar.writes if "/namespaces/" in each]


def told(world: BalancingWorld) -> str:
    assert world.condition("ProposalReady") == ("False", "NoData")
    return next(str(c["message"]) for c in world.status()["conditions"] if c["type"] == "ProposalReady")


def splits(writes: list[str]) -> list[str]:
    return [each for each in writes if each.endswith("/split")]


async def seen(world: BalancingWorld) -> dict[int, float]:
    """What the namespace's topics weigh to the planner."""
    observed = await Traffic(world.deps, AdminEndpoint("east", URL)).observe_with(world.sizing.result)
    assert not observed.unknown
    return {cell.position: cell.weight for cell in observed.cells[ORDERS].cells()}


# -------------------------------------------------------------------------------------------------- made anew


async def test_a_namespace_created_again_with_other_topics_is_not_cut_by_the_record_of_the_old_one() -> None:
    world = uneven()
    remember(world)
    world.pulsar.rates = dict.fromkeys(topics(ORDERS, "new"), 100.0)
    assert await ran(world) == []
    assert told(world) == (
        "There is no proposal, because no recorded traffic matches the existing namespaces "
        "(shop/orders: 100% of the recorded traffic belongs to topics that no longer exist)"
    )


async def test_a_namespace_created_again_with_the_same_topics_and_other_bundles_is_not_cut_either() -> None:
    world = uneven()
    world.pulsar.namespace(ORDERS, [0, HALF, LAST], world.pulsar.brokers[0])
    remember(world)
    world.pulsar.owners.clear()
    world.pulsar.namespace(ORDERS, [0, HALF + 1, LAST], world.pulsar.brokers[0])
    assert await ran(world) == []
    assert (
        "shop/orders: the namespace was deleted and created again after the recording: a boundary of the namespace at "
        "0x80000000 no longer exists" in told(world)
    )


async def test_the_others_are_proposed_for_and_the_one_created_again_counts_by_what_its_brokers_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = uneven(ORDERS, OTHERS)
    remember(world, ORDERS, OTHERS)
    of_others = {t: rate for t, rate in world.pulsar.rates.items() if f"://{OTHERS}/" in t}
    world.pulsar.rates = {**of_others, **dict.fromkeys(topics(ORDERS, "new"), 100.0)}
    with caplog.at_level(logging.DEBUG):
        made = splits(await ran(world))
    assert made and all("/shop/others/" in each for each in made)
    assert world.pulsar.boundaries[ORDERS] == [0, LAST]
    assert set(world.pulsar.boundaries[OTHERS]) <= {0, *cuts(world, OTHERS), LAST}
    assert "shop/orders" in caplog.text and "no longer exist" in caplog.text
    now = await seen(world)
    assert set(now) == set(map(topic_hash, topics(ORDERS, "new"))) and min(now.values()) > 100 * BYTES


async def test_where_nothing_recorded_exists_any_more_nothing_is_proposed() -> None:
    world = uneven(OTHERS)
    remember(world, OTHERS)
    del world.pulsar.boundaries[OTHERS]
    world.pulsar.owners.clear()
    assert await ran(world) == []
    assert "of the namespaces with recorded traffic exists now" in told(world)


async def test_pulsars_own_namespace_alone_is_no_reason_to_propose() -> None:
    world = uneven(ORDERS, SYSTEM_NAMESPACE)
    remember(world, ORDERS, SYSTEM_NAMESPACE)
    world.pulsar.rates = {t: rate for t, rate in world.pulsar.rates.items() if f"://{ORDERS}/" not in t}
    assert await ran(world) == []
    assert "shop/orders: 100% of the recorded traffic" in told(world)


async def test_a_result_that_recommends_nothing_is_no_reason_to_move() -> None:
    world = uneven()
    world.sizing.result = recorded(world, {})
    assert await ran(world) == []
    assert told(world) == "There is no proposal, because the sizing result has no recommendation: recorded"


async def test_only_some_of_many_namespaces_are_named() -> None:
    names = [f"shop/n{n}" for n in range(5)]
    world = uneven(*names)
    remember(world, *names)
    world.pulsar.rates = {}
    assert await ran(world) == []
    text = told(world)
    assert "shop/n2" in text and "shop/n3" not in text and "; and 2 more)" in text


# ------------------------------------------------------------------------------------- some topics, or idle ones


async def test_idle_topics_that_exist_keep_their_recorded_weight() -> None:
    """No broker counts anything now, as at night; the cuts for the day are made."""
    world = uneven()
    remember(world)
    wanted = {topic_hash(topic): rate * BYTES for topic, rate in world.pulsar.rates.items()}
    made = cuts(world)
    world.pulsar.unloaded, world.pulsar.rates = set(world.pulsar.rates), {}
    assert await seen(world) == wanted
    assert len(splits(await ran(world))) == 2
    assert world.pulsar.boundaries[ORDERS] == [0, *made, LAST]


async def test_deleted_topics_do_not_count_and_no_cut_is_made_for_them() -> None:
    """Of the topics above the upper cut none is there any more."""
    world = uneven()
    remember(world)
    lower, upper = cuts(world)
    kept = {topic: rate for topic, rate in world.pulsar.rates.items() if topic_hash(topic) < upper}
    world.pulsar.rates = kept
    assert await seen(world) == {topic_hash(topic): rate * BYTES for topic, rate in kept.items()}
    assert len(splits(await ran(world))) == 1
    assert world.pulsar.boundaries[ORDERS] == [0, lower, LAST]


async def test_topics_that_are_not_persistent_are_searched_for_where_others_are_missing() -> None:
    world = uneven()
    world.pulsar.rates = {
        topic.replace("persistent", "non-persistent", 1): r for topic, r in world.pulsar.rates.items()
    }
    remember(world)
    assert len(await seen(world)) == 12
    assert len(splits(await ran(world))) == 2


async def test_what_an_observation_asks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One list of a namespace whose topics all exist, two where some do not; of brokers no statistics."""
    world = uneven(ORDERS, OTHERS)
    remember(world, ORDERS, OTHERS)
    world.pulsar.rates.popitem()
    asked: list[tuple[str, ...]] = []
    call = world.pulsar.call

    async def counting(endpoint, method, path, **more):  # type: ignore[no-untyped-def]
        asked.append(tuple(path))
        return await call(endpoint, method, path, **more)

    monkeypatch.setattr(world.pulsar, "call", counting)
    await Traffic(world.deps, AdminEndpoint("east", URL)).observe_with(world.sizing.result)
    lists = sorted(path for path in asked if path[0] in ("persistent", "non-persistent"))
    assert lists == [("non-persistent", *OTHERS.split("/")), *(("persistent", *n.split("/")) for n in (ORDERS, OTHERS))]
    assert ("broker-stats", "topics") not in asked


async def test_a_namespace_of_very_many_topics_is_judged_by_the_bundles_that_can_be_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pulsar_operator.balance.sizing.presence.MOST_LISTED", 11)
    world = uneven()
    world.pulsar.namespace(ORDERS, [0, HALF, LAST], world.pulsar.brokers[0])
    remember(world)
    wanted = await seen(world)
    assert len(wanted) == 12
    lower = [topic for topic in world.pulsar.rates if topic_hash(topic) < HALF]
    del world.pulsar.rates[lower[0]]
    assert set(await seen(world)) == set(wanted) - {topic_hash(lower[0])}
    world.pulsar.rates = dict.fromkeys(topics(ORDERS, "new"), 100.0)
    assert await ran(world) == [] and "no longer exist" in told(world)


async def test_bundles_of_too_many_topics_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_operator.balance.sizing.presence.MOST_LISTED", 3)
    world = uneven()
    remember(world)
    assert await ran(world) == [] and "each bundle of the namespace has more than" in told(world)


async def test_a_list_that_is_not_answered_is_a_missing_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    world = uneven()
    remember(world)
    answer = world.pulsar._answer

    def without(asked, method, path, *more):  # type: ignore[no-untyped-def]
        return {} if path[0] == "persistent" else answer(asked, method, path, *more)

    monkeypatch.setattr(world.pulsar, "_answer", without)
    assert await ran(world) == []
    why = "the answer of the broker is not a list of topics, because it contains a value of type map instead of a name"
    assert f"(shop/orders: the topics of the namespace are not known: {why})" in told(world)


@pytest.mark.parametrize("older", [False, True])
async def test_a_namespace_whose_bundles_are_not_reported_stays_as_it_is(older: bool) -> None:
    """The others are proposed for as recorded, also by a result of an older job, which tells no boundaries."""
    names = (ORDERS, OTHERS, "shop/third", "shop/fourth")
    world = uneven(*names)
    remember(world, *names)
    if older:
        found = [each.model_copy(update={"boundaries_now": ()}) for each in world.sizing.result.namespaces]
        world.sizing.result = world.sizing.result.model_copy(update={"namespaces": tuple(found)})
    refused = RefusedError("HTTP 403", status=403)
    answering(world, lambda asked, path: path[-3:] == ["shop", "orders", "bundles"], refused)
    made = await ran(world)
    assert splits(made) and not any("/shop/orders/" in each for each in made)
    now = await Traffic(world.deps, AdminEndpoint("east", URL)).observe_with(world.sizing.result)
    assert len(now.cells[ORDERS].cells()) == 12, "as its broker counts them"


async def test_a_namespace_whose_topics_are_not_reported_counts_by_what_its_brokers_count() -> None:
    """The others are proposed for as recorded."""
    world = uneven(ORDERS, OTHERS)
    remember(world, ORDERS, OTHERS)
    refused = RefusedError("HTTP 403", status=403)
    answering(world, lambda asked, path: path[1:4] == ["persistent", "shop", "orders"], refused)
    made = splits(await ran(world))
    assert made and all("/shop/others/" in each for each in made)


# ------------------------------------------------------------------------------- right before a cut, again


@pytest.mark.parametrize("source", ["Recorded", "Live"])
async def test_a_cut_whose_topics_went_since_the_proposal_is_not_made(source: str) -> None:
    """The namespace is made anew between proposal and cut, with two topics on one side of every cut."""
    world = uneven()
    remember(world)
    first = sorted(world.pulsar.rates, key=topic_hash)[:2]

    def gone(words: str) -> None:
        if words.endswith("/split"):
            raise AssertionError(f"{words} was asked for")

    world.pulsar.before.append(gone)
    world.rebalance(trafficSource=source, tolerancePercent=1)
    await world.run(seconds=10)
    assert world.condition("ProposalReady") == ("True", "Proposed")
    world.pulsar.rates, world.pulsar.unloaded = {}, set(first)
    world.command("approve")
    await world.run(seconds=60)
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    assert world.pulsar.boundaries[ORDERS] == [0, LAST]
    text = world.status()["conditions"][0]["message"]
    assert re.search(r"because no topic from 0x[0-9a-f]{8} exists any longer and a split cannot be undone", text)
