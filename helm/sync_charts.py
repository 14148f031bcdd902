"""Keep what the charts repeat in step with crds/: ``python helm/sync_charts.py`` writes, ``--check`` compares.

Three products, all committed, because a packaged chart can only hold files of its folder:
- helm/pulsar-operator/files/crds/: copies of the custom resource definitions, byte for byte;
- helm/pulsar-operator/files/settings/: copies of the names of Pulsar's settings (scripts/gen_settings.py);
- helm/pulsar/values.schema.json: the schema of that chart's values, with the specifications taken from the definitions,
  so that helm refuses a wrong value before anything is sent to Kubernetes.

Run it after ``python -m pulsar_operator.crdgen``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: several times as fast."""
ROOT = Path(__file__).resolve().parent.parent
CRD_COPIES = Path("helm/pulsar-operator/files/crds")
SETTINGS = Path("operator/pulsar_operator/data/settings")
SETTINGS_COPIES = Path("helm/pulsar-operator/files/settings")
PULSAR_SCHEMA = Path("helm/pulsar/values.schema.json")

KEPT = (
    "type",
    "description",
    "enum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "required",
)
"""Keywords that mean the same in a CRD and in JSON Schema draft 7."""
DROPPED = frozenset(
    {
        "default",  # the API server fills it in
        "format",
        "x-kubernetes-validations",  # CEL: checked by the API server
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    }
)
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
OBJECT_NAME = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
TAG = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
MEMORY = "^[1-9][0-9]*[kmgt]$"
"""As Spark and Java write it."""
QUANTITY = "^[0-9]+(\\.[0-9]+)?([KMGTPE]i?|[mk])?$"
CRON = r"^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|\S+( +\S+){4})$"
REGISTRY = r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
CLUSTER_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"


class UnknownKeywordError(ValueError):
    """A definition uses a keyword this program has no rule for."""


def strict(node: Json, path: str) -> Json:
    """A structural schema as JSON Schema draft 7 in which a field that is not declared is refused.

    Raises UnknownKeywordError, naming the path, instead of dropping what it does not know.
    """
    out: Json = {key: node[key] for key in KEPT if key in node}
    for key in node:
        if key in KEPT or key in DROPPED:
            continue
        if key == "properties":
            out[key] = {name: strict(child, f"{path}.{name}") for name, child in node[key].items()}
            if not node.get("x-kubernetes-preserve-unknown-fields"):
                out["additionalProperties"] = False
        elif key == "items":
            out[key] = strict(node[key], f"{path}[]")
        elif key == "additionalProperties":
            out[key] = strict(node[key], f"{path}.*") if isinstance(node[key], dict) else node[key]
        elif key == "x-kubernetes-int-or-string":
            out["type"] = ["integer", "string"]
        elif key == "x-kubernetes-list-type":
            if node[key] == "set":
                out["uniqueItems"] = True
        elif key in ("exclusiveMinimum", "exclusiveMaximum"):
            bound = "minimum" if key == "exclusiveMinimum" else "maximum"
            if node[key]:
                out[key] = out.pop(bound)
        elif key != "x-kubernetes-preserve-unknown-fields":
            raise UnknownKeywordError(f"{path} has the keyword {key!r}: add a rule for it to helm/sync_charts.py")
    return out


