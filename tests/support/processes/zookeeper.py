"""A real ZooKeeper server from the Pulsar distribution, as a process on loopback with a throwaway data folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest
from kazoo.client import KazooClient

from e2e.kind import cache, pulsar
from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.launching import assert_runs, free_ports, stopped, tail

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_SECONDS = 60.0
STOP_SECONDS = 20.0

ZOO_CFG = """\
tickTime=500
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
maxClientCnxns=0
"""
LOG4J = """\
<Configuration status="ERROR"><Appenders><Console name="c"><PatternLayout pattern="%d %-5p %c{1} %m%n"/></Console>
</Appenders><Loggers><Root level="WARN"><AppenderRef ref="c"/></Root></Loggers></Configuration>
"""
TRACED = LOG4J.replace(
    "<Loggers>", '<Loggers><Logger name="org.apache.zookeeper.server.FinalRequestProcessor" level="DEBUG"/>'
)
"""With a line for each request: its session, type and path."""


def pulsar_home() -> Path:
    """The unpacked Pulsar distribution: $PULSAR_HOME, or the one in the cache folder. Raises FileNotFoundError."""
    named = os.environ.get("PULSAR_HOME")
    home = Path(named) if named else pulsar.pulsar_home(cache.default_cache())
    if not (home / "lib").is_dir():
        raise FileNotFoundError(f"{home} holds no Pulsar distribution: run `python -m e2e.kind pulsar-base` first")
    return home


@dataclass(frozen=True)
class RawNode:
    """A node as the server has it."""

    data: bytes
    czxid: int
    mzxid: int
    version: int


class RealZooKeeper:
    """One standalone server; a context manager. Ended by its own process id, its data folder removed with it.

    With ``traced`` its log has each request. ``heap`` is Java's, for very many nodes.
    """

    def __init__(self, home: Path | None = None, *, traced: bool = False, heap: str = "128m") -> None:
        self._home = home or pulsar_home()
        self._logging = TRACED if traced else LOG4J
        self._heap = heap
        self._folder = Path(tempfile.mkdtemp(prefix="zookeeper-test-"))
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    @property
    def servers(self) -> str:
        """Connection string."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it prints."""
        return self._folder / "zookeeper.log"

    def __enter__(self) -> RealZooKeeper:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the server and wait until it serves; keeps data and port of an earlier start."""
        (self._folder / "data").mkdir(exist_ok=True)
        (self._folder / "zoo.cfg").write_text(ZOO_CFG.format(data=self._folder / "data", port=self.port))
        (self._folder / "log4j2.xml").write_text(self._logging)
        command = ["java", f"-Xmx{self._heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j.configurationFile={self._folder / 'log4j2.xml'}", "-Dzookeeper.jmx.log4j.disable=true"]
        command += ["-cp", f"{self._home / 'lib'}/*", MAIN, str(self._folder / "zoo.cfg")]
        log = self.log
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=self._folder)
        self._process = process

        def serves() -> bool:
            assert_runs(process, log)
            assert self.serves(), tail(log)
            return True

        eventually(serves, within=START_SECONDS, what="ZooKeeper serves", every=LOCAL)

    def serves(self) -> bool:
        """Whether the server answers requests, by its four-letter command srvr."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as connection:
            connection.settimeout(2)
            connection.sendall(b"srvr")
            return b"Mode:" in connection.recv(4096)
        return False

    def stop(self) -> None:
        """End the server, keep its data."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process = None

    def pause(self) -> None:
        """Freeze the process: connections stay open, nothing is answered. Returns when every thread has stopped.

        The signal alone is only on its way: threads on other processors answer for a moment more.
        """
        assert self._process is not None
        process = self._process
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: stopped(process.pid), within=START_SECONDS, what="ZooKeeper is frozen", every=LOCAL)

    def resume(self) -> None:
        """Continue after pause."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Restart on an empty data folder and the same port, as if the volume had been lost."""
        self.stop()
        shutil.rmtree(self._folder / "data")
        self.start()

    def cleared(self) -> None:
        """Back to a server that serves and holds nothing, whatever a test did to it: cheaper than a new one."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        else:
            self.resume()
        client = KazooClient(hosts=self.servers, timeout=10)
        client.start(timeout=30)
        try:
            for name in client.get_children("/"):
                if name != "zookeeper":
                    client.delete(f"/{name}", recursive=True)
        finally:
            client.stop()
            client.close()

    def dump(self, below: str = "/") -> dict[str, RawNode]:
        """Every node below a path, with content and the transaction ids that tell whether it was touched."""
        client = KazooClient(hosts=self.servers, timeout=10)
        client.start(timeout=30)
        try:
            nodes: dict[str, RawNode] = {}
            open_paths = [below]
            while open_paths:
                path = open_paths.pop()
                data, stat = client.get(path)
                if path != below:
                    nodes[path] = RawNode(data, stat.czxid, stat.mzxid, stat.version)
                children = [name for name in client.get_children(path) if (path, name) != ("/", "zookeeper")]
                open_paths += [f"{path.rstrip('/')}/{name}" for name in children]
            return dict(sorted(nodes.items()))
        finally:
            client.stop()
            client.close()

    def close(self) -> None:
        """End the server and remove everything."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="module")
def real_zookeeper() -> Iterator[RealZooKeeper]:
    """A server for the tests of one module; import it into the module that uses it."""
    with RealZooKeeper() as server:
        yield server
