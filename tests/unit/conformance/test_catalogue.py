"""The catalogue of the conformance suite: names, what refers to what, and that nothing promised is left unsaid."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_conformance import catalogue
from pulsar_conformance.catalogue import all_checks, all_mutations, select
from pulsar_conformance.concepts import CONCEPTS, SECTIONS, section
from pulsar_conformance.model import Check, Concept, check, is_slot, slot
from pulsar_operator.api.constants import Component
from pulsar_operator.domain.render.reserved import RESERVED, RESERVED_PREFIXES
from tests.support.yamls import document

ROOT = Path(__file__).resolve().parents[3]
CHECK_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
CONCEPT_KEY = re.compile(r"[A-E](\.[a-z0-9_]+)+")
FIELD = re.compile(r"(?P<kind>Pulsar[A-Za-z]+): (?P<path>spec(\.[A-Za-z0-9]+)+)(\[(?P<key>[A-Za-z_.]+)\])?")
COMPONENTS = {"broker": Component.BROKER, "bookkeeper": Component.BOOKIE, "proxy": Component.PROXY}


def schemas() -> dict[str, Any]:
    """Schema of each kind, from the definitions that are installed."""
    found = {}
    for file in (ROOT / "crds").glob("*.yaml"):
        crd = document(file.read_text(encoding="utf-8"))
        found[crd["spec"]["names"]["kind"]] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


SCHEMAS = schemas()


def field_problem(text: str) -> str | None:
    """What is wrong with a declared field: no such field, or a key the operator keeps to itself."""
    found = FIELD.fullmatch(text)
    if found is None:
        return f"{text}: not of the form Kind: spec.path or Kind: spec.path[key]"
    node = SCHEMAS.get(found["kind"])
    if node is None:
        return f"{text}: no such kind"
    for name in found["path"].split("."):
        node = node.get("properties", {}).get(name)
        if node is None:
            return f"{text}: no such field: {name}"
    if found["key"] is None:
        return None
    if "additionalProperties" not in node:
        return f"{text}: not a map"
    component = COMPONENTS[found["path"].split(".")[1]]
    if found["key"] in RESERVED[component] or found["key"].startswith(tuple(RESERVED_PREFIXES[component])):
        return f"{text}: a reserved key"
    return None


def proof_problem(text: str) -> str | None:
    """What is wrong with a named test: ``path::name``, or ``path::class::name``."""
    path, _, name = text.partition("::")
    file = ROOT / path
    if not path.startswith(("e2e/tests/", "tests/integration/", "tests/standalone/")) or not file.is_file():
        return f"{text}: no such file of tests"
    return None if name.split("::")[-1].startswith("test_") and name in named_in(file) else f"{text}: no such test"


def named_in(file: Path) -> set[str]:
    """Functions of a file, and methods of its classes, also those of bases it imports from this repository."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    sources = {
        alias.name: ROOT / f"{node.module.replace('.', '/')}.py"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = {child.name for child in node.body if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))}
            for base in node.bases:
                source = sources.get(base.id) if isinstance(base, ast.Name) else None
                if source is not None and source.is_file():
                    prefix = f"{ast.unparse(base)}::"
                    methods |= {name.removeprefix(prefix) for name in named_in(source) if name.startswith(prefix)}
            found |= {f"{node.name}::{method}" for method in methods}
    return found


def unproved(concepts: tuple[Concept, ...], checks: list[Check]) -> list[str]:
    """Concepts with neither a check nor a test nor a reason; a slot proves nothing."""
    named = {key for found in checks if not is_slot(found) for key in found.concepts}
    return [found.key for found in concepts if not (found.key in named or found.other_proof or found.open)]


def test_ids_are_unique_and_well_formed() -> None:
    checks, mutations = all_checks(), all_mutations()
    assert [found.id for found in checks if not CHECK_ID.fullmatch(found.id)] == []
    assert [found.id for found in mutations if not re.fullmatch(r"[a-z0-9_-]+", found.name)] == []
    assert Counter(found.id for found in checks).most_common(1)[0][1] == 1
    assert Counter(found.id for found in mutations).most_common(1)[0][1] == 1
    keys = Counter(found.key for found in CONCEPTS)
    assert [key for key, count in keys.items() if count > 1 or not CONCEPT_KEY.fullmatch(key)] == []


def test_checks_name_concepts_that_exist() -> None:
    known = {found.key for found in CONCEPTS}
    assert [
        (found.id, sorted(set(found.concepts) - known)) for found in all_checks() if set(found.concepts) - known
    ] == []
    assert [found.id for found in all_checks() if not found.concepts] == []


