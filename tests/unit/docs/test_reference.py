"""docs/reference against the definitions: every field by its full path, and what its row says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_operator.api.constants import PLURALS, Kind
from pulsar_operator.crdgen import crd
from pulsar_operator.domain.policies import LOCAL_POLICIES, NAMESPACE_POLICIES
from tests.support.documents import ROOT

Json = dict[str, Any]
ROW = re.compile(r"^\| `((?:spec|status)\.[^`]+)` \|.*$", re.MULTILINE)


def rows(kind: Kind) -> dict[str, str]:
    """Rows of a page by path, those of columns and rules aside."""
    text = (ROOT / f"docs/reference/{PLURALS[kind]}.md").read_text(encoding="utf-8")
    tables = re.sub(r"^## (?:Rules|Columns).*?(?=^## |\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    found = [(each[1], each[0]) for each in ROW.finditer(tables)]
    assert len(dict(found)) == len(found), "a field has two rows"
    return dict(found)


def paths(schema: Json, path: str) -> Iterator[str]:
    """Every field below a node of a definition."""
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from paths(child, f"{path}.{name}")
    if "items" in schema:
        yield from paths(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from paths(schema["additionalProperties"], f"{path}.*")


def definition(kind: Kind) -> Json:
    (version,) = crd(kind)["spec"]["versions"]
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


@pytest.mark.parametrize("kind", Kind)
def test_every_field_has_its_row_and_no_other_has(kind: Kind) -> None:
    properties = definition(kind)["properties"]
    wanted = {path for part in ("spec", "status") for path in paths(properties[part], part)}
    assert len(wanted) > 30
    assert set(rows(kind)) == wanted


@pytest.mark.parametrize("kind", Kind)
def test_every_row_says_what_the_field_means(kind: Kind) -> None:
    assert [path for path, row in rows(kind).items() if row.endswith("|  |")] == []


@pytest.mark.parametrize("kind", Kind)
def test_every_message_of_the_api_server_is_there(kind: Kind) -> None:
    """All of a rule's message, up to how to change what cannot be changed."""

    def messages(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from messages(child)

    page = re.sub(r"\\([\\*<|])", r"\1", (ROOT / f"docs/reference/{PLURALS[kind]}.md").read_text(encoding="utf-8"))
    for message in set(messages(definition(kind))):
        text = re.sub(r"(is immutable, because [^.]*)\. .*$", r"\1", message)
        assert re.sub(r"^[\w.]+ (?=is immutable)", "", text).removeprefix("is ") in page, message


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        (Kind.NAMESPACE, "spec.tenantRef", "| object | **required** | immutable, because it names existing data |"),
        (Kind.NAMESPACE, "spec.deletionPolicy", '| string | `"Retain"` | `Retain`, `Delete`, `ForceDelete` |'),
        (Kind.NAMESPACE, "spec.policies.maxTopics", "| integer |  | 0 to 2147483647 |"),
        (Kind.NAMESPACE, "spec.policies.retention.size", "| quantity | **required** | the value must be"),
        (Kind.NAMESPACE, "spec.permissions", "one for each `role`"),
        (Kind.NAMESPACE, "spec.permissions[].actions", "each once; each (`Produce`, `Consume`,"),
        (Kind.TOPIC, "spec.partitions", "Pulsar cannot remove partitions"),
        (Kind.TOPIC_SET, "spec.template.partitions", "Pulsar cannot remove partitions"),
        (Kind.TOPIC_SET, "spec.patterns", "\\* matches any characters"),
        (Kind.CLUSTER, "spec.loadBalancing.driver", "named \\<cluster>-balancer"),
        (Kind.CLUSTER, "spec.bookkeeper.journal.size", "immutable in this version"),
        (Kind.CLUSTER, "spec.clusterName", "| 1 to 40 characters; matches `^[a-z]([-a-z0-9]*[a-z0-9])?$`; immutable"),
    ],
)
def test_a_row_says_what_the_definition_has(kind: Kind, path: str, said: str) -> None:
    assert said in rows(kind)[path]


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        (
            Kind.NAMESPACE,
            "spec.policies.publishRate",
            "In Pulsar: `POST ~/publishRate`, `publishMaxMessageRate.{cluster}`.",
        ),
        (Kind.TENANT, "spec.namespaceDefaults.retention", "In Pulsar: `POST ~/retention`, `retention_policies`."),
        (Kind.TOPIC, "spec.policies.subscriptionExpirationMinutes", "; from 4.2.0 on."),
        (Kind.TOPIC_SET, "spec.template.policies.maxMessageSize", "In Pulsar: `POST ~/maxMessageSize`."),
    ],
)
def test_a_policy_says_what_pulsar_has_for_it(kind: Kind, path: str, said: str) -> None:
    assert said in rows(kind)[path]


def test_every_policy_does() -> None:
    pages = {Kind.NAMESPACE: NAMESPACE_POLICIES, Kind.TOPIC: LOCAL_POLICIES}
    for kind, policies in pages.items():
        found = rows(kind)
        assert [row.field for row in policies if "In Pulsar: `" not in found[f"spec.{row.field}"]] == []
