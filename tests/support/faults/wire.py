"""The operator's process between a proxy before a real API server and one before an admin REST, and what must hold.

A case is a tenant with a namespace with a topic, all of one name, made and removed while one request that names it, or
one that names nobody, is disturbed. Cases of their own names run beside each other.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import API_VERSION, GROUP, PLURALS, VERSION, Kind
from pulsar_operator.ports import Json
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.support.cluster.end_state import differences
from tests.support.faults.http import (
    ADMIN_WIRE,
    CASE,
    KUBE_WIRE,
    STREAM_WIRE,
    WATCH_WIRE,
    AdminProxy,
    KubeProxy,
    Request,
    Wire,
    serving,
)
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.operator import OperatorProcess

MODULE = "tests.support.processes.logical_operator"
RESYNC_SECONDS = 3
EVENTUALLY_SECONDS = 180.0
REACHED_SECONDS = 4.0
"""How long a fault may wait for a request once the operator is done: a little more than a resync."""
CALM = 4
"""Undisturbed runs; what only some of them asked is no place."""
LOOK_SECONDS = 0.6
"""Between two looks at the objects of all cases."""
BYSTANDER = "case0"
CHAIN = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC)
CLUSTER: Json = {"metadataStore": {"managed": {}}, "bookkeeper": {}, "broker": {}}
CREATE, DELETE = "create", "delete"
KUBERNETES, ADMIN = "kubernetes", "admin"
FAULTS = {KUBERNETES: (*KUBE_WIRE, *WATCH_WIRE), ADMIN: ADMIN_WIRE}


@dataclass(frozen=True)
class Case:
    """One fault at one place of the undisturbed run."""

    side: str
    phase: str
    fault: str
    after: int
    """Equal requests of the case that pass before."""
    words: str
    """The request in the undisturbed run."""
    shared: bool = False
    """Whether the request names no case, so that its words alone tell it."""

    @property
    def alone(self) -> bool:
        """Whether it concerns others too, so that nothing else runs beside it."""
        return self.shared or self.fault in STREAM_WIRE

    @property
    def certain(self) -> bool:
        """Whether the request is made in every run. Two events that come close together are one pass, so that of equal
        requests only the first is certain; the status of what is being deleted is written where something has to be
        waited for; and an answer that concerns no case in particular is remembered."""
        waits = self.phase == DELETE and self.words.endswith("/status")
        return not self.shared and self.after == 0 and not waits

    def __str__(self) -> str:
        return f"{self.side} {self.phase}: {self.fault} at number {self.after} of {self.words}"


@dataclass
class Site:
    """The operator and everything around it."""

    apiserver: ApiServer
    namespace: str
    pulsar: FakePulsar
    wires: dict[str, Wire]
    operator: OperatorProcess
    numbers: int = 0
    calm: Json = field(default_factory=dict)
    own: dict[tuple[str, str], list[Request]] = field(default_factory=dict)
    """Requests of the undisturbed run that name its case, by side and phase."""
    shared: dict[tuple[str, str], list[Request]] = field(default_factory=dict)
    """Different requests of it that name nobody."""
    objects: dict[tuple[Kind, str], Json] = field(default_factory=dict)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, when all objects were looked at."""

    # ------------------------------------------------------------------------------------------------- what is there

    def _path(self, kind: Kind, name: str) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{PLURALS[kind]}/{name}"

    async def put(self, kind: Kind, name: str, spec: Json) -> None:
        """A user applies an object."""
        meta = {"name": name, "namespace": self.namespace}
        manifest = {"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec}
        answer = await asyncio.to_thread(self.apiserver.apply, self._path(kind, name), manifest)
        assert answer.code < 300, answer.message

    async def surroundings(self, url: str) -> None:
        """An instance with one cluster whose brokers are ready."""
        await self.put(Kind.INSTANCE, "prod", {"configurationStore": {"external": {"servers": "zk:2181"}}})
        await self.put(Kind.CLUSTER, "a", {"instanceRef": {"name": "prod"}, **CLUSTER})
        ready = {"type": "BrokersReady", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
        status = {
            "conditions": [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "endpoints": {"brokerWebServiceUrl": url},
            "version": "4.0.8",
        }
        meta = {"name": "a", "namespace": self.namespace}
        body = {"apiVersion": API_VERSION, "kind": "PulsarCluster", "metadata": meta, "status": status}
        answer = await asyncio.to_thread(self.apiserver.apply, self._path(Kind.CLUSTER, "a") + "/status", body)
        assert answer.code < 300, answer.message

    async def declare(self, name: str) -> None:
        """A tenant with a namespace with a topic, all of one name."""
        common = {"deletionPolicy": "Delete"}
        await self.put(Kind.TENANT, name, {"instanceRef": {"name": "prod"}, "adminRoles": ["r"], **common})
        policies = {"messageTTLSeconds": 5}
        await self.put(Kind.NAMESPACE, name, {"tenantRef": {"name": name}, "policies": policies, **common})
        topic = {"namespaceRef": {"name": name}, "partitions": 2, "policies": {"maxProducers": 3}, **common}
        await self.put(Kind.TOPIC, name, topic)

    async def delete(self, name: str) -> None:
        """A user deletes all three."""
        for kind in CHAIN:
            answer = await asyncio.to_thread(self.apiserver.request, "DELETE", self._path(kind, name))
            assert answer.code == 200, answer.message

    async def look(self) -> None:
        """Look at the objects of all cases, again and again."""
        while True:
            found: dict[tuple[Kind, str], Json] = {}
            for kind in CHAIN:
                path = self._path(kind, "").rstrip("/")
                answer = await asyncio.to_thread(self.apiserver.request, "GET", path)
                assert answer.code == 200, answer.message
                found |= {(kind, obj["metadata"]["name"]): obj for obj in answer.body["items"]}
            self.objects, looked, self.looked = found, self.looked, asyncio.Event()
            looked.set()
            await asyncio.sleep(LOOK_SECONDS)

    async def fresh(self) -> None:
        """Wait for a look that began after now."""
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            for _ in range(2):  # one may be under way
                await self.looked.wait()

    async def until(self, check: Callable[[], bool], what: str) -> None:
        """Wait for it."""

        async def seen() -> bool:
            await self.fresh()
            self.operator.assert_runs()
            assert check(), self.operator.tail()
            return True

        await eventually_async(seen, within=EVENTUALLY_SECONDS, what=what, every=0)

    def ready(self, name: str) -> bool:
        """Whether all three are Ready."""
        for kind in CHAIN:
            conditions = (self.objects.get((kind, name), {}).get("status") or {}).get("conditions") or []
            if not any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                return False
        return True

    def gone(self, name: str) -> bool:
        """Whether none of the three is there."""
        return not any((kind, name) in self.objects for kind in CHAIN)

    def state(self, name: str) -> Json:
        """The three objects and what Pulsar has, by a name that is the same for all."""
        objects: Json = {}
        for kind in CHAIN:
            obj = json.loads(json.dumps(self.objects.get((kind, name), {"metadata": {}})))
            for condition in (obj.get("status") or {}).get("conditions") or []:
                del condition["lastTransitionTime"]
            meta = {key: obj["metadata"].get(key) for key in ("finalizers", "generation", "annotations")}
            objects[kind.value] = {"spec": obj.get("spec"), "status": obj.get("status"), "metadata": meta}
        found = {"kubernetes": objects, "pulsar": self.in_pulsar(name)}
        return dict(_filled(json.loads(json.dumps(found, default=str).replace(name, "NAME"))))

    def in_pulsar(self, name: str) -> list[str]:
        """Everything in Pulsar that has to do with the name, in words."""
        parts = json.loads(json.dumps(self.pulsar.snapshot(), default=str))
        return sorted(f"{n} {part}" for n, part in enumerate(_about(parts, name)) if part)

    # --------------------------------------------------------------------------------------------------------- cases

    def cases(self) -> list[Case]:
        """Every fault at every request the undisturbed run made."""
        out = []
        for (side, phase), own in self.own.items():
            for fault in FAULTS[side]:
                seen: Counter[str] = Counter()
                for request in own:
                    if request.fits(fault):
                        out.append(Case(side, phase, fault, seen[request.words], request.words))
                        seen[request.words] += 1
                out += [
                    Case(side, phase, fault, 0, request.words, shared=True)
                    for request in self.shared[(side, phase)]
                    if request.fits(fault)
                ]
        return out

    def _name(self) -> str:
        self.numbers += 1
        return f"case{self.numbers:05}"

    async def undisturbed(self) -> None:
        """Make and remove some chains beside each other, and note what the operator asks on the way for each."""
        names = [self._name() for _ in range(CALM)]
        for phase in (CREATE, DELETE):
            begun = {side: {key: len(seen) for key, seen in wire.seen.items()} for side, wire in self.wires.items()}
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self._phase(phase, name))
            for side, wire in self.wires.items():
                self.own[(side, phase)] = common([wire.seen[name][begun[side].get(name, 0) :] for name in names])
            await asyncio.sleep(REACHED_SECONDS)  # for what a resync asks
            if phase == CREATE:
                await self.fresh()
                self.calm = self.state(names[0])
            for side, wire in self.wires.items():
                keys = [key for key, seen in wire.seen.items() if len(seen) > begun[side].get(key, 0)]
                firsts = [wire.seen[key][0] for key in sorted(keys)]
                self.shared[(side, phase)] = [request for request in firsts if request.words == request.key]

    async def play(self, case: Case) -> tuple[list[str], bool]:
        """Make and remove a chain with one fault; what is otherwise than undisturbed, and whether the fault came."""
        name, wire = self._name(), self.wires[case.side]
        key = case.words if case.shared else name
        wrong: list[str] = []
        came = False
        try:
            for phase in (CREATE, DELETE):
                begun, marks = time.monotonic(), {side: len(each.seen[name]) for side, each in self.wires.items()}
                words = case.words if case.shared else CASE.sub(name, case.words)
                armed = wire.arm(key, case.fault, words, case.after) if case.phase == phase else None
                await self._phase(phase, name)
                if armed is not None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(armed.came.wait(), REACHED_SECONDS)
                    wire.calm(key)
                    came = armed.came.is_set()
                    # What was given up still arrives, and before the user goes on: what somebody asks of Pulsar after
                    # the deletion is nothing the operator could know of.
                    await self.until(lambda: not self._busy(name), f"requests of {name} to end")
                    await self._phase_again(phase, name)
                wrong += await self._settled(name) if phase == CREATE else self._left(name)
                wrong += self._hot(phase, name, marks, time.monotonic() - begun)
        except AssertionError as error:
            wrong.append(str(error))
            self.operator.assert_runs()
        finally:
            wire.calm(key)
        if not self.ready(BYSTANDER) or BYSTANDER not in self.pulsar.tenants:
            wrong.append("another object was harmed")
        return wrong, came

    def _busy(self, name: str) -> bool:
        return any(wire.busy[name] for wire in self.wires.values())

    async def _phase(self, phase: str, name: str) -> None:
        if phase == CREATE:
            await self.declare(name)
        else:
            await self.delete(name)
        await self._phase_again(phase, name)

    async def _phase_again(self, phase: str, name: str) -> None:
        """What came at a resync may have changed what was seen before."""
        check = self.ready if phase == CREATE else self.gone
        await self.until(lambda: check(name), f"{name} after {phase}")

    async def _settled(self, name: str) -> list[str]:
        """Differences that do not go away by themselves. No eventually: a case that differs is told of, not raised."""
        deadline = time.monotonic() + 3 * RESYNC_SECONDS
        while (found := differences(self.calm, self.state(name))) and time.monotonic() < deadline:
            await self.fresh()
        return found

    def _left(self, name: str) -> list[str]:
        left = self.in_pulsar(name)
        return [f"left in Pulsar: {left}"] if left else []

    def _hot(self, phase: str, name: str, marks: dict[str, int], seconds: float) -> list[str]:
        """More requests than a loop that backs off can make: some a second for the resyncs, and a few passes more."""
        out = []
        for side, wire in self.wires.items():
            asked = len(wire.seen[name]) - marks[side]
            if asked > 4 * len(self.own[(side, phase)]) + 60 + 40 * seconds:
                out.append(f"hot loop: {asked} requests to {side} in {seconds:.1f} s of {phase}")
        return out


def common(runs: list[list[Request]]) -> list[Request]:
    """Requests of the first run that all runs made: as many equal ones as each of them has."""
    counted = [Counter(CASE.sub("", request.words) for request in run) for run in runs]
    out: list[Request] = []
    for request in runs[0]:
        words = CASE.sub("", request.words)
        if sum(CASE.sub("", each.words) == words for each in out) < min(counts[words] for counts in counted):
            out.append(request)
    return out


def _filled(value: Any) -> Any:
    """Without what is empty: the API server keeps an empty list as it is given, and none where none was."""
    if isinstance(value, dict):
        return {k: kept for k, v in value.items() if (kept := _filled(v)) not in (None, [], {})}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def _about(value: Any, name: str) -> list[Any]:
    """The parts of a nested value that name something, one for each value on top."""

    def cut(each: Any) -> Any:
        if isinstance(each, dict):
            kept = {k: v if name in k else cut(v) for k, v in each.items()}
            return {k: v for k, v in sorted(kept.items()) if v or name in k}
        if isinstance(each, list):
            return [item for item in (cut(item) for item in each) if item]
        return each if isinstance(each, str) and name in each else None

    return [cut(each) for each in value]


@asynccontextmanager
async def operating(apiserver: ApiServer, namespace: str, folder: Path) -> AsyncIterator[Site]:
    """The operator between its proxies, a bystander that must stay, and the undisturbed run played."""
    pulsar = FakePulsar(clusters=["a"])
    kube = KubeProxy(apiserver.url, ssl.create_default_context(cafile=str(apiserver.ca_file)))
    async with serve(pulsar, "a") as (upstream, _):
        admin = AdminProxy(upstream)
        async with serving(kube.handle) as kube_url, serving(admin.handle) as admin_url:
            config = yaml.safe_load(apiserver.kubeconfig.read_text(encoding="utf-8"))
            config["clusters"][0]["cluster"] = {"server": kube_url}
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
            operator = OperatorProcess(
                folder / "operator.log", kubeconfig, namespace, module=MODULE, resync_seconds=RESYNC_SECONDS
            )
            site = Site(apiserver, namespace, pulsar, {KUBERNETES: kube.wire, ADMIN: admin.wire}, operator)
            looking = asyncio.create_task(site.look())
            try:
                await site.surroundings(admin_url)
                await asyncio.to_thread(operator.ready, within=EVENTUALLY_SECONDS)
                await site.declare(BYSTANDER)
                await site.until(lambda: site.ready(BYSTANDER), "the bystander")
                await site.undisturbed()
                yield site
            finally:
                looking.cancel()
                await asyncio.to_thread(operator.kill)
                await kube.client.close()
                await admin.client.close()
