"""What BookKeeper's and Pulsar's own classes write: java/BookKeeperRecords.java, run by the distribution's jars."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes.launching import tail
from tests.support.processes.zookeeper import pulsar_home

SOURCE = Path(__file__).parent / "java" / "BookKeeperRecords.java"
SECONDS = 180.0


def _command(*arguments: str) -> list[str]:
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", f"{pulsar_home() / 'lib'}/*", str(SOURCE), *arguments]


def records() -> dict[str, bytes]:
    """Records by name."""
    done = subprocess.run(_command("records"), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.partition("\t") for line in done.stdout.splitlines()]
    return {name: base64.b64decode(text, validate=True) for name, _, text in lines}


@contextlib.contextmanager
def written_store(servers: str, log: Path) -> Iterator[None]:
    """A ZooKeeper with bookies, ledgers, marks and an auditor, as long as the context lasts."""
    with log.open("wb") as errors:
        process = subprocess.Popen(_command("store", servers), stdin=-1, stdout=-1, stderr=errors)
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line == b"ready\n", tail(log)
            yield
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
