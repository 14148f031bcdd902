"""A pass that ends without a status of its own: Ready says so, once, and the rest of the status stays."""

from __future__ import annotations

import asyncio
import logging
from itertools import groupby
from typing import Any

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.ports import CUSTOM, Deps, ForbiddenError, Json, Key, RefusedError, UnavailableError
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.core.clocks import SteppingClock
from tests.support.core.engine import engine_of, watch
from tests.support.core.objects import custom
from tests.support.core.recorder import CountingMetrics, Recorder
from tests.support.core.virtual_time import run_virtual

SECRET = "s3cret-token"
SINCE = "2025-05-05T05:05:05Z"
CONDITIONS = [
    {"type": "Ready", "status": "True", "reason": "Ready", "message": "well", "observedGeneration": 1,
     "lastTransitionTime": SINCE},
    {"type": "Accepted", "status": "True", "reason": "Valid", "message": "fine", "observedGeneration": 1,
     "lastTransitionTime": SINCE},
]  # fmt: skip
REST: dict[Kind, Json] = {
    Kind.CLUSTER: {"dependents": 3, "rollout": {"component": "broker", "podsDone": 1, "podsTotal": 3},
                   "drain": {"broker": "b-0"}, "metadataStoreServers": "zk:2181", "blocker": "a pod"},
    Kind.NAMESPACE: {"dependents": 7, "pulsarName": "t/n", "managedFields": ["bundles"]},
}  # fmt: skip


def stored(kube: FakeKube, kind: Kind, **meta: Any) -> Json:
    """An object at generation 2 whose status was written at generation 1, as the operator writes it."""
    kube.put(custom(kind, "ns", "x", {"one": 1}, **meta))
    found = kube.live(CUSTOM[kind], "ns", "x")
    assert found is not None
    status = {"observedGeneration": 1, "conditions": CONDITIONS, **REST.get(kind, {})}
    identity = {key: found["metadata"][key] for key in ("name", "namespace", "uid")}
    manifest = {"apiVersion": found["apiVersion"], "kind": kind.value, "metadata": identity, "status": status}
    return manifest


async def prepared(kind: Kind, **meta: Any) -> tuple[FakeKube, Json]:
    kube = FakeKube()
    await kube.apply_status(stored(kube, kind, **meta))
    changed = kube.edit(CUSTOM[kind], "ns", "x", lambda o: o["spec"].update(one=2))
    kube.writes.clear()
    kube.changes.clear()
    return kube, changed


async def run(kube: FakeKube, act: Any, *, seconds: float, **options: Any) -> Recorder:
    """Run the engine for some virtual seconds."""
    recorder = Recorder(act)
    engine, _ = engine_of(recorder, kube=kube, **options)
    watch(kube, engine)
    stop = asyncio.Event()
    task = asyncio.create_task(engine.run(stop))
    await asyncio.sleep(seconds)
    stop.set()
    await task
    return recorder


