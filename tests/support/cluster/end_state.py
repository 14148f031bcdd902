"""The state of a world in a form that compares between runs: random and counting values become words."""

from __future__ import annotations

import json
import re
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_APPLIED_HASH, ANNOTATION_CONFIG_HASH, ANNOTATION_TEMPLATE
from pulsar_operator.controllers.dataplane.objects.children import OWNED
from pulsar_operator.domain.dataplane.objects.template_record import is_record
from pulsar_operator.ports import CUSTOM, PODS, PVCS, SECRETS, Json
from tests.support.cluster.world import NS, ClusterWorld

VOLATILE_META = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generateName", "deletionTimestamp", "generation"}
)
CHOSEN_BY_SERVER = frozenset(
    {
        "clusterIP",
        "clusterIPs",
        "nodePort",
        "lastTransitionTime",
        "startedAt",
        "startTime",
        "since",
        "lastResponseTime",
        "podIP",
        "podIPs",
    }
    | {"configurationStoreOutages"}  # when a read failed last
)
EMPTY: tuple[Any, ...] = (None, {}, [])


async def end_state(world: ClusterWorld) -> Json:
    """Kubernetes objects, the content of the metadata stores, and Pulsar."""
    objects: Json = {}
    # They hash what is compared itself: the owner's UID, and in a namespace of its own also the namespace's name.
    elsewhere = () if world.namespace == NS else (ANNOTATION_CONFIG_HASH, ANNOTATION_TEMPLATE)
    hashes = frozenset({ANNOTATION_APPLIED_HASH, *elsewhere})
    for kind in (*CUSTOM.values(), *OWNED, PODS, PVCS, SECRETS):
        for obj in await world.backstage.all(kind):
            if obj["metadata"]["name"] == "kube-root-ca.crt":
                continue
            here = json.loads(json.dumps(obj).replace(world.namespace, NS))
            objects[f"{kind.kind} {obj['metadata']['name']}"] = _object(here, hashes)
    state = {"kubernetes": objects, "zookeeper": await world.trees(), "pulsar": _pulsar(world)}
    text = json.dumps(state, sort_keys=True, default=str).replace(world.namespace, NS)
    text = without_hashes(text)
    for claim in await world.backstage.all(PVCS):
        name = claim["metadata"]["name"]
        text = text.replace(claim["metadata"]["uid"], f"UID of {name}")
        if volume := claim["spec"].get("volumeName"):
            text = text.replace(volume, f"volume of {name}")
    # On record of bookies whose claims are gone.
    text = re.sub(r'(claim[\\"]+: [\\"]+)[0-9a-f-]{36}', r"\1UID of one that is gone", text)
    text = re.sub(r"pvc-[0-9a-f-]{36}", "volume that is gone", text)
    for number, instance_id in enumerate(dict.fromkeys(await instance_ids(world))):
        text = text.replace(instance_id, f"ID-{number}")
    return dict(json.loads(text))


def without_hashes(text: str) -> str:
    """Names of ConfigMaps hash their content, which has the Kubernetes namespace in it: they are numbered by workload
    instead, so that one too many is still seen."""
    found: dict[str, list[str]] = {}
    for workload, content in sorted(set(re.findall(r"([a-z0-9-]+)-config-([0-9a-f]{16})", text))):
        found.setdefault(workload, []).append(content)
    for workload, contents in found.items():
        for number, content in enumerate(contents):
            text = text.replace(f"{workload}-config-{content}", f"{workload}-config-{number}")
    return text


async def instance_ids(world: ClusterWorld) -> list[str]:
    """Instance ids in the records, by name of the record."""
    records = [o for o in await world.backstage.all(OWNED[2]) if o["metadata"]["name"].endswith("-instance-id")]
    return [o["data"]["instanceId"] for o in records]


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Where two states differ, in words."""
    if isinstance(expected, dict) and isinstance(found, dict):
        out: list[str] = []
        for key in sorted(set(expected) | set(found)):
            out += differences(expected.get(key, "ABSENT"), found.get(key, "ABSENT"), f"{path}/{key}")
        return out
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            d for n, (a, b) in enumerate(zip(expected, found, strict=True)) for d in differences(a, b, f"{path}/{n}")
        ]
    return [] if expected == found else [f"{path}: {str(found)[:200]} instead of {str(expected)[:200]}"]


def _object(obj: Json, hashes: frozenset[str]) -> Json:
    meta = {k: v for k, v in obj["metadata"].items() if k not in VOLATILE_META}
    meta["ownerReferences"] = [{"kind": o["kind"], "name": o["name"]} for o in meta.get("ownerReferences") or ()]
    body = {k: v for k, v in obj.items() if k != "metadata"}
    if obj["kind"] == "Secret":
        body["data"] = sorted(body["data"])
    if obj["kind"] == "ConfigMap" and is_record(obj):
        data = body["data"]
        kept = {key: json.loads(text) for key, text in data.items() if key.endswith(".json")}
        good = kept.get(f"{data.get('good')}.json")
        body["data"] = {"kept": sorted(kept.values(), key=str), "good": good, "stop": data.get("stopped")}
    return dict(_steady({**body, "metadata": meta}, CHOSEN_BY_SERVER | hashes))


def _steady(value: Any, volatile: frozenset[str]) -> Any:
    if isinstance(value, dict):
        pairs = {k: _steady(v, volatile) for k, v in value.items() if k not in volatile}
        return {k: v for k, v in pairs.items() if v not in EMPTY}
    if isinstance(value, list):
        return [_steady(item, volatile) for item in value]
    if isinstance(value, str):
        # Names of revisions hash the template, which is compared itself.
        return re.sub(r"^(.+)-[0-9a-f]{10}$", r"\1-REVISION", value)
    return value


def _pulsar(world: ClusterWorld) -> Any:
    names = (
        *("tenants", "namespaces", "partitioned", "topics", "local", "shared"),
        *("topic policies", "topic properties", "subscriptions", "schemas"),
    )
    return {"clusters": sorted(world.pulsar.clusters), **dict(zip(names, world.pulsar.snapshot(), strict=True))}
