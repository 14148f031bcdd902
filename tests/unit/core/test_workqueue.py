"""controllers/workqueue.py and engine.py in virtual time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import LABEL_OWNER_KIND, LABEL_OWNER_NAME, Kind
from pulsar_operator.controllers.base import Outcome, Reconciler
from pulsar_operator.controllers.engine import BACKOFF_LIMIT_SECONDS, Engine
from pulsar_operator.ports import CUSTOM, Deps, Key, UnavailableError
from tests.fakes.kube import Call, FakeKube
from tests.support.objects import instance, pulsar_namespace, tenant, topic
from tests.support.recorder import CountingMetrics, Recorder, all_kinds
from tests.support.virtualtime import run_virtual


def key(name: str, kind: Kind = Kind.TOPIC) -> Key:
    return Key(kind, "ns", name)


def engine_of(
    reconciler: Reconciler | dict[Kind, Any], *, kube: FakeKube | None = None, **options: Any
) -> tuple[Engine, CountingMetrics]:
    metrics = CountingMetrics()
    deps = Deps(
        kube=kube or FakeKube(),
        zookeeper=None,  # type: ignore[arg-type]
        admin=None,  # type: ignore[arg-type]
        clock=None,  # type: ignore[arg-type]
        entropy=None,  # type: ignore[arg-type]
        metrics=metrics,
    )
    reconcilers = reconciler if isinstance(reconciler, dict) else dict.fromkeys(Kind, reconciler)
    options.setdefault("rng", random.Random(1))
    options.setdefault("resync_seconds", 10_000.0)
    return Engine(deps, reconcilers, **options), metrics


class Running:
    """``async with Running(engine)``: started, listed, idle; stopped at the end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stop = asyncio.Event()

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self.engine.run(self.stop))
        await self.engine.ready.wait()
        await self.engine.idle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await self.task


def watch(kube: FakeKube, engine: Engine) -> None:
    kinds = {kind.value: kind for kind in Kind}
    kube.subscribe(
        lambda change, obj: (
            engine.observe(kinds[obj["kind"]], obj, deleted=change == "DELETED")
            if obj["kind"] in kinds
            else engine.observe_child(obj)
        )
    )


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

    with caplog.at_level(logging.INFO):
        run_virtual(scenario())
    record = next(r for r in caplog.records if r.exc_info)
    assert (record.kind, record.namespace, record.object) == ("PulsarTopic", "ns", "a")  # type: ignore[attr-defined]
    passes = [r for r in caplog.records if hasattr(r, "result")]
    assert passes[0].result == "error" and "boom" in passes[0].error  # type: ignore[attr-defined]


def tree(kube: FakeKube, topics: int = 3) -> None:
    kube.put(instance("ns"))
    kube.put(tenant("ns"))
    kube.put(pulsar_namespace("ns"))
    for n in range(topics):
        kube.put(topic("ns", f"x{n}"))


def ready(kube: FakeKube, kind: Kind, name: str, value: str) -> None:
    kube.set_status(CUSTOM[kind], "ns", name, {"conditions": [{"type": "Ready", "status": value}]})


def test_first_pass_looks_at_everything_once() -> None:
    async def scenario() -> tuple[Recorder, str | None, str | None]:
        kube, recorder = FakeKube(), Recorder()
        tree(kube)
        engine, _ = engine_of(recorder, kube=kube)
        before = engine.not_ready()
        for kind in Kind:  # the watch lists the same objects at the same time
            for obj in kube.all(CUSTOM[kind]):
                engine.observe(kind, obj)
        async with Running(engine):
            await engine.idle(within=5)
            after = engine.not_ready()
        return recorder, before, after

    recorder, before, after = run_virtual(scenario())
    assert before is not None and after is None
    counts = Counter(k.name for k in recorder.passes)
    assert set(counts) == {"i", "t", "n", "x0", "x1", "x2"}
    assert counts["x0"] == 1


def test_children_run_when_their_parent_becomes_ready_and_not_before() -> None:
    async def scenario() -> tuple[list[str], list[str], list[str]]:
        kube, recorder = FakeKube(), Recorder()
        tree(kube)
        engine, _ = engine_of(recorder, kube=kube)
        watch(kube, engine)
        async with Running(engine):
            recorder.passes.clear()
            ready(kube, Kind.NAMESPACE, "n", "True")
            await engine.idle(within=5)
            woken = sorted(recorder.names())
            recorder.passes.clear()
            kube.set_status(
                CUSTOM[Kind.NAMESPACE],
                "ns",
                "n",
                {"dependents": 4, "conditions": [{"type": "Ready", "status": "True", "message": "other words"}]},
            )
            await engine.idle(within=5)
            quiet = recorder.names()
            kube.edit(CUSTOM[Kind.NAMESPACE], "ns", "n", lambda o: o["spec"].update(deletionPolicy="Delete"))
            await engine.idle(within=5)
            return woken, quiet, sorted(recorder.names())

    woken, quiet, edited = run_virtual(scenario())
    assert woken == ["t", "x0", "x1", "x2"]
    assert quiet == []
    assert edited == ["n", "t", "x0", "x1", "x2"]


def test_status_writes_of_many_children_are_one_pass_of_the_parent() -> None:
    async def scenario() -> int:
        kube, recorder = FakeKube(), Recorder()
        tree(kube, topics=500)
        engine, _ = engine_of(recorder, kube=kube)
        watch(kube, engine)
        async with Running(engine):
            recorder.passes.clear()
            for n in range(500):
                ready(kube, Kind.TOPIC, f"x{n}", "True")
                await asyncio.sleep(0.001)
            await engine.idle(within=5)
            assert [k for k in recorder.passes if k.kind is Kind.TOPIC] == []
            return recorder.count(key("n", Kind.NAMESPACE))

    assert run_virtual(scenario()) == 1


