"""The operator's engine, cache and logical controllers on faked servers, in virtual time: what a scenario comes to."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pulsar_operator.adapters.clock import SystemEntropy
from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.controllers.core.reconciler import Outcome, Reconciler
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.logical.isolation_policy import IsolationPolicyController
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.controllers.logical.resource_group import ResourceGroupController
from pulsar_operator.controllers.logical.tenant import TenantController
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.ports import CUSTOM, Deps, Json, Key
from tests.fakes.bookies import FakeBookies
from tests.support.core.journal import ADMIN, EVICT, KUBERNETES, Journal, PortCall, TappedAdmin, TappedKube
from tests.support.core.recorder import CountingMetrics
from tests.support.core.virtual_time import run_virtual
from tests.support.faults.gate import Fault, Gate
from tests.support.faults.ports import GatedAdmin, GatedKube
from tests.support.faults.scenarios import Scenario
from tests.support.faults.watch import Feed
from tests.support.logical.world import LOGICAL, LogicalWorld

RESYNC_SECONDS = 120.0
TRIGGER_AT = 121.0
"""Virtual seconds after the operator's start: just after a resync, so that a wrong list of it is still believed."""
END_AT = 560.0
"""A whole resync after QUIET_AFTER."""
QUIET_AFTER = 440.0
"""From here on a converged operator writes nothing."""
RESTART_SECONDS = 8.0
"""From the operator's end to the next one's start."""
PARTITION = re.compile(r"-partition-\d+$")
Place = tuple[str, int, Any]
"""Port ("kubernetes", "admin" or "watch"), number of the call or event, fault."""


