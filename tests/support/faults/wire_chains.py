"""Chains of a tenant, a namespace and a topic of one name: declared, looked at, awaited and compared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.api.constants import API_VERSION, GROUP, PLURALS, VERSION, Kind
from pulsar_operator.ports import Json
from tests.fakes.pulsar import FakePulsar
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.operator import OperatorProcess

EVENTUALLY_SECONDS = 180.0
LOOK_SECONDS = 0.6
"""Between two looks at the objects of all cases."""
CHAIN = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC)
CLUSTER: Json = {"metadataStore": {"managed": {}}, "bookkeeper": {}, "broker": {}}


@dataclass
class Chains:
    """The objects of all cases, and what Pulsar has of them."""

    apiserver: ApiServer
    namespace: str
    pulsar: FakePulsar
    operator: OperatorProcess
    objects: dict[tuple[Kind, str], Json] = field(default_factory=dict)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, when all objects were looked at."""

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