def test_a_deleted_child_and_a_reference_to_nothing() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        kube, recorder = FakeKube(), Recorder()
        tree(kube, topics=1)
        kube.put(topic("ns", "orphan", parent="later"))
        engine, _ = engine_of(recorder, kube=kube)
        watch(kube, engine)
        async with Running(engine):
            recorder.passes.clear()
            kube.remove(CUSTOM[Kind.TOPIC], "ns", "x0")
            await engine.idle(within=5)
            deleted = sorted(recorder.names())
            recorder.passes.clear()
            kube.put(pulsar_namespace("ns", "later"))
            await engine.idle(within=5)
            return deleted, sorted(set(recorder.names()))

    deleted, appeared = run_virtual(scenario())
    assert deleted == ["n", "x0"]
    assert appeared == ["later", "orphan", "t"]


def test_pause_and_a_lost_finalizer_are_seen_although_the_generation_stays() -> None:
    async def scenario() -> list[str]:
        kube, recorder = FakeKube(), Recorder()
        kube.put(tenant("ns", finalizers=["pulsaroperator.io/cleanup"]))
        engine, _ = engine_of(recorder, kube=kube)
        watch(kube, engine)
        async with Running(engine):
            recorder.passes.clear()
            where = (CUSTOM[Kind.TENANT], "ns", "t")
            kube.edit(*where, lambda o: o["metadata"].update(annotations={"pulsaroperator.io/pause": "true"}))
            await engine.idle()
            kube.edit(*where, lambda o: o["metadata"].update(annotations={"pulsaroperator.io/pause": "true", "x": "y"}))
            await engine.idle()
            kube.edit(*where, lambda o: o["metadata"].update(finalizers=[]))
            await engine.idle()
            return recorder.names()

    assert run_virtual(scenario()) == ["t", "t"]


def test_events_of_owned_objects_run_their_owner() -> None:
    async def scenario() -> list[Key]:
        recorder = Recorder()
        engine, _ = engine_of(recorder)
        labels = {LABEL_OWNER_KIND: "PulsarCluster", LABEL_OWNER_NAME: "c"}
        async with Running(engine):
            for n in range(20):
                engine.observe_child({"metadata": {"namespace": "ns", "name": f"pod-{n}", "labels": labels}})
            engine.observe_child({"metadata": {"namespace": "ns", "name": "other"}})
            engine.observe_child(
                {"metadata": {"namespace": "ns", "name": "x", "labels": {LABEL_OWNER_KIND: "Nonsense"}}}
            )
            await engine.idle(within=5)
        return recorder.passes

    assert run_virtual(scenario()) == [key("c", Kind.CLUSTER)]


def test_resync_finds_what_the_watch_missed_and_spreads_the_rest() -> None:
    async def scenario() -> None:
        kube = FakeKube()
        times: dict[str, list[float]] = {}

        async def act(k: Key) -> None:
            times.setdefault(k.name, []).append(asyncio.get_running_loop().time())

        tree(kube, topics=50)
        engine, _ = engine_of(Recorder(act), kube=kube, resync_seconds=100.0)
        async with Running(engine):
            kube.put(topic("ns", "missed"))
            kube.remove(CUSTOM[Kind.TOPIC], "ns", "x7")
            kube.edit(CUSTOM[Kind.TOPIC], "ns", "x8", lambda o: o["spec"].update(partitions=3))
            await asyncio.sleep(100)
            assert 90 <= times["missed"][0] <= 100
            assert 90 <= times["x7"][1] <= 100 and 90 <= times["x8"][1] <= 100
            await asyncio.sleep(60)
            second = sorted(times[f"x{n}"][1] for n in range(50) if n not in (7, 8))
            assert len(second) == 48 and second[-1] - second[0] > 25, second

    run_virtual(scenario())


def test_a_list_that_fails_is_tried_again() -> None:
    async def scenario() -> list[str]:
        kube, recorder = FakeKube(), Recorder()
        tree(kube)
        refused = 3

        def fail(call: Call) -> None:
            nonlocal refused
            if call.verb == "list" and call.kind == "PulsarTenant" and refused:
                refused -= 1
                raise UnavailableError("down")

        kube.before.append(fail)
        engine, _ = engine_of(recorder, kube=kube)
        async with Running(engine):
            return sorted(recorder.names())

    assert run_virtual(scenario()) == ["i", "n", "t", "x0", "x1", "x2"]


def test_stop_lets_passes_end_and_starts_none() -> None:
    async def scenario() -> tuple[list[str], list[str], float]:
        ended: list[str] = []

        async def act(k: Key) -> None:
            await asyncio.sleep(5 if k.name == "quick" else 1000)
            ended.append(k.name)

        recorder = Recorder(act)
        engine, _ = engine_of(recorder, workers=2)
        stop = asyncio.Event()
        task = asyncio.create_task(engine.run(stop))
        await engine.ready.wait()
        for name in ("quick", "hung", "waiting"):
            engine.enqueue(key(name))
        await asyncio.sleep(1)
        stop.set()
        await task
        return ended, recorder.names(), asyncio.get_running_loop().time()

    ended, begun, at = run_virtual(scenario())
    assert ended == ["quick"] and begun == ["quick", "hung"] and at == 11.0


def test_cancelling_stops_at_once() -> None:
    async def scenario() -> float:
        async def act(_: Key) -> None:
            await asyncio.sleep(1000)

        engine, _ = engine_of(all_kinds(Recorder(act)))
        task = asyncio.create_task(engine.run(asyncio.Event()))
        await engine.ready.wait()
        engine.enqueue(key("a"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) == 1.0
