"""Matrices of cases: every run of the tests takes a sample, a make target of its own takes the others.

The sample is the same in every run, by the seed that pytest's heading shows; with another seed it is another part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

from tests.support.faults.summary import seed

T = TypeVar("T")
WHOLE = (pytest.mark.slow, pytest.mark.faults)
"""Marks of what `make faults` alone runs."""


def first(every: int) -> int:
    """Index of the first case of a sample that takes each ``every``-th."""
    return seed() % every


def spread(
    cases: Iterable[T],
    every: int | Callable[[T], int],
    *,
    ids: Callable[[T], str],
    marks: Iterable[pytest.MarkDecorator] = (pytest.mark.slow,),
) -> list[ParameterSet]:
    """All cases as parameters; those that are not in the sample carry ``marks``. Who asks for different numbers in
    ``every`` has as many samples, each counted for itself. Raises AssertionError for a sample of none."""
    found: list[ParameterSet] = []
    counted: dict[int, int] = {}
    for case in cases:
        step = every(case) if callable(every) else every
        number = counted.get(step, 0)
        counted[step] = number + 1
        taken = number % step == first(step)
        found.append(pytest.param(case, id=ids(case), marks=() if taken else tuple(marks)))
    assert all(number > first(step) for step, number in counted.items()), f"no case at {first(max(counted))}, the first"
    return found


def sample_or_each(sample: int) -> list[ParameterSet]:
    """How many places to go on by: each ``sample``-th in every run, and every one for `make faults`."""
    return [pytest.param(1, marks=WHOLE, id="each"), pytest.param(sample, id="sample")]