class LoopClock:
    """ports.Clock by the running loop's time."""

    def now(self) -> datetime:
        """Current time."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())


class Watched:
    """A reconciler whose passes are noted."""

    def __init__(self, inner: Reconciler, passes: list[tuple[float, Key]]) -> None:
        self._inner, self._passes = inner, passes

    async def reconcile(self, key: Key) -> Outcome:
        """Note the pass and make it."""
        self._passes.append((asyncio.get_running_loop().time(), key))
        return await self._inner.reconcile(key)


@dataclass
class Story:
    """What happened in a run."""

    state: Json
    changes: Counter[str]
    """Writes to Pulsar that changed something, and deletions in Kubernetes."""
    late_writes: list[str]
    """Writes of a world that should have been converged."""
    passes: list[tuple[float, Key]]
    seen: dict[str, list[Any]]
    """Calls by port, events of the watches."""
    reasons: Counter[str]
    """Reasons of the recorded events with their objects."""
    happened: bool


@dataclass(frozen=True)
class Prepared:
    """A world before the trigger of a scenario."""

    scenario: Scenario
    world: LogicalWorld


async def prepare(scenario: Scenario) -> Prepared:
    """Play what comes before, undisturbed."""
    world = LogicalWorld("a", "b")
    for step in scenario.before:
        step(world)
        await world.run(12)
    return Prepared(scenario, world)


def play(prepared: Prepared, place: Place | None = None) -> Story:
    """The scenario on a copy of the world, with one fault or none, in virtual time."""
    return run_virtual(_play(copy.deepcopy(prepared), place))


async def _play(prepared: Prepared, place: Place | None) -> Story:
    world, scenario = prepared.world, prepared.scenario
    journal, gates = Journal(), {KUBERNETES: Gate(), ADMIN: Gate()}
    changes: Counter[str] = Counter()
    _watch_changes(journal, world, changes)
    passes: list[tuple[float, Key]] = []
    feed = Feed(world.kube)
    if place is not None:
        port, number, fault = place
        (feed if port == "watch" else gates[port]).arm(number, fault)
    gates[KUBERNETES].older = world.kube.all()
    stop = asyncio.Event()
    running = asyncio.create_task(_operate(lambda: _engine(world, journal, gates, passes), feed, gates, stop))
    await asyncio.sleep(TRIGGER_AT)
    scenario.trigger(world)
    await asyncio.sleep(QUIET_AFTER - TRIGGER_AT)
    mark = len(journal.attempts)
    await asyncio.sleep(END_AT - QUIET_AFTER)
    stop.set()
    await running
    return Story(
        state=end_state(world),
        changes=changes,
        late_writes=[str(call) for call in journal.attempts[mark:]],
        passes=passes,
        seen={**{name: gate.seen for name, gate in gates.items()}, "watch": list(feed.seen)},
        reasons=Counter(f"{e.reason} {e.object_kind} {e.object_name}" for e in journal.events),
        happened=feed.happened or any(gate.happened for gate in gates.values()),
    )


async def _operate(make: Callable[[], Engine], feed: Feed, gates: dict[str, Gate], stop: asyncio.Event) -> None:
    """Run the operator until it is stopped; one that is killed comes back as a new one."""
    killed = asyncio.Event()
    for gate in gates.values():
        gate.kill = killed.set
    while not stop.is_set():
        engine = make()
        running, dying = asyncio.create_task(engine.run(stop)), asyncio.create_task(killed.wait())
        feed.start(engine)
        await asyncio.wait({running, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not killed.is_set():
            return await running
        feed.sink = None
        killed.clear()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await asyncio.sleep(RESTART_SECONDS)


def _engine(world: LogicalWorld, journal: Journal, gates: dict[str, Gate], passes: list[tuple[float, Key]]) -> Engine:
    kube = GatedKube(TappedKube(world.kube, journal), world.kube, gates[KUBERNETES])
    admin = GatedAdmin(TappedAdmin(world.admin, journal), gates[ADMIN])
    none: Any = None
    deps = Deps(kube, none, admin, LoopClock(), SystemEntropy(), CountingMetrics(), FakeBookies())
    cache = WatchCache(DirectReader(deps))
    deps = Deps(kube, none, admin, deps.clock, deps.entropy, deps.metrics, FakeBookies(), reader=cache)
    reconcilers: dict[Kind, Reconciler] = {
        Kind.INSTANCE: Watched(_Idle(), []),
        Kind.CLUSTER: Watched(_Idle(), []),
        Kind.TENANT: Watched(TenantController(deps), passes),
        Kind.NAMESPACE: Watched(NamespaceController(deps), passes),
        Kind.TOPIC: Watched(TopicController(deps), passes),
        Kind.RESOURCE_GROUP: Watched(ResourceGroupController(deps), passes),
        Kind.ISOLATION_POLICY: Watched(IsolationPolicyController(deps), passes),
        Kind.TOPIC_SET: Watched(TopicSetController(deps), passes),
    }
    return Engine(deps, reconcilers, resync_seconds=RESYNC_SECONDS, rng=random.Random(0), cache=cache)


class _Idle:
    """Instance and cluster are listed and watched; nobody works on them here."""

    async def reconcile(self, key: Key) -> Outcome:
        """Nothing."""
        return Outcome()


def _watch_changes(journal: Journal, world: LogicalWorld, changes: Counter[str]) -> None:
    """Count the writes that changed something, whoever sees their answer."""
    known = [_pulsar(world)]

    def end(call: PortCall) -> None:
        if call.port == KUBERNETES and call.verb in ("delete", EVICT):
            changes[f"delete {call.kind} {call.name}"] += 1
        if not call.is_write or call.port != ADMIN:
            return
        before, known[:] = known[0], [_pulsar(world)]
        if known[0] != before:
            # What clusters share may be written in any of them, so it is counted for all of them together.
            changes[f"{call.verb} {call.name}"] += 1

    journal.after.append(end)


def _pulsar(world: LogicalWorld) -> str:
    return json.dumps(world.pulsar.snapshot(), sort_keys=True, default=str)


def end_state(world: LogicalWorld) -> Json:
    """Custom resources with status, conditions and finalizers, and everything in Pulsar."""
    objects: Json = {}
    for kind in LOGICAL:
        for obj in world.kube.all(CUSTOM[kind]):
            body = {key: value for key, value in obj.items() if key != "metadata"}
            for condition in (body.get("status") or {}).get("conditions") or []:
                del condition["lastTransitionTime"]
            meta = obj["metadata"]
            kept = {key: meta.get(key) for key in ("finalizers", "annotations", "labels", "generation")}
            objects[f"{kind.value} {meta['name']}"] = {**body, "metadata": kept}
    kubernetes: Json = json.loads(json.dumps(objects))
    return {"kubernetes": kubernetes, "pulsar": dict(enumerate(_anywhere(json.loads(_pulsar(world)))))}


def _anywhere(value: Any) -> Any:
    """Partitions are made by the cluster that was asked, and any cluster may be: they count for all together."""
    if isinstance(value, list):
        return [_anywhere(each) for each in value]
    if not isinstance(value, dict):
        return value
    out: Json = {}
    for key, each in value.items():
        if isinstance(each, list) and any(PARTITION.search(str(name)) for name in each):
            out[key] = [name for name in each if not PARTITION.search(str(name))]
            out["partitions"] = sorted({*out.get("partitions", ()), *(n for n in each if PARTITION.search(str(n)))})
        else:
            out[f"partition {key.split(' ', 1)[-1]}" if PARTITION.search(key) else key] = _anywhere(each)
    return out


__all__ = ["END_AT", "Fault", "Place", "Prepared", "Story", "play", "prepare"]
