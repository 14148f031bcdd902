"""Brokers that are there before a recorded peak, and every way in which there is no record of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.sizing.result import HottestTopic, SizingResult
from pulsar_operator.controllers.dataplane.observed import forecasts
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.ports import RefusedError, UnavailableError
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.forecasts import Sizing, foreseeing, foresees, inputs, result, rising
from tests.support.cluster.scaling import TARGET, Loads, minutes, row, said, scaling, wanted

AWAY = UnavailableError("the sizing service at http://demo-sizing.pulsar:8080 did not answer: refused")
Moment = Callable[[datetime], SizingResult | Exception | None]


async def at_ten(answer: Moment) -> tuple[BusyWorld, Loads, Sizing]:
    """The same, with an answer by the time that it then is."""
    world, _ = await scaling()
    now = world.clock.now()
    return await foreseeing(answer(now + timedelta(minutes=(70 - now.minute) % 60)))


def with_peak(now: datetime) -> SizingResult:
    return result(now, rising(now))


async def test_brokers_are_there_before_a_recorded_peak() -> None:
    """The record rises from the middle of this hour to that of the next; the load, until then, does not."""
    world, loads, sizing = await at_ten(with_peak)
    assert sizing.asked == [("http://demo-sizing.pulsar:8080", "east")]
    seen: list[int] = []
    for _ in range(24):
        await minutes(world, loads, 1)
        seen.append(await wanted(world))
    assert set(seen) == {2, 3} and seen == sorted(seen), seen
    assert seen[4] == 2, "not half an hour before"
    assert min(world.owned.values()) >= 1, "the new one has its share"
    found, events = await row(world), [e for e in world.journal.events if e.reason == "ScaledOut"]
    assert len(events) == 1 and "Recorded traffic grows 1." in str(events[0])
    told = (await inputs(world))["forecast"]
    assert told["unit"] == "times" and 1.1 < float(told["value"]) <= 1.25 and "no forecast" not in found["message"]
    until, measured = sizing.answer, parse_time(told["measuredTime"])
    assert isinstance(until, SizingResult) and measured is not None
    assert abs(measured - until.to_time) < timedelta(seconds=60), "its age is that of the record"
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 60)
    assert await wanted(world) == 3, "the peak is there, and so are they"
    loads.total = 1.2 * TARGET
    await minutes(world, loads, 20)
    assert await wanted(world) == 2


async def test_without_a_forecast_the_same_load_asks_for_nothing() -> None:
    world, loads, sizing = await at_ten(with_peak)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"]["autoscaling"].pop("forecast"))
    asked = len(sizing.asked)
    await minutes(world, loads, 30)
    assert await wanted(world) == 2 and len(sizing.asked) == asked
    assert "forecast" not in await inputs(world) and "forecast" not in (await row(world))["message"]
    for more in (1, 2):
        await world.change(Kind.CLUSTER, "east", foresees)
        await minutes(world, loads, 1)
        assert len(sizing.asked) == asked + more, "nothing is kept of what was not wanted"
        await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"]["autoscaling"].pop("forecast"))
        await minutes(world, loads, 1)


@pytest.mark.parametrize(
    ("answer", "words", "told"),
    [
        (lambda now: AWAY, f"no forecast, because {AWAY}", False),
        (
            lambda now: RefusedError("it cannot be read: version"),
            "no forecast, because it cannot be read: version",
            False,
        ),
        (lambda now: None, "has no result for cluster east yet", False),
        (result, "no forecast, because the sizing result has no traffic profile", True),
        (
            lambda now: result(now - timedelta(hours=49), rising(now)),
            "no forecast, because recorded traffic ended 49",
            True,
        ),
    ],
    ids=["away", "damaged", "none", "no-profile", "stale"],
)
async def test_no_record_stops_nothing_and_is_said(answer: Moment, words: str, told: bool) -> None:
    world, loads, _ = await at_ten(answer)
    await minutes(world, loads, 6)
    assert await wanted(world) == 2 and await said(world) == ("True", "WithinTarget")
    assert words in (await row(world))["message"]
    found = (await inputs(world)).get("forecast")
    assert (found is not None) == told and "value" not in (found or {})
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 2)
    assert await wanted(world) == 3 and words in (await row(world))["message"]
    loads.total = 1.2 * TARGET
    await minutes(world, loads, 12)
    assert await wanted(world) == 2


async def test_a_service_that_goes_away_takes_no_forecast_along() -> None:
    """What was read counts until it is too old."""
    world, loads, sizing = await at_ten(with_peak)
    sizing.answer = AWAY
    await minutes(world, loads, 24)
    assert await wanted(world) == 3, "foreseen"
    assert f"The forecast is from an earlier read, because {AWAY}" in (await row(world))["message"]
    world.restart()
    await minutes(world, loads, 6)
    assert f"no forecast, because {AWAY}" in (await row(world))["message"], "a new operator has read nothing"


async def test_a_service_that_hangs_delays_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "READ_SECONDS", 0.01)
    world, loads, sizing = await at_ten(lambda now: None)
    sizing.hangs, begun = True, world.clock.now()
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 4)
    assert await wanted(world) == 3 and "did not answer within" in (await row(world))["message"]
    assert len(sizing.asked) <= (world.clock.now() - begun).total_seconds() / forecasts.RETRY_SECONDS + 2


async def test_a_record_that_comes_and_goes_is_not_written_each_time() -> None:
    world, loads, sizing = await at_ten(lambda now: result(now, rising(now, times=1.05)))
    mark, begun, asked = len(world.journal.attempts), world.clock.now(), len(sizing.asked)
    for number in range(40):
        sizing.answer = AWAY if number % 3 else result(world.clock.now(), rising(world.clock.now(), times=1.05))
        if number % 7 == 0:
            world.restart()
        await minutes(world, loads, 1)
    writes = [str(call) for call in world.journal.attempts[mark:]]
    most = (world.clock.now() - begun).total_seconds() / 300 + 1
    assert len(writes) <= most and all("status" in each for each in writes), writes
    assert await wanted(world) == 2
    assert len(sizing.asked) - asked <= 40 / 2 + 6


async def test_a_result_is_read_every_ten_minutes() -> None:
    world, loads, sizing = await at_ten(lambda now: result(now, rising(now, times=1.0)))
    begun, asked = world.clock.now(), len(sizing.asked)
    for _ in range(40):
        await minutes(world, loads, 1)
    # The clock of the world goes on with each look at it, so a pass takes some of its seconds.
    passed = (world.clock.now() - begun).total_seconds() / 600
    assert 4 <= len(sizing.asked) - asked + 1 <= passed + 2


async def test_another_address_is_asked_at_once_and_a_failure_soon_again() -> None:
    world, loads, sizing = await at_ten(with_peak)
    there = {"url": "http://user:secret@there:81", "maxAgeSeconds": 60}
    await world.change(
        Kind.CLUSTER, "east", lambda spec: spec["broker"]["autoscaling"]["forecast"].update(sizing=there)
    )
    sizing.answer, begun = AWAY, len(sizing.asked)
    await minutes(world, loads, 1)
    assert sizing.asked[begun:] == [("http://user:secret@there:81", "east")]
    await minutes(world, loads, 6)
    assert 3 <= len(sizing.asked) - begun <= 5
    assert f"no forecast, because {AWAY}" in (await row(world))["message"], "what the other one said does not count"
    sizing.answer = with_peak(world.clock.now())
    await minutes(world, loads, 8)
    assert "more than forecast.sizing.maxAgeSeconds (60)" in (await row(world))["message"]
    sizing.answer = None
    await minutes(world, loads, 15)
    message = (await row(world))["message"]
    assert "http://...@there:81 has no result" in message and "secret" not in message


async def test_a_topic_hotter_than_a_broker_asks_for_partitions_and_no_broker() -> None:
    """One broker has the topic and 1.7 times what it should, the other half of that."""
    hot = HottestTopic(topic="persistent://busy/load/hot", weight=160.0, carries=100.0, target=1.0)
    for hottest, number in ((hot, 2), (None, 3), (hot.model_copy(update={"weight": 99.0}), 3)):
        world, loads, _ = await at_ten(lambda now, hottest=hottest: result(now, rising(now, 1.0), hottest))  # type: ignore[misc]
        loads.total, loads.on_first = 1.3 * TARGET, 1.05 * TARGET
        await minutes(world, loads, 6)
        assert await wanted(world) == number
        words = "persistent://busy/load/hot carries 1.60x the target load of a broker. Add partitions"
        assert (words in (await row(world))["message"]) == (number == 2)
