"""Which mutants are tried, and what is said of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.mutants import report
from tests.mutants.operators import Mutation
from tests.mutants.sample import equivalent, keys, population, sample
from tests.mutants.targets import CONTROLLERS, FOLDERS, NOT_ASKED, PACKAGE, asked_files, modules
from tests.mutants.trial import Result, Verdict

ROOT = Path(__file__).resolve().parents[3]
SOURCES = {
    "a.py": "def f(a, b):\n    return a < b and b < 9\n",
    "b.py": "LIMIT = 3\n\n\ndef g(a):\n    return [x for x in a if x]\n",
}


def test_a_sample_repeats_for_a_seed_and_a_smaller_one_is_its_beginning() -> None:
    chosen, of = sample(SOURCES, 6, 1)
    assert sample(dict(reversed(SOURCES.items())), 6, 1) == (chosen, of)
    assert sample(SOURCES, 3, 1)[0] == chosen[:3]
    assert sample(SOURCES, 6, 2)[0] != chosen
    assert of == len(population(SOURCES)) and len(set(chosen)) == 6
    assert sorted(sample(SOURCES, 1000, 1)[0]) == population(SOURCES)


def test_a_name_stays_when_lines_move() -> None:
    source = "x = 1 if a else 1\n"
    names = keys(mutants := population({"m": source}), source)
    moved = f"import b\n\n{source}"
    assert list(keys(population({"m": moved}), moved).values()) == [names[each] for each in mutants]
    assert len(set(names.values())) == len(mutants) == 3
    assert [name for name in names.values() if name.endswith("#2")] == ["x = 1 if a else 1 | 1 -> 2 #2"]


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ('change = "LIMIT = 3 | 3 -> 4"\nreason = "nobody counts"', None),
        ('change = "LIMIT = 3 | 3 -> 4"', "no reason"),
        ('change = "LIMIT = 2 | 2 -> 3"\nreason = "nobody counts"', "no mutant 'LIMIT = 2 | 2 -> 3' any more"),
    ],
)
def test_the_list_of_equivalent_mutants_is_held_to_the_code(tmp_path: Path, entry: str, wrong: str | None) -> None:
    path = tmp_path / "equivalent.toml"
    path.write_text(f'[[mutant]]\nmodule = "b.py"\n{entry}\n')
    if wrong:
        with pytest.raises(ValueError, match=wrong.replace("|", r"\|")):
            equivalent(SOURCES, path)
    else:
        assert [(each.module, each.line, each.text) for each in equivalent(SOURCES, path)] == [("b.py", 1, "4")]


def test_the_list_that_is_committed_is_current() -> None:
    names = modules(ROOT)
    assert equivalent({name: (ROOT / name).read_text(encoding="utf-8") for name in names}) is not None


def test_what_is_named_is_there() -> None:
    """A module that was moved would otherwise leave the sample unseen."""
    for folder in (*FOLDERS, *NOT_ASKED):
        assert (ROOT / folder).is_dir(), folder
    for name in CONTROLLERS:
        assert (ROOT / PACKAGE / "controllers" / f"{name}.py").is_file(), name
    assert f"{PACKAGE}/balance/execution/drain.py" in modules(ROOT)
    assert "tests/unit/cluster/test_cluster_drain.py" in asked_files(ROOT)
    assert not any(name.startswith("tests/unit/sizing") for name in asked_files(ROOT))


def results() -> tuple[list[Result], dict[Mutation, str]]:
    found = population(SOURCES)
    verdicts = [Verdict.KILLED, Verdict.TIMED_OUT, Verdict.SURVIVED, Verdict.NOT_COVERED, Verdict.EQUIVALENT]
    verdicts += [Verdict.NOT_TRIED] * (len(found) - len(verdicts))
    names: dict[Mutation, str] = {}
    for module, source in SOURCES.items():
        names |= keys([each for each in found if each.module == module], source)
    return [Result(each, verdict) for each, verdict in zip(found, verdicts, strict=True)], names


def test_the_score_counts_what_hung_as_noticed_and_what_nobody_executes_as_missed() -> None:
    found, _ = results()
    score = report.score(found)
    assert (score.killed, score.of, score.percent) == (2, 4, 50.0)
    low, high = score.interval()
    assert low < 20 and high > 80, "four say little"
    closing = report.closing(found, seed=7, population=99, seconds=120)
    assert closing[0].startswith("seed 7:") and "1 of them equivalent" in closing[0] and "of 99 mutants" in closing[0]
    assert closing[1].startswith("score 50.0 % (2 of 4)")


def test_survivors_are_shown_with_their_changes() -> None:
    found, names = results()
    text = "\n".join(report.survivors(found, SOURCES, names))
    missed = [each for each in found if each.verdict in (Verdict.SURVIVED, Verdict.NOT_COVERED)]
    for each in missed:
        assert f"{each.mutation.module}:{each.mutation.line}: {each.mutation.what}, {each.verdict}" in text
        assert json.dumps(names[each.mutation]) in text
    assert text.count("    +") == text.count("    -") == len(missed) == 2


def test_the_table_and_the_files_have_every_mutant(tmp_path: Path) -> None:
    found, names = results()
    rows = [line.split() for line in report.table(found)]
    assert rows[0][:2] == ["module", "mutants"] and [row[0] for row in rows[1:]] == ["a.py", "b.py", "all"]
    assert rows[-1][1:] == [str(len(found)), "1", "1", "1", "1", "1", str(len(found) - 5)]
    report.write(tmp_path / "build", {"seed": 7}, report.rows(found, names))
    kept = json.loads((tmp_path / "build" / "mutants.json").read_text())
    assert kept["seed"] == 7 and [each["verdict"] for each in kept["mutants"]] == [r.verdict.value for r in found]
    with (tmp_path / "build" / "mutants.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == len(found)
