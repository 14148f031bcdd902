"""The start program of a bookie beside a real ZooKeeper: it waits for the session of an earlier process, and deletes
nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.ensemble import LoopbackEnsemble
from tests.support.processes.zookeeper import RealZooKeeper

START = Path(__file__).parents[3] / "broker_image" / "pulsar_start"
HOST = "b-0.b.ns.svc.cluster.local"
WAITS, RUNS = "waiting for the registration of an earlier process", "java runs"
STEP_SECONDS = 60.0


@pytest.fixture(scope="module")
def process() -> Iterator[RealZooKeeper]:
    with RealZooKeeper(traced=True) as running:
        yield running


@pytest.fixture
def zookeeper(process: RealZooKeeper) -> RealZooKeeper:
    process.cleared()
    return process


class Bookie:
    """The start program with a java that says that it started; a context manager."""

    def __init__(self, folder: Path, servers: str, chroot: str = "") -> None:
        for name in ("conf", "jdk/bin", "config"):
            (folder / name).mkdir(parents=True)
        (folder / "conf/bookkeeper.conf").write_text("zkTimeout=30000\n")
        uri = f"metadata-store:zk:{servers.replace(',', ';')}{chroot}"
        (folder / "config/overrides.conf").write_text(f"metadataServiceUri={uri}\nadvertisedAddress={HOST}\n")
        java = folder / "jdk/bin/java"
        java.write_text(f"#!/bin/sh\necho {RUNS}\n")
        java.chmod(0o755)
        self._log = folder / "log"
        environ = {"PULSAR_HOME": str(folder), "PULSAR_OPERATOR_CONFIG": str(folder / "config")}
        environ |= {"JAVA_HOME": str(folder / "jdk"), "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(START), "bookie"], env=environ, stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Bookie:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text()

    def says(self, words: str) -> None:
        """Wait until it does."""

        def told() -> bool:
            assert words in self.said, self.said
            return True

        eventually(told, within=STEP_SECONDS, what=f"it says {words}", every=LOCAL)

    def ends(self) -> None:
        """Wait until Java took over, and ended."""
        assert self._process.wait(STEP_SECONDS) == 0, self.said
        assert self.said.endswith(f"{RUNS}\n")


def client(servers: str) -> KazooClient:
    found = KazooClient(hosts=servers, timeout=10)
    found.start(timeout=30)
    return found


def ended(of: KazooClient) -> None:
    of.stop()
    of.close()


@pytest.mark.parametrize("chroot", ["", "/p"])
@pytest.mark.parametrize("folder", ["available", "available/readonly"])
def test_it_goes_on_when_the_earlier_session_is_over(
    zookeeper: RealZooKeeper, tmp_path: Path, folder: str, chroot: str
) -> None:
    earlier, path = client(zookeeper.servers), f"{chroot}/ledgers/{folder}/{HOST}:3181"
    earlier.create(path, b"x", ephemeral=True, makepath=True)
    created = earlier.exists(path).czxid
    with Bookie(tmp_path, zookeeper.servers, chroot) as bookie:
        bookie.says(f"{WAITS} to expire: {path}")
        assert RUNS not in bookie.said
        assert earlier.exists(path).czxid == created
        ended(earlier)
        bookie.ends()
        assert "the registration of an earlier process is gone, after" in bookie.said


def test_a_first_start_leaves_nothing_behind(zookeeper: RealZooKeeper, tmp_path: Path) -> None:
    nodes, begin = zookeeper.dump(), zookeeper.log.stat().st_size
    with Bookie(tmp_path, zookeeper.servers) as bookie:
        bookie.ends()
    assert "waiting" not in bookie.said
    with zookeeper.log.open() as log:
        log.seek(begin)
        requests = re.findall(r"Processing request:: sessionid:\S+ type:(\w+)", log.read())
    of_its_id = ["createSession", "getData", "closeSession"]
    assert requests == [*of_its_id, "createSession", "exists", "exists", "closeSession"]
    assert zookeeper.dump() == nodes


EARLIER = """
import sys, threading
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=4)
client.start(30)
client.create(sys.argv[2], b"x", ephemeral=True, makepath=True)
print("registered", flush=True)
threading.Event().wait()
"""


def test_the_session_of_a_process_that_was_killed_expires(zookeeper: RealZooKeeper, tmp_path: Path) -> None:
    path = f"/ledgers/available/{HOST}:3181"
    command = [sys.executable, "-c", EARLIER, zookeeper.servers, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as earlier:
        try:
            assert earlier.stdout is not None and earlier.stdout.readline() == "registered\n"
        finally:
            earlier.kill()
    with Bookie(tmp_path, zookeeper.servers) as bookie:
        bookie.says(WAITS)
        bookie.ends()
    assert "the registration of an earlier process is gone, after" in bookie.said


def test_a_zookeeper_that_starts_later_is_waited_for(zookeeper: RealZooKeeper, tmp_path: Path) -> None:
    earlier, path = client(zookeeper.servers), f"/ledgers/available/{HOST}:3181"
    earlier.create(path, b"x", ephemeral=True, makepath=True)
    zookeeper.stop()
    with Bookie(tmp_path, zookeeper.servers) as bookie:
        bookie.says("waiting for ZooKeeper, 90 s at most: 127.0.0.1")
        zookeeper.start()
        bookie.says(WAITS)
        eventually(lambda: earlier.connected, within=STEP_SECONDS, what="the earlier process is back", every=LOCAL)
        ended(earlier)
        bookie.ends()


def test_a_server_without_a_quorum_is_waited_for(tmp_path: Path) -> None:
    with LoopbackEnsemble(tmp_path, 3) as servers:
        servers.start(0, founded=False)
        with Bookie(tmp_path / "bookie", f"{servers.client(0)},{servers.client(1)}") as bookie:
            bookie.says("waiting for ZooKeeper")
            assert RUNS not in bookie.said
            servers.start(1, founded=False)
            bookie.ends()


def test_a_leader_that_goes_while_it_waits(tmp_path: Path) -> None:
    with LoopbackEnsemble(tmp_path, 3) as servers:
        for ordinal in range(3):
            servers.start(ordinal, founded=False)
        servers.settles(leader=1, follower=2)
        hosts = ",".join(servers.client(ordinal) for ordinal in range(3))
        earlier, path = client(hosts), f"/ledgers/available/{HOST}:3181"
        earlier.create(path, b"x", ephemeral=True, makepath=True)
        with Bookie(tmp_path / "bookie", hosts) as bookie:
            bookie.says(WAITS)
            servers.stop(next(ordinal for ordinal, mode in servers.modes().items() if mode == "leader"))
            servers.settles(leader=1, follower=1)
            eventually(lambda: earlier.connected, within=STEP_SECONDS, what="the earlier process is back", every=LOCAL)
            assert earlier.exists(path)
            assert RUNS not in bookie.said
            ended(earlier)
            bookie.ends()
