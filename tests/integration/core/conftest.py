"""Operators as processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes.apiserver import ApiServer
from tests.support.processes.operator import OperatorProcess

StartOperator = Callable[..., OperatorProcess]


@pytest.fixture
def start_operator(apiserver: ApiServer, namespace: str, tmp_path: Path) -> Iterator[StartOperator]:
    """Start operators for the test's Kubernetes namespace; those still running are killed at the end."""
    started: list[OperatorProcess] = []

    def start(
        *arguments: str, module: str = "tests.support.processes.printing_operator", pod: str = "one", **settings: str
    ) -> OperatorProcess:
        log = tmp_path / f"operator-{len(started)}.log"
        operator = OperatorProcess(
            log, apiserver.kubeconfig, namespace, *arguments, module=module, pod_name=pod, **settings
        )
        started.append(operator)
        return operator

    yield start
    for operator in started:
        operator.kill()
        # Shown by pytest when the test failed.
        print(f"--- operator {operator.process.pid}, exit code {operator.process.returncode}")
        for line in operator.lines:
            print(line)
