"""scripts/sample_sentences.py: what a reader is shown, drawn anew by each seed and the same by the same one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from tests.support.scripts import script

sampler = script("sample_sentences")


def drawn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seed: int) -> str:
    """What the program prints of twenty texts of each sort."""
    texts = {f"Text {number}.": f"place/{number}" for number in range(20)}
    monkeypatch.setattr(sampler, "collected", lambda: {"Messages": texts, "Docstrings": texts})
    monkeypatch.setattr("sys.argv", ["sample_sentences.py", "--seed", str(seed), "--size", "3"])
    sampler.main()
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        pytest.param('raise E("no such file")', ["no such file"], id="string"),
        pytest.param('E(f"no {kind.value} of {n:.0f} MB")', ["no {kind.value} of {n} MB"], id="placeholders"),
        pytest.param('E("one " f"{two}" " three")', ["one {two} three"], id="joined-by-the-compiler"),
        pytest.param('def f():\n    """About f."""\n    return "a value"', ["a value"], id="no-docstring"),
        pytest.param('x = 1\n"""About x."""', [], id="no-description-of-a-variable"),
        pytest.param('log.info("looks at %s", x)', [], id="no-log-line"),
    ],
)
def test_messages_are_strings_that_users_see(code: str, texts: list[str]) -> None:
    assert [text for text, _ in sampler.strings(ast.parse(code))] == texts


def test_fields_are_named_by_their_path() -> None:
    child = {"description": "Name of it.", "type": "string"}
    schema = {"properties": {"spec": {"properties": {"env": {"items": {"properties": {"name": child}}}}}}}
    assert list(sampler.fields(schema, "Kind")) == [("Name of it.", "Kind.spec.env[].name")]


def test_a_seed_draws_the_same_sentences_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = drawn(monkeypatch, capsys, 1)
    numbered = re.findall(r"^(\d+)\. \(place/(\d+)\) Text (\d+)\.$", first, re.MULTILINE)
    assert [int(number) for number, _, _ in numbered] == [1, 2, 3, 4, 5, 6]
    assert all(place == text for _, place, text in numbered)
    assert drawn(monkeypatch, capsys, 1) == first
    assert drawn(monkeypatch, capsys, 2) != first


def test_texts_of_each_sort_are_collected_with_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "operator" / "pulsar_operator"
    for folder in (package, tmp_path / "crds"):
        folder.mkdir(parents=True)
    (package / "one.py").write_text('"""All of it."""\n\nX = "a value"\nY = "The pod was not replaced yet"\n')
    schema = {"properties": {"spec": {"description": "The desired state.", "properties": {}}}}
    spec = {"names": {"kind": "Kind"}, "versions": [{"schema": {"openAPIV3Schema": schema}}]}
    (tmp_path / "crds" / "one.yaml").write_text(yaml.safe_dump({"spec": spec}))
    monkeypatch.setattr(sampler, "ROOT", tmp_path)
    assert sampler.collected() == {
        "Descriptions": {"The desired state.": "Kind.spec"},
        "Messages": {"The pod was not replaced yet": "operator/pulsar_operator/one.py:4"},
        "Docstrings": {"All of it.": "operator/pulsar_operator/one.py:1"},
    }
