"""scripts/check_words.py: words that are not written are found in texts, strings and names, with what to write."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import ROOT
from tests.support.scripts import script

checker = script("check_words")
CONTROLLER = "operator/pulsar_operator/controllers/core/traffic.py"
TYPES = "operator/pulsar_operator/api/v1alpha1/topic.py"
Findings = Callable[[Mapping[str, str]], Sequence[str]]


def words(
    *, exceptions: Sequence[Mapping[str, str]] = (), unconverted: Mapping[str, Sequence[str]] | None = None
) -> Any:
    """Three patterns, one of each kind."""
    patterns = {
        "text": [checker.Pattern(re.compile("without a word"), "without an error")],
        "sentence": [checker.Pattern(re.compile(r"\b[Nn]obody\b"), "no client")],
        "name": [checker.Pattern(re.compile(r"\bgive back\b"), "restore")],
    }
    return checker.Words(patterns, exceptions, unconverted or {})


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Files of a checkout, by path, beside places that are empty."""

    def written(files: Mapping[str, str]) -> Path:
        for name in (*checker.TEXTS, *checker.PROGRAMS):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("") if path.suffix else path.mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return written


@pytest.mark.parametrize(
    ("path", "content", "found"),
    [
        pytest.param("docs/page.md", "Fine.\nTaken without a word.\n", ["2: 'without a word'"], id="text"),
        pytest.param("docs/picture.svg", "without a word", [], id="other-suffix"),
        pytest.param("docs/page.md", "Nobody reads it.", [], id="sentence-of-a-page"),
        pytest.param(CONTROLLER, 'note = "nobody reads it"', ["1: 'nobody'"], id="string"),
        pytest.param(CONTROLLER, 'note = f"{count} of them, nobody reads it"', ["1: 'nobody'"], id="f-string"),
        pytest.param(CONTROLLER, 'KEY = "nobody"', [], id="one-word-is-a-value"),
        pytest.param(CONTROLLER, '"""Nobody reads it."""', ["1: 'Nobody'"], id="docstring"),
        pytest.param(TYPES, 'class A:\n    x: int\n    """Nobody reads it."""', ["3: 'Nobody'"], id="description"),
        pytest.param(CONTROLLER, "def give_back(): ...", ["1: 'give back'"], id="function"),
        pytest.param(CONTROLLER, "class GiveBack: ...", ["1: 'give back'"], id="class"),
        pytest.param(CONTROLLER, "def f(give_back): ...", ["1: 'give back'"], id="parameter"),
        pytest.param(CONTROLLER, "x.give_back = 1", ["1: 'give back'"], id="attribute"),
        pytest.param(CONTROLLER, "x.give_back()", [], id="use-of-another-module's-name"),
        pytest.param("operator/pulsar_operator/give_back.py", "", ["1: 'give back'"], id="module"),
    ],
)
def test_a_word_is_found_where_it_is(write: Any, path: str, content: str, found: list[str]) -> None:
    lines = checker.findings(write({path: content}), words())
    assert [line.removeprefix(f"{path}:").partition(": write")[0] for line in lines] == found


def test_a_finding_says_what_to_write(write: Any) -> None:
    assert checker.findings(write({CONTROLLER: "\ngive_back = 1"}), words()) == [
        f"{CONTROLLER}:2: 'give back': write 'restore'"
    ]


def test_an_exception_is_for_one_word_in_one_file(write: Any) -> None:
    root = write({CONTROLLER: "give_back = 1", TYPES: "give_back = 1"})
    one = {"path": CONTROLLER, "match": "give back", "reason": "Pulsar calls it so"}
    assert checker.findings(root, words(exceptions=[one])) == [f"{TYPES}:1: 'give back': write 'restore'"]


def test_exceptions_are_few_needed_and_explained(write: Any) -> None:
    root = write({CONTROLLER: "give_back = 1"})
    needless = {"path": TYPES, "match": "give back", "reason": "Pulsar calls it so"}
    unexplained = {"path": CONTROLLER, "match": "give back", "reason": ""}
    found = checker.findings(root, words(exceptions=[unexplained, *[needless] * 20]))
    assert "words.toml: 21 exceptions, at most 20 are allowed" in found
    assert f"words.toml: exception {unexplained} has no reason" in found
    assert f"words.toml: exception {needless} matches nothing: remove it" in found


def test_a_path_that_is_not_converted_is_left_until_it_is(write: Any) -> None:
    root = write({CONTROLLER: 'give_back = "Nobody reads it"'})
    place = "operator/pulsar_operator/controllers/"
    assert checker.findings(root, words(unconverted={"name": [place]})) == [
        f"{CONTROLLER}:1: 'Nobody': write 'no client'"
    ]
    assert checker.findings(root, words(unconverted={"name": [place], "sentence": [place]})) == []
    (root / CONTROLLER).write_text('give_back = "No client reads it"')
    assert checker.findings(root, words(unconverted={"name": [place], "sentence": [place]})) == [
        f"words.toml: unconverted.sentence {place} has no hit: remove it"
    ]


@pytest.mark.parametrize(
    ("identifier", "spaced"),
    [("give_back", "give back"), ("giveBack", "give back"), ("GIVE_BACK", "give back"), ("_GiveBack", "give back")],
)
def test_the_words_of_a_name(identifier: str, spaced: str) -> None:
    assert checker.spaced(identifier) == spaced


def test_the_committed_patterns_are_read() -> None:
    committed = checker.Words.read(ROOT / "scripts" / "words.toml")
    assert all(committed.patterns.values())
    assert set(committed.unconverted) == {"sentence", "name"}
    for sentence in ("absent = the default", "It is computed anew.", "Nobody reads it.", "3 failures in a row"):
        assert list(committed.search("sentence", "x.py", 1, sentence)), sentence
    for name in ("bookie_leaving", "rolled", "waitingFor", "namesakes"):
        assert list(committed.search("name", "x.py", 1, checker.spaced(name))), name


def test_docstrings_are_checked() -> None:
    tree = ast.parse('"""A file."""\nclass A:\n    x: int\n    """Size of it."""')
    assert sorted(checker.strings(tree)) == [(1, "A file."), (4, "Size of it.")]
