"""The sample is the same in every run unless asked otherwise, and the table at the end counts what was tried."""

from __future__ import annotations

import pytest

from tests.support.faults.summary import SEED, Missable, Summary, header, rng


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


def test_a_place_that_was_not_tried_fails_the_matrix() -> None:
    tally = Summary().begin("cut short", 3)
    tally.add("one", [])
    with pytest.raises(AssertionError, match="cut short: 2 of 3 places were not tried"):
        tally.check()


def test_a_place_where_nothing_happened_fails_the_matrix() -> None:
    tally = Summary().begin("one", 2)
    tally.add("first", [])
    tally.add("second", [], reached=False)
    with pytest.raises(AssertionError, match=r"nothing happened at\n\W*second"):
        tally.check()


HALF = Missable(0.5, "two events may be one pass")


@pytest.mark.parametrize(
    ("missed", "words"), [(0, ""), (2, ""), (3, r"3 places were missed, 2\.0 may be \(two events may be one pass\)")]
)
def test_uncertain_places_are_missed_up_to_the_bound(missed: int, words: str) -> None:
    """Of those that are not certain: others do not raise it."""
    tally = Summary().begin("some", 10, missable=HALF)
    for number in range(10):
        uncertain = number < 4
        tally.add(f"place {number}", [], reached=number >= missed or not uncertain, certain=not uncertain)
    if not words:
        tally.check()
        return
    with pytest.raises(AssertionError, match=words):
        tally.check()


def test_without_a_bound_no_place_is_missed() -> None:
    tally = Summary().begin("some", 2)
    tally.add("first", [])
    tally.add("second", [], reached=False, certain=False)
    with pytest.raises(AssertionError, match=r"1 places were missed, 0\.0 may be"):
        tally.check()


def test_a_kind_is_never_missed_altogether() -> None:
    tally = Summary().begin("some", 6, missable=HALF)
    for number, kind in enumerate(("dropped", "dropped", "dropped", "dropped", "stall", "stall")):
        tally.add(f"place {number}", [], reached=kind != "stall", certain=False, kind=kind)
    with pytest.raises(AssertionError, match="some: never happened: stall"):
        tally.check()
