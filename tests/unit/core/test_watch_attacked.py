"""Answers that no API server should give to a list or a watch: the loop neither stays blind nor grows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from pulsar_operator.adapters.kube_http import error_of
from pulsar_operator.adapters.reflector import Backoff, Reflector
from pulsar_operator.adapters.watch_monitor import WatchMonitor
from pulsar_operator.adapters.watch_requests import GARBAGE, SILENT, WatchError
from pulsar_operator.ports import PODS, Json
from pulsar_operator.ports.errors import RETRY_AFTER_LIMIT_SECONDS
from tests.support.core.virtual_time import run_virtual
from tests.unit.core.test_reflector import BLIND, NEVER, SILENCE, Played, Receiver, event, page, pod, run
from tests.unit.core.test_watch_requests import PATH, Api, client

HOUR = 3600.0


def test_a_list_that_never_ends_is_blind_in_time() -> None:
    """A proxy that ignores the query answers the first page again and again."""

    class Looping(Played):
        async def page(self, path: str, query: Mapping[str, str]) -> Json:
            await asyncio.sleep(1)
            return await super().page(path, query)

    played = Looping(listed=lambda number, query: page(pod("a"), token="again"))
    outcome = run(played, HOUR)
    assert outcome.played.count("watch") == 0
    assert outcome.blind or outcome.problem is not None


@pytest.mark.parametrize("value", ["inf", "1e400", "nan", "-5", "0", "Wed, 21 Oct 2099 07:28:00 GMT", "99999999999"])
def test_no_retry_after_keeps_the_loop_for_longer_than_its_limit(value: str) -> None:
    error = error_of(429, {"Retry-After": value}, b"", "GET x")
    assert 0.8 <= Backoff(random.Random(0)).after(0, error.retry_after) <= RETRY_AFTER_LIMIT_SECONDS


def test_nothing_is_kept_of_objects_that_came_and_went() -> None:
    steps = [(0.0, event(f"p{n}", 100 + 2 * n + d, "DELETED" if d else "ADDED")) for n in range(20000) for d in (0, 1)]

    async def playing() -> int:
        loop = asyncio.get_running_loop()
        monitor = WatchMonitor(loop.time)
        (health,) = monitor.expect(PODS, ["ns"])
        played = Played(watched=lambda number: [*steps, NEVER] if number == 1 else [NEVER])
        reflector = Reflector(played, PODS, Receiver(), health, silence=SILENCE, rng=random.Random(1))
        looping = asyncio.create_task(reflector.run())
        await asyncio.sleep(60)
        looping.cancel()
        return len(reflector._known)

    assert run_virtual(playing()) == 0


def test_an_object_that_hides_between_two_pages_is_asked_for() -> None:
    def listed(number: int, query: Mapping[str, str]) -> Json:
        if number <= 2:
            return page(pod("a"), token="more") if number == 1 else page(pod("b"))
        return page(token="more") if number == 3 else page(pod("b"))  # "a" moved behind what was listed

    played = Played(listed=listed, watched=lambda number: [(1.0, WatchError("error_500", "500"))])
    receiver = run(played, 4).receiver
    assert [name for name, _, _ in receiver.missing_] == ["a"]
    assert not any(deleted for _, deleted in receiver.observed_)


def test_410_without_end_is_blind_and_rare() -> None:
    played = Played(listed=lambda n, q: WatchError("expired", "410", status=410))
    outcome = run(played, HOUR)
    assert outcome.blind and outcome.blind[0] <= BLIND + 2 and played.count("list") < 140


async def _ending(api: Api, silence: float) -> tuple[int, WatchError | None]:
    number = 0
    async with client(api) as requests:
        try:
            async with requests.watch(PATH, {}, silence) as events:
                async for _ in events:
                    number += 1
        except WatchError as error:
            return number, error
    return number, None


@pytest.mark.parametrize("chunk", [b" ", b"\n", b"\r\n", b'{"type": "ADD'])
async def test_bytes_that_are_no_event_do_not_keep_a_stream(chunk: bytes) -> None:
    number, error = await asyncio.wait_for(_ending(Api(*[chunk] * 400, stays=True), 0.7), 3)
    assert number == 0 and error is not None and error.reason == SILENT


async def test_a_flood_of_blank_lines_does_not_keep_a_stream() -> None:
    number, error = await asyncio.wait_for(_ending(Api(*[b"\n" * 300_000] * 200, stays=True), 0.7), 8)
    assert number == 0 and error is not None and error.reason == SILENT


async def test_a_line_without_end_is_given_up() -> None:
    api = Api(*[b"x" * 1_000_000] * 30, stays=True)
    _, error = await asyncio.wait_for(_ending(api, 20.0), 15)
    assert error is not None and error.reason == GARBAGE


async def test_a_rotated_token_is_used_by_the_next_request() -> None:
    api = Api(b'{"metadata": {"resourceVersion": "1"}, "items": []}')
    async with client(api) as requests:
        await requests.page(PATH, {})
        requests._configuration.api_key["authorization"] = "Bearer two"
        await requests.page(PATH, {})
    assert [each.headers["Authorization"] for each in api.requests] == ["Bearer one", "Bearer two"]


async def test_nested_json_without_end_is_one_more_failure() -> None:
    """json raises RecursionError, which is no ValueError."""
    deep = b"[" * 200_000 + b"]" * 200_000
    played: list[str] = []

    class Deep(Played):
        async def page(self, path: str, query: Mapping[str, str]) -> Json:
            played.append(path)
            async with client(Api(deep)) as requests:
                return await requests.page(path, query)

    monitor = WatchMonitor(asyncio.get_running_loop().time)
    (health,) = monitor.expect(PODS, ["ns"])
    looping = asyncio.create_task(Reflector(Deep(), PODS, Receiver(), health, silence=1, rng=random.Random(1)).run())
    await asyncio.sleep(2.5)
    assert not looping.done() and len(played) >= 2 and health.problem is not None
    looping.cancel()
