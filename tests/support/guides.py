"""What the pages for developers name: files, modules, options, make targets and names of the code, each looked up.

A code span or a line of an ``sh`` block is read word by word. A file is found from the root of the repository, from
``operator/``, from ``operator/pulsar_operator/``, or in a folder that the same paragraph, list item or table row named
before. A name "of" or "in" a file, or in parentheses behind it, must be defined in that file; any other name must be
defined, or be a value, somewhere in the repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("pulsar_operator", "pulsar_sizing", "pulsar_conformance")
"""Packages below operator/ whose rooms the map describes."""
GROUP: Final = "pulsaroperator.io/"
"""Prefix of labels and annotations."""
OUTPUT: Final = ("build/", ".venv/", ".git/")
"""What runs leave behind: absent from a fresh checkout."""
ELSEWHERE: Final = frozenset({"kubectl", "docker", "git", "helm", "export", "bin/pulsar", "bin/bookkeeper"})
"""Commands whose words are not ours, but for files below a folder of the repository."""
IMAGES: Final = ("broker_image", "bookie_image", "proxy", "sizing_image", "conformance_image")
CODE: Final = ("operator", "tests/support", "tests/fakes", "e2e", "scripts", "benchmarks", "helm", "crds", *IMAGES)
"""Where names are defined. Not in the tests themselves, which may name what does not exist."""
SOURCES: Final = {".py", ".yaml", ".toml", ".sh", ".tpl", ""}
_SPAN = re.compile(r"`([^`]+)`")
_FILE = re.compile(r"[\w.<>*-]+(?:/[\w.<>*-]*)+|[\w<>*-]+\.(?:py|md|toml|yaml|sh|txt|csv|json|tpl)")
_NAME = re.compile(r"@?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\)|=.*)?")
_BESIDE = re.compile(r"((?:`[^`]+`(?:, | and | or )?)+) (?:of|in) `([^`]+\.py)`")
_BEHIND = re.compile(r"`([^`]+\.py)` \(((?:`[^`]+`(?:, | and | or )?)+)\)")
_DEFINED = re.compile(
    r"""(?:\bclass|\bdef)\s+(\w+)             # classes and functions
    |^[ \t#-]*["']?([\w.-]+)["']?[ \t]*(?::|\??=(?!=)) # variables, fields, keys of YAML and TOML, of Makefiles
    |["'/](\w+)["']                          # values
    |^(?:ARG|ENV)\s+(\w+)                   # of Dockerfiles
    |(?:\(|,\s)(\w+)=                        # arguments""",
    re.MULTILINE | re.VERBOSE,
)


@dataclass
class Repository:
    """A checkout, in which names are looked up."""

    root: Path
    code: Sequence[str] = CODE
    foreign: frozenset[str] = frozenset()
    """Names of Pulsar, BookKeeper and Kubernetes that the code never uses."""
    _members: dict[Path, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that is defined in the code, and every word that is a value in it."""
        found: set[str] = set()
        for path in self._sources():
            for match in _DEFINED.finditer(path.read_text(encoding="utf-8")):
                found.add(match[match.lastindex or 0])
        return frozenset(found)

    @cached_property
    def programs(self) -> str:
        """The text of all Python files, for options that no command stands beside, and annotations."""
        return "\n".join(path.read_text(encoding="utf-8") for path in self._sources() if path.suffix == ".py")

    @cached_property
    def folders(self) -> frozenset[str]:
        """Folders at the root."""
        return frozenset(each.name for each in self.root.iterdir() if each.is_dir())

    @cached_property
    def targets(self) -> frozenset[str]:
        """Targets of the Makefile."""
        return frozenset(re.findall(r"^([a-z][\w-]*):", (self.root / "Makefile").read_text(encoding="utf-8"), re.M))

    def rooms(self) -> set[str]:
        """Packages of the programs as the map names them, those of pulsar_operator without its name."""
        top = self.root / "operator"
        found = {each.parent.relative_to(top) for program in PROGRAMS for each in (top / program).rglob("__init__.py")}
        rooms = {f"{each.as_posix()}/".removeprefix("pulsar_operator/") for each in found}
        return rooms - {""}

    def file(self, word: str, context: Iterable[Path] = ()) -> Path | None:
        """The file or folder that a word names; None where there is none."""
        pattern = re.sub(r"<[^>]*>", "*", word.partition("::")[0].rstrip("/"))
        pattern = re.sub(r":\d+$", "", pattern)
        operator = self.root / "operator"
        for base in (self.root, operator, operator / "pulsar_operator", *context):
            found = next(iter(sorted(base.glob(pattern))), None) if "*" in pattern else base / pattern
            if found is not None and found.exists():
                return found
        return None

    def module(self, name: str) -> Path | None:
        """Folder or file of a module that ``python -m`` runs."""
        return self.file(name.replace(".", "/")) or self.file(f"{name.replace('.', '/')}.py")

    def defines(self, path: Path, name: str) -> bool:
        """Whether a module defines a name, or a class in it an attribute."""
        if path not in self._members:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            self._members[path] = frozenset(_definitions(tree))
        return all(part in self._members[path] for part in name.split("."))

    def _sources(self) -> Iterator[Path]:
        for place in (*self.code, "Makefile", "pyproject.toml", "versions.toml"):
            top = self.root / place
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.suffix in SOURCES and path.is_file():
                    yield path


def _definitions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def problems(page: str, repository: Repository) -> list[str]:
    """What a page names and the repository does not have, one line each."""
    found: list[str] = []
    for language, text in _blocks(page):
        if language is None:
            found += _of_prose(text, repository)
        elif language == "sh":
            for line in text.splitlines():
                found += _of_command(line.partition(" #")[0], repository, [])
        elif language == "mermaid":
            words = re.findall(r"[a-z][\w.-]*(?:/[\w.-]+)+/?", text)
            found += [f"file {word}" for word in words if repository.file(word) is None]
    return found


def _blocks(page: str) -> Iterator[tuple[str | None, str]]:
    """Fenced blocks with their language; else paragraphs, list items, table rows and headings, with None."""
    language: str | None = None
    lines: list[str] = []
    for line in [*page.splitlines(), ""]:
        fence = re.match(r" *```(\w*)", line)
        starts = not line.strip() or re.match(r" *(?:[*-]|\d+\.) |\||#", line) is not None
        if fence or (starts and language is None):
            if lines:
                yield language, ("\n" if language is not None else " ").join(lines)
            lines = []
        if fence:
            language = (fence[1] or "text") if language is None else None
        elif line.strip():
            lines.append(line if language is not None else line.strip())


def _of_prose(text: str, repository: Repository) -> Iterator[str]:
    context: list[Path] = []
    for span in _SPAN.findall(text):
        word = span.removesuffix(",")
        if " " in word:
            yield from _of_command(word, repository, context)
        elif word.startswith("--"):
            if f'"{word.partition("=")[0]}"' not in repository.programs:
                yield f"option {word}"
        elif word.startswith(GROUP):
            if f'/{word.removeprefix(GROUP)}"' not in repository.programs:
                yield f"annotation {word}"
        elif _is_file(word):
            found = repository.file(word, context)
            if found is None:
                yield f"file {word}"
            else:
                context.append(found if found.is_dir() else found.parent)
        elif (name := _NAME.fullmatch(word)) is not None:
            missing = [part for part in name[1].split(".") if part not in repository.names | repository.foreign]
            yield from (f"name {part}" for part in missing)
    beside = [(names, path) for names, path in _BESIDE.findall(text)]
    beside += [(names, path) for path, names in _BEHIND.findall(text)]
    for names, path in beside:
        found = repository.file(path, context)
        for span in _SPAN.findall(names) if found is not None else ():
            name = _NAME.fullmatch(span)
            if found is not None and name is not None and not repository.defines(found, name[1]):
                yield f"name {name[1]} in {path}"


def _is_file(word: str) -> bool:
    return _FILE.fullmatch(word.partition("::")[0]) is not None and not word.startswith(OUTPUT)


def _of_command(command: str, repository: Repository, context: Sequence[Path]) -> Iterator[str]:
    """Files, modules, make targets and options in a command."""
    words = command.split()
    ours: Path | None = None
    for before, raw in zip(["", *words], words, strict=False):
        word = raw.strip("'\",;()")
        if before == "make" and re.fullmatch(r"[a-z][a-z-]*", word):
            if word not in repository.targets:
                yield f"make target {word}"
        elif before == "-m" and re.fullmatch(r"[a-z_]\w*(?:\.\w+)*", word) and words[0] != "git":
            found = repository.module(word)
            if found is not None:
                ours = found
            elif word.partition(".")[0] in repository.folders | set(PROGRAMS):
                yield f"module {word}"
        elif _is_file(word) and word.split("/")[0] in repository.folders:
            found = repository.file(word, context)
            if found is None:
                yield f"file {word}"
            elif ours is None and found.suffix in (".py", ".sh"):
                ours = found
        elif word.startswith("--") and ours is not None and words[0] not in ELSEWHERE:
            option = word.partition("=")[0]
            texts = ours.rglob("*.py") if ours.is_dir() else [ours]
            if not any(option in each.read_text(encoding="utf-8") for each in texts):
                yield f"option {option} of {ours.relative_to(repository.root)}"
