"""Operators as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.apiserver import ApiServer
from tests.support.processes.launching import free_ports

ROOT = Path(__file__).resolve().parents[3]


class OperatorProcess:
    """A started operator; its output is collected by a thread."""

    def __init__(self, module: str, arguments: list[str], env: dict[str, str]) -> None:
        self.health_port, self.metrics_port = free_ports(2)
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("PULSAR_OPERATOR_")},
                "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
                "PULSAR_OPERATOR_HEALTH_PORT": str(self.health_port),
                "PULSAR_OPERATOR_METRICS_PORT": str(self.metrics_port),
                **env,
            },
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"text": line.rstrip()})

    def begun(self, key: str) -> list[dict[str, Any]]:
        """Passes of a key that began."""
        return [line for line in list(self.lines) if line.get("begin") == key]

    def logged(self, text: str) -> bool:
        """Whether a log line contains the text."""
        return any(text in str(line.get("message", line.get("text", ""))) for line in list(self.lines))

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

    def ready(self) -> bool:
        """Whether /readyz says so. Fails when the process has ended."""
        assert self.process.poll() is None, "the operator ended"
        return self.http("/readyz")[0] == 200

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
        code = self.process.wait(timeout)
        self._reader.join(5)
        return code


StartOperator = Callable[..., OperatorProcess]


@pytest.fixture
def start_operator(apiserver: ApiServer, namespace: str) -> Iterator[StartOperator]:
    """Start operators for the test's Kubernetes namespace; those still running are killed at the end."""
    started: list[OperatorProcess] = []

    def start(
        *arguments: str, module: str = "tests.support.processes.printing_operator", pod: str = "one", **settings: str
    ) -> OperatorProcess:
        env = {
            "KUBECONFIG": str(apiserver.kubeconfig),
            "PULSAR_OPERATOR_NAMESPACE": namespace,
            "PULSAR_OPERATOR_WATCH_NAMESPACES": namespace,
            "PULSAR_OPERATOR_POD_NAME": pod,
            **{f"PULSAR_OPERATOR_{key.upper()}": value for key, value in settings.items()},
        }
        operator = OperatorProcess(module, list(arguments), env)
        started.append(operator)
        return operator

    yield start
    for operator in started:
        if operator.process.poll() is None:
            operator.stop(signal.SIGKILL)
        # Shown by pytest when the test failed.
        print(f"--- operator {operator.process.pid}, exit code {operator.process.returncode}")
        for line in operator.lines:
            print(line)
