"""What the charts repeat is what crds/ says: helm/sync_charts.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helm import sync_charts
from pulsar_operator.api.constants import Kind

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with crds/ and what the program makes of it."""
    shutil.copytree(ROOT / "crds", tmp_path / "crds")
    sync_charts.write(tmp_path)
    return tmp_path


def test_committed_files_are_up_to_date() -> None:
    assert sync_charts.differences(ROOT) == [], "run: python helm/sync_charts.py"


def test_copies_are_identical() -> None:
    originals = {file.name: file.read_bytes() for file in (ROOT / "crds").glob("*.yaml")}
    copies = {file.name: file.read_bytes() for file in (ROOT / sync_charts.CRD_COPIES).glob("*.yaml")}
    assert copies == originals
    assert len(originals) == len(Kind)


def test_write_then_check_is_clean(copy: Path) -> None:
    assert sync_charts.main(["--check", "--root", str(copy)]) == 0


def test_changed_definition_is_noticed(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / "crds" / "pulsaroperator.io_pulsartopics.yaml"
    file.write_text(file.read_text().replace("maximum: 10000", "maximum: 9999"))
    assert sync_charts.main(["--check", "--root", str(copy)]) == 1
    said = capsys.readouterr().err
    assert "files/crds/pulsaroperator.io_pulsartopics.yaml: not up to date" in said
    assert "helm/pulsar/values.schema.json: not up to date" in said
    assert "python helm/sync_charts.py" in said


def test_removed_definition_is_noticed_and_cleaned(copy: Path) -> None:
    extra = copy / sync_charts.CRD_COPIES / "pulsaroperator.io_pulsarghosts.yaml"
    extra.write_text("kind: X\n")
    missing = copy / sync_charts.CRD_COPIES / "pulsaroperator.io_pulsartopics.yaml"
    missing.unlink()
    assert len(sync_charts.differences(copy)) == 2
    sync_charts.write(copy)
    assert sync_charts.differences(copy) == []
    assert not extra.exists()
    assert missing.exists()


@pytest.mark.parametrize(
    ("structural", "wanted"),
    [
        ({"type": "integer", "format": "int32", "default": 3}, {"type": "integer"}),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        ),
        (
            {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "properties": {}},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
        ),
        (
            {"x-kubernetes-int-or-string": True, "pattern": "^1$"},
            {"type": ["integer", "string"], "pattern": "^1$"},
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {}},
            {"type": "array", "items": {}},
        ),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 0},
        ),
        ({"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}, {"type": "string"}),
    ],
)
def test_strict(structural: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert sync_charts.strict(structural, "x") == wanted


def test_unknown_keyword_stops_the_build_with_its_place() -> None:
    with pytest.raises(sync_charts.UnknownKeywordError, match=r"spec\.a\[\] has the keyword 'oneOf'"):
        sync_charts.strict(
            {"type": "object", "properties": {"a": {"type": "array", "items": {"oneOf": []}}}},
            "spec",
        )


def test_references_are_the_charts_business() -> None:
    """One way to say it: the schema has no field for what the chart fills in."""
    schema = json.loads((ROOT / sync_charts.PULSAR_SCHEMA).read_text())["properties"]
    assert "instanceRef" not in schema["cluster"]["properties"]["spec"]["properties"]
    assert "instanceRef" not in schema["tenants"]["items"]["properties"]["spec"]["properties"]
    assert "tenantRef" not in schema["namespaces"]["items"]["properties"]["spec"]["properties"]
    assert "namespaceRef" not in schema["topics"]["items"]["properties"]["spec"]["properties"]
