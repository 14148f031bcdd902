"""The documentation against the code: words, links, examples, generated tables."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from e2e.support.pages import blocks
from pulsar_operator.api.constants import API_VERSION, PLURALS, SHORT_NAMES, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.crdgen import crd
from pulsar_operator.domain.render import resolve_quorum, spec_problems
from tests.support.documents import PAGES, ROOT, shown

CODE = ROOT / "operator/pulsar_operator"
FENCE = re.compile(r"^ *```[^\n]*\n.*?^ *```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
"""A regular expression in it may look like a link."""
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATCH = re.compile(r"kubectl .*?patch (?P<kind>[a-z]+)[ /].*-p '(?P<patch>[^']*)'")
KIND_IN_COMMAND = re.compile(r"kubectl (?:-n \S+ )?(?:get|annotate|scale|wait|explain) (p[a-z]+)")
NOT_SET = "not set in this version"
SHADOWED = frozenset({"pc", "po", "pv", "pvc", "pdb"})
"""Short names kubectl takes for Kubernetes' own kinds, whatever other definitions say."""

Json = dict[str, Any]


def fenced(page: Path, language: str) -> Iterator[str]:
    """Code blocks of a language."""
    return (block.text for block in blocks(page.read_text(encoding="utf-8"), language))


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def rows(page: str) -> dict[str, str]:
    """Table rows of a page by the word in their first cell."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)` \|.*$", text, re.MULTILINE)}


def objects() -> list[Any]:
    """Every custom resource in a YAML block of a page, and every fragment of one."""
    return [
        pytest.param(one.obj, id=one.where)
        for page in PAGES
        for one in shown(page)
        if one.obj["apiVersion"] == API_VERSION
    ]


def unknown_fields(value: Any, schema: Json, path: str) -> Iterator[str]:
    """Fields a strict API server would refuse."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict) and "properties" in schema:
        for name, child in value.items():
            if name not in schema["properties"]:
                yield f"{path}.{name}"
            else:
                yield from unknown_fields(child, schema["properties"][name], f"{path}.{name}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from unknown_fields(child, schema.get("items", {}), f"{path}[{index}]")


def spec_schema(kind: Kind) -> Json:
    """Schema of a kind's spec."""
    (version,) = crd(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    """And the page says which ones the code does not use."""
    row = rows("conditions.md").get(reason.value)
    assert row is not None, f"docs/conditions.md has no row for {reason.value}"
    used = any(
        f"Reason.{reason.name}" in file.read_text(encoding="utf-8")
        for file in CODE.rglob("*.py")
        if file.name not in ("constants.py", "healing.py")
    )
    assert used != (NOT_SET in row), f"{reason.value}: used in code is {used}, docs/conditions.md says {row}"


@pytest.mark.parametrize("kind", ConditionType)
def test_every_condition_type_is_explained(kind: ConditionType) -> None:
    assert kind.value in rows("conditions.md")


def test_no_word_is_explained_that_does_not_exist() -> None:
    assert set(rows("conditions.md")) == {*Reason, *ConditionType}


def test_generated_tables_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/gen_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = CODE_SPAN.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, fragment = unquote(link).partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {link}"
        if fragment:
            assert fragment in anchors(file), f"{page.name} links to {link}: {file.name} has no such heading"


@pytest.mark.parametrize("document", objects())
def test_examples_are_valid(document: Json) -> None:
    """By the models, without a field the definition does not have, and renderable."""
    kind = Kind(document["kind"])
    assert list(unknown_fields(document["spec"], spec_schema(kind), "spec")) == []
    spec: Any = MODELS[kind].spec.model_validate(document["spec"])
    if kind is Kind.CLUSTER:
        assert spec_problems(spec) == []
        if spec.bookkeeper is not None:
            resolve_quorum(spec.bookkeeper.ensemble, spec.bookkeeper.replicas)


def test_there_is_something_to_check() -> None:
    """The tests of one page pass where a pattern finds nothing on it; on all pages together it must."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert objects()
    for pattern in (LINK, KIND_IN_COMMAND, PATCH):
        assert any(pattern.search(text) for text in texts), pattern.pattern


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_patches_in_commands_are_valid(page: Path) -> None:
    """kubectl patch KIND ... -p JSON: JSON, with fields the definition has."""
    names = {word: kind for kind in Kind for word in (SHORT_NAMES[kind], PLURALS[kind], kind.value.lower())}
    for block in fenced(page, "sh"):
        for found in PATCH.finditer(block):
            patch = json.loads(found["patch"])
            schema = spec_schema(names[found["kind"]])
            assert list(unknown_fields(patch.get("spec", {}), schema, "spec")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_kinds_that_exist(page: Path) -> None:
    own = {word for kind in Kind for word in (SHORT_NAMES[kind], PLURALS[kind], kind.value.lower())} | {"pulsar"}
    known = own - SHADOWED
    text = page.read_text(encoding="utf-8")
    for word in KIND_IN_COMMAND.findall(text):
        assert word in known | {"pods", "pod", "pvc", "pdb"}, f"{page.name}: kubectl ... {word}"


def test_readme_leads_to_every_page() -> None:
    """In one step, or by a page that README links to; the records of other tools aside."""
    linked = {ROOT / "README.md"}
    for page in (ROOT / "README.md", ROOT / "docs/developing.md", ROOT / "docs/reference/README.md"):
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            linked.add((page.parent / unquote(link).partition("#")[0]).resolve())
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in linked] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "/" + page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """Paths in backticks that begin with a folder of the repository."""
    top = {each.name for each in ROOT.iterdir() if each.is_dir()} - {"build", "docs"}
    for word in re.findall(r"`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+)`", page.read_text(encoding="utf-8")):
        if word.split("/")[0] in top and not word.startswith("operator/pulsar_operator/ports"):
            found = (ROOT / word.rstrip("/")).exists() or (
                ROOT / "operator/pulsar_operator" / word.rstrip("/")
            ).exists()
            assert found, f"{page.name}: {word} is not there"


def test_the_guide_stays_one() -> None:
    """Tables of fields are in docs/reference, those of calls in docs/policies.md."""
    assert len((ROOT / "docs/logical-plane.md").read_text(encoding="utf-8").splitlines()) < 250
