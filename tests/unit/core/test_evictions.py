"""Evictions: what the adapter reads out of an answer, what the actor makes of it, what taps and gates do with it."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.adapters.clock import SystemEntropy
from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.ports import (
    PDBS,
    PODS,
    SERVICES,
    ConflictError,
    DeadlineError,
    Deps,
    ForbiddenError,
    Json,
    NotServedError,
    PortError,
    RefusedError,
    ServerError,
    UnavailableError,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.bookies import FakeBookies
from tests.fakes.killed import Killed
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.fakes.kube_evictions import Disruptions, disruptions
from tests.fakes.pulsar import FakePulsar
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.core.clocks import SteppingClock
from tests.support.core.journal import EVICT, KUBERNETES, Journal, PortCall, TappedKube
from tests.support.core.objects import tenant
from tests.support.core.recorder import CountingMetrics
from tests.support.faults.gate import KUBE_FAULTS, Fault, Gate
from tests.support.faults.killing import Run, doubled, pods_deleted
from tests.support.faults.ports import GatedKube
from tests.unit.core.test_kube_http import Bench, bench

__all__ = ["bench"]

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
NEEDS = "The disruption budget b needs 3 healthy pods and has 3 currently"
CAUSE = {"reason": "DisruptionBudget", "message": NEEDS}


def answer(message: str, code: int, **details: Any) -> Json:
    return {"kind": "Status", "status": "Failure", "message": message, "code": code, "details": details}


# ------------------------------------------------------------------------------------------------------ the adapter


async def test_what_is_sent_names_the_very_pod(bench: Bench) -> None:
    bench.script.add(201, {"kind": "Status", "status": "Success", "code": 201})
    assert await bench.kube.evict("ns", "east-broker-0", uid="u-1") is None
    ((method, path, _, _, body),) = bench.script.asked
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/pods/east-broker-0/eviction")
    assert body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "east-broker-0", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}},
    }
    assert bench.metrics.calls == [("kube_write", "evict", "Pod")]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (answer(VIOLATES, 429, causes=[CAUSE]), NEEDS),
        (answer(VIOLATES, 429, causes=[CAUSE], retryAfterSeconds=10), NEEDS),
        (answer(VIOLATES, 429, causes=[{"reason": "DisruptionBudget", "message": NEEDS + "."}]), NEEDS),
        (answer("m", 429, causes=[{"reason": "DisruptionBudget"}]), "m"),
        (answer(VIOLATES, 429), VIOLATES),
    ],
)
async def test_a_budget_says_no_in_its_words(bench: Bench, body: Json, words: str) -> None:
    bench.script.add(429, body)
    assert await bench.kube.evict("ns", "p", uid="u") == words
    assert bench.metrics.calls == []


@pytest.mark.parametrize("name", ["pods", "namespaces"])
async def test_what_is_gone_is_gone(bench: Bench, name: str) -> None:
    missing = "p" if name == "pods" else "ns"
    bench.script.add(404, answer(f'{name} "{missing}" not found', 404, name=missing, kind=name))
    assert await bench.kube.evict("ns", "p", uid="u") is None
    assert bench.metrics.calls == []


@pytest.mark.parametrize(
    ("code", "body", "headers", "error", "words", "retry_after"),
    [
        (429, answer("Too many requests, please try again later.", 429), {"Retry_After": "7"},
         UnavailableError, "Too many requests", 7.0),
        (429, answer("m", 429, causes=[{"reason": "Other", "message": "x"}]), {}, UnavailableError, "m", None),
        (500, answer("This pod has more than one PodDisruptionBudget", 500), {},
         ServerError, "more than one PodDisruptionBudget", None),
        (404, answer('poddisruptionbudgets.policy "p" not found', 404, name="p", kind="poddisruptionbudgets"), {},
         ServerError, "poddisruptionbudgets", None),
        (404, "404 page not found", {}, NotServedError, "page not found", None),
        (409, answer("the UID in the precondition (u) does not match", 409), {}, ConflictError, "UID", None),
        (403, answer("pdb disruptions allowed is negative", 403), {}, RefusedError, "negative", None),
        (403, answer('User "x" cannot create resource "pods/eviction" in API group "" in the namespace "ns"', 403), {},
         ForbiddenError, "has no permission to create pods/eviction in Kubernetes namespace ns", None),
        (503, answer(VIOLATES, 503, causes=[CAUSE]), {}, UnavailableError, "HTTP 503", None),
        (504, answer("couldn't update PodDisruptionBudget", 504), {}, DeadlineError, "couldn't update", None),
    ],
)  # fmt: skip
async def test_what_is_no_answer_of_a_budget(
    bench: Bench, code: int, body: Any, headers: dict[str, str], error: type[PortError], words: str,
    retry_after: float | None,
) -> None:  # fmt: skip
    bench.script.add(code, body, **headers)
    with pytest.raises(error, match=words) as raised:
        await bench.kube.evict("ns", "p", uid="u")
    assert type(raised.value) is error
    assert raised.value.retry_after == retry_after
    assert bench.metrics.calls == []


# --------------------------------------------------------------------------------------------------------- the actor


def pod(name: str, *, ready: bool = True, owner: str | None = None) -> Json:
    meta: Json = {"namespace": "ns", "name": name, "labels": {"app": "b"}}
    if owner:
        meta["ownerReferences"] = [{"kind": "StatefulSet", "name": "b", "uid": owner}]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": status}


def budget(**spec: Any) -> Json:
    spec = {"selector": {"matchLabels": {"app": "b"}}, **spec}
    meta = {"namespace": "ns", "name": "b"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}


def actor(kube: FakeKube, *, act: bool = True) -> Actor:
    metrics = CountingMetrics()
    deps = Deps(
        kube, FakeZooKeeper(), FakeAdmin(FakePulsar()), SteppingClock(), SystemEntropy(), metrics, FakeBookies()
    )
    return Actor(deps, tenant("ns"), act=act)


async def test_an_eviction_is_recorded_with_its_reason() -> None:
    kube = FakeKube()
    stored, hand = kube.put(pod("b-0")), actor(kube)
    assert await hand.evict(stored, "other image", reason=Reason.POD_REPLACED) is None
    assert kube.writes == [("evict", "Pod", "b-0")] and kube.live(PODS, "ns", "b-0") is None
    assert hand.done == ["Evicted Pod b-0, because other image"] and hand.pending == []
    assert [(event.reason, event.message) for event in kube.events] == [
        ("PodReplaced", "Evicted Pod b-0, because other image")
    ]


async def test_a_refusal_is_reported_and_recorded_nowhere() -> None:
    kube = FakeKube()
    kube.put(budget(minAvailable=1))
    stored, hand = kube.put(pod("b-0")), actor(kube)
    for _ in range(2):
        refusal = await hand.evict(stored, "other image", reason=Reason.POD_REPLACED)
        assert refusal == "The disruption budget b needs 1 healthy pods and has 1 currently"
    assert (hand.done, hand.pending, kube.events, kube.writes) == ([], [], [], [])
    assert [call.verb for call in kube.calls] == ["evict", "evict"] and all(call.is_write for call in kube.calls)
    assert kube.live(PODS, "ns", "b-0") is not None


async def test_without_acting_it_is_pending() -> None:
    kube = FakeKube()
    stored, hand = kube.put(pod("b-0")), actor(kube, act=False)
    assert await hand.evict(stored, "other image", reason=Reason.POD_REPLACED) is None
    assert hand.pending == ["Evict Pod b-0, because other image"] and hand.done == [] and kube.calls == []


async def test_a_part_that_writes_no_pods_evicts_none() -> None:
    kube = FakeKube()
    stored, hand = kube.put(pod("b-0")), actor(kube)
    with pytest.raises(ValueError, match="does not write Pod"):
        await hand.limited(frozenset({SERVICES, PDBS})).evict(stored, "for a test", reason=Reason.POD_REPLACED)
    assert kube.calls == []
    assert await hand.limited(frozenset({PODS})).evict(stored, "for a test", reason=Reason.POD_REPLACED) is None


async def test_a_pod_made_again_stays() -> None:
    kube = FakeKube()
    stored, hand = kube.put(pod("b-0")), actor(kube)
    kube.remove(PODS, "ns", "b-0")
    kube.put(pod("b-0"))
    with pytest.raises(ConflictError):
        await hand.evict(stored, "other image", reason=Reason.POD_REPLACED)
    assert kube.live(PODS, "ns", "b-0") is not None and hand.done == []


# ---------------------------------------------------------------------------------------------------------- the fake


@pytest.mark.parametrize(
    ("spec", "replicas", "ready", "unready", "expected"),
    [
        ({"maxUnavailable": 1}, 3, 3, 0, Disruptions(1, 3, 2, 3)),
        ({"maxUnavailable": 1}, 3, 2, 0, Disruptions(0, 2, 2, 3)),
        ({"maxUnavailable": 1}, 3, 2, 1, Disruptions(0, 2, 2, 3)),
        ({"maxUnavailable": 0}, 3, 3, 0, Disruptions(0, 3, 3, 3)),
        ({"maxUnavailable": 5}, 3, 3, 0, Disruptions(3, 3, 0, 3)),
        ({"maxUnavailable": "30%"}, 4, 4, 0, Disruptions(2, 4, 2, 4)),
        ({"minAvailable": 2}, 3, 3, 0, Disruptions(1, 3, 2, 3)),
        ({"minAvailable": "60%"}, 4, 4, 0, Disruptions(1, 4, 3, 4)),
        ({"maxUnavailable": 1}, 1, 1, 0, Disruptions(1, 1, 0, 1)),
        ({"maxUnavailable": 1}, 0, 0, 0, Disruptions(0, 0, 0, 0)),
    ],
)
def test_what_a_budget_allows(spec: Json, replicas: int, ready: int, unready: int, expected: Disruptions) -> None:
    owner = {"kind": "StatefulSet", "metadata": {"namespace": "ns", "name": "b", "uid": "o"}}
    owner["spec"] = {"replicas": replicas}
    pods = [pod(f"b-{n}", ready=n < ready, owner="o") for n in range(ready + unready)]
    elsewhere = pod("b-9", owner="o")
    elsewhere["metadata"]["namespace"] = "other"
    other = pod("c-0", owner="o")
    other["metadata"]["labels"] = {"app": "c"}
    assert disruptions(budget(**spec), [owner, *pods, elsewhere, other]) == expected


def test_pods_that_nobody_replaces_are_not_what_may_be_missing() -> None:
    assert disruptions(budget(maxUnavailable=1), [pod("b-0"), pod("b-1", owner="gone")]) == Disruptions(0, 2, 0, 0)
    assert disruptions(budget(minAvailable=1), [pod("b-0"), pod("b-1")]) == Disruptions(1, 2, 1, 2)


async def test_hooks_are_around_an_eviction() -> None:
    kube = FakeKube()
    stored = kube.put(pod("b-0"))

    def fail(call: Call) -> None:
        raise UnavailableError(f"cut at {call.verb}")

    kube.before.append(fail)
    with pytest.raises(UnavailableError, match="cut at evict"):
        await kube.evict("ns", "b-0", uid=stored["metadata"]["uid"])
    assert kube.live(PODS, "ns", "b-0") is not None


# ------------------------------------------------------------------------------------------------------ taps and gates


async def test_a_refused_eviction_is_an_attempt_without_effect() -> None:
    kube, journal = FakeKube(), Journal()
    told: list[PortCall] = []
    journal.after.append(told.append)
    kube.put(budget(minAvailable=1))
    uid = kube.put(pod("b-0"))["metadata"]["uid"]
    tapped = TappedKube(kube, journal)
    assert await tapped.evict("ns", "b-0", uid=uid) is not None
    call = PortCall(KUBERNETES, EVICT, "Pod", "b-0", True)
    assert (journal.attempts, journal.effects, told) == ([call], [], [])
    kube.put(pod("b-1"))
    assert await tapped.evict("ns", "b-0", uid=uid) is None
    assert (journal.attempts, journal.effects, told) == ([call, call], [call], [call])


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_operator_may_end_at_an_eviction(when: str, allowed: bool) -> None:
    kube, journal = FakeKube(), Journal()
    if not allowed:
        kube.put(budget(minAvailable=1))
    uid = kube.put(pod("b-0"))["metadata"]["uid"]
    journal.arm(0, when)
    with pytest.raises(Killed):
        await TappedKube(kube, journal).evict("ns", "b-0", uid=uid)
    gone = when == "after" and allowed
    assert (kube.live(PODS, "ns", "b-0") is None) is gone
    assert len(journal.effects) == gone and not journal.armed


def test_a_kill_matrix_counts_evicted_pods_as_gone() -> None:
    evicted, deleted = (PortCall(KUBERNETES, verb, "Pod", "b-0", True) for verb in (EVICT, "delete"))
    run = Run([], [evicted, evicted, deleted], {}, [])
    assert pods_deleted(run) == {"b-0": 3}
    assert doubled(run) == [f"{evicted} (2 times)"]


@pytest.mark.parametrize("fault", [fault for fault in KUBE_FAULTS if fault.name.startswith("budget")], ids=str)
async def test_a_budget_may_refuse_at_a_gate(fault: Fault) -> None:
    kube, gate = FakeKube(), Gate()
    uid = kube.put(pod("b-0"))["metadata"]["uid"]
    gated = GatedKube(TappedKube(kube, Journal()), kube, gate)
    gate.arm(0, fault)
    assert fault.concerns(PortCall(KUBERNETES, EVICT, "Pod", "b-0", True))
    assert not fault.concerns(PortCall(KUBERNETES, "delete", "Pod", "b-0", True))
    assert await gated.evict("ns", "b-0", uid=uid) == NEEDS
    assert kube.calls == [] and gate.happened
    assert await gated.get(PODS, "ns", "b-0") == kube.live(PODS, "ns", "b-0"), "everything else passes"
    assert (await gated.evict("ns", "b-0", uid=uid) is None) is (fault.seconds == 0)


@pytest.mark.parametrize(
    "fault", [fault for fault in KUBE_FAULTS if fault.name in ("429", "dropped before", "500 burst")]
)
async def test_other_faults_at_an_eviction_are_errors(fault: Fault) -> None:
    kube, gate = FakeKube(), Gate()
    uid = kube.put(pod("b-0"))["metadata"]["uid"]
    gate.arm(0, fault)
    with pytest.raises(UnavailableError):
        await GatedKube(TappedKube(kube, Journal()), kube, gate).evict("ns", "b-0", uid=uid)
    assert kube.live(PODS, "ns", "b-0") is not None
