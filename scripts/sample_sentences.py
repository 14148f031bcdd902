"""Sentences for a reader who judges the language: ``python scripts/sample_sentences.py --seed 1 [--size 20]``.

Draws descriptions of fields from crds/, messages (conditions, events, errors) and docstrings of pulsar_operator, and
prints one numbered list with the place of each. The same seed draws the same sentences from the same code.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
EXPRESSION = re.compile(r"\bself\b|\$\{|^[\^(]")  # a CEL rule or a regular expression
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def fields(schema: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Description and place of each field below a schema."""
    for name, child in (schema.get("properties") or {}).items():
        if "description" in child:
            yield child["description"], f"{place}.{name}"
        yield from fields(child, f"{place}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{place}[]")


def strings(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Strings with their lines that are neither docstrings nor log lines; placeholders stand in braces."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if docstring or (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log.")):
        return
    if isinstance(node, ast.JoinedStr):
        parts = [getattr(part, "value", "") for part in node.values]
        yield "".join(part if isinstance(part, str) else f"{{{ast.unparse(part)}}}" for part in parts), node.lineno
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, node.lineno
    else:
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


def collected() -> dict[str, dict[str, str]]:
    """The places of all texts, by the sort of text."""
    found: dict[str, dict[str, str]] = {"Descriptions": {}, "Messages": {}, "Docstrings": {}}
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        for version in spec["versions"]:
            found["Descriptions"] |= fields(version["schema"]["openAPIV3Schema"], spec["names"]["kind"])
    for path in sorted((ROOT / "operator" / "pulsar_operator").rglob("*.py")):
        tree, name = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT)
        texts = ((t, line) for t, line in strings(tree) if len(t.split()) > 4 and not EXPRESSION.search(t))
        found["Messages"] |= {text: f"{name}:{line}" for text, line in texts}
        docstrings = ((ast.get_docstring(node), node) for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
        found["Docstrings"] |= {text: f"{name}:{getattr(node, 'lineno', 1)}" for text, node in docstrings if text}
    return found


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description="Sentences for a reader who judges the language.")
    parser.add_argument("--seed", type=int, required=True, help="another number draws other sentences")
    parser.add_argument("--size", type=int, default=20, help="sentences of each sort (20)")
    asked = parser.parse_args()
    chance, number = random.Random(asked.seed), count(1)
    for title, places in collected().items():
        print(f"\n## {title}\n")
        for text in chance.sample(sorted(places), min(asked.size, len(places))):
            print(f"{next(number)}. ({places[text]}) {' '.join(text.split())}")


if __name__ == "__main__":
    main()