def test_every_concept_is_proved_or_says_why_not() -> None:
    assert unproved(CONCEPTS, all_checks()) == []


def test_every_check_has_a_mutation_that_breaks_it() -> None:
    broken = {found.check for found in all_mutations()}
    assert [found.id for found in all_checks() if found.id not in broken and not is_slot(found)] == []


def test_every_mutation_breaks_a_check_that_exists() -> None:
    known = {found.id for found in all_checks() if not is_slot(found)}
    assert [found.id for found in all_mutations() if found.check not in known] == []
    assert [found.id for found in all_mutations() if not found.rules] == []


@pytest.mark.parametrize("concept", CONCEPTS, ids=lambda concept: concept.key)
def test_what_a_concept_names_exists(concept: Concept) -> None:
    problems = [field_problem(text) for text in concept.fields]
    if concept.other_proof:
        problems.append(proof_problem(concept.other_proof))
    assert [problem for problem in problems if problem] == []
    assert section(concept.key)
    assert concept.text and concept.enforced


def test_every_section_has_concepts() -> None:
    assert {found.key[0] for found in CONCEPTS} == set(SECTIONS)


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("PulsarNamespace: spec.policies.retention", None),
        ("PulsarCluster: spec.broker.config[brokerDeduplicationEnabled]", None),
        ("PulsarNamespace: spec.policies.retentoin", "no such field"),
        ("PulsarNamspace: spec.policies", "no such kind"),
        ("PulsarCluster: spec.broker[x]", "not a map"),
        ("PulsarCluster: spec.broker.config[maxMessageSize]", "a reserved key"),
        ("spec.broker", "not of the form"),
    ],
)
def test_wrong_fields_are_noticed(field: str, problem: str | None) -> None:
    found = field_problem(field)
    assert found is None if problem is None else found is not None and problem in found


def test_wrong_proofs_are_noticed() -> None:
    assert proof_problem("e2e/tests/test_quickstart.py::test_partitions_grow") is None
    assert proof_problem("e2e/tests/test_quickstart.py::test_partitions_shrink")
    assert proof_problem("e2e/tests/test_quickstart.py::reconciles")
    of_contract = "tests/standalone/test_policies_real.py::TestPoliciesReal"
    assert proof_problem(f"{of_contract}::test_values_survive_the_round_trip_and_the_reset") is None
    assert proof_problem(f"{of_contract}::test_nothing")
    assert proof_problem("e2e/tests/no_such_file.py::test_partitions_grow")
    assert proof_problem("tests/unit/conformance/test_catalogue.py::test_wrong_proofs_are_noticed")


def test_unproved_concepts_are_noticed() -> None:
    proved = Check("theme.name", "x", ("E.a",), lambda _context: "", 1)
    rows = (
        Concept("E.a", "a"),
        Concept("E.b", "b"),
        Concept("E.c", "c", open="why"),
        Concept("E.d", "d", other_proof="t"),
    )
    later = slot("theme.later", proves="x", concepts="E.b", needs="a second cluster")
    assert unproved(rows, [proved, later]) == ["E.b"]


def test_slots_are_told_from_checks() -> None:
    assert is_slot(slot("theme.later", proves="x", concepts="E.a", needs="a second cluster"))
    assert not is_slot(check("theme.now", proves="x", concepts="E.a")(lambda _context: ""))


def test_an_id_used_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def members(_package: object) -> Iterator[object]:
        for proves in ("one", "another"):
            yield Check("theme.same", proves, ("E.a",), lambda _context: "", 1)

    monkeypatch.setattr(catalogue, "_members", members)
    with pytest.raises(ValueError, match=r"theme\.same is used twice"):
        all_checks()


def test_checks_are_found_in_tuples_and_imports_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Check(f"theme.{name}", name, ("E.a",), lambda _context: "", 1) for name in ("first", "second"))
    modules = {"m.a": SimpleNamespace(ONE=second), "m.b": SimpleNamespace(ALL=(first, second), other=3)}
    monkeypatch.setattr(catalogue.pkgutil, "iter_modules", lambda _path: [SimpleNamespace(name=n) for n in "ab"])
    monkeypatch.setattr(catalogue.importlib, "import_module", lambda name: modules[f"m.{name[-1]}"])
    assert all_checks() == [first, second]


def test_selection() -> None:
    checks = [
        Check(name, "x", ("E.a",), lambda _context: "", 1) for name in ("ack.single", "nack.delay", "reader.start")
    ]
    assert select(checks, []) == checks
    assert [found.id for found in select(checks, ["^ack", "reader"])] == ["ack.single", "reader.start"]
    with pytest.raises(ValueError, match="no check matches nothing: --list names them"):
        select(checks, ["nothing"])
