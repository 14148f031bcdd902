"""Docstrings and comments of the code name files and parameters that exist, and stand under what they describe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from tests.support.documents import ROOT
from tests.support.guides import IMAGES, PROGRAMS

STRING = re.compile(r'"""(?:[^"]|"(?!""))*"""')
COMMENT = re.compile(r"(?<!\S)# [^\n]*")
FILE = re.compile(r"(?<![\w./<-])(?:\w+/)*[a-z_0-9]+\.py\b")
QUOTED = re.compile(r"(?<!`)``([a-z_][a-z_0-9]*)``(?!`)")
SECOND = re.compile(r'\S"""\n *"""[^"\s]')
"""A docstring right behind another one."""
FOREIGN = frozenset({"__change_events", "extra", "restricted", "zk"})
"""Words in double backticks of Pulsar, of logging, of Kubernetes, and one that no Service is called."""
CODE = ROOT / "operator"
SOURCES = {
    path.relative_to(CODE).as_posix(): path.read_text(encoding="utf-8")
    for program in PROGRAMS
    for path in (CODE / program).rglob("*.py")
}
NAMES = frozenset(
    path.relative_to(ROOT).as_posix()
    for place in ("operator", "tests", "e2e", "scripts", "benchmarks", "helm", *IMAGES)
    for path in (ROOT / place).rglob("*.py")
)


def unknown_files(text: str) -> Iterator[str]:
    """Files named in docstrings and comments that the repository does not have, by their name or the end of a path."""
    for said in (*STRING.findall(text), *COMMENT.findall(text)):
        yield from (word for word in FILE.findall(said) if not any(f"/{each}".endswith(f"/{word}") for each in NAMES))


def unknown_words(text: str) -> Iterator[str]:
    """Words in double backticks that occur in docstrings alone: no parameter, no name, no value."""
    code = set(re.findall(r"\w+", STRING.sub("", text)))
    for said in STRING.findall(text):
        yield from (word for word in QUOTED.findall(said) if word not in code and word not in FOREIGN)


def found(check: str, text: str) -> list[str]:
    """What a check finds in a module."""
    match check:
        case "files":
            return list(unknown_files(text))
        case "words":
            return list(unknown_words(text))
        case _:
            return SECOND.findall(text)


@pytest.mark.parametrize(("check", "programs"), [("files", PROGRAMS), ("words", PROGRAMS[:1]), ("second", PROGRAMS)])
def test_docstrings_are_true(check: str, programs: Sequence[str]) -> None:
    texts = {path: text for path, text in SOURCES.items() if path.startswith(tuple(programs))}
    assert len(texts) > 300
    assert {path: wrong for path, text in texts.items() if (wrong := found(check, text))} == {}


@pytest.mark.parametrize(
    ("check", "text", "wrong"),
    [
        pytest.param("files", '"""Used by made_up.py."""', ["made_up.py"], id="file"),
        pytest.param("files", "# as made/engine.py does", ["made/engine.py"], id="folder"),
        pytest.param("files", '"""Used by engine.py and core/engine.py."""', [], id="there"),
        pytest.param("files", 'x = "made_up.py"', [], id="value"),
        pytest.param("words", 'def f(new):\n    """With ``old``."""', ["old"], id="parameter"),
        pytest.param("words", 'def f(new):\n    """With ``new``."""', [], id="parameter-there"),
        pytest.param("second", 'A = 1\nB = 2\n"""B."""\n"""A."""\n', ['."""\n"""A'], id="second"),
        pytest.param("second", 'A = 1\n"""A."""\nB = 2\n"""B."""\n', [], id="each-under-its-own"),
    ],
)
def test_what_is_not_true_is_found(check: str, text: str, wrong: list[str]) -> None:
    assert found(check, text) == wrong


def test_foreign_words_are_used() -> None:
    said = "".join(text for each in SOURCES.values() for text in STRING.findall(each))
    assert {word for word in FOREIGN if f"``{word}``" not in said} == set()
