"""The sample is the same in every run unless asked otherwise, and the table at the end counts what was tried."""

from __future__ import annotations

import pytest

from tests.support.faults_summary import SEED, Summary, header, rng


def numbers(what: str) -> list[int]:
    return [rng(what).randrange(10**9) for _ in range(2)]


def test_a_sample_is_the_same_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEED, raising=False)
    first, second = numbers("wire")
    assert first == second
    assert f"{SEED}=1" in header()
    assert numbers("kills")[0] != first
    monkeypatch.setenv(SEED, "2")
    assert numbers("wire")[0] != first
    assert f"{SEED}=2" in header()


def test_the_table_counts_places_and_differences() -> None:
    summary = Summary()
    tally = summary.begin("one", 2, 9)
    tally.add("first place", [])
    tally.add("second place", ["a differs", "b differs"], reached=False)
    summary.begin("another", 1).add("only place", [])
    rows = [line.split() for line in summary.table()]
    assert rows[1][:-1] == ["one", "2", "9", "1", "1"]
    assert rows[-1][:-1] == ["all", "3", "10", "1", "1"]
    with pytest.raises(AssertionError, match="second place: b differs"):
        tally.check()


def test_a_matrix_without_a_place_is_none() -> None:
    with pytest.raises(AssertionError, match="no place was tried"):
        Summary().begin("empty", 0).check()