def ready_of(kube: FakeKube, kind: Kind) -> Json:
    found = kube.live(CUSTOM[kind], "ns", "x")
    assert found is not None
    (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
    return dict(ready)


async def fails(_: Key) -> Outcome:
    raise KeyError(SECRET)


async def hangs(_: Key) -> Outcome:
    await asyncio.sleep(10_000)
    return Outcome()


async def refused(_: Key) -> Outcome:
    raise RefusedError(f"no, not {SECRET}", status=422)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(("act", "word"), [(fails, "KeyError"), (hangs, "longer than 20 s"), (refused, "RefusedError")])
def test_ready_says_that_the_pass_ended(kind: Kind, act: Any, word: str) -> None:
    async def scenario() -> None:
        kube, before = await prepared(kind)
        recorder = await run(kube, act, seconds=300, pass_seconds=20.0)
        assert len(recorder.passes) > 3
        ready = ready_of(kube, kind)
        assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("Unknown", "InternalError", 2)
        assert word in ready["message"] and "log" in ready["message"] and SECRET not in ready["message"]
        assert ready["lastTransitionTime"] != SINCE
        assert kube.writes == [("apply_status", kind.value, "x")], "once, not at every back-off"
        after = kube.live(CUSTOM[kind], "ns", "x")
        assert after is not None
        kept = {
            **after["status"],
            "conditions": [before["status"]["conditions"][0], *after["status"]["conditions"][1:]],
        }
        assert kept == before["status"]
        assert [each["type"] for each in after["status"]["conditions"]] == ["Ready", "Accepted"]
        MODELS[kind].status.model_validate({"conditions": after["status"]["conditions"]})

    run_virtual(scenario())


def test_a_new_generation_that_fails_too_is_one_more_write() -> None:
    async def scenario() -> None:
        kube, _ = await prepared(Kind.TOPIC)
        engine, _ = engine_of(Recorder(fails), kube=kube)
        watch(kube, engine)
        stop = asyncio.Event()
        task = asyncio.create_task(engine.run(stop))
        await asyncio.sleep(100)
        kube.edit(CUSTOM[Kind.TOPIC], "ns", "x", lambda o: o["spec"].update(one=3))
        await asyncio.sleep(100)
        stop.set()
        await task
        assert ready_of(kube, Kind.TOPIC)["observedGeneration"] == 3
        assert len(kube.changes) == 2

    run_virtual(scenario())


def test_a_new_object_and_one_that_is_being_deleted_say_so_too() -> None:
    async def scenario() -> None:
        kube = FakeKube()
        kube.put(custom(Kind.TENANT, "ns", "x", {}))
        await run(kube, fails, seconds=10)
        assert ready_of(kube, Kind.TENANT)["reason"] == "InternalError"
        found = kube.live(CUSTOM[Kind.TENANT], "ns", "x")
        assert found is not None and found["status"]["observedGeneration"] == -1

        kube, _ = await prepared(Kind.TENANT, finalizers=[FINALIZER])
        kube.remove(CUSTOM[Kind.TENANT], "ns", "x")
        await run(kube, fails, seconds=10)
        ready = ready_of(kube, Kind.TENANT)
        assert (ready["status"], ready["reason"]) == ("Unknown", "InternalError")
        assert "The deletion of the object cannot continue" in ready["message"]

    run_virtual(scenario())


@pytest.mark.parametrize("kind", list(Kind))
def test_a_missing_right_is_reported_with_the_remedy_and_forgotten_when_it_is_given(kind: Kind) -> None:
    async def scenario() -> None:
        kube, _ = await prepared(kind)
        missing, passes = True, 0

        async def act(_: Key) -> Outcome:
            nonlocal passes
            passes += 1
            if missing:
                raise ForbiddenError("the operator may not list secrets in Kubernetes namespace ns")
            return Outcome()

        engine, _ = engine_of(Recorder(act), kube=kube)
        stop = asyncio.Event()
        task = asyncio.create_task(engine.run(stop))
        await asyncio.sleep(300)
        ready = ready_of(kube, kind)
        assert (ready["status"], ready["reason"]) == ("Unknown", "Forbidden")
        assert "may not list secrets in Kubernetes namespace ns" in ready["message"]
        assert "helm upgrade" in ready["message"]
        assert len(kube.writes) == 1
        missing, before = False, passes
        await asyncio.sleep(60)
        assert passes == before + 1, "looked at again without a restart and without a change"
        stop.set()
        await task

    run_virtual(scenario())


def test_the_object_that_came_in_its_place_is_left_alone() -> None:
    async def scenario() -> None:
        kube, _ = await prepared(Kind.TOPIC)

        async def act(_: Key) -> Outcome:
            kube.remove(CUSTOM[Kind.TOPIC], "ns", "x")
            kube.put(custom(Kind.TOPIC, "ns", "x", {}))
            act_once.append(1)
            if len(act_once) == 1:
                raise KeyError(SECRET)
            await asyncio.sleep(1000)
            return Outcome()

        act_once: list[int] = []
        await run(kube, act, seconds=10)
        assert kube.writes == []

    run_virtual(scenario())


@pytest.mark.parametrize("problem", [UnavailableError("down"), KeyError("bug")])
def test_a_status_that_cannot_be_written_is_a_line_in_the_log(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> list[str]:
        kube, _ = await prepared(Kind.TOPIC)

        def broken(call: Call) -> None:
            if call.verb == "apply_status":
                raise problem

        kube.before.append(broken)
        recorder = await run(kube, fails, seconds=100)
        return recorder.names()

    with caplog.at_level(logging.WARNING):
        assert len(run_virtual(scenario())) > 3, "the queue goes on"
    assert "failure of a pass could not be written to the status" in caplog.text


def test_a_time_out_inside_of_a_pass_is_no_pass_that_took_too_long() -> None:
    async def scenario() -> str:
        kube, _ = await prepared(Kind.TOPIC)

        async def act(_: Key) -> Outcome:
            raise TimeoutError

        await run(kube, act, seconds=10)
        return str(ready_of(kube, Kind.TOPIC)["message"])

    message = run_virtual(scenario())
    assert "TimeoutError" in message and "longer" not in message


def test_the_next_pass_that_ends_well_has_the_last_word() -> None:
    async def scenario() -> list[str]:
        kube, said = FakeKube(), []
        kube.put(
            custom(Kind.INSTANCE, "ns", "x", {"configurationStore": {"cluster": {"name": "c"}}, "version": "4.0.8"})
        )
        broken = [KeyError("one"), KeyError("two")]

        def fail(call: Call) -> None:
            # The list of the pass itself; the engine's own at the start is before it.
            if call.verb == "list" and call.kind == "PulsarTenant" and running and broken:
                raise broken.pop()

        kube.before.append(fail)
        kube.subscribe(lambda _, obj: said.append(ready_of(kube, Kind.INSTANCE)["reason"]))
        running: list[bool] = []
        metrics = CountingMetrics()
        deps = Deps(kube, None, None, SteppingClock(), None, metrics, FakeBookies())  # type: ignore[arg-type]
        controller = InstanceController(deps)

        async def act(k: Key) -> Outcome:
            running.append(True)
            return await controller.reconcile(k)

        await run(kube, act, seconds=30)
        return [reason for reason, _ in groupby(said)]  # the finalizer is a change too, and tells nothing new

    assert run_virtual(scenario()) == ["InternalError", "ReferenceNotFound"]


def test_other_errors_of_a_port_are_waited_for() -> None:
    async def scenario() -> list[Any]:
        kube, _ = await prepared(Kind.TOPIC)

        async def act(_: Key) -> Outcome:
            raise UnavailableError("down")

        await run(kube, act, seconds=10)
        return kube.writes

    assert run_virtual(scenario()) == []


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("lasts", [3, 1000])
def test_a_server_that_never_answers_is_reported(kind: Kind, lasts: int) -> None:
    """A few passes that fail are nobody's business; an old Ready must not stay for ever."""

    async def scenario() -> None:
        kube, before = await prepared(kind)
        left = iter(range(lasts))

        async def silent(_: Key) -> Outcome:
            if next(left, None) is not None:
                raise UnavailableError(f"no answer, {SECRET}")
            return Outcome()

        recorder = await run(kube, silent, seconds=600)
        assert len(recorder.passes) > 3
        if lasts == 3:
            assert kube.writes == [] and ready_of(kube, kind) == before["status"]["conditions"][0]
            return
        ready = ready_of(kube, kind)
        assert (ready["status"], ready["reason"]) == ("Unknown", "InternalError")
        assert "UnavailableError" in ready["message"] and SECRET not in ready["message"]
        assert kube.writes == [("apply_status", kind.value, "x")], "once, not at every back-off"

    run_virtual(scenario())
