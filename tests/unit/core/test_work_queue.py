"""core/work_queue.py under the engine in virtual time: one pass of an object at a time, back-off, workers."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.engine import BACKOFF_LIMIT_SECONDS
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.ports import Key, UnavailableError
from tests.support.core.engine import Running, engine_of, key
from tests.support.core.recorder import Recorder
from tests.support.core.virtual_time import run_virtual


def test_same_key_runs_once_for_many_requests() -> None:
    async def scenario() -> Recorder:
        recorder = Recorder()
        engine, _ = engine_of(recorder)
        async with Running(engine):
            for _ in range(100):
                engine.enqueue(key("a"))
                engine.enqueue(key("a"), 5.0)
            await engine.idle(within=60)
        return recorder

    assert run_virtual(scenario()).passes == [key("a")]


def test_a_key_enqueued_while_it_runs_runs_again_after() -> None:
    async def scenario() -> Recorder:
        async def slow(_: Key) -> None:
            await asyncio.sleep(1)

        recorder = Recorder(slow)
        engine, _ = engine_of(recorder)
        async with Running(engine):
            engine.enqueue(key("a"))
            await asyncio.sleep(0.5)
            for _ in range(10):
                engine.enqueue(key("a"))
            await engine.idle()
        return recorder

    recorder = run_virtual(scenario())
    assert recorder.passes == [key("a")] * 2 and not recorder.overlaps


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(list(Kind)), st.sampled_from([0.0, 0.0, 0.1, 1.0]), st.floats(0, 0.5)
        ),
        max_size=40,
    ),
    st.integers(1, 6),
)
def test_every_request_is_followed_by_a_pass_and_none_overlap(
    requests: list[tuple[int, Kind, float, float]], workers: int
) -> None:
    async def scenario() -> None:
        started: dict[Key, float] = {}

        async def act(k: Key) -> None:
            started[k] = asyncio.get_running_loop().time()
            await asyncio.sleep(0.3)

        recorder = Recorder(act)
        engine, _ = engine_of(recorder, workers=workers)
        async with Running(engine):
            asked: dict[Key, float] = {}
            for number, kind, delay, pause in requests:
                k = key(f"o{number}", kind)
                engine.enqueue(k, delay)
                asked[k] = asyncio.get_running_loop().time()
                await asyncio.sleep(pause)
            await engine.idle(within=10)
            assert not recorder.overlaps
            assert recorder.most_running <= workers
            assert all(started[k] >= at for k, at in asked.items())

    run_virtual(scenario())


def test_back_off_doubles_with_jitter_and_resets() -> None:
    async def scenario() -> tuple[list[float], list[float]]:
        times: list[float] = []
        failing = True

        async def act(_: Key) -> None:
            times.append(asyncio.get_running_loop().time())
            if failing:
                raise UnavailableError("no")

        engine, metrics = engine_of(Recorder(act))
        async with Running(engine):
            engine.enqueue(key("a"))
            await asyncio.sleep(600)
            first = [b - a for a, b in pairwise(times)]
            failing = False
            await asyncio.sleep(100)
            failing = True
            times.clear()
            engine.enqueue(key("a"))
            await asyncio.sleep(2)
        assert "ok" in metrics.results() and "error" in metrics.results()
        return first, [b - a for a, b in pairwise(times)]

    first, after = run_virtual(scenario())
    for n, gap in enumerate(first):
        ceiling = min(BACKOFF_LIMIT_SECONDS, 0.5 * 2**n)
        assert ceiling / 2 <= gap <= ceiling + 0.001, (n, gap)
    assert len(first) > 10 and len({round(gap, 2) for gap in first[-4:]}) > 1
    assert after[0] <= 0.5


def test_delays_the_controller_or_the_server_asked_for() -> None:
    async def scenario() -> dict[str, list[float]]:
        times: dict[str, list[float]] = {"poll": [], "later": [], "both": []}

        async def act(k: Key) -> Outcome | None:
            times[k.name].append(asyncio.get_running_loop().time())
            if k.name == "poll":
                return Outcome(requeue_after=7.0)
            if k.name == "both":
                return Outcome(requeue_after=20.0, backoff=True)
            raise UnavailableError("busy", retry_after=33.0)

        engine, _ = engine_of(Recorder(act))
        async with Running(engine):
            for name in times:
                engine.enqueue(key(name))
            await asyncio.sleep(50)
        return times

    times = run_virtual(scenario())
    assert times["poll"][:3] == [0.0, 7.0, 14.0]
    assert times["later"][1] - times["later"][0] == pytest.approx(33.0)
    assert times["both"][1] - times["both"][0] == pytest.approx(20.0)


def test_a_change_ends_the_wait_of_a_failed_key() -> None:
    async def scenario() -> list[float]:
        times: list[float] = []

        async def act(_: Key) -> None:
            times.append(asyncio.get_running_loop().time())
            raise RuntimeError("bug")

        engine, _ = engine_of(Recorder(act))
        async with Running(engine):
            engine.enqueue(key("a"))
            await asyncio.sleep(300)
            times.clear()
            asked = asyncio.get_running_loop().time()
            engine.enqueue(key("a"))
            await asyncio.sleep(1)
        return [t - asked for t in times]

    assert run_virtual(scenario())[0] == 0.0


def test_slow_kind_leaves_a_worker_to_the_others() -> None:
    async def scenario() -> float:
        done: dict[Key, float] = {}

        async def act(k: Key) -> None:
            await asyncio.sleep(100 if k.kind in (Kind.TOPIC, Kind.NAMESPACE) else 0.1)
            done[k] = asyncio.get_running_loop().time()

        engine, _ = engine_of(Recorder(act), workers=6)
        async with Running(engine):
            for n in range(50):
                engine.enqueue(key(f"t{n}"))
                engine.enqueue(key(f"n{n}", Kind.NAMESPACE))
            await asyncio.sleep(1)
            engine.enqueue(key("c", Kind.CLUSTER))
            await asyncio.sleep(10)
            return done[key("c", Kind.CLUSTER)]

    assert run_virtual(scenario()) < 1.5


def test_one_bad_object_delays_no_other() -> None:
    async def scenario() -> float:
        done: list[float] = []

        async def act(k: Key) -> None:
            if k.name == "bad":
                await asyncio.sleep(10_000)
            done.append(asyncio.get_running_loop().time())

        engine, metrics = engine_of(Recorder(act), workers=3, pass_seconds=60.0)
        async with Running(engine):
            engine.enqueue(key("bad"))
            for n in range(20):
                engine.enqueue(key(f"good{n}"))
            await asyncio.sleep(5)
            assert len(done) == 20
            await asyncio.sleep(100)
            # The hung pass was stopped and counted.
            assert "error" in metrics.results()
        return max(done)

    assert run_virtual(scenario()) == 0.0


def test_an_exception_is_logged_with_traceback_and_the_key(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def act(_: Key) -> None:
            raise ZeroDivisionError("boom")

        engine, _ = engine_of(Recorder(act))
        async with Running(engine):
            engine.enqueue(key("a"))
            await asyncio.sleep(0.1)

    with caplog.at_level(logging.WARNING):
        run_virtual(scenario())
    record = next(r for r in caplog.records if r.exc_info)
    assert (record.kind, record.namespace, record.object) == ("PulsarTopic", "ns", "a")  # type: ignore[attr-defined]
    passes = [r for r in caplog.records if hasattr(r, "result")]
    assert passes[0].result == "error" and "boom" in passes[0].error  # type: ignore[attr-defined]
