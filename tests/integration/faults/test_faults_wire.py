"""Faults on the wire: the operator's process between a proxy before a real API server and one before the admin REST.

PULSAR_OPERATOR_FAULT_SEED chooses another sample; the seed is printed. Every fault at every request is slow.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsar_operator.api.constants import API_VERSION, GROUP, PLURALS, VERSION, Kind
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.support.apiserver import ApiServer
from tests.support.endstate import differences
from tests.support.faults_http import ADMIN_WIRE, KUBE_WIRE, WATCH_WIRE, AdminProxy, KubeProxy, Wire, serving
from tests.support.zookeeper import free_port

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
RESYNC_SECONDS = 3
EVENTUALLY_SECONDS = 60.0
REACHED_SECONDS = 4.0
"""How long a fault may wait for a request once the operator is done: a little more than a resync."""
SAMPLE = 4
"""Faults in the sample; each takes some seconds, since what repairs is a resync."""
BYSTANDER = "bystander"
CHAIN = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC)
CLUSTER: Json = {"metadataStore": {"managed": {}}, "bookkeeper": {}, "broker": {}}
CREATE, DELETE = "create", "delete"


@dataclass(frozen=True)
class Case:
    """One fault."""

    side: str
    """kubernetes or admin"""
    phase: str
    fault: str
    after: int

    def __str__(self) -> str:
        return f"{self.side} {self.phase}: {self.fault} after {self.after} requests"


@dataclass
class Site:
    """The operator and everything around it."""

    apiserver: ApiServer
    namespace: str
    pulsar: FakePulsar
    wires: dict[str, Wire]
    process: subprocess.Popen[bytes]
    log: Path
    numbers: int = 0
    calm: Json = field(default_factory=dict)
    usual: dict[str, int] = field(default_factory=dict)
    """Requests of the undisturbed run, by side."""

    def _path(self, kind: Kind, name: str) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{PLURALS[kind]}/{name}"

    def put(self, kind: Kind, name: str, spec: Json) -> None:
        """A user applies an object."""
        meta = {"name": name, "namespace": self.namespace}
        manifest = {"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec}
        answer = self.apiserver.apply(self._path(kind, name), manifest)
        assert answer.code < 300, answer.message

    def get(self, kind: Kind, name: str) -> Json | None:
        """The stored object."""
        answer = self.apiserver.request("GET", self._path(kind, name))
        return answer.body if answer.code == 200 else None

    def delete(self, kind: Kind, name: str) -> None:
        """A user deletes an object."""
        assert self.apiserver.request("DELETE", self._path(kind, name)).code == 200

    def surroundings(self, url: str) -> None:
        """An instance with one cluster whose brokers are ready."""
        self.put(Kind.INSTANCE, "prod", {"configurationStore": {"external": {"servers": "zk:2181"}}})
        self.put(Kind.CLUSTER, "a", {"instanceRef": {"name": "prod"}, **CLUSTER})
        ready = {"type": "BrokersReady", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
        status = {
            "conditions": [{**ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "endpoints": {"brokerWebServiceUrl": url},
            "version": "4.0.8",
        }
        meta = {"name": "a", "namespace": self.namespace}
        body = {"apiVersion": API_VERSION, "kind": "PulsarCluster", "metadata": meta, "status": status}
        answer = self.apiserver.apply(self._path(Kind.CLUSTER, "a") + "/status", body)
        assert answer.code < 300, answer.message

    def declare(self, name: str) -> None:
        """A tenant with a namespace with a topic, all of one name."""
        common = {"deletionPolicy": "Delete"}
        self.put(Kind.TENANT, name, {"instanceRef": {"name": "prod"}, "adminRoles": ["r"], **common})
        policies = {"messageTTLSeconds": 5}
        self.put(Kind.NAMESPACE, name, {"tenantRef": {"name": name}, "policies": policies, **common})
        topic = {"namespaceRef": {"name": name}, "partitions": 2, "policies": {"maxProducers": 3}, **common}
        self.put(Kind.TOPIC, name, topic)

    def ready(self, name: str) -> bool:
        """Whether all three are Ready."""
        for kind in CHAIN:
            conditions = ((self.get(kind, name) or {}).get("status") or {}).get("conditions") or []
            if not any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                return False
        return True

    def gone(self, name: str) -> bool:
        """Whether none of the three is there."""
        return all(self.get(kind, name) is None for kind in CHAIN)

    def state(self, name: str) -> Json:
        """The three objects and what Pulsar has, by a name that is the same for all."""
        objects: Json = {}
        for kind in CHAIN:
            obj = self.get(kind, name) or {"metadata": {}}
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

    async def until(self, check: Any, what: str) -> None:
        """Wait for it; the proxies run meanwhile."""
        deadline = time.monotonic() + EVENTUALLY_SECONDS
        while not check():
            assert self.process.poll() is None, f"the operator ended: {self.tail()}"
            assert time.monotonic() < deadline, f"in vain for {what}: {self.tail()}"
            await asyncio.sleep(0.1)

    def tail(self) -> str:
        """The operator's last words."""
        return "\n".join(self.log.read_text(encoding="utf-8").splitlines()[-15:])

    async def play(self, case: Case | None) -> tuple[list[str], bool]:
        """Make and remove a chain with one fault, or none; what is otherwise than undisturbed, and whether it came."""
        self.numbers += 1
        name = f"case{self.numbers:04}"
        wrong: list[str] = []
        came = False
        for phase in (CREATE, DELETE):
            wire = self.wires[case.side] if case is not None and case.phase == phase else None
            for each in self.wires.values():
                each.requests = 0
            if wire is not None and case is not None:
                wire.arm(case.fault, case.after)
            begun = time.monotonic()
            await self._phase(phase, name)
            if wire is not None:
                came = await self._reached(wire)
                await self._phase_again(phase, name)
            if phase == CREATE:
                found = self.state(name)
                if case is None:
                    self.calm = found
                wrong += await self._settled(found, name)
            elif self.in_pulsar(name):
                wrong.append(f"left in Pulsar: {self.in_pulsar(name)}")
            wrong += self._hot(phase, time.monotonic() - begun, record=case is None)
        if self.get(Kind.TENANT, BYSTANDER) is None or BYSTANDER not in self.pulsar.tenants:
            wrong.append("deleted what nobody deleted")
        return wrong, came

    async def _phase(self, phase: str, name: str) -> None:
        if phase == CREATE:
            self.declare(name)
            await self.until(lambda: self.ready(name), f"{name} to be ready")
            return
        for kind in CHAIN:
            self.delete(kind, name)
        await self.until(lambda: self.gone(name), f"{name} to be gone")

    async def _phase_again(self, phase: str, name: str) -> None:
        """What came at a resync may have changed what was seen before."""
        check = self.ready if phase == CREATE else self.gone
        await self.until(lambda: check(name), f"{name} after the disturbance")

    async def _reached(self, wire: Wire) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(wire.came.wait(), REACHED_SECONDS)
        wire.calm()
        return wire.happened is not None

    async def _settled(self, found: Json, name: str) -> list[str]:
        """Differences that do not go away by themselves."""
        deadline = time.monotonic() + 3 * RESYNC_SECONDS
        while differences(self.calm, found) and time.monotonic() < deadline:
            await asyncio.sleep(0.3)
            found = self.state(name)
        return differences(self.calm, found)

    def _hot(self, phase: str, seconds: float, *, record: bool) -> list[str]:
        """More requests than a loop that backs off can make: some a second for the resyncs, and a few passes more."""
        out = []
        for side, wire in self.wires.items():
            key = f"{side} {phase}"
            if record:
                self.usual[key] = wire.requests
            limit = 4 * self.usual[key] + 60 + 40 * seconds
            if wire.requests > limit:
                out.append(f"hot loop: {wire.requests} requests to {side} in {seconds:.1f} s of {phase}")
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
    """The operator between its proxies, and a bystander that must stay."""
    pulsar = FakePulsar(clusters=["a"])
    kube = KubeProxy(apiserver.url, ssl.create_default_context(cafile=str(apiserver.ca_file)))
    async with serve(pulsar, "a") as (upstream, _):
        admin = AdminProxy(upstream)
        async with serving(kube.handle) as kube_url, serving(admin.handle) as admin_url:
            config = yaml.safe_load(apiserver.kubeconfig.read_text(encoding="utf-8"))
            config["clusters"][0]["cluster"] = {"server": kube_url}
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
            health = free_port()
            env = {
                **{k: v for k, v in os.environ.items() if not k.startswith("PULSAR_OPERATOR_")},
                "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
                "KUBECONFIG": str(kubeconfig),
                "PULSAR_OPERATOR_NAMESPACE": namespace,
                "PULSAR_OPERATOR_WATCH_NAMESPACES": namespace,
                "PULSAR_OPERATOR_RESYNC_SECONDS": str(RESYNC_SECONDS),
                "PULSAR_OPERATOR_HEALTH_PORT": str(health),
                "PULSAR_OPERATOR_METRICS_PORT": "0",
            }
            log = folder / "operator.log"
            with log.open("wb") as output:
                process = await asyncio.to_thread(
                    subprocess.Popen,
                    [sys.executable, "-m", "tests.support.faults_process"],
                    cwd=ROOT,
                    env=env,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            wires = {"kubernetes": kube.wire, "admin": admin.wire}
            site = Site(apiserver, namespace, pulsar, wires, process, log)
            try:
                site.surroundings(admin_url)
                while not await asyncio.to_thread(_is_ready, health):
                    assert process.poll() is None, site.tail()
                    await asyncio.sleep(0.1)
                site.declare(BYSTANDER)
                await site.until(lambda: site.ready(BYSTANDER), "the bystander")
                wrong, _ = await site.play(None)
                assert not wrong, wrong
                yield site
            finally:
                process.kill()
                await asyncio.to_thread(process.wait)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


FAULTS = (
    *(("kubernetes", phase, fault) for phase in (CREATE, DELETE) for fault in (*KUBE_WIRE, *WATCH_WIRE)),
    *(("admin", phase, fault) for phase in (CREATE, DELETE) for fault in ADMIN_WIRE),
)


async def test_a_sample_of_faults(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("PULSAR_OPERATOR_FAULT_SEED", "1"))
    print(f"PULSAR_OPERATOR_FAULT_SEED={seed}")
    rng = random.Random(f"{seed} wire")
    wrong: list[str] = []
    async with operating(apiserver, namespace, tmp_path) as site:
        for side, phase, fault in rng.sample(FAULTS, SAMPLE):
            case = Case(side, phase, fault, rng.randrange(12))
            found, came = await site.play(case)
            print(f"{case}: {'happened' if came else 'no such request'}, {len(found)} differences")
            wrong += [f"{case}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("side", "phase", "fault"), FAULTS, ids=lambda part: part)
async def test_every_fault(
    apiserver: ApiServer, namespace: str, tmp_path: Path, side: str, phase: str, fault: str
) -> None:
    """At every request in turn, until there is none any more that it could happen at."""
    wrong: list[str] = []
    places = 0
    async with operating(apiserver, namespace, tmp_path) as site:
        usual = site.usual[f"{side} {phase}"]
        for after in range(usual):
            found, came = await site.play(Case(side, phase, fault, after))
            wrong += [f"after {after} requests: {text}" for text in found]
            if not came:
                break
            places += 1
    print(f"{side:11} {phase:7} {fault:18} places {places:4} differences {len(wrong):4}")
    assert not wrong, "\n".join(wrong)
    assert places
