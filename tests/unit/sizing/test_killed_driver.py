"""The sizing job as a real process, killed with its Java: what is served stays whole, the next run ends the work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.spark import traffic
from pulsar_sizing.store import Store

ROOT = Path(__file__).resolve().parents[3]
RECORDING = traffic.Recording(days=1, topics=24, namespaces=2, brokers=2, bundles=4, interval_seconds=1200)
SECONDS = 300.0
"""Until a process must have come to a point; not what the test measures."""
TRIES = 5
"""Of a kill in a short moment."""
STATE = "state/v2/instance=demo/cluster=east"


def options(root: Path, quick: dict[str, str]) -> list[str]:
    where = ["size", "--root", str(root), "--instance", "demo", "--cluster", "east", "--master", "local[2]"]
    conf = [word for key, value in quick.items() for word in ("--conf", f"{key}={value}")]
    return [*where, "--scratch", str(root.parent / "scratch"), "--driver-memory", "1g", *conf]


def served(root: Path) -> dict[str, Any]:
    """What the service would answer, without when it was made; raises when it cannot be read whole."""
    found = Store(str(root)).latest_result("demo", "east")
    assert found is not None
    return found.model_dump(exclude={"generated_time"})


def killed_when(root: Path, given: list[str], pattern: str, log: Path) -> None:
    """Start the job in a group of its own and kill the group as soon as a new file of the state matches."""
    folder = root / STATE
    known = set(folder.glob(pattern))
    with log.open("wb") as out:
        command = [sys.executable, "-m", "pulsar_sizing", *given]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "operator")}
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        until = time.monotonic() + SECONDS
        while set(folder.glob(pattern)) <= known:
            assert child.poll() is None, f"ended before {pattern} was there: {log.read_text()}"
            assert time.monotonic() < until, f"{pattern} is not there after {SECONDS:.0f} s: {log.read_text()}"
            time.sleep(0.005)
    finally:
        # Java is in the same group.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
    assert code == -signal.SIGKILL, log.read_text()


def test_a_killed_driver_leaves_the_old_result_and_the_next_run_ends_the_work(
    spark: Any, quick: dict[str, str], tmp_path: Path
) -> None:
    """Runs that nobody disturbs are in this process, which has a session of Spark: ``main`` uses it."""
    from pulsar_sizing.job.cli import main

    root, other = tmp_path / "killed", tmp_path / "undisturbed"
    given = options(root, quick)
    traffic.write(RECORDING, root, per_round=True, hours=RECORDING.hours[:1])
    assert main(given) == 0
    before = served(root)
    traffic.write(RECORDING, root, per_round=True, hours=RECORDING.hours[1:2])
    shutil.copytree(root, other)
    assert main(options(other, quick)) == 0
    wanted = served(other)
    assert wanted["samples"] > before["samples"]

    killed_when(root, given, "segments/*/summary/unit=*/*.parquet", tmp_path / "first.log")
    assert served(root) == before, "killed while it wrote: the state of before counts"
    assert [path.name for path in (root / STATE).glob("manifest-*.json")] == ["manifest-000000000001.json"]

    # From the manifest to the result is a fraction of a second: where the kill came too late nothing was tried.
    kept = tmp_path / "kept"
    shutil.copytree(root, kept)
    for attempt in range(TRIES):
        killed_when(root, given, "manifest-*.json", tmp_path / f"second-{attempt}.log")
        found = served(root)
        if found == before:
            break
        assert found == wanted, "neither the result of before nor the one that was published"
        shutil.rmtree(root)
        shutil.copytree(kept, root)
    assert served(root) == before, "killed before it published: the result of before is served"

    assert main(given) == 0
    assert served(root) == wanted
