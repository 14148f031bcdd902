"""Words and phrases that the project does not use: ``python scripts/check_words.py [--count]``, run by scripts/lint.sh.

words.toml has the patterns with what to write instead, the exceptions, and the paths that are not converted yet.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ("operator", "docs", "helm", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Where [[text]] is searched."""
SUFFIXES = {".py", ".md", ".yaml", ".tpl", ".txt"}
PROGRAMS = ("operator", "helm", "scripts")
"""Where [[sentence]] and [[name]] are searched."""
MAX_EXCEPTIONS = 20


@dataclass(frozen=True)
class Pattern:
    """What is not written, and what is written instead."""

    regex: re.Pattern[str]
    write: str


@dataclass(frozen=True)
class Hit:
    """One use of a pattern."""

    kind: str
    path: str
    line: int
    match: str
    write: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.match!r}: write {self.write!r}"


@dataclass(frozen=True)
class Words:
    """The content of words.toml."""

    patterns: dict[str, list[Pattern]]
    exceptions: list[dict[str, str]]
    unconverted: dict[str, list[str]]

    @classmethod
    def read(cls, path: Path) -> Words:
        """From a file. Raises KeyError and re.error for one that is incomplete."""
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        patterns = {
            kind: [Pattern(re.compile(each["pattern"]), each["write"]) for each in data.get(kind, [])]
            for kind in ("text", "sentence", "name")
        }
        return cls(patterns, data["exception"], data["unconverted"])

    def search(self, kind: str, path: str, line: int, text: str) -> Iterator[Hit]:
        """Hits of one kind of pattern in one text."""
        for pattern in self.patterns[kind]:
            if match := pattern.regex.search(text):
                yield Hit(kind, path, line, match[0], pattern.write)


def hits(root: Path, words: Words) -> Iterator[Hit]:
    """Every use of every pattern, exceptions and unconverted paths included."""
    for path in _files(root, TEXTS, SUFFIXES):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield from words.search("text", str(path.relative_to(root)), number, line)
    for path in _files(root, PROGRAMS, {".py"}):
        name, tree = str(path.relative_to(root)), ast.parse(path.read_text(encoding="utf-8"))
        for number, text in strings(tree):
            yield from words.search("sentence", name, number, text)
        for number, identifier in [(1, path.stem), *names(tree)]:
            yield from words.search("name", name, number, spaced(identifier))


def findings(root: Path, words: Words) -> list[str]:
    """What is to be changed: uses of a pattern, and entries of words.toml without any use. One line each."""
    out, excepted, unconverted = [], Counter[int](), Counter[tuple[str, str]]()
    for hit in hits(root, words):
        place = next((each for each in words.unconverted.get(hit.kind, []) if _within(hit.path, each)), None)
        number = next((i for i, each in enumerate(words.exceptions) if _excepts(each, hit)), None)
        if place is not None:
            unconverted[hit.kind, place] += 1
        elif number is not None:
            excepted[number] += 1
        else:
            out.append(str(hit))
    if len(words.exceptions) > MAX_EXCEPTIONS:
        out.append(f"words.toml: {len(words.exceptions)} exceptions, at most {MAX_EXCEPTIONS} are allowed")
    for i, each in enumerate(words.exceptions):
        if not each.get("reason"):
            out.append(f"words.toml: exception {each} has no reason")
        if not excepted[i]:
            out.append(f"words.toml: exception {each} matches nothing: remove it")
    for kind, places in words.unconverted.items():
        out += [
            f"words.toml: unconverted.{kind} {place} has no hit: remove it"
            for place in places
            if not unconverted[kind, place]
        ]
    return out


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields literals of more than one word, docstrings included, with their lines.

    The constant parts of an f-string count one by one.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 1:
            yield node.lineno, " ".join(node.value.split())


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that a module defines, with their lines: classes, functions, parameters, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def spaced(identifier: str) -> str:
    """The words of a name: "give back" of ``give_back``, ``giveBack`` and ``GIVE_BACK``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", identifier).strip().lower()


def _files(root: Path, places: Iterable[str], suffixes: set[str]) -> Iterator[Path]:
    for place in places:
        top = root / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix in suffixes and path.is_file():
                yield path


def _within(path: str, place: str) -> bool:
    return path.startswith(place) if place.endswith("/") else path == place


def _excepts(exception: dict[str, str], hit: Hit) -> bool:
    return exception["path"] == hit.path and exception["match"] == hit.match


def main(argv: list[str] | None = None) -> int:
    """1 and a line each where a word is used that is not to be; with --count the hits of each folder, and 0."""
    parser = argparse.ArgumentParser(description="Words and phrases that the project does not use.")
    parser.add_argument("--count", action="store_true", help="print the number of hits by kind and folder")
    arguments = parser.parse_args(argv)
    words = Words.read(Path(__file__).with_name("words.toml"))
    if arguments.count:
        counted = Counter((hit.kind, str(Path(hit.path).parent)) for hit in hits(ROOT, words))
        print("\n".join(f"{number:5d} {kind:8s} {folder}" for (kind, folder), number in sorted(counted.items())))
        return 0
    found = findings(ROOT, words)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
