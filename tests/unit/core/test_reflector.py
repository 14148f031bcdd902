"""The loop of lists and watches, minutes in virtual time: what it asks, how often, and what the probes say of it."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from pulsar_operator.adapters import reflector as module
from pulsar_operator.adapters.reflector import (
    FIRST_SECONDS,
    LIMIT_SECONDS,
    MISSING_SECONDS,
    RETRY_AFTER_LIMIT_SECONDS,
    SILENT_STREAMS,
    Backoff,
    Reflector,
)
from pulsar_operator.adapters.watch_monitor import WatchMonitor
from pulsar_operator.adapters.watch_requests import (
    EXPIRED,
    GARBAGE,
    LOST,
    SILENT,
    TIMEOUT,
    TRUNCATED,
    Event,
    WatchError,
)
from pulsar_operator.ports import PODS, Json
from tests.support.core.virtual_time import run_virtual

SILENCE = 70.0
BLIND = 210.0
HALF_AN_HOUR = 1800.0

Step = tuple[float, Event | WatchError | None]
"""After so many seconds: an event, an end, or (None) the end that the server wished."""
NEVER: Step = (1e9, None)


def pod(name: str, version: int = 5) -> Json:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": str(version), "uid": name}}


def event(name: str, version: int, type_: str = "MODIFIED") -> Event:
    return type_, pod(name, version)


def bookmark(version: int) -> Event:
    return "BOOKMARK", {"metadata": {"resourceVersion": str(version)}}


def refusal(status: int, **more: Any) -> WatchError:
    return WatchError(f"http_{status}", f"refused with {status}", status=status, **more)


@dataclass
class Played:
    """The API server: lists and streams by number."""

    listed: Callable[[int, Mapping[str, str]], Json | WatchError] = lambda number, query: page(version=10)
    watched: Callable[[int], list[Step] | WatchError] = lambda number: [NEVER]
    asked: list[tuple[float, str, dict[str, str]]] = field(default_factory=list)
    """When, list or watch, and the query."""

    def count(self, verb: str) -> int:
        return sum(each[1] == verb for each in self.asked)

    def times(self, verb: str) -> list[float]:
        return [at for at, asked, _ in self.asked if asked == verb]

    async def page(self, path: str, query: Mapping[str, str]) -> Json:
        self._note("list", query)
        answer = self.listed(self.count("list"), query)
        if isinstance(answer, WatchError):
            raise answer
        return answer

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[Event]]:
        self._note("watch", query)
        steps = self.watched(self.count("watch"))
        if isinstance(steps, WatchError):
            raise steps
        yield self._events(steps, silence)

    async def _events(self, steps: list[Step], silence: float) -> AsyncIterator[Event]:
        for seconds, step in steps:
            await asyncio.sleep(min(seconds, silence))
            if seconds > silence:
                raise WatchError(SILENT, "silent", version_good=True)
            if isinstance(step, WatchError):
                raise step
            if step is None:
                return
            yield step

    def _note(self, verb: str, query: Mapping[str, str]) -> None:
        self.asked.append((asyncio.get_running_loop().time(), verb, dict(query)))


def page(*objects: Json, version: int = 10, token: str = "") -> Json:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(objects)}


class Receiver:
    def __init__(self) -> None:
        self.observed_: list[tuple[str, bool]] = []
        self.missing_: list[tuple[str, str, float]] = []
        self.kinds: list[tuple[str | None, str | None]] = []

    def keep(self, obj: Json) -> str:
        return "kept " + str(obj["metadata"]["name"])

    def observed(self, obj: Json, *, deleted: bool) -> None:
        self.kinds.append((obj.get("apiVersion"), obj.get("kind")))
        if obj["metadata"]["name"] == "odd":
            raise KeyError("odd")
        self.observed_.append((obj["metadata"]["name"], deleted))

    def missing(self, namespace: str, name: str, kept: str, delay: float) -> None:
        self.missing_.append((name, kept, delay))


@dataclass
class Outcome:
    played: Played
    receiver: Receiver
    monitor: WatchMonitor
    restarts: list[tuple[str, str]]
    blind: list[float]
    """When the stream was found blind, second by second."""
    problem: str | None
    states: Mapping[tuple[str, str], int]


def run(played: Played, seconds: float, *, selector: str | None = None) -> Outcome:
    """The loop for a while of virtual time."""

    async def playing() -> Outcome:
        loop = asyncio.get_running_loop()
        restarts: list[tuple[str, str]] = []
        monitor = WatchMonitor(loop.time, on_restart=lambda kind, reason: restarts.append((kind, reason)))
        receiver = Receiver()
        (health,) = monitor.expect(PODS, ["ns"])
        looping = asyncio.create_task(
            Reflector(played, PODS, receiver, health, silence=SILENCE, selector=selector, rng=random.Random(1)).run()
        )
        blind = []
        while loop.time() < seconds:
            await asyncio.sleep(1)
            if monitor.blind(BLIND) is not None:
                blind.append(loop.time())
        assert not looping.done()
        outcome = Outcome(played, receiver, monitor, restarts, blind, monitor.problem(), monitor.states())
        looping.cancel()
        with suppress(asyncio.CancelledError):
            await looping
        return outcome

    return run_virtual(playing())


# ------------------------------------------------------------------------------------------ a quiet cluster


def test_half_an_hour_without_any_event_or_bookmark_is_alive() -> None:
    outcome = run(Played(), HALF_AN_HOUR)
    assert outcome.blind == [] and outcome.problem is None
    assert set(outcome.restarts) == {("Pod", "silent")}
    # Every third silence asks for everything: the connection may go to nobody that knows anything.
    assert outcome.played.count("list") == 1 + outcome.played.count("watch") // SILENT_STREAMS
    assert outcome.played.count("watch") <= HALF_AN_HOUR / SILENCE + 1


def test_half_an_hour_of_bookmarks_costs_no_list() -> None:
    played = Played(watched=lambda number: [*[(60.0, bookmark(10 + number))] * 5, (1.0, None)])
    outcome = run(played, HALF_AN_HOUR)
    assert outcome.blind == [] and outcome.problem is None and outcome.restarts == []
    assert played.count("list") == 1
    # A bookmark is where the next stream begins, so that it is not too old by then.
    versions = [query["resourceVersion"] for _, verb, query in played.asked if verb == "watch"]
    assert versions == ["10", *[str(11 + number) for number in range(len(versions) - 1)]]


def test_a_stream_that_never_opens_is_blind_in_time() -> None:
    outcome = run(Played(watched=lambda number: WatchError(TIMEOUT, "not accepted", version_good=True)), 220)
    assert outcome.blind[0] == pytest.approx(BLIND, abs=2)


def test_a_list_that_never_answers_is_blind_in_time() -> None:
    outcome = run(Played(listed=lambda number, query: WatchError(TIMEOUT, "no answer")), 220)
    assert outcome.blind[0] == pytest.approx(BLIND, abs=2)


@pytest.mark.parametrize("status", [429, 500, 503, 504, 401])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_what_is_not_answered_is_blind_in_time(verb: str, status: int) -> None:
    played = Played(**{verb + "ed": lambda *_: refusal(status)})  # type: ignore[arg-type]
    outcome = run(played, 220)
    assert outcome.blind[0] == pytest.approx(BLIND, abs=2)
    assert outcome.problem == f"cannot watch /api/v1/namespaces/ns/pods (HTTP {status})"
    assert outcome.states["Pod", "failing"] == 1 and outcome.states["Pod", "watching"] == 0


@pytest.mark.parametrize(
    "end", [WatchError(GARBAGE, "no event"), WatchError(TRUNCATED, "cut"), WatchError("error_500", "500"), None]
)
def test_streams_that_end_as_soon_as_they_are_open_are_blind_in_time(end: WatchError | None) -> None:
    """The lists between them answer, but what happens after them is not heard of."""
    outcome = run(Played(watched=lambda number: [(0.1, end)]), 230)
    assert outcome.blind and outcome.blind[0] == pytest.approx(BLIND, abs=12)
    assert outcome.blind[-1] == pytest.approx(230, abs=1), "not well again as soon as the next one is open"


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_refusal_is_reported_and_no_reason_to_restart(verb: str, status: int) -> None:
    played = Played(**{verb + "ed": lambda *_: refusal(status)})  # type: ignore[arg-type]
    outcome = run(played, HALF_AN_HOUR)
    assert outcome.blind == []
    assert outcome.problem == f"cannot watch /api/v1/namespaces/ns/pods (HTTP {status})"
    assert outcome.states["Pod", "refused"] == 1
    assert set(outcome.restarts) == {("Pod", f"http_{status}")}


def test_after_an_outage_an_open_stream_is_well_before_its_first_event() -> None:
    def watched(number: int) -> list[Step] | WatchError:
        return WatchError(LOST, "refused", version_good=True) if played.asked[-1][0] < 190 else [NEVER]

    played = Played(watched=watched)
    assert run(played, 600).blind == []


def test_the_time_of_a_long_list_does_not_count() -> None:
    class Slow(Played):
        async def page(self, path: str, query: Mapping[str, str]) -> Json:
            await asyncio.sleep(30)
            return await super().page(path, query)

    pages = 20
    tokens = [str(number) for number in range(pages)]
    played = Slow(listed=lambda number, query: page(pod(f"p{number}"), token=tokens[number] if number < pages else ""))
    outcome = run(played, pages * 30 + 100)
    assert outcome.blind == [] and len(outcome.receiver.observed_) == pages


# ------------------------------------------------------------------------------------------ back-off


def test_attempts_become_rare_and_one_a_half_minute_remains() -> None:
    played = Played(listed=lambda number, query: refusal(500))
    run(played, 600)
    times = played.times("list")
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    expected = [min(FIRST_SECONDS * 2**n, LIMIT_SECONDS) for n in range(len(gaps))]
    assert all(least <= gap <= least * 1.2 + 0.001 for gap, least in zip(gaps, expected, strict=True))
    assert len([at for at in times if at <= 60]) <= 8


def test_the_back_off_begins_again_after_two_minutes_that_were_well() -> None:
    backoff = Backoff(random.Random(0))
    assert [backoff.after(0, None) < 1, backoff.after(1, None) > 1.5, backoff.after(100, None) > 3] == [True] * 3
    assert backoff.after(300, None) < 1


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [(None, 0.8, 1.0), (0.1, 0.8, 1.0), (7.0, 7.0, 7.0), (1e6, RETRY_AFTER_LIMIT_SECONDS, RETRY_AFTER_LIMIT_SECONDS)],
)
def test_retry_after_is_the_least_within_reason(asked: float | None, least: float, most: float) -> None:
    assert least <= Backoff(random.Random(0)).after(0, asked) <= most


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_retry_after_is_honoured(verb: str) -> None:
    error = refusal(429, retry_after=25.0, version_good=verb == "watch")
    played = Played(**{verb + "ed": lambda *_: error})  # type: ignore[arg-type]
    run(played, 200)
    times = played.times(verb)
    assert len(times) >= 6 and all(b - a >= 25 for a, b in itertools.pairwise(times))


# ------------------------------------------------------------------------------------------ what is asked again


@pytest.mark.parametrize(
    ("error", "lists"),
    [
        (WatchError(EXPIRED, "410", status=410), 2),
        (WatchError("error_410", "410"), 2),
        (WatchError("error_500", "500"), 2),
        (WatchError(GARBAGE, "?"), 2),
        (WatchError(TRUNCATED, "?"), 2),
        (WatchError(LOST, "gone", version_good=True), 1),
        (None, 1),
    ],
)
@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_broken_stream_lists_unless_nothing_can_be_missed(
    error: WatchError | None, lists: int, seconds: float
) -> None:
    def watched(number: int) -> list[Step]:
        return [(0.0, event("p", 12)), (seconds, error)] if number == 1 else [NEVER]

    played = Played(watched=watched)
    run(played, 64)
    assert played.count("list") == lists and played.count("watch") == 2
    assert played.asked[-1][2]["resourceVersion"] == ("10" if lists == 2 else "12")


def test_queries_are_those_of_a_reflector() -> None:
    played = Played()
    run(played, 1, selector="a=b")
    (_, _, listed), (_, _, watched) = played.asked
    assert listed == {"labelSelector": "a=b", "limit": "500"}
    seconds = int(watched.pop("timeoutSeconds"))
    assert 300 <= seconds <= 600
    assert watched == {
        "labelSelector": "a=b",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
    }


def test_a_list_that_loses_its_token_again_and_again_is_asked_for_whole() -> None:
    def listed(number: int, query: Mapping[str, str]) -> Json | WatchError:
        if "continue" in query:
            return WatchError(EXPIRED, "410", status=410)
        return page(pod("a"), token="more" if "limit" in query else "")

    played = Played(listed=listed)
    outcome = run(played, 60)
    assert [q.get("limit") for _, verb, q in played.asked if verb == "list"] == ["500"] * 6 + [None]
    assert played.count("watch") == 1 and outcome.problem is None


# ------------------------------------------------------------------------------------------ what is passed on


def test_what_a_list_lacks_is_asked_for_and_nothing_is_deleted() -> None:
    def listed(number: int, query: Mapping[str, str]) -> Json:
        return [page(pod("a"), pod("b"), pod("c")), page(), page(pod("c")), page(pod("c"))][number - 1]

    played = Played(listed=listed, watched=lambda number: [(1.0, WatchError("error_500", "500"))])
    receiver = run(played, 12).receiver
    assert played.count("list") == 4 and set(receiver.kinds) == {("v1", "Pod")}
    assert [name for name, deleted in receiver.observed_] == ["a", "b", "c", "c", "c"]
    assert not any(deleted for _, deleted in receiver.observed_)
    # Not all at once, and each once.
    assert receiver.missing_ == [(name, f"kept {name}", n * MISSING_SECONDS) for n, name in enumerate("abc")]


def test_a_list_that_fails_half_way_lacks_nothing_and_forgets_nothing() -> None:
    def listed(number: int, query: Mapping[str, str]) -> Json | WatchError:
        first = page(pod("a"), pod("b")) if number == 1 else page(pod("a"), pod("new"), token="more")
        return {1: first, 2: first, 3: refusal(500)}.get(number) or page(pod("a"))

    played = Played(listed=listed, watched=lambda number: [(0.1, WatchError("error_500", "500"))])
    receiver = run(played, 5).receiver
    assert [name for name, _, _ in receiver.missing_] == ["b", "new"]


def test_events_and_deletions_are_passed_on_and_a_deleted_object_is_not_missed() -> None:
    played = Played(
        listed=lambda number, query: page(pod("a")) if number == 1 else page(),
        watched=lambda number: (
            [
                (0.0, event("b", 11, "ADDED")),
                (0.0, event("a", 12, "DELETED")),
                (0.0, event("b", 13, "DELETED")),
                (0.0, WatchError("error_500", "500")),
            ]
            if number == 1
            else [NEVER]
        ),
    )
    receiver = run(played, 5).receiver
    assert played.count("list") == 2
    assert receiver.observed_ == [("a", False), ("b", False), ("a", True), ("b", True)]
    assert receiver.missing_ == []


def test_an_odd_object_does_not_hide_those_after_it() -> None:
    played = Played(
        listed=lambda number, query: page(pod("odd"), pod("a")),
        watched=lambda number: [(0.0, event("odd", 11)), (0.0, event("b", 12)), NEVER],
    )
    outcome = run(played, 5)
    assert outcome.receiver.observed_ == [("a", False), ("b", False)]
    assert played.count("list") == 1 and outcome.restarts == []


def test_a_defect_is_one_more_failure() -> None:
    def listed(number: int, query: Mapping[str, str]) -> Json:
        return {} if number == 1 else page(pod("a"))

    played = Played(listed=listed)
    outcome = run(played, 5)
    assert outcome.restarts == [("Pod", "defect")]
    assert outcome.receiver.observed_ == [("a", False)] and outcome.problem is None


def test_others_have_their_turn_between_objects() -> None:
    objects = [pod(f"p{n}") for n in range(10 * module.SLICE)]

    async def turns() -> int:
        monitor = WatchMonitor(asyncio.get_running_loop().time)
        (health,) = monitor.expect(PODS, [])
        played = Played(listed=lambda number, query: page(*objects))
        receiver, turns = Receiver(), 0
        looping = asyncio.create_task(Reflector(played, PODS, receiver, health, silence=SILENCE).run())
        while len(receiver.observed_) < len(objects):
            await asyncio.sleep(0)
            turns += 1
        looping.cancel()
        return turns

    assert run_virtual(turns()) >= 10


def test_many_problems_are_one_sentence() -> None:
    monitor = WatchMonitor(lambda: 0.0)
    for health in monitor.expect(PODS, list("abcde")):
        health.failed(refusal(403))
    told = monitor.problem()
    assert told is not None and told.endswith("and 2 more") and "/c/pods" in told and "/d/pods" not in told


def test_blind_streams_are_named_with_their_problem() -> None:
    now = 0.0
    monitor = WatchMonitor(lambda: now)
    streams = monitor.expect(PODS, list("abcde"))
    streams[0].failed(refusal(500))
    now = 211.0
    streams[1].delivered()
    told = monitor.blind(BLIND)
    assert told is not None and "/a/pods (for 211 s: HTTP 500)" in told and told.endswith("and 1 more")
    assert "/b/pods" not in told and "/c/pods (for 211 s: listing)" in told
