"""A real ZooKeeper ensemble on loopback, its servers prepared by the start program of the images."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pulsar_start import zookeeper
from pulsar_start.paths import Paths
from pulsar_start.probe import four_letters, mode_of

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.launching import assert_runs, free_ports
from tests.support.processes.zookeeper import LOG4J, MAIN, START_SECONDS, STOP_SECONDS, pulsar_home

ELECTION_SECONDS = 60.0


class LoopbackEnsemble:
    """Servers by ordinal, each on a volume of its own. A context manager; processes are ended by their own ids."""

    def __init__(self, folder: Path, replicas: int, *, named: bool = False) -> None:
        """``named``: members have names, which each server resolves by a file of its own (see :meth:`resolves`)."""
        self._folder, self._replicas, self._named = folder, replicas, named
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = iter(free_ports(3 * replicas))
        self._ports = [(next(ports), next(ports), next(ports)) for _ in range(replicas)]
        (folder / "log4j2.xml").write_text(LOG4J)

    def __enter__(self) -> LoopbackEnsemble:
        return self

    def __exit__(self, *_: object) -> None:
        for ordinal in list(self._processes):
            self.stop(ordinal)

    def volume(self, ordinal: int) -> Path:
        """Data folder of a server."""
        return self._folder / f"server-{ordinal}" / "data" / "zookeeper"

    def log(self, ordinal: int) -> str:
        """What a server has written."""
        return (self._folder / f"server-{ordinal}" / "zookeeper.log").read_text()

    def resolves(self, ordinal: int, addresses: Mapping[int, str]) -> None:
        """From now on a server resolves the names of these members, to these addresses, and no other name."""
        lines = [f"{address} {self._host(member)}\n" for member, address in addresses.items()]
        self._hosts(ordinal).write_text("".join(lines))

    def wipe(self, ordinal: int) -> None:
        """The volume is lost."""
        assert ordinal not in self._processes
        shutil.rmtree(self.volume(ordinal))

    def start(self, ordinal: int, *, founded: bool, settings: Mapping[str, str] | None = None) -> zookeeper.Prepared:
        """As the start program does, but on loopback; returns what it prepared. ``settings`` are laid over the file."""
        home = self._folder / f"server-{ordinal}"
        server = zookeeper.Server(
            ordinal=ordinal,
            replicas=self._replicas,
            statefulset="my-zookeeper",
            domain="local",
            super_digest=None,
            founded=founded,
        )
        paths = Paths.from_environ({"PULSAR_HOME": str(home)})
        prepared = zookeeper.prepare(server, paths, {"tickTime": "500", **(settings or {})})
        members = [
            f"server.{n + 1}={self._host(n)}:{quorum}:{election}:participant;127.0.0.1:{client}"
            for n, (client, quorum, election) in enumerate(self._ports)
        ]
        (paths.zookeeper / "conf" / zookeeper.DYNAMIC).write_text("\n".join(members) + "\n")
        command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *prepared.jvm]
        command += [f"-Dlog4j.configurationFile={self._folder / 'log4j2.xml'}", "-Dzookeeper.jmx.log4j.disable=true"]
        if self._named:
            # Java's own caches of names would make a test wait for them.
            command += [f"-Djdk.net.hosts.file={self._hosts(ordinal)}"]
            command += ["-Dsun.net.inetaddr.ttl=0", "-Dsun.net.inetaddr.negative.ttl=0"]
        command += ["-cp", f"{pulsar_home() / 'lib'}/*", MAIN, str(prepared.conf)]
        log = home / "zookeeper.log"
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=home)
        self._processes[ordinal] = process

        def answers() -> bool:
            assert_runs(process, log)
            return self._asked(ordinal) is not None

        eventually(answers, within=START_SECONDS, what=f"server {ordinal + 1} answers", every=LOCAL)
        return prepared

    def stop(self, ordinal: int) -> None:
        """End a server, keep its data."""
        process = self._processes.pop(ordinal)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)

    def process_id(self, ordinal: int) -> int:
        """Of a running server."""
        return self._processes[ordinal].pid

    def client(self, ordinal: int) -> str:
        """Connection string of one server."""
        return f"127.0.0.1:{self._ports[ordinal][0]}"

    def modes(self) -> dict[int, str | None]:
        """What each running server is; None while it is in no quorum."""
        return {ordinal: mode_of(self._asked(ordinal) or "") for ordinal in sorted(self._processes)}

    def settles(self, **wanted: int) -> None:
        """Wait until so many servers lead, follow and so on."""

        def settled() -> bool:
            modes = list(self.modes().values())
            assert {mode: modes.count(mode) for mode in wanted} == wanted, modes
            return True

        eventually(settled, within=ELECTION_SECONDS, what=f"an ensemble of {wanted}", every=LOCAL)

    def _host(self, ordinal: int) -> str:
        return f"my-zookeeper-{ordinal}.local" if self._named else "127.0.0.1"

    def _hosts(self, ordinal: int) -> Path:
        return self._folder / f"hosts-{ordinal}"

    def _asked(self, ordinal: int) -> str | None:
        try:
            return four_letters("srvr", "127.0.0.1", self._ports[ordinal][0], 2.0)
        except OSError:
            return None
