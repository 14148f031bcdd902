"""Scratch folders go with their run; those of killed runs with the next one; those in use stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pulsar_sizing.job.scratch import LOCK, PREFIX, clean, scratch

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pulsar_sizing.job.scratch import scratch
with scratch(sys.argv[1]) as folder:
    (folder / "blockmgr").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_goes_with_its_run_and_those_of_killed_runs_with_the_next(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "operator")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        held = Path(child.stdout.readline().strip())
        with scratch(str(tmp_path)) as mine:
            assert held.is_dir(), "its owner lives"
            assert mine.is_dir()
        assert not mine.exists()
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert (held / "blockmgr").is_dir(), "nobody could clean up"
    with scratch(str(tmp_path)):
        assert not held.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_dead_runs_stays(tmp_path: Path) -> None:
    being_made = tmp_path / f"{PREFIX}new"
    foreign = tmp_path / "other"
    for folder in (being_made, foreign):
        folder.mkdir()
    (foreign / LOCK).touch()
    assert clean(tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {being_made.name, foreign.name}
