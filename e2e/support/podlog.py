"""The log of a pod followed over its incarnations: with a pod its log is gone, so it is read while it is written."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl

RETRY_SECONDS = 0.3
NANOS = 1_000_000_000


class Line(NamedTuple):
    """One line with the time the node's container runtime has for it, in nanoseconds since 1970."""

    at: int
    text: str


def read(raw: str) -> Line | None:
    """A line of ``kubectl logs --timestamps``, or None for what kubectl itself has to say.

    The time is RFC 3339 with up to nine digits of a second (Kubernetes writes it, ``--timestamps``).
    """
    stamp, _, text = raw.rstrip("\n").partition(" ")
    whole, dot, rest = stamp.partition(".")
    digits = rest.rstrip("Z")
    if not stamp.endswith("Z") or (dot and not (digits.isdigit() and len(digits) <= 9)):
        return None
    try:
        moment = datetime.strptime(whole.rstrip("Z"), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return Line(int(moment.timestamp()) * NANOS + int(digits.ljust(9, "0") if dot else 0), text)


class PodLog:
    """Hands each line written after ``start`` to ``take``, from a thread, also those of the pod's successors.

    A pod of a StatefulSet comes back by the same name. When the stream ends, kubectl is asked again from the last line
    on: ``--since-time`` knows whole seconds, so that lines come twice; what a stream begins with is left out up to the
    last line's time.
    """

    def __init__(self, kubectl: Kubectl, namespace: str, pod: str, take: Callable[[Line], None]) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        self.pod = pod
        self._take = take
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log of {pod}", daemon=True)
        self._process: subprocess.Popen[str] | None = None
        self._last: Line | None = None
        self._since = ""
        self.lines = 0
        """Lines handed over."""
        self.error = ""
        """Why it ended before it was told to; empty while it goes on."""

    def start(self) -> None:
        """Follow from the log's end as it is now. Raises AssertionError where there is no log."""

        def end() -> bool:
            # Nothing for a moment when the log was rotated.
            text = self._kubectl.run("logs", "-n", self._namespace, "--timestamps", "--tail=1", self.pod)
            for raw in text.splitlines():
                self._note(raw)
            return self._last is not None

        eventually(end, within=60, what=f"a line in the log of {self.pod}")
        self._thread.start()

    def stop(self) -> None:
        """End; what was written and not read yet is not read any more."""
        self._stop.set()
        if self._process is not None:
            self._process.terminate()
        if self._thread.ident is not None:
            self._thread.join(timeout=20)

    def _note(self, raw: str) -> Line | None:
        """The line, if it is one, as the last that was read."""
        line = read(raw)
        if line is not None:
            self._last, self._since = line, raw.partition(" ")[0]
        return line

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._follow()
                self._stop.wait(RETRY_SECONDS)
        except Exception as error:
            self.error = f"log of {self.pod} is not read any more: {type(error).__name__}: {error}"

    def _follow(self) -> None:
        """One stream to its end: the container ended, the pod is away, or the connection broke."""
        self._process = self._kubectl.popen(
            "logs", "-n", self._namespace, "-f", "--timestamps", f"--since-time={self._since}", self.pod
        )
        assert self._process.stdout is not None and self._last is not None
        until: int | None = self._last.at
        try:
            if self._stop.is_set():  # stop() may have ended the stream before
                return
            for raw in self._process.stdout:
                line = read(raw)
                if line is None or (until is not None and line.at <= until):
                    continue
                until = None
                self._note(raw)
                self.lines += 1
                self._take(line)
        finally:
            self._process.terminate()
            self._process.wait(timeout=20)


def lines_about(kubectl: Kubectl, namespace: str, pod: str, words: Iterable[str], most: int = 80) -> str:
    """The last lines of a pod's log that have one of these words, shortened: what is asked for when a test fails."""
    wanted = list(words)
    text = kubectl.run("logs", pod, "-n", namespace, "--timestamps")
    found = [line[:240] for line in text.splitlines() if any(word in line for word in wanted)]
    return "\n".join(found[-most:])
