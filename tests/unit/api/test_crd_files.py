"""The generated definitions: up to date, complete, within the limits of the API server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsar_operator.api.constants import GROUP, PLURALS, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.crdgen import MAX_STORED_BYTES, crd, differences, file_name, main, render, stored_bytes
from tests.fakes.jsoncopy import deepcopy
from tests.support.yamls import LOADER, document

FOLDER = Path(__file__).resolve().parents[3] / "crds"
FORBIDDEN = {"$ref", "$defs", "nullable", "anyOf", "oneOf", "allOf", "not", "title", "uniqueItems", "const"}

Json = dict[str, Any]


@cache
def generated(kind: Kind) -> Json:
    """A kind's definition, made once: never to be handed out itself."""
    return crd(kind)


rendered = cache(render)


@pytest.fixture
def rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds each file's text made, which takes long."""
    monkeypatch.setattr("pulsar_operator.crdgen.render", rendered)


def version(kind: Kind) -> Json:
    """The only version of a kind's definition."""
    (only,) = deepcopy(generated(kind))["spec"]["versions"]
    return only  # type: ignore[no-any-return]


def root(kind: Kind) -> Json:
    """Root schema of a kind."""
    return version(kind)["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


def nodes(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Every schema below and including this one, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in schema:
            yield from nodes(schema[keyword], path + suffix)


@pytest.mark.usefixtures("rendered_once")
def test_committed_files_are_up_to_date() -> None:
    assert differences(FOLDER) == [], "run: make crds"


def in_lists(kind: Kind) -> list[tuple[str, Json]]:
    """Every schema within a list of a kind's spec, with its path."""
    return [(path, node) for path, node in nodes(root(kind)["properties"]["spec"], "spec") if "[]" in path]


@pytest.mark.parametrize("kind", Kind)
def test_no_default_is_within_a_list(kind: Kind) -> None:
    """The API server would write it into the user's list, and Argo CD would find the object out of sync for ever."""
    assert [path for path, node in in_lists(kind) if "default" in node] == []


@pytest.mark.parametrize("kind", Kind)
def test_rules_within_a_list_bear_what_is_absent(kind: Kind) -> None:
    """A rule that reads an absent field ends with an error, and no default makes it present."""
    bare = []
    for path, node in in_lists(kind):
        optional = set(node.get("properties") or ()) - set(node.get("required") or ())
        for rule in (each["rule"] for each in node.get("x-kubernetes-validations", ())):
            bare += [
                f"{path}: {rule}" for name in optional if f"self.{name}" in rule and f"has(self.{name})" not in rule
            ]
    assert bare == []


@pytest.mark.parametrize("kind", Kind)
def test_file_is_small_and_without_aliases(kind: Kind) -> None:
    text = rendered(kind)
    assert stored_bytes(generated(kind)) < MAX_STORED_BYTES <= 245_000
    events = [event for event in yaml.parse(text, Loader=LOADER) if getattr(event, "anchor", None)]
    assert events == []
    assert document(text) == generated(kind)
    assert render(kind) == text


@pytest.mark.parametrize("kind", Kind)
def test_names(kind: Kind) -> None:
    document = generated(kind)
    names = document["spec"]["names"]
    assert document["metadata"]["name"] == f"{PLURALS[kind]}.{GROUP}"
    assert file_name(kind) == f"{GROUP}_{PLURALS[kind]}.yaml"
    assert names["categories"] == ["pulsar"]
    assert names["singular"] == str(kind).lower()
    assert document["spec"]["scope"] == "Namespaced"
    assert version(kind)["subresources"]["status"] == {}
    assert root(kind)["required"] == ["spec"]


@pytest.mark.parametrize("kind", Kind)
def test_columns_begin_and_end_alike_and_point_at_fields_that_exist(kind: Kind) -> None:
    columns = version(kind)["additionalPrinterColumns"]
    assert [column["name"] for column in columns[:2]] == ["Ready", "Reason"]
    assert columns[-1]["name"] == "Age"
    for column in columns:
        path = column["jsonPath"]
        if path.startswith((".status.conditions[", ".metadata.")):
            continue
        node = root(kind)
        for step in path.strip(".").split("."):
            assert step in node["properties"], f"{kind} column {column['name']}: {path} does not exist"
            node = node["properties"][step]
        assert column["type"] == node["type"], "a list would be shown with JSON's brackets"


@pytest.mark.parametrize("kind", Kind)
def test_a_new_object_does_not_look_ready_to_tools_that_wait(kind: Kind) -> None:
    status = root(kind)["properties"]["status"]
    assert status["default"] == {"observedGeneration": -1}
    assert "required" not in status, "the default alone must be valid"
    assert MODELS[kind].status.model_validate(status["default"]) == MODELS[kind].status()


def test_scale_paths_exist() -> None:
    scale = version(Kind.CLUSTER)["subresources"]["scale"]
    assert set(scale) == {"specReplicasPath", "statusReplicasPath", "labelSelectorPath"}
    for path in scale.values():
        node = root(Kind.CLUSTER)
        for step in path.strip(".").split("."):
            node = node["properties"][step]
    assert [kind for kind in Kind if "scale" in version(kind)["subresources"]] == [Kind.CLUSTER]


@pytest.mark.parametrize("kind", Kind)
def test_every_field_is_described(kind: Kind) -> None:
    missing = [
        f"{path}.{name}"
        for path, schema in nodes(root(kind), str(kind))
        for name, child in schema.get("properties", {}).items()
        if not child.get("description") and f"{path}.{name}" != f"{kind}.metadata"
    ]
    assert missing == []


@pytest.mark.parametrize("kind", Kind)
def test_schema_is_structural(kind: Kind) -> None:
    for path, schema in nodes(root(kind), str(kind)):
        assert not FORBIDDEN & set(schema), path
        if schema.get("x-kubernetes-int-or-string"):
            assert "type" not in schema, path
            continue
        assert schema["type"] in {"object", "array", "string", "integer", "boolean"}, path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        if schema["type"] == "integer":
            assert schema["format"] in {"int32", "int64"}, path
        if schema["type"] == "object" and "properties" not in schema and path != f"{kind}.metadata":
            assert "additionalProperties" in schema or schema["x-kubernetes-preserve-unknown-fields"], path


@pytest.mark.parametrize("kind", Kind)
def test_everything_in_spec_is_bounded(kind: Kind) -> None:
    """CEL's cost is estimated from these bounds, and etcd takes objects up to 1.5 MiB."""
    unbounded = []
    for path, schema in nodes(root(kind)["properties"]["spec"], "spec"):
        kinds = {"string": ("maxLength", "enum"), "array": ("maxItems",)}
        wanted = kinds.get(schema.get("type", "string"), ())
        if "additionalProperties" in schema:
            wanted = ("maxProperties",)
        if wanted and not set(wanted) & set(schema):
            unbounded.append(path)
    assert unbounded == []


@pytest.mark.parametrize("kind", Kind)
def test_rules_have_messages_and_lists_have_a_merge_rule(kind: Kind) -> None:
    for path, schema in nodes(root(kind), str(kind)):
        for rule in schema.get("x-kubernetes-validations", []):
            assert set(rule) == {"rule", "message"}, path
            assert 10 < len(rule["message"]) < 2048, path
        if schema.get("x-kubernetes-list-type") == "map":
            required = schema["items"].get("required", [])
            assert set(schema["x-kubernetes-list-map-keys"]) <= set(required), path


def test_conditions_are_a_map_by_type() -> None:
    for kind in Kind:
        conditions = root(kind)["properties"]["status"]["properties"]["conditions"]
        assert conditions["x-kubernetes-list-type"] == "map"
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
        assert set(conditions["items"]["required"]) == {"type", "status", "lastTransitionTime", "reason", "message"}


@pytest.mark.usefixtures("rendered_once")
def test_command_writes_checks_and_names_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "crds"
    assert main(["--out", str(out), "--check"]) == 1
    assert "missing" in capsys.readouterr().err
    assert main(["--out", str(out)]) == 0
    assert sorted(file.name for file in out.iterdir()) == sorted(file_name(kind) for kind in Kind)
    assert main(["--out", str(out), "--check"]) == 0

    topic = out / file_name(Kind.TOPIC)
    topic.write_text(topic.read_text().replace("maximum: 10000", "maximum: 10"))
    left_over = out / f"{GROUP}_pulsarthings.yaml"
    left_over.write_text("{}")
    assert main(["--out", str(out), "--check"]) == 1
    said = capsys.readouterr().err
    assert [line for line in said.splitlines() if line.startswith("-  ") and "maximum: 10," in line]
    assert "pulsarthings.yaml: belongs to no kind" in said
    assert "run: python -m pulsar_operator.crdgen" in said

    assert main(["--out", str(out)]) == 0
    assert not left_over.exists()
    assert main(["--out", str(out), "--check"]) == 0
