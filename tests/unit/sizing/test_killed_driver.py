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

import duckdb

from benchmarks.spark import traffic
from pulsar_sizing.store import Store

ROOT = Path(__file__).resolve().parents[3]
RECORDING = traffic.Recording(days=1, topics=24, namespaces=2, brokers=2, bundles=4, interval_seconds=1200)
SECONDS = 300.0
"""Until a process must have come to a point; not what the test measures."""
TABLES = "tables/v1/instance=demo/cluster=east"


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
    """Start the job in a group of its own and kill the group as soon as a new file of the tables matches."""
    folder = root / TABLES
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

    published = sorted(path.name for path in (root / TABLES).glob("snapshot-*.json"))
    killed_when(root, given, "hourly/batch=*/rejected=false/unit=*/*.parquet", tmp_path / "first.log")
    assert served(root) == before
    found = sorted(path.name for path in (root / TABLES).glob("snapshot-*.json"))
    assert found == published, "killed while it wrote: the tables of before count"

    killed_when(root, given, "snapshot-*.json", tmp_path / "second.log")
    assert served(root) == before, "killed before it answered: the result of before is served"

    assert main(given) == 0
    assert served(root) == wanted


def test_a_job_killed_after_each_batch_repeats_none_that_was_published(
    spark: Any, quick: dict[str, str], tmp_path: Path
) -> None:
    """Each run is killed as soon as it published one more batch; the last one ends the work."""
    from pulsar_sizing.job.cli import main
    from pulsar_sizing.job.request import Request
    from pulsar_sizing.job.snapshot import HOURLY, Tables

    root, other = tmp_path / "killed", tmp_path / "undisturbed"
    given = [*options(root, quick), "--batch-hours", "1"]
    traffic.write(RECORDING, root, per_round=True, hours=RECORDING.hours[:3])
    shutil.copytree(root, other)
    assert main(options(other, quick)) == 0
    wanted = served(other)
    tables = Tables(Store(str(root)), "demo", "east")
    parameters = Request("demo", "east").parameters
    for kill in range(2):
        killed_when(root, given, "snapshot-*.json", tmp_path / f"{kill}.log")
        hours = tables.load(parameters).hours
        assert len(hours) > kill, "what was published stays"
    done = tables.load(parameters).hours
    assert main(given) == 0
    assert served(root) == wanted
    last = tables.load(parameters).hours
    assert {unit: last[unit] for unit in done} == done, "no batch that was published is repeated"
    batches = {
        path.parent.parent.name for path in (root / tables.folder / HOURLY).glob("batch=*/rejected=false/unit=*")
    }
    assert len(batches) <= len(last) + 2, "each kill left at most one batch to repeat"
    count = duckdb.sql(
        f"select sum(samples)::bigint from read_parquet("
        f"{[f'{root}/{folder}/*.parquet' for folder in tables.hours(tables.load(parameters), HOURLY, last)]})"
    ).fetchone()
    assert count == (sum(hour.samples for hour in last.values()),)
