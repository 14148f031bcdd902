"""The operator as a process: the one place that builds its command and environment, and waits for it to be ready."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.launching import assert_runs, free_ports, launch, tail

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "PULSAR_OPERATOR_"


def environment(kubeconfig: Path, namespace: str, **settings: object) -> dict[str, str]:
    """The whole environment of an operator that watches one namespace; ``settings`` by their names in settings.py.

    Settings of whoever runs the tests are none of its.
    """
    given = {"namespace": namespace, "watch_namespaces": namespace, **settings}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
        "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
        "KUBECONFIG": str(kubeconfig),
        **{f"{PREFIX}{name.upper()}": str(value) for name, value in given.items()},
    }


class OperatorProcess:
    """A started operator. ``module`` is what python runs; its output goes to the file ``log``."""

    def __init__(
        self,
        log: Path,
        kubeconfig: Path,
        namespace: str,
        *arguments: str,
        module: str = "pulsar_operator",
        **settings: object,
    ) -> None:
        self.log = log
        self.health_port, self.metrics_port = free_ports(2)
        ports = {"health_port": self.health_port, "metrics_port": self.metrics_port}
        self.process = launch(
            log,
            [sys.executable, "-m", module, *arguments],
            environment(kubeconfig, namespace, **{**ports, **settings}),
            inherited={},
            folder=ROOT,
        )

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its output so far: lines of JSON decoded, the text of any other."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        out: list[dict[str, Any]] = []
        for line in text[: text.rfind("\n") + 1].splitlines():
            try:
                out.append(json.loads(line))
            except ValueError:
                out.append({"text": line.rstrip()})
        return out

    def begun(self, key: str) -> list[dict[str, Any]]:
        """Passes of a key that began."""
        return [line for line in self.lines if line.get("begin") == key]

    def logged(self, text: str) -> bool:
        """Whether a log line contains the text."""
        return any(text in str(line.get("message", line.get("text", ""))) for line in self.lines)

    def http(self, path: str, *, metrics: bool = False) -> tuple[int, str]:
        """Status and body of a probe or of /metrics; 0 when nothing answers."""
        port = self.metrics_port if metrics else self.health_port
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def assert_runs(self) -> None:
        """Raises EndedError with its last words when it has ended."""
        assert_runs(self.process, self.log)

    def tail(self) -> str:
        """Its last words."""
        return tail(self.log)

    def ready(self, *, within: float = 60.0) -> None:
        """Wait until /readyz says so. Raises EndedError when the process ends."""

        def answers() -> bool:
            self.assert_runs()
            code, body = self.http("/readyz")
            assert code == 200, f"/readyz: {code} {body}"
            return True

        eventually(answers, within=within, what="the operator is ready", every=LOCAL)

    def rss(self) -> int:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024

    def stop(self, number: int = signal.SIGTERM, *, timeout: float = 60) -> int:
        """Signal it and wait; the exit code."""
        self.process.send_signal(number)
        return self.wait(timeout=timeout)

    def wait(self, *, timeout: float = 60) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(timeout)

    def kill(self) -> None:
        """End it by force, where it still runs."""
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
