"""core/engine.py in virtual time: which objects run for what lists, events and resyncs say, and how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from pulsar_operator.api.constants import LABEL_OWNER_KIND, LABEL_OWNER_NAME, Kind
from pulsar_operator.ports import CUSTOM, Key, UnavailableError
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.core.engine import Running, engine_of, key, watch
from tests.support.core.objects import instance, pulsar_namespace, tenant, topic
from tests.support.core.recorder import Recorder, all_kinds
from tests.support.core.virtual_time import run_virtual


def tree(kube: FakeKube, topics: int = 3) -> None:
    kube.put(instance("ns"))
    kube.put(tenant("ns"))
    kube.put(pulsar_namespace("ns"))
    for n in range(topics):
        kube.put(topic("ns", f"x{n}"))


def ready(kube: FakeKube, kind: Kind, name: str, value: str) -> None:
    kube.set_status(CUSTOM[kind], "ns", name, {"conditions": [{"type": "Ready", "status": value}]})


def test_first_pass_checks_everything_once() -> None:
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
            await asyncio.sleep(10)
            return sorted(set(recorder.names()))

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
