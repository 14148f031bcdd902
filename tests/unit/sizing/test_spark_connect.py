"""The whole job as a client of a real Spark Connect server, in a process that has no Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark import traffic
from tests.support.processes.spark_connect import running_connect

ROOT = Path(__file__).parents[3]
SECONDS = 1800.0
"""Until a process must have ended; not what the test measures."""


def reported(master: str, root: Path, out: Path, *, path: str) -> dict[str, Any]:
    """The result of a report, without when it was made."""
    command = [sys.executable, "-m", "pulsar_sizing", "report", "--instance", "demo", "--cluster", "east"]
    command += ["--root", str(root), "--out", str(out), "--master", master, "--scratch", str(out.parent / "scratch")]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment | {"PATH": path, "PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    found.pop("generatedTime")
    return found | {"text": done.stdout}


def test_a_client_without_java_gets_what_a_session_of_its_own_gives(
    tmp_path: Path, quick: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = traffic.Recording(days=1, topics=24, namespaces=2, brokers=2, bundles=4, interval_seconds=1200)
    for name in ("served", "own"):
        traffic.write(recording, tmp_path / name, per_round=True, hours=recording.hours[:2])
    empty = tmp_path / "empty"
    empty.mkdir()
    with running_connect(tmp_path / "server", quick) as master:
        served = reported(master, tmp_path / "served", tmp_path / "of-server", path=str(empty))
    own = reported("local[2]", tmp_path / "own", tmp_path / "of-session", path=os.environ["PATH"])
    assert served == own and served["samples"] == 2 * 3 * 24
