"""What the fault matrices found, each as a case of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.logical.logical_pass import REFUSED_LIMIT_SECONDS
from pulsar_operator.domain.logical.plan import EVENT_REASONS, Verb
from pulsar_operator.ports import CUSTOM, AdminEndpoint, ConflictError, Deps, NotFoundError, UnavailableError
from tests.fakes.bookies import FakeBookies
from tests.support.core.journal import Journal, PortCall, TappedKube
from tests.support.core.recorder import CountingMetrics, Recorder
from tests.support.core.virtual_time import run_virtual
from tests.support.faults.gate import Act, Fault, Gate, empty, is_list
from tests.support.faults.ports import GatedKube
from tests.support.faults.site import LoopClock
from tests.support.logical.world import LogicalWorld


def failing(
    w: LogicalWorld, error: Exception, *, method: str, last: str, cluster: str | None = None, times: int = 10**6
) -> Any:
    """Let calls whose path ends with a word fail; returns how often it happened, as a list."""
    hits: list[str] = []

    def hook(call: Any) -> None:
        here = cluster is None or call.cluster == cluster
        if call.method == method and call.path[-1] == last and here and len(hits) < times:
            hits.append(call.cluster)
            raise error

    w.admin.before.append(hook)
    return hits


# ---------------------------------------------------------------------------------------------------- incomplete lists


def _resynced(w: LogicalWorld, *, fails: bool = False) -> tuple[WatchCache, Recorder]:
    """An engine's cache after a resync whose list of tenants was empty though there is one."""
    gate, journal = Gate(), Journal()
    kube = GatedKube(TappedKube(w.kube, journal), w.kube, gate)
    none: Any = None
    deps = Deps(kube, none, none, none, none, CountingMetrics(), FakeBookies())
    cache, recorder = WatchCache(DirectReader(deps)), Recorder()
    on = False
    emptied: list[PortCall] = []

    async def no_tenants(call: PortCall, act: Act, gate: Gate) -> Any:
        if (call.verb, call.kind) != ("list", "PulsarTenant"):
            return await act()
        emptied.append(call)
        return await empty(call, act, gate)

    def hook(call: PortCall) -> None:
        if fails and on and (call.verb, call.kind) == ("get", "PulsarTenant"):
            raise UnavailableError("HTTP 500")

    async def scenario() -> None:
        nonlocal on
        journal.before.append(hook)
        engine = Engine(
            Deps(kube, none, none, LoopClock(), none, CountingMetrics(), FakeBookies(), reader=cache),
            {Kind.TENANT: recorder, Kind.NAMESPACE: recorder},
            resync_seconds=100.0,
            cache=cache,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(engine.run(stop))
        await asyncio.sleep(10)
        on = True
        recorder.passes.clear()
        gate.arm(len(gate.seen), Fault("empty LIST", no_tenants, is_list, seconds=99.0))
        await asyncio.sleep(99)
        assert emptied
        stop.set()
        await running

    run_virtual(scenario())
    return cache, recorder


@pytest.mark.parametrize("fails", [False, True], ids=["asked", "no answer"])
async def test_a_list_without_an_object_does_not_make_it_gone(fails: bool) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    cache, _ = await asyncio.to_thread(_resynced, w, fails=fails)
    assert await cache.get(Kind.TENANT, "apps", "t") is not None


async def test_an_object_that_is_gone_is_forgotten_at_the_resync() -> None:
    w = LogicalWorld()
    w.tenant()

    def gone(call: Any) -> None:
        # The watch lost the event: it is deleted while the resync lists.
        if (call.verb, call.kind, call.name) == ("get", "PulsarTenant", "t"):
            w.kube.remove(CUSTOM[Kind.TENANT], "apps", "t")

    w.kube.before.append(gone)
    cache, _ = await asyncio.to_thread(_resynced, w)
    assert await cache.get(Kind.TENANT, "apps", "t") is None


# -------------------------------------------------------------------------- a cluster that gives no answer for a while


async def _change_while_silent(topic: dict[str, Any], last: str, cluster: str | None) -> LogicalWorld:
    """A topic that only reports drift is changed while Pulsar does not answer all questions."""
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace()
    w.topic(policies={"maxProducers": 3}, driftPolicy="Report", **topic)
    await w.run()
    w.topic(policies={"maxProducers": 4}, driftPolicy="Report", **topic)
    hits = failing(w, UnavailableError("HTTP 500"), method="GET", last=last, cluster=cluster)
    await w.run()
    assert hits
    assert w.condition(Kind.TOPIC, "x")[:2] == ("Unknown", "AdminUnreachable")
    w.admin.before.clear()
    await w.run()
    return w


async def test_a_change_reaches_a_cluster_that_was_silent_though_drift_is_only_reported() -> None:
    w = await _change_while_silent({}, "maxProducers", "b")
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert w.status(Kind.TOPIC, "x").get("drift") in (None, [])
    for cluster in ("a", "b"):
        found = await w.admin.call(
            _endpoint(cluster), "GET", ("persistent", "t", "n", "x", "maxProducers"), query={"applied": "false"}
        )
        assert found == 4, cluster


async def test_a_shared_policy_nobody_could_tell_is_not_as_declared() -> None:
    topic = {"partitions": 2, "policyScope": "Global"}
    w = await _change_while_silent(topic, "maxProducers", None)
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert EVENT_REASONS[Verb.REPAIR].value not in w.reasons(Kind.TOPIC)


def _endpoint(cluster: str) -> AdminEndpoint:
    return AdminEndpoint(cluster, "http://x")


# ----------------------------------------------------------------------------------------------- answers that are late


async def test_what_was_made_and_is_not_seen_yet_stays_managed() -> None:
    w = LogicalWorld()
    w.tenant()
    await w.run()
    w.namespace(bundles={"count": 3})
    made: list[str] = []
    w.admin.after.append(lambda call: made.append(call.method) if call.path == ("namespaces", "t", "n") else None)

    def late(call: Any) -> None:
        if "PUT" in made and call.method == "GET" and call.path == ("namespaces", "t", "n"):
            raise NotFoundError("Namespace does not exist")

    w.admin.before.append(late)
    await w.reconcile(Kind.NAMESPACE, "n")
    assert "bundles" in w.status(Kind.NAMESPACE, "n")["managedFields"]
    w.admin.before.clear()
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert "Adopted" not in w.reasons(Kind.NAMESPACE)


async def test_a_change_that_met_another_writers_is_tried_again_soon() -> None:
    w = LogicalWorld()
    w.tenant(adminRoles=["r"])
    await w.run()
    w.tenant(adminRoles=["s"])
    failing(w, ConflictError("HTTP 409: Concurrent modification"), method="POST", last="t", times=1)
    outcome = await w.reconcile(Kind.TENANT, "t")
    assert outcome.requeue_after == 2.0
    assert (await w.reconcile(Kind.TENANT, "t")).requeue_after is None
    assert w.condition(Kind.TENANT, "t")[0] == "True"
    assert EVENT_REASONS[Verb.REPAIR].value not in w.reasons(Kind.TENANT)


async def test_a_change_that_is_always_refused_is_tried_ever_more_rarely() -> None:
    w = LogicalWorld()
    w.tenant(adminRoles=["r"])
    await w.run()
    w.tenant(adminRoles=["s"])
    failing(w, ConflictError("HTTP 409: no"), method="POST", last="t")
    waits = [(await w.reconcile(Kind.TENANT, "t")).requeue_after or 0.0 for _ in range(1000)]
    assert waits[0] == 2.0
    assert waits == sorted(waits)
    assert waits[-1] == REFUSED_LIMIT_SECONDS


async def test_a_status_that_cannot_be_written_backs_off() -> None:
    w = LogicalWorld()
    w.tenant()

    def conflict(call: Any) -> None:
        if call.verb == "apply_status":
            raise ConflictError("the object has been modified")

    w.kube.before.append(conflict)
    assert (await w.reconcile(Kind.TENANT, "t")).backoff


async def test_the_time_pulsar_asks_to_wait_is_waited() -> None:
    w = LogicalWorld()
    w.tenant()
    failing(w, UnavailableError("HTTP 429", retry_after=33.0), method="GET", last="t")
    outcome = await w.reconcile(Kind.TENANT, "t")
    assert outcome.backoff and outcome.requeue_after == 33.0


async def test_a_cluster_the_instance_does_not_know_for_a_while_is_kept_in_mind() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.isolation(namespaces=["t/.*"], primary=[".*"], unloadScope="None", deletionPolicy="Delete")
    await w.run()
    assert "clusters[b]" in w.status(Kind.ISOLATION_POLICY, "i")["managedFields"]
    w.delete(Kind.CLUSTER, "b")
    await w.run()
    assert "clusters[b]" in w.status(Kind.ISOLATION_POLICY, "i")["managedFields"]
    w.cluster("b")
    w.isolation(clusters=["a"], namespaces=["t/.*"], primary=[".*"], unloadScope="None", deletionPolicy="Delete")
    await w.run()
    assert sorted(name for name, held in w.pulsar.isolation.items() if held) == ["a"]


async def test_a_set_does_not_spin_while_no_cluster_answers() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace()
    count = {"prefix": "d-", "number": 3}
    w.put(Kind.TOPIC_SET, "s", {"namespaceRef": {"name": "n"}, "count": count, "template": {"partitions": 2}})
    await w.run()
    properties = {"partitions": 2, "properties": {"k": "v"}}
    w.put(Kind.TOPIC_SET, "s", {"namespaceRef": {"name": "n"}, "count": count, "template": properties})

    def unreachable(call: Any) -> None:
        raise UnavailableError("HTTP 429", retry_after=20.0)

    w.admin.before.append(unreachable)
    for _ in range(2):
        outcome = await w.reconcile(Kind.TOPIC_SET, "s")
        assert outcome.backoff or (outcome.requeue_after or 0.0) > 1.0
