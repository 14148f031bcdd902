"""A sample is the same in every run, another one by another seed, and with the others there is nothing left out."""

from __future__ import annotations

import pytest

from tests.support.faults.summary import SEED
from tests.support.sampling import WHOLE, first, sample_or_each, spread


def taken(every: int = 3) -> list[int]:
    """The sample of ten."""
    return [each.values[0] for each in spread(range(10), every, ids=str) if not each.marks]  # type: ignore[misc]


def test_each_seed_takes_another_part_and_all_together_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED, "1")
    assert taken() == taken() == [1, 4, 7]
    parts = []
    for seed in range(3):
        monkeypatch.setenv(SEED, str(seed))
        parts += taken()
    assert sorted(parts) == list(range(10))


def test_what_is_not_in_the_sample_is_there_with_its_marks() -> None:
    cases = spread(range(10), lambda n: 2 if n < 4 else 3, ids=lambda n: f"n{n}", marks=WHOLE)
    assert [case.id for case in cases] == [f"n{n}" for n in range(10)]
    assert all(case.marks == WHOLE for case in cases if case.marks)
    assert len([case for case in cases if not case.marks]) == 4, "two of four, and two of six"
    with pytest.raises(AssertionError, match="first"):
        spread(range(1), 3, ids=str)


def test_places_by_the_way() -> None:
    each, sample = sample_or_each(4)
    assert (each.values, sample.values) == ((1,), (4,)) and tuple(each.marks) == WHOLE and not sample.marks
    assert 0 <= first(4) < 4 and first(1) == 0
