"""A real bookie and a real auto-recovery from the Pulsar distribution, as processes on loopback addresses of their own.

Started as the images start them, by BookKeeper's classes with Pulsar's metadata drivers; their settings are the least
that they need. The store must have been prepared as the operator prepares it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.launching import assert_runs, launch, stop, tail
from tests.support.processes.zookeeper import LOG4J, pulsar_home

BOOKIE, AUTORECOVERY = "org.apache.bookkeeper.server.Main", "org.apache.bookkeeper.replication.AutoRecoveryMain"
START_SECONDS = 180.0
DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
JVM = ("-Xmx192m", "-XX:MaxDirectMemorySize=128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_PROGRAM = Path(__file__).parents[3] / "broker_image" / "pulsar_start"
CONF = """\
metadataServiceUri=metadata-store:zk:{store}
zkServers=
zkTimeout=30000
bookiePort={bookie_port}
advertisedAddress={advertised}
allowLoopback=true
journalDirectories={folder}/journal
ledgerDirectories={folder}/ledgers
indexDirectories={folder}/ledgers
autoRecoveryDaemonEnabled=false
diskUsageThreshold=0.999
diskUsageWarnThreshold=0.999
httpServerEnabled=true
httpServerClass=org.apache.bookkeeper.http.vertx.VertxHttpServer
httpServerHost={host}
httpServerPort={http_port}
openLedgerRereplicationGracePeriod=1000
"""


class BookKeeperProcess:
    """One process; a context manager. Ended by its own id; its folder stays, so that it can be started again."""

    def __init__(
        self,
        main: str,
        folder: Path,
        *,
        host: str,
        http_port: int,
        bookie_port: int,
        store: str,
        ready: str,
        advertised: str | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        """``main`` is BOOKIE or AUTORECOVERY, ``host`` an address of the loopback interface, ``store`` host:port/chroot
        and ``ready`` the path that answers 200 once the process serves. ``advertised`` is its name for clients, which
        they and it find by ``jvm``, arguments of Java; None = its address."""
        self._jvm = (*JVM, *jvm)
        self._main, self._folder, self._ready = main, folder, f"http://{host}:{http_port}{ready}"
        self._process: subprocess.Popen[bytes] | None = None
        self.host = host
        self.bookie_id = f"{advertised or host}:{bookie_port}"
        """Id that a bookie registers with."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.xml").write_text(LOG4J)
        ports = {"http_port": http_port, "bookie_port": bookie_port}
        text = CONF.format(host=host, advertised=advertised or host, store=store, folder=folder, **ports)
        (folder / "bookkeeper.conf").write_text(text)

    def __enter__(self) -> BookKeeperProcess:
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def begin_as_in_the_image(self) -> None:
        """Start a bookie by the start program, over the stock settings; ``wait`` waits until it serves."""
        config = self._folder / "config"
        config.mkdir(exist_ok=True)
        (config / "overrides.conf").write_text((self._folder / "bookkeeper.conf").read_text())
        (config / "jvm.conf").write_text("\n".join(self._jvm) + "\n")
        folders = {"DATA": "data", "LOGS": "logs", "RENDERED": "rendered", "OPERATOR_CONFIG": "config"}
        places = {f"PULSAR_{name}": str(self._folder / each) for name, each in folders.items()}
        command = [sys.executable, str(START_PROGRAM), "bookie"]
        self._process = launch(self.log, command, {"PULSAR_HOME": str(pulsar_home()), **places})

    def begin(self) -> None:
        """Start the process; ``wait`` waits until it serves."""
        command = ["java", *self._jvm]
        command += [f"-Dlog4j.configurationFile={self._folder / 'log4j2.xml'}"]
        command += [f"-Dbookkeeper.metadata.{side.lower()}.drivers={DRIVERS}{side}Driver" for side in SIDES]
        command += ["-cp", f"{pulsar_home() / 'lib'}/*", self._main, "--conf", str(self._folder / "bookkeeper.conf")]
        self._process = launch(self.log, command, folder=self._folder)

    @property
    def log(self) -> Path:
        """What the process says since it was started last."""
        return self._folder / "process.log"

    def wait(self) -> None:
        """Wait until it serves."""
        process = self._process
        assert process is not None

        def serves() -> bool:
            assert_runs(process, self.log)
            try:
                with urlopen(self._ready, timeout=2) as answer:
                    return bool(answer.status == 200)
            except OSError as error:
                raise AssertionError(f"{error}: {tail(self.log)}") from error

        eventually(serves, within=START_SECONDS, what=f"{self._ready} answers", every=LOCAL)

    def stop(self) -> None:
        """End it in order, so that nothing of it is left in the store."""
        if self._process is not None:
            stop(self._process)
            self._process = None

    def lose(self) -> None:
        """Its volumes are empty; to be called while it is stopped."""
        for name in ("journal", "ledgers"):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def restart(self) -> None:
        """End and start it on the same folder; it serves afterwards."""
        self.stop()
        self.begin()
        self.wait()


SIDES = ("Bookie", "Client")
"""Metadata drivers there are."""
