"""The benchmark of the data plane: its schedule, what a latency is, its figures, and topics until there are no more."""

from __future__ import annotations

import csv
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.data_plane.__main__ import table, write
from benchmarks.data_plane.schedule import MARGIN, Answers, Spread, evenly, milliseconds, publish, spread
from benchmarks.data_plane.topics import AT_ONCE, TRIES, create


class Time:
    """Passes only when it is asked to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def published(stalls: dict[int, float], takes: float = 0.002, count: int = 10) -> tuple[list[float], Answers]:
    """When each of the messages was sent, ten a second, and the answers; sending some of them takes seconds."""
    clock, sent = Time(), list[float]()
    answers = Answers(clock)

    def send(number: int) -> None:
        sent.append(clock.now)
        clock.now += stalls.get(number, 0)
        clock.now += takes
        answers.answered(number, ok=True)
        clock.now -= takes

    publish(send, answers, rate=10, count=count, sleep=clock.sleep)
    return sent, answers


def test_messages_are_sent_when_they_are_due() -> None:
    sent, answers = published({})
    assert sent == pytest.approx([MARGIN + number / 10 for number in range(10)])
    assert answers.latencies() == pytest.approx([0.002] * 10)
    assert answers.complete and answers.late == pytest.approx(0)


def test_what_waits_behind_a_slow_one_is_slow_too() -> None:
    """A second's stall at the third message delays the ones that were due meanwhile, as users would see it."""
    sent, answers = published({2: 0.35})
    assert sent[3:6] == pytest.approx([MARGIN + 0.55] * 3), "as soon as it goes on"
    wanted = [0.002, 0.002, 0.352, 0.252, 0.152, 0.052, 0.002, 0.002, 0.002, 0.002]
    assert answers.latencies() == pytest.approx(wanted)
    assert answers.late == pytest.approx(0.25)
    assert sent[6:] == pytest.approx([MARGIN + number / 10 for number in range(6, 10)]), "the schedule stays"


def test_a_message_without_an_answer_has_taken_as_long_as_it_has_waited() -> None:
    clock = Time()
    answers = Answers(clock)
    publish(lambda _number: None, answers, rate=10, count=2, sleep=clock.sleep)
    assert not answers.complete
    clock.now = 31 + MARGIN
    answers.answered(0, ok=False)
    assert answers.latencies() == pytest.approx([31, 30.9])
    assert answers.failed == {0} and not answers.complete


def test_figures_are_milliseconds() -> None:
    assert milliseconds([number / 1000 for number in range(1, 101)]) == {"p50_ms": 51, "p99_ms": 100, "max_ms": 100}
    assert milliseconds([0.0024]) == {"p50_ms": 2.4, "p99_ms": 2.4, "max_ms": 2.4}


def test_spread_is_median_least_and_most() -> None:
    assert spread([3, 9, 4]) == Spread(4, 3, 9)
    assert str(spread([3, 9, 4])) == "4.0 (3.0 to 9.0)"
    with pytest.raises(ValueError, match="no repetition"):
        spread([])


@given(st.integers(1, 300), st.integers(1, 100_000))
def test_a_sample_is_spread_over_all_topics(count: int, total: int) -> None:
    found = evenly(count, total)
    assert len(set(found)) == len(found) == min(count, total)
    assert found[0] == 0 and found[-1] < total
    steps = [after - before for before, after in pairwise(found)]
    assert not steps or max(steps) - min(steps) <= 1


def test_table_and_csv_have_every_repetition(tmp_path: Path) -> None:
    facts = {"max_ms": 9, "live_heap_mb": 70, "kb_a_topic": 26.0, "created_a_second": 300}
    rows = [
        {"topics": size, "run": run, "p50_ms": run, "p99_ms": run * 2, **facts}
        for size in (1000, 10_000)
        for run in (1, 2, 6)
    ]
    lines = table(rows).splitlines()
    assert len(lines) == 3
    assert lines[2].split()[:5] == ["10,000", "2.0", "(1.0", "to", "6.0)"]
    write(tmp_path / "new" / "figures.csv", rows)
    with (tmp_path / "new" / "figures.csv").open(newline="") as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["1", "2", "6"] * 2


# --- topics


@asynccontextmanager
async def admin(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """Admin REST that answers so."""
    app = web.Application()
    app.router.add_put("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def far() -> float:
    """A time that is not reached."""
    return time.monotonic() + 600


async def test_topics_are_made_once_each_and_may_be_there() -> None:
    asked = list[str]()

    async def answer(request: web.Request) -> web.Response:
        assert request.content_type == "application/json", "Pulsar refuses others with 415"
        asked.append(request.path)
        return web.Response(status=409 if len(asked) % 2 else 204)

    async with admin(answer) as url:
        made = await create(url, 5, 105, far())
    assert (made.topics, made.stopped) == (105, "")
    assert sorted(asked) == [f"/admin/v2/persistent/bench/data-plane/topic-{number:07}" for number in range(5, 105)]


async def test_a_server_that_makes_no_more_ends_it_with_its_words() -> None:
    asked = list[str]()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path[-7:])
        return web.Response(status=500, text="no memory") if asked[-1] == "0000040" else web.Response(status=204)

    async with admin(answer) as url:
        made = await create(url, 0, 5000, far(), pause=0)
    assert made.stopped == "500 no memory"
    assert asked.count("0000040") == TRIES
    assert 40 - AT_ONCE < made.topics == len(asked) - TRIES < 2500, "the others end what they are at"


async def test_a_server_that_is_gone_ends_it() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    async with admin(answer) as url:
        pass
    made = await create(url, 0, 1000, far(), pause=0)
    assert made.topics == 0 and "Cannot connect" in made.stopped


async def test_time_that_is_up_ends_it() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    async with admin(answer) as url:
        made = await create(url, 0, 1000, time.monotonic() - 1)
    assert (made.topics, made.stopped) == (0, "time is up")
