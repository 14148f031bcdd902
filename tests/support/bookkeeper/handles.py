"""A writer with open handles: java/OpenHandles.java, run by the distribution's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from tests.support.processes.bookkeeper import DRIVERS
from tests.support.processes.launching import tail
from tests.support.processes.zookeeper import LOG4J, pulsar_home

SOURCE = Path(__file__).parent / "java" / "OpenHandles.java"
SECONDS = 60.0


class OpenHandles:
    """The process; a context manager."""

    def __init__(self, folder: Path, store: str, *jvm: str) -> None:
        """``store`` is host:port/chroot, ``jvm`` are arguments of Java."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.xml").write_text(LOG4J)
        options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *jvm]
        options += [f"-Dlog4j.configurationFile={folder / 'log4j2.xml'}"]
        options += [f"-Dbookkeeper.metadata.client.drivers={DRIVERS}ClientDriver"]
        self._command = ["java", *options, "-cp", f"{pulsar_home() / 'lib'}/*", str(SOURCE), store]
        self._log = folder / "writer.log"

    def __enter__(self) -> OpenHandles:
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(self._command, stdin=-1, stdout=-1, stderr=errors, text=True)
        assert self._line() == "ready", tail(self._log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, *words: str) -> list[str]:
        """The words of an answer, without the first; see the head of the source for what may be asked."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        first, *others = self._line().split(" ")
        assert first != "error", (words, others, tail(self._log))
        return others

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")
