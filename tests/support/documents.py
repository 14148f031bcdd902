"""What pages and examples show, as objects: whole ones, and the fragments that say of what they are.

The word behind a fence's ``yaml`` says what a block without ``apiVersion`` is: a kind of ours (``yaml PulsarCluster``:
laid over the smallest object of the kind), the values of a chart (``yaml values pulsar``), or an object of somebody
else's (``yaml other``), which is only parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.support.pages import Block, blocks
from pulsar_operator.api.constants import API_VERSION, Kind
from tests.support.admission.rules import merged
from tests.support.admission.samples import manifest, minimal
from tests.support.yamls import documents

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "e2e/kind/README.md",
    *sorted((ROOT / "helm").glob("*/README.md")),
    *sorted((ROOT / "gitops").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
EXAMPLES = tuple(sorted((ROOT / "examples").rglob("*.yaml")))
_HEREDOC = re.compile(r"<<-?'?(?P<word>[A-Z]+)'?[^\n]*\n(?P<text>.*?)^(?P=word)$", re.MULTILINE | re.DOTALL)
OTHER, VALUES = "other", "values"
Json = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """One object as a page shows it."""

    where: str
    """Page and line, or file."""
    obj: Json
    fragment: bool = False


@dataclass(frozen=True)
class Values:
    """Values of a chart as a page shows them."""

    where: str
    chart: str
    values: Json


class NotSaidError(ValueError):
    """A block does not say of what it is a fragment."""


def shown(page: Path) -> Iterator[Shown]:
    """Our objects in a page's YAML blocks, and in what its commands take from a heredoc. Raises NotSaidError."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "yaml" and not block.info.startswith((OTHER, VALUES)):
            yield from _objects(where, block.text, block.info)
        elif block.language == "sh":
            for found in _HEREDOC.finditer(block.text):
                if API_VERSION in found["text"]:
                    yield from _objects(where, found["text"], "")


def values_of(page: Path) -> Iterator[Values]:
    """Chart values in a page's YAML blocks."""
    for block in _yaml(page):
        if block.info.startswith(VALUES):
            (found,) = documents(block.text)
            yield Values(f"{page.relative_to(ROOT)}:{block.line}", block.info.split()[1], found)


def unread(page: Path) -> Iterator[tuple[str, str]]:
    """YAML of others on a page, with where: it is parsed, no more. Raises yaml.YAMLError."""
    for block in _yaml(page):
        if block.info.startswith(OTHER):
            documents(block.text)
            yield f"{page.relative_to(ROOT)}:{block.line}", block.text


def example(file: Path) -> Iterator[Shown]:
    """The objects of an example."""
    yield from _objects(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"), "")


def _yaml(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"), "yaml")


def _objects(where: str, text: str, info: str) -> Iterator[Shown]:
    for number, found in enumerate(documents(text)):
        place = f"{where}#{number}" if number else where
        if not isinstance(found, Mapping):
            raise NotSaidError(f"{place}: {type(found).__name__} where an object belongs")
        if "apiVersion" in found:
            yield Shown(place, dict(found))
            continue
        if info not in {each.value for each in Kind}:
            raise NotSaidError(
                f"{place}: no apiVersion; say of what it is a fragment, such as ```yaml PulsarCluster, or "
                "```yaml values pulsar, or ```yaml other"
            )
        yield Shown(place, _whole(Kind(info), found), fragment=True)


def _whole(kind: Kind, fragment: Mapping[str, Any]) -> Json:
    """A fragment laid over the smallest object of its kind. Its ``names`` and ``count`` exclude each other."""
    meta = fragment.get("metadata") or {}
    spec = fragment.get("spec") or {}
    base = minimal(kind)
    if kind is Kind.TOPIC_SET and ("count" in spec or "pattern" in spec):
        base = {key: value for key, value in base.items() if key != "names"}
    found = manifest(kind, str(meta.get("name", "fragment")), merged(base, spec))
    found["metadata"] |= {key: value for key, value in meta.items() if key != "namespace"}
    return found