def specification(crds: dict[str, Json], kind: str, *, without: str | None = None, optional: str | None = None) -> Json:
    """The strict schema of a kind's spec, without the reference the chart fills in itself."""
    schema = crds[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec = strict(schema, f"{kind}.spec")
    spec["properties"].pop(without, None)
    required = [name for name in spec.pop("required", []) if name not in (without, optional)]
    return {**spec, "required": required} if required else spec


def struct(description: str, properties: Json, required: list[str] | None = None) -> Json:
    """An object with these properties and no others."""
    out: Json = {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": properties,
    }
    return {**out, "required": required} if required else out


def text(description: str, pattern: str, length: int, *, empty: bool = False) -> Json:
    """A string that matches a pattern; ``empty`` also allows no characters at all."""
    pattern = f"^$|{pattern}" if empty else pattern
    return {"type": "string", "description": description, "pattern": pattern, "maxLength": length}


def whole(description: str, minimum: int, maximum: int) -> Json:
    """An integer."""
    return {"type": "integer", "description": description, "minimum": minimum, "maximum": maximum}


def items(description: str, item: Json) -> Json:
    """A list."""
    return {"type": "array", "description": description, "items": item}


def number(description: str, minimum: float, maximum: float) -> Json:
    """A number with or without fraction."""
    return {"type": "number", "description": description, "minimum": minimum, "maximum": maximum}


def image_schema(description: str) -> Json:
    """Schema of an image of a chart's own pods."""
    tag = text("Tag; empty = the chart's version. A number must be quoted.", TAG, 128, empty=True)
    secret = struct("Reference to a Secret.", {"name": text("Name of the Secret.", OBJECT_NAME, 253)}, ["name"])
    return struct(
        description,
        {
            "repository": {"type": "string", "description": "Image without tag.", "minLength": 1},
            "tag": tag,
            "digest": text("Digest; wins over the tag.", "^sha256:[0-9a-f]{64}$", 71, empty=True),
            "pullPolicy": {
                "type": "string",
                "description": "As in a container.",
                "enum": ["Always", "IfNotPresent", "Never"],
            },
            "pullSecrets": items("Pull secrets in the release namespace.", secret),
        },
        ["repository"],
    )


def choice(description: str, values: list[str]) -> Json:
    """Schema of one of some words."""
    return {"type": "string", "description": description, "enum": values}


def resources_schema(description: str) -> Json:
    """Schema of a container's resources."""
    amounts = {"type": "object", "description": "Amounts by resource name."}
    limits = {**amounts, "description": "Upper limits by resource name."}
    return struct(description, {"requests": amounts, "limits": limits})


def sizing_schema() -> Json:
    """Schema of the collector and the sizing job of helm/pulsar."""
    size = {"minLength": 1, "maxLength": 32, "pattern": QUANTITY}
    return struct(
        "Bundles sized from observed traffic: a collector, and a job with Spark.",
        {
            "enabled": {"type": "boolean", "description": "Whether both are installed."},
            "image": image_schema("Image of both."),
            "collector": struct(
                "The collector of broker statistics.",
                {
                    "tokenAudience": text(
                        "Audience of its token; empty = that of an instance with authentication.",
                        "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$",
                        253,
                        empty=True,
                    ),
                    "intervalSeconds": whole("Seconds between rounds.", 10, 3600),
                    "retentionDays": whole("Days of traffic that are kept besides today.", 1, 3650),
                    "resources": resources_schema("Compute resources of its pod."),
                },
            ),
            "storage": struct(
                "Where the traffic lies.",
                {
                    "url": text("URL of an object store; empty = a volume.", "^[a-z][a-z0-9]*://.+$", 1024, empty=True),
                    "s3Endpoint": text("S3-compatible server of the URL.", "^https?://[^/]+$", 512, empty=True),
                    "s3Region": text("Region that requests are signed for.", DNS_LABEL, 63, empty=True),
                    "s3Addressing": choice("Where the bucket's name is in a URL.", ["auto", "path", "virtual"]),
                    "credentialsSecret": text("Secret whose keys become variables.", OBJECT_NAME, 253, empty=True),
                    "size": {"type": "string", "description": "Size of the volume.", **size},
                    "storageClassName": text("Class; empty = the default one.", OBJECT_NAME, 253, empty=True),
                    "accessMode": choice("ReadWriteOnce = everything on one node.", ["ReadWriteOnce", "ReadWriteMany"]),
                },
            ),
            "serviceAccount": struct(
                "ServiceAccounts of collector, job and executors.",
                {
                    "create": {
                        "type": "boolean",
                        "description": "false = the namespace's default one, the job's apart.",
                    },
                    "annotations": {
                        "type": "object",
                        "description": "Annotations of them, such as of a workload identity.",
                        "additionalProperties": {"type": "string"},
                    },
                },
            ),
            "job": struct(
                "The sizing job.",
                {
                    "schedule": text("When it runs, as in cron, UTC.", CRON, 128),
                    "windowDays": whole("Days that count, up to the last recorded one.", 1, 366),
                    "minCoverageHours": whole("Hours that must be covered for a recommendation.", 0, 8784),
                    "percentile": number("Percentile of a topic's cost in the busy hours.", 0, 100),
                    "growth": number("Factor for the traffic to come.", 0.1, 100),
                    "capacity": number("Bytes a second that an average broker can carry; 0 = not known.", 0, 10**15),
                    "timeoutSeconds": whole("Seconds after which a run is ended.", 60, 86400),
                    "master": text("Spark master.", r"^(local(\[(\*|[1-9][0-9]*)\])?|(k8s|sc)://.+)$", 512),
                    "executors": struct(
                        "Pods that run the tasks, with master k8s://...",
                        {
                            "instances": whole("Number of pods.", 1, 1000),
                            "cores": whole("Tasks that each runs together, and processors that it asks for.", 1, 128),
                            "memory": text("Heap of each.", MEMORY, 16),
                            "memoryOverhead": text("Memory beside the heap, for Python and Arrow.", MEMORY, 16),
                            "whenUneven": choice(
                                "Whether each should or must be on a node that has fewer of them.",
                                ["ScheduleAnyway", "DoNotSchedule"],
                            ),
                        },
                    ),
                    "eventLog": text(
                        "Folder of the event log; empty = none.", "^(/|[a-z][a-z0-9]*://).+$", 1024, empty=True
                    ),
                    "driverMemory": text("Heap of Spark in the job's pod.", MEMORY, 16),
                    "scratchSize": {"type": "string", "description": "Limit of Spark's temporary files.", **size},
                    "conf": {
                        "type": "object",
                        "description": "Spark settings; they win over the chart's.",
                        "patternProperties": {"^spark\\.": {"type": ["string", "integer", "boolean"]}},
                        "additionalProperties": False,
                    },
                    "resources": resources_schema("Compute resources of its pod."),
                },
            ),
        },
    )


def pod_monitor_schema() -> Json:
    """Schema of the PodMonitor of helm/pulsar."""
    labels = {"type": "object", "description": "Labels.", "additionalProperties": {"type": "string"}}
    return struct(
        "PodMonitor of the Prometheus operator.",
        {
            "enabled": {"type": "boolean", "description": "Whether to make it."},
            "interval": text("Scrape interval.", "^([0-9]+(ms|s|m|h))+$", 32),
            "labels": labels,
        },
    )


def conformance_schema() -> Json:
    """Schema of what ``helm test`` of helm/pulsar runs."""
    return struct(
        "The conformance suite that helm test runs.",
        {
            "enabled": {"type": "boolean", "description": "Whether there is a test."},
            "image": image_schema("Image of the suite."),
            "only": items("Regular expressions of check ids; empty = all.", {"type": "string", "minLength": 1}),
            "workers": whole("Checks at the same time.", 1, 64),
            "waitLimit": whole("Longest wait of a check for the brokers' own periodic work, seconds.", 0, 3600),
            "timeoutSeconds": whole("Seconds after which the pod is ended.", 60, 86400),
            "resources": resources_schema("Compute resources of the pod."),
        },
    )


def pulsar_schema(crds: dict[str, Json]) -> Json:
    """Schema of the values of helm/pulsar."""
    name = text("metadata.name of the object.", OBJECT_NAME, 253)
    policy = {"type": "boolean", "description": "Whether helm uninstall keeps the objects it installed."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Generated by helm/sync_charts.py from the custom resource definitions; do not edit.",
        "title": "Values of the chart pulsar",
        **struct(
            "A Pulsar instance, one cluster of it, and what lives in it.",
            {
                "global": {"type": "object", "description": "Values shared by the charts of a parent chart."},
                "profile": {
                    "type": "string",
                    "enum": ["Small", "Production"],
                    "description": "Replicas, volumes and preset where cluster.spec does not say otherwise.",
                },
                "keepOnUninstall": policy,
                "podMonitor": pod_monitor_schema(),
                "imageRegistry": text("Registry before the names of the chart's images.", REGISTRY, 255, empty=True),
                "conformance": conformance_schema(),
                "sizing": sizing_schema(),
                "instance": struct(
                    "The PulsarInstance.",
                    {
                        "create": {
                            "type": "boolean",
                            "description": "false = the instance exists already and is only referred to.",
                        },
                        "name": text("metadata.name; empty = the release name.", OBJECT_NAME, 253, empty=True),
                        "namespace": text(
                            "Kubernetes namespace of an instance that exists already; empty = the release namespace.",
                            DNS_LABEL,
                            63,
                            empty=True,
                        ),
                        "spec": specification(crds, "PulsarInstance", optional="configurationStore"),
                    },
                ),
                "cluster": struct(
                    "The PulsarCluster.",
                    {
                        "create": {
                            "type": "boolean",
                            "description": "false = it exists already; name, and what spec has other than the profile, "
                            "say which.",
                        },
                        "name": text("metadata.name; empty = the release name.", CLUSTER_NAME, 40, empty=True),
                        "spec": specification(crds, "PulsarCluster", without="instanceRef"),
                    },
                ),
                "tenants": items(
                    "PulsarTenants of the instance.",
                    struct(
                        "A tenant.",
                        {"name": name, "spec": specification(crds, "PulsarTenant", without="instanceRef")},
                        ["name"],
                    ),
                ),
                "namespaces": items(
                    "PulsarNamespaces.",
                    struct(
                        "A namespace of Pulsar.",
                        {
                            "name": name,
                            "tenant": text("metadata.name of its PulsarTenant.", OBJECT_NAME, 253),
                            "spec": specification(crds, "PulsarNamespace", without="tenantRef"),
                        },
                        ["name", "tenant"],
                    ),
                ),
                "topics": items(
                    "PulsarTopics.",
                    struct(
                        "A topic.",
                        {
                            "name": name,
                            "namespace": text("metadata.name of its PulsarNamespace.", OBJECT_NAME, 253),
                            "spec": specification(crds, "PulsarTopic", without="namespaceRef"),
                        },
                        ["name", "namespace"],
                    ),
                ),
            },
        ),
    }


def products(root: Path) -> dict[Path, str]:
    """Wanted content of every generated file, by its path below ``root``."""
    out: dict[Path, str] = {}
    crds: dict[str, Json] = {}
    for file in sorted((root / "crds").glob("*.yaml")):
        content = file.read_text(encoding="utf-8")
        out[CRD_COPIES / file.name] = content
        crd = yaml.load(content, Loader=LOADER)
        crds[crd["spec"]["names"]["kind"]] = crd
    for file in sorted((root / SETTINGS).glob("*.json")):
        out[SETTINGS_COPIES / file.name] = file.read_text(encoding="utf-8")
    out[PULSAR_SCHEMA] = json.dumps(pulsar_schema(crds), indent=2, ensure_ascii=False) + "\n"
    return out


def left_over(root: Path, expected: dict[Path, str]) -> list[Path]:
    """Copies whose original is gone."""
    found = [*(root / CRD_COPIES).glob("*.yaml"), *(root / SETTINGS_COPIES).glob("*.json")]
    return sorted(file for file in found if file.relative_to(root) not in expected)


def differences(root: Path) -> list[str]:
    """One sentence per file that is missing, stale or left over."""
    expected = products(root)
    out = []
    for path, content in expected.items():
        file = root / path
        if not file.is_file():
            out.append(f"{path}: missing")
        elif file.read_text(encoding="utf-8") != content:
            out.append(f"{path}: not up to date")
    return out + [f"{file.relative_to(root)}: its original is gone" for file in left_over(root, expected)]


def write(root: Path) -> None:
    """Write every file, and remove copies whose definition is gone."""
    expected = products(root)
    for path, content in expected.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    for file in left_over(root, expected):
        file.unlink()


def main(argv: list[str] | None = None) -> int:
    """Write, or with ``--check`` compare. Exit status 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(prog="python helm/sync_charts.py", description="Copy crds/ into the charts.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: this one)")
    arguments = parser.parse_args(argv)
    if not arguments.check:
        write(arguments.root)
        return 0
    stale = differences(arguments.root)
    if stale:
        print("\n".join([*stale, "run: python helm/sync_charts.py"]), file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
