"""The sizing job with real Spark on a real server of S3, beside the same recording in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark import traffic
from pulsar_sizing.store import Store
from tests.support import sizing_on_s3
from tests.support.processes.s3 import S3Server, running_s3

ROOT = Path(__file__).parents[3]
SECONDS = 1800.0
"""Until the process must have ended; not what the test measures."""


def copied(folder: Path, server: S3Server) -> str:
    """Put a folder's files into a new bucket; the root there."""
    root = f"s3a://{server.new_bucket()}/traffic of demo"
    store = Store(root, s3=server.s3)
    for file in sorted(folder.rglob("*.parquet")):
        store.put(str(file.relative_to(folder)), file.read_bytes())
    return root


def ran(folder: Path, server: S3Server, root: str) -> dict[str, Any]:
    """What the process found."""
    facts = folder / "facts.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.sizing_on_s3", str(facts), str(folder), server.endpoint, root],
        cwd=ROOT,
        env=os.environ | server.variables | {"PYTHONPATH": os.pathsep.join((str(ROOT / "operator"), str(ROOT)))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(facts.read_text())
    return found


def result(file: bytes | None) -> dict[str, Any]:
    """A result without when it was made."""
    assert file is not None
    found: dict[str, Any] = json.loads(file)
    found.pop("generatedTime")
    return found


def test_a_bucket_gives_what_a_folder_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = traffic.Recording(
        cluster=sizing_on_s3.CLUSTER, days=1, topics=24, namespaces=2, brokers=2, bundles=4, interval_seconds=1200
    )
    traffic.write(recording, tmp_path / "recorded", per_round=True, hours=recording.hours[:2])
    with running_s3() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        root = copied(tmp_path / "recorded", server)
        found = ran(tmp_path, server, root)
        store = Store(root, s3=server.s3)
        served = result(store.latest_result_text("demo", sizing_on_s3.CLUSTER))
    assert found["codes"] == [0, 0, 0]
    of_folder, of_bucket = (result((tmp_path / f"of-{kind}/result.json").read_bytes()) for kind in ("folder", "bucket"))
    assert served == of_bucket == of_folder
    assert served["samples"] == 2 * 3 * 24
    assert found["events"] > 0, "Spark's own log of the run is where its history server looks"

    assert found["address"] == f"{root}/tables/cluster=east%3D1"
    count = sizing_on_s3.ROWS
    assert found["read"] == {"true": 10, "false": count - 10} and found["left"] == count - 10
    assert found["folders"] == ["unit=0", "unit=1", "unit=2"], "no folder of a writer's own is left"
    assert found["visible"] == ["_SUCC", "part-"] or found["visible"] == ["part-"]
    assert "412" in found["second_writer"], "a server that knows If-None-Match lets one of two writers through"
