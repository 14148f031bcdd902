"""An interrupted benchmark goes on where it was, and gives what an undisturbed one gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.balance.shedding import main, read_csv

ARGUMENTS = ["--seeds", "1", "--sigmas", "0", "--traces", "jitter,diurnal", "--minutes", "5", "--jobs", "1"]


def test_resume_keeps_whole_cases_and_works_the_rest(tmp_path: Path) -> None:
    """Cut in the middle of the second case: that one is worked again, the first is not."""
    main([*ARGUMENTS, "--out", str(tmp_path)])
    raw = tmp_path / "shedding.csv"
    whole = raw.read_text().splitlines(keepends=True)
    raw.write_text("".join(whole[:-2]))
    kept = read_csv(raw, 5, lambda _: len(whole) // 2)
    assert {run.trace for run in kept} == {"jitter"}
    main([*ARGUMENTS, "--out", str(tmp_path), "--resume"])
    assert raw.read_text() == "".join(whole)


def test_resume_refuses_another_length(tmp_path: Path) -> None:
    """Days of another length are not mixed."""
    main([*ARGUMENTS, "--out", str(tmp_path)])
    with pytest.raises(ValueError, match="not of 6 minutes"):
        read_csv(tmp_path / "shedding.csv", 6, lambda _: 1)
