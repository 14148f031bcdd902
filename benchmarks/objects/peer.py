"""A small model of how StreamNative's resources operator works, for the same load on the same servers.

Modelled, from its public sources (chart 0.19): one reconcile at a time (max-concurrent-reconciles 1, its default); a
watch that lets through changes of the generation alone; at any such change all objects of the connection are listed,
from memory, and gone through in sequence; one that is Ready at its generation is skipped; any other is applied: a
finalizer and the managed state as metadata, the creation, each policy by a call of its own, nothing read back, then the
status. In its favour: metadata is one write, listing copies nothing, and HTTP, JSON and the language are the operator's
own, so that what is compared is the way and not the tools.

Run by world.py as a process: PEER_KUBECONFIG, PEER_ADMIN_URL, PEER_CLUSTER.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio.client.rest import RESTClientObject

from benchmarks.objects.names import TOPICS
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.kube_http import MERGE_TYPE, KubeClient, bearer, load_configuration
from pulsar_operator.adapters.metrics import PrometheusMetrics
from pulsar_operator.api.v1alpha1.quantities import MEBI, byte_size
from pulsar_operator.ports import AdminEndpoint, ConflictError, Json, PortError

TENANT, PULSAR_NAMESPACE = "team", "orders"
AGENT = "peer"
RETRY_SECONDS = 1.0


class Peer:
    """One connection: its topics in memory, and the one worker."""

    def __init__(self, kube: KubeClient, session: aiohttp.ClientSession, endpoint: AdminEndpoint) -> None:
        self._kube = kube
        self._session = session
        self._endpoint = endpoint
        self._admin = AiohttpAdmin(PrometheusMetrics(lambda: 0.0), user_agent=AGENT)
        self._topics: dict[str, Json] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until the process ends."""
        await self._call("PUT", ("tenants", TENANT), {"allowedClusters": [self._endpoint.cluster]})
        await self._call("PUT", ("namespaces", TENANT, PULSAR_NAMESPACE), {})
        found = await self._kube.request("GET", TOPICS)
        for topic in found["items"]:
            self._topics[topic["metadata"]["name"]] = topic
        self._changed.set()
        await asyncio.gather(self._watch(found["metadata"]["resourceVersion"]), self._work())

    async def _watch(self, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with self._session.get(self._kube.configuration.host + TOPICS, params=query) as stream:
            async for line in stream.content:
                self._take(json.loads(line))

    def _take(self, event: Json) -> None:
        topic = event["object"]
        name = topic["metadata"]["name"]
        if event["type"] == "DELETED":
            self._topics.pop(name, None)
            return
        before = self._topics.get(name)
        self._topics[name] = topic
        if before is None or before["metadata"]["generation"] != topic["metadata"]["generation"]:
            self._changed.set()

    async def _work(self) -> None:
        """The one worker: whatever changed, the whole connection."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for topic in list(self._topics.values()):
                if not _is_done(topic):
                    try:
                        await self._apply(topic)
                    except (aiohttp.ClientError, PortError):
                        self._changed.set()  # again, with the whole connection
                        await asyncio.sleep(RETRY_SECONDS)

    async def _apply(self, topic: Json) -> None:
        name, spec = topic["metadata"]["name"], topic["spec"]
        path, base = f"{TOPICS}/{name}", ("persistent", TENANT, PULSAR_NAMESPACE, name)
        policies = spec["policies"]
        retention = policies["retention"]
        metadata = {"annotations": {"peer/managed-state": json.dumps(sorted(policies))}}
        await self._write(path, {"metadata": metadata})
        await self._call("PUT", base, None)
        limits = {
            "retentionTimeInMinutes": retention["timeMinutes"],
            "retentionSizeInMB": byte_size(retention["size"]) // MEBI,
        }
        await self._call("POST", (*base, "retention"), limits)
        await self._call("POST", (*base, "messageTTL"), None, {"messageTTL": str(policies["messageTTLSeconds"])})
        await self._call("POST", (*base, "maxConsumers"), policies["maxConsumers"])
        await self._call("PUT", (*base, "properties"), spec["properties"])
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "Reconciled", "message": "", "lastTransitionTime": now}
        status = {"observedGeneration": topic["metadata"]["generation"], "conditions": [ready]}
        self._topics[name] = await self._write(f"{path}/status", {"status": status})

    async def _write(self, path: str, body: Json) -> Json:
        url = self._kube.configuration.host + path
        async with self._session.patch(url, json=body, headers={"Content-Type": MERGE_TYPE}) as answer:
            answer.raise_for_status()
            found: Json = await answer.json()
            return found

    async def _call(self, method: str, path: tuple[str, ...], body: Any, query: dict[str, str] | None = None) -> None:
        """One call; what exists already is fine."""
        try:
            await self._admin.call(self._endpoint, method, path, body=body, query=query)
        except ConflictError:
            return


def _is_done(topic: Json) -> bool:
    status = topic.get("status") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    return ready and status.get("observedGeneration") == topic["metadata"]["generation"]


async def main() -> None:
    """Run against the servers the environment names."""
    configuration = await load_configuration(Path(os.environ["PEER_KUBECONFIG"]))
    kube = KubeClient(configuration)
    headers = {"User-Agent": AGENT}
    token = await bearer(configuration)
    if token:
        headers["Authorization"] = token
    connector = aiohttp.TCPConnector(ssl=RESTClientObject(configuration).ssl_context)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=timeout, read_bufsize=2**21
    ) as session:
        endpoint = AdminEndpoint(os.environ["PEER_CLUSTER"], os.environ["PEER_ADMIN_URL"])
        await Peer(kube, session, endpoint).run()


if __name__ == "__main__":
    asyncio.run(main())
