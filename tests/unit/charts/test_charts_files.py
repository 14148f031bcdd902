"""The charts' own files against each other and against the code, without helm."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsar_operator.api.constants import (
    ANNOTATION_CONFIRM_DELETE,
    ANNOTATION_DELETE_AFTER_DEPENDENTS,
    GROUP,
    LEASE_NAME,
    PLURALS,
    Kind,
)
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.core.index import PARENT_FIELD, SITED, TASKS
from pulsar_operator.handlers.streams import watched
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PVCS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    OperatorImages,
    ResourceType,
)
from pulsar_operator.settings import PREFIX, Settings
from pulsar_sizing.job.request import Request
from pulsar_sizing.settings import Settings as CollectorSettings

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[3]
OPERATOR = ROOT / "helm" / "pulsar-operator"
PULSAR = ROOT / "helm" / "pulsar"

NEEDED: dict[ResourceType, set[str]] = {
    **{kind: {"get", "list", "watch", "patch"} for kind in CUSTOM.values()},
    CUSTOM[Kind.REBALANCE]: {"get", "list", "watch", "patch", "create", "delete"},
    STATEFUL_SETS: {"get", "list", "watch", "create", "patch", "delete"},
    PODS: {"get", "list", "watch", "create", "patch", "delete"},
    CONFIG_MAPS: {"get", "list", "watch", "create", "patch", "delete"},
    SERVICES: {"get", "list", "create", "patch", "delete"},
    SERVICE_ACCOUNTS: {"get", "list", "create", "patch", "delete"},
    PDBS: {"get", "list", "create", "patch", "delete"},
    SECRETS: {"get", "create", "patch", "delete"},
    PVCS: {"get", "list", "patch", "delete"},
    NAMESPACES: {"get"},
}
"""Everything the operator does to whole objects, and nothing else."""
SUBRESOURCES = {
    **{("pulsaroperator.io", f"{plural}/status"): {"patch"} for plural in PLURALS.values()},
    ("pulsaroperator.io", "pulsarinstances/finalizers"): {"update"},
    ("pulsaroperator.io", "pulsarclusters/finalizers"): {"update"},
    ("pulsaroperator.io", "pulsarrebalances/finalizers"): {"update"},
    ("", "pods/eviction"): {"create"},
    ("", "events"): {"list", "create", "patch"},
}


USER_RULES = ("viewRules", "editRules", "adminRules")


def rules(name: str) -> list[Json]:
    """The rules of a named template: plain YAML, since nothing in them is templated."""
    parsed: list[Json] = yaml.safe_load(rules_text(name))
    return parsed


def rules_text(name: str) -> str:
    text = (OPERATOR / "templates" / "_rules.tpl").read_text()
    found = re.search(rf'define "pulsar-operator.{name}" -}}}}\n(.*?){{{{- end', text, re.DOTALL)
    assert found, name
    assert "{{" not in found[1]
    return found[1]


def granted(name: str) -> dict[tuple[str, str], set[str]]:
    """Verbs by API group and resource."""
    out: dict[tuple[str, str], set[str]] = {}
    for rule in rules(name):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                out.setdefault((group, resource), set()).update(rule["verbs"])
    return out


def test_rights_are_what_the_operator_does_and_no_more() -> None:
    wanted = {(kind.group, kind.plural): verbs for kind, verbs in NEEDED.items()} | SUBRESOURCES
    assert granted("rules") == wanted


def test_nodes_are_read_one_by_one_and_only_where_that_is_asked_for() -> None:
    assert granted("nodeRules") == {(NODES.group, NODES.plural): {"get"}}
    assert yaml.safe_load((OPERATOR / "values.yaml").read_text())["rbac"]["readNodes"] is False
    around = (OPERATOR / "templates" / "rbac.yaml").read_text().split('include "pulsar-operator.nodeRules"')
    assert len(around) == 2 and around[0].rindex(".Values.rbac.readNodes") > around[0].rindex("{{- end }}")


def test_everything_watched_may_be_watched() -> None:
    rights = granted("rules")
    refused = [kind.plural for kind in watched() if not {"list", "watch"} <= rights[kind.group, kind.plural]]
    assert refused == []


@pytest.mark.parametrize("name", ["rules", "leaseRules", "uninstallRules", *USER_RULES])
def test_no_wildcard_and_no_escalation(name: str) -> None:
    text = json.dumps(rules(name))
    for word in ("*", "pods/exec", "pods/attach", "pods/log", "rbac", "escalate", "impersonate", "nodes", "proxy"):
        assert word not in text


def test_secrets_are_never_enumerated() -> None:
    assert granted("rules")["", "secrets"].isdisjoint({"list", "watch", "deletecollection"})


def test_people_get_rights_on_our_kinds_alone_and_write_no_status() -> None:
    for name in USER_RULES:
        for (group, resource), verbs in granted(name).items():
            assert group == GROUP
            assert not resource.endswith(("/status", "/finalizers")) or verbs == {"get"}
    assert {verb for verbs in granted("viewRules").values() for verb in verbs} == {"get", "list", "watch"}


def test_each_kind_can_be_read_by_all_and_changed_by_one_role() -> None:
    change = {"create", "update", "patch", "delete", "deletecollection"}
    for kind, plural in PLURALS.items():
        assert granted("viewRules")[GROUP, plural] == {"get", "list", "watch"}
        first, other = ("adminRules", "editRules") if kind is Kind.INSTANCE else ("editRules", "adminRules")
        assert granted(first)[GROUP, plural] == change
        assert (GROUP, plural) not in granted(other)


def test_lease_by_name() -> None:
    create, rest = rules("leaseRules")
    assert create["verbs"] == ["create"]
    assert rest["resourceNames"] == [LEASE_NAME]


def test_every_rule_says_why() -> None:
    text = rules_text("rules")
    for part in text.split("- apiGroups:")[:-1]:
        assert part.rstrip().splitlines()[-1].lstrip().startswith("#"), part


@pytest.mark.parametrize("name", ["rules", "leaseRules", "nodeRules", "uninstallRules", *USER_RULES])
def test_rights_table_of_the_readme(name: str) -> None:
    readme = (OPERATOR / "README.md").read_text()
    for rule in rules(name):
        group = rule["apiGroups"][0] or "(core)"
        names = rule.get("resourceNames")
        resources = ", ".join(rule["resources"]) + (f" ({', '.join(names)})" if names else "")
        assert f"| {group} | {resources} | {', '.join(rule['verbs'])} | " in readme


def walk(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema below this one, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


@pytest.mark.parametrize("chart", [OPERATOR, PULSAR], ids=lambda p: p.name)
def test_schema_is_strict_and_described(chart: Path) -> None:
    schema = json.loads((chart / "values.schema.json").read_text())
    for path, node in walk(schema):
        if "properties" in node and "spec" not in path:
            assert node.get("additionalProperties") is False, path
        if not path.endswith("[]"):
            assert node.get("description"), path


def keys(values: Json, path: str = "") -> set[str]:
    """Paths of all keys of nested objects."""
    out = set()
    for key, value in values.items():
        out.add(f"{path}.{key}")
        if isinstance(value, dict):
            out |= keys(value, f"{path}.{key}")
    return out


OPEN_ENDED = (".spec", ".requests", ".limits")
"""Objects whose fields are Kubernetes' business or the custom resource's."""


def schema_keys(schema: Json, path: str = "") -> set[str]:
    """Paths of all keys the schema knows, down to lists and open-ended objects."""
    out = set()
    for name, child in schema.get("properties", {}).items():
        out.add(f"{path}.{name}")
        if not f"{path}.{name}".endswith(OPEN_ENDED):
            out |= schema_keys(child, f"{path}.{name}")
    return out


def value_keys(values: Json, path: str = "") -> set[str]:
    """Paths of all keys of the values, down to the same ends."""
    out = set()
    for name, child in values.items():
        out.add(f"{path}.{name}")
        if isinstance(child, dict) and not f"{path}.{name}".endswith(OPEN_ENDED):
            out |= value_keys(child, f"{path}.{name}")
    return out


@pytest.mark.parametrize("chart", [OPERATOR, PULSAR], ids=lambda p: p.name)
def test_values_and_schema_have_the_same_keys(chart: Path) -> None:
    values = yaml.safe_load((chart / "values.yaml").read_text())
    schema = json.loads((chart / "values.schema.json").read_text())
    assert value_keys(values) == schema_keys(schema) - {".global"}


def test_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = tomllib.loads((ROOT / "versions.toml").read_text())
    operator = yaml.safe_load((OPERATOR / "Chart.yaml").read_text())
    pulsar = yaml.safe_load((PULSAR / "Chart.yaml").read_text())
    assert operator["appVersion"] == project["version"]
    assert pulsar["appVersion"] == PulsarClusterSpec.model_fields["version"].default
    assert pulsar["appVersion"] == tested["pulsar"]["tested"]
    assert project["requires-python"] == f">={tested['python']['tested']}"
    kubernetes, helm = tested["kubernetes"]["minimum"], tested["helm"]["minimum"]
    assert f"Needs Kubernetes {kubernetes} or newer and Helm {helm} or newer." in (OPERATOR / "README.md").read_text()
    for chart in (operator, pulsar):
        assert chart["apiVersion"] == "v2"
        assert chart["kubeVersion"] == f">={tested['kubernetes']['minimum']}.0-0"
        assert chart["annotations"]["license"] == project["license"]


def test_defaults_are_those_of_the_operator() -> None:
    values = yaml.safe_load((OPERATOR / "values.yaml").read_text())
    assert OperatorImages(**values["pulsarImages"]) == OperatorImages()
    operator, settings = values["operator"], Settings()
    assert operator["workers"] == settings.workers
    assert operator["resyncSeconds"] == settings.resync_seconds
    assert operator["leaseSeconds"] == settings.lease_seconds
    assert operator["watchSilenceSeconds"] == settings.watch_silence_seconds
    assert operator["logLevel"].lower() == settings.log_level
    assert operator["logFormat"].lower() == settings.log_format


def test_defaults_of_sizing_are_those_of_the_collector_and_the_job() -> None:
    sizing = yaml.safe_load((PULSAR / "values.yaml").read_text())["sizing"]
    collector = CollectorSettings(instance="i", root="/data")
    assert sizing["enabled"] is False
    assert sizing["collector"]["intervalSeconds"] == collector.interval
    assert sizing["collector"]["retentionDays"] == collector.retention_days
    request = Request("i", "c")
    job = sizing["job"]
    assert (job["percentile"], job["growth"]) == (request.percentile, request.growth)
    assert job["windowDays"] == request.window_days
    assert job["minCoverageHours"] == request.min_coverage_hours
    assert (job["capacity"], request.capacity) == (0, None)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("schedule", ["17 * * * *", "*/5 0 1,15 * 1-5", "@hourly"], ["17 * * *", "hourly", ""]),
        ("master", ["local[*]", "local[4]", "local", "k8s://https://kubernetes.default.svc"], ["yarn", "local[]", ""]),
        ("driverMemory", ["1g", "1500m"], ["1", "1Gi", "g"]),
        ("scratchSize", ["10Gi", "0.5Ti", "500M"], ["10 Gi", "ten", "10GiB"]),
    ],
)
def test_patterns_of_the_sizing_job(key: str, good: list[str], bad: list[str]) -> None:
    schema = json.loads((PULSAR / "values.schema.json").read_text())["properties"]["sizing"]["properties"]["job"]
    pattern = schema["properties"][key]["pattern"]
    assert [text for text in good if not re.search(pattern, text)] == []
    assert [text for text in bad if re.search(pattern, text)] == []


def test_enums_are_accepted_by_the_settings() -> None:
    schema = json.loads((OPERATOR / "values.schema.json").read_text())["properties"]["operator"]["properties"]
    for level in schema["logLevel"]["enum"]:
        assert Settings.model_validate({"log_level": level}).log_level == level.lower()
    for style in schema["logFormat"]["enum"]:
        assert Settings.model_validate({"log_format": style}).log_format == style.lower()


def test_environment_names_are_settings() -> None:
    """An unknown variable with the prefix stops the operator."""
    text = "".join(file.read_text() for file in (OPERATOR / "templates").iterdir())
    names = set(re.findall(rf"- name: {PREFIX}(\w+)", text))
    assert names <= {field.upper() for field in Settings.model_fields}
    assert {"WATCH_NAMESPACES", "NAMESPACE", "POD_NAME"} <= names


def test_deletion_guard_knows_every_parent_and_its_children() -> None:
    text = (OPERATOR / "templates" / "deletionguard.yaml").read_text()
    children: dict[str, set[str]] = {}
    parents = {child: parent for child, (_, parent) in PARENT_FIELD.items() if child not in TASKS}
    for child, parent in parents.items():
        assert "dependents" in MODELS[parent].status.model_fields
        children.setdefault(parent.value, set()).add(child.value)
    # A cluster is no field of theirs, and is needed all the same (controllers/dataplane/objects/dependents.py).
    children[Kind.CLUSTER.value] = {kind.value for kind in SITED}
    told = {kind: set(re.findall(r"Pulsar\w+", names)) for kind, names in re.findall(r'"(Pulsar\w+)": "(.*?)"', text)}
    assert told == children
    (resources,) = re.findall(r"resources: \[(.*)\]", text)
    assert set(resources.split(", ")) == {PLURALS[parent] for parent in {*parents.values(), Kind.CLUSTER}}


@pytest.mark.parametrize(
    ("chart", "annotations"),
    [
        (OPERATOR, {ANNOTATION_CONFIRM_DELETE, ANNOTATION_DELETE_AFTER_DEPENDENTS}),
        (PULSAR, {ANNOTATION_DELETE_AFTER_DEPENDENTS}),
    ],
    ids=["pulsar-operator", "pulsar"],
)
def test_annotations_that_the_deletion_guard_reads(chart: Path, annotations: set[str]) -> None:
    """Charts cannot import the constants."""
    text = "".join(file.read_text() for file in sorted((chart / "templates").glob("*")) if file.is_file())
    found = set(re.findall(rf"{GROUP}/(?:confirm|delete)[-\w]*", text))
    assert found == annotations
