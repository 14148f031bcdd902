"""controllers/core/traffic.py: what is observed of namespaces and brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pulsar_operator.balance.model.observation import BundleLoad, Observed, model_of
from pulsar_operator.controllers.core.broker_reads import AT_ONCE, READ_ALL_SECONDS, STATS_DEADLINE_SECONDS, ask_each
from pulsar_operator.controllers.core.engine import PASS_SECONDS
from pulsar_operator.controllers.core.traffic import DEFAULT_STATS_PERIOD_SECONDS, Traffic
from pulsar_operator.ports import AdminEndpoint, DeadlineError, UnavailableError
from tests.support.balancing.world import LAST, URL, BalancingWorld
from tests.support.core.virtual_time import run_virtual


async def test_bundles_without_traffic_are_observed() -> None:
    """What has no traffic now weighs nothing, and is still to be moved where its broker goes."""
    world = BalancingWorld()
    world.skewed()
    world.pulsar.namespace("shop/idle", [0, LAST], world.pulsar.brokers[1])
    observed = await Traffic(world.deps, AdminEndpoint("east", URL)).observe()
    assert sorted(observed.boundaries) == ["shop/idle", "shop/orders"]
    assert observed.boundaries["shop/idle"] == (0, LAST)
    assert not observed.unknown


LOOKS_AHEAD = "(?!bank/).*"


async def test_a_namespace_of_an_expression_that_cannot_be_evaluated_stays() -> None:
    world = BalancingWorld()
    world.skewed()
    world.pulsar.isolation = {"odd": {"namespaces": [LOOKS_AHEAD], "primary": [".*"], "secondary": []}}
    traffic = Traffic(world.deps, AdminEndpoint("east", URL))
    observed = await traffic.observe()
    assert observed.undecided == {"shop/orders"} and observed.unevaluated == {"odd": [LOOKS_AHEAD]}
    assert model_of(observed).pinned == {"shop/orders"} and not observed.allowed
    for destination in (None, world.pulsar.brokers[0]):
        why = await traffic.prevents("shop/orders", world.pulsar.brokers, destination=destination)
        assert why is not None and "cannot evaluate" in why


async def test_an_expression_that_backtracks_keeps_no_other_waiting() -> None:
    """Seen on Pulsar 4.0.8, which needs 10 ms for it; Python's own engine does not end."""
    world = BalancingWorld()
    world.skewed()
    hangs = "([a-z0-9./-]+)+!"
    world.pulsar.isolation = {"slow": {"namespaces": [hangs], "primary": [hangs], "secondary": []}}
    world.pulsar.namespace("shop/" + "a" * 60, [0, LAST], world.pulsar.brokers[1])
    observed = await Traffic(world.deps, AdminEndpoint("east", URL)).observe()
    assert not observed.undecided and not observed.allowed


@pytest.mark.parametrize("said", ["9" * 5000, "\u00b2", "\u0661", "x", None])
async def test_a_period_that_is_no_number_is_the_default(said: str | None) -> None:
    world = BalancingWorld()
    world.pulsar.stats_period = said
    assert await Traffic(world.deps, AdminEndpoint("east", URL)).stats_period() == DEFAULT_STATS_PERIOD_SECONDS


# ------------------------------------------------------------------------------------------- statistics of brokers


def traffic_of(world: BalancingWorld) -> Traffic:
    return Traffic(world.deps, AdminEndpoint("east", URL))


