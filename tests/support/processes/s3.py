"""A real server of S3 on loopback: versitygw on a throw-away folder. Objects are files of that folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.kind.paths import paths
from e2e.support.eventually import LOCAL, eventually
from pulsar_sizing.arrow import fs
from pulsar_sizing.place import DEFAULT_REGION, S3
from tests.support.processes.launching import assert_runs, free_ports, launch, stop

ACCESS_KEY, SECRET_KEY = "reader-and-writer", "no-secret-of-anybody"
START_SECONDS = 30.0


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    port: int

    @property
    def endpoint(self) -> str:
        """http://host:port."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def s3(self) -> S3:
        """How it is reached."""
        return S3(self.endpoint)

    @property
    def variables(self) -> dict[str, str]:
        """Credentials, as every SDK of AWS reads them; none of the machine's own are asked for."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def new_bucket(self) -> str:
        """Make a bucket of a new name."""
        name = f"b-{uuid.uuid4().hex[:12]}"
        system = fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region=DEFAULT_REGION,
            allow_bucket_creation=True,
        )
        system.create_dir(name)
        return name


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """A server; ended by its own process id, its folder removed with it. Raises FileNotFoundError without tools."""
    program = paths().s3_server
    if not program.is_file():
        raise FileNotFoundError(f"{program} is not there: run `python -m e2e.kind tools` first")
    folder = Path(tempfile.mkdtemp(prefix="s3-test-"))
    (port,) = free_ports(1)
    try:
        (folder / "buckets").mkdir()
        log = folder / "versitygw.log"
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        command = [
            str(program),
            "--port",
            f"127.0.0.1:{port}",
            "--region",
            DEFAULT_REGION,
            "posix",
            str(folder / "buckets"),
        ]
        process = launch(log, command, keys, folder=folder)
        try:
            eventually(lambda: _listens(process, log, port), within=START_SECONDS, what="S3 answers", every=LOCAL)
            yield S3Server(port)
        finally:
            stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listens(process: subprocess.Popen[bytes], log: Path, port: int) -> bool:
    assert_runs(process, log)
    with socket.create_connection(("127.0.0.1", port), 2):
        return True