def asked_of(world: BalancingWorld, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Statistics that are asked for: of which broker, which."""
    seen: list[tuple[str, str]] = []
    call = world.pulsar.call

    async def noted(endpoint: AdminEndpoint, method: str, path: Any, **more: Any) -> Any:
        if path[0] == "broker-stats":
            seen.append((endpoint.url.removeprefix("http://"), path[1]))
        return await call(endpoint, method, path, **more)

    monkeypatch.setattr(world.pulsar, "call", noted)
    return seen


def loads(observed: Observed) -> dict[str, BundleLoad]:
    return {str(b.id): BundleLoad(b.weight, b.topics, b.clients) for b in model_of(observed).bundles}


@pytest.mark.parametrize("extensible", [False, True])
async def test_whole_bundles_have_the_traffic_of_their_topics(
    extensible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By load reports; under the extensible load manager, which has none, by the statistics of topics."""
    world = BalancingWorld()
    world.skewed()
    world.pulsar.namespace("shop/idle", [0, LAST], world.pulsar.brokers[1])
    world.pulsar.extensible = extensible
    by_topic = await traffic_of(world).observe()
    seen = asked_of(world, monkeypatch)
    by_bundle = await traffic_of(world).observe_bundles()
    assert {kind for _, kind in seen} == ({"load-report", "topics"} if extensible else {"load-report"})
    assert not by_bundle.unknown and by_bundle.boundaries == by_topic.boundaries
    assert by_bundle.owners == by_topic.owners and not by_bundle.cells
    assert loads(by_bundle).keys() == loads(by_topic).keys()
    for name, load in loads(by_topic).items():
        assert loads(by_bundle)[name] == (pytest.approx(load.weight), load.topics, load.clients)
    assert sum(load.topics for load in loads(by_bundle).values()) == 24


@pytest.mark.parametrize("mode", ["RemoveBrokers", "AddBrokers"])
async def test_a_drain_asks_for_no_statistics_of_topics(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the plan to the measurement at its end."""
    world = BalancingWorld()
    world.skewed()
    if mode == "AddBrokers":
        world.pulsar.brokers.append("b3.x:8080")
    seen = asked_of(world, monkeypatch)
    name = world.pulsar.brokers[0 if mode == "RemoveBrokers" else 3]
    world.rebalance(mode=mode, brokers=[name], autoApprove=True)
    await world.run()
    assert world.condition("Completed")[0] == "True" and world.status()["measured"]
    assert world.pulsar.writes, "bundles were moved"
    assert [kind for _, kind in seen] == ["load-report"] * 2 * len(world.pulsar.brokers)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "not a broker-stats/topics document, because the value at the top is of type array instead of map"),
        (
            {"shop/orders": 5},
            "not a broker-stats/topics document, because the value for a namespace is of type number instead of map",
        ),
        (None, "empty, because the broker has no statistics yet (it computes them once a minute)"),
        ({"shop/orders": {"b": {"d": {"t": {"x": [[[[[[[[[[[[[[]]]]]]]]]]]]]] * 9}}}}}, None),
    ],
)
async def test_an_answer_that_is_none_is_reported_of_its_broker(
    answer: Any, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of it counts; the others' does."""
    world = BalancingWorld()
    world.skewed()
    odd = world.pulsar.brokers[1]
    stats = world.pulsar._stats
    monkeypatch.setattr(world.pulsar, "_stats", lambda broker: answer if broker == odd else stats(broker))
    observed = await traffic_of(world).observe()
    assert observed.silent == (
        {odd: f"the statistics of broker {odd} cannot be used (the answer of the broker is {words})"} if words else {}
    )
    assert sum(len(cells.cells()) for cells in observed.cells.values()) == 24 + (words is None)


async def test_a_broker_that_does_not_name_its_bundles_is_asked_for_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = BalancingWorld()
    world.skewed()
    silent = world.pulsar.brokers[2]
    world.pulsar.mute.add(silent)
    seen = asked_of(world, monkeypatch)
    for observe in (traffic_of(world).observe, traffic_of(world).observe_bundles):
        observed = await observe()
        assert [each.partition(" (")[0] for each in observed.silent.values()] == [
            f"the bundles of broker {silent} cannot be used"
        ]
    assert silent not in {broker for broker, _ in seen}


def test_an_observation_ends_before_its_pass_is_stopped() -> None:
    """With time left for bundles, namespaces and the plan; what was read would be lost with the pass."""
    assert STATS_DEADLINE_SECONDS < READ_ALL_SECONDS <= PASS_SECONDS - 120


async def test_each_observation_begins_with_another_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some take all the time that a look has, the others are read in the next one."""
    world = BalancingWorld()
    world.skewed()
    world.pulsar.brokers += [f"b{number}.x:8080" for number in range(3, 60)]
    for number in range(60):
        world.pulsar.namespace(f"bank/n{number:02}", [0, LAST], world.pulsar.brokers[number])
    asked: dict[str, list[str]] = {}
    call = world.pulsar.call

    async def noted(endpoint: AdminEndpoint, method: str, path: Any, **more: Any) -> Any:
        which = path[2] if path[-1] == "bundles" else endpoint.url
        asked.setdefault(path[-1], []).append(which)
        return await call(endpoint, method, path, **more)

    monkeypatch.setattr(world.pulsar, "call", noted)
    first: dict[str, set[str]] = {}
    for _ in range(5):
        asked.clear()
        observed = await traffic_of(world).observe()
        assert list(observed.boundaries) == sorted(observed.boundaries) and not observed.unknown
        for what in ("ownedNamespaces", "topics", "bundles"):
            first.setdefault(what, set()).add(asked[what][0])
    assert all(len(found) > 1 for found in first.values()), first


def test_those_that_are_not_reached_are_others_each_time() -> None:
    async def ask(name: str) -> str:
        await asyncio.sleep(READ_ALL_SECONDS - 1 if name < "b16" else 1)
        return name

    async def scenario() -> None:
        names, read = [f"b{number:02}" for number in range(40)], set()
        for start in range(0, 40, 8):
            found = await ask_each(names, ask, start=start)
            assert list(found) == names
            read |= {name for name, answer in found.items() if answer == name}
        assert read == set(names)

    run_virtual(scenario())


def test_a_few_are_asked_at_once_and_all_within_a_time() -> None:
    """Whoever is silent: the others are read, and who was not reached by the end is told."""
    running, most = 0, 0

    async def ask(name: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(100 if name.startswith("slow") else 1)
        finally:
            running -= 1
        if name == "away":
            raise UnavailableError("gone")
        return name.upper()

    async def scenario() -> None:
        began = asyncio.get_running_loop().time()
        found = await ask_each(["away", *(f"b{n}" for n in range(3 * AT_ONCE))], ask)
        assert list(found) == ["away", *(f"b{n}" for n in range(3 * AT_ONCE))] and found["b7"] == "B7"
        assert isinstance(found["away"], UnavailableError) and most == AT_ONCE
        assert asyncio.get_running_loop().time() - began < 5
        began = asyncio.get_running_loop().time()
        many = [f"slow{n}" for n in range(4 * AT_ONCE)]
        late = await ask_each(many, ask)
        assert asyncio.get_running_loop().time() - began == pytest.approx(READ_ALL_SECONDS, abs=1)
        told = [isinstance(late[name], DeadlineError) for name in many]
        rounds = int(READ_ALL_SECONDS // 100)
        assert told[: (rounds - 1) * AT_ONCE] == [False] * (rounds - 1) * AT_ONCE and all(told[rounds * AT_ONCE :])
        assert running == 0
        with pytest.raises(KeyError):
            await ask_each(["x"], fails)

    async def fails(name: str) -> None:
        raise KeyError(name)

    run_virtual(scenario())
