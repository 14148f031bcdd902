"""A real ZooKeeper server with what is rendered for `metrics: true` serves them; without it, it does not."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.domain.render.zookeeper import METRICS
from tests.support.processes.ensemble import LoopbackEnsemble
from tests.support.processes.launching import free_ports

PORT_KEY = "metricsProvider.httpPort"


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[LoopbackEnsemble]:
    with LoopbackEnsemble(tmp_path, 1) as servers:
        yield servers


def scraped(port: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_metrics_of_a_server(ensemble: LoopbackEnsemble) -> None:
    (port,) = free_ports(1)
    ensemble.start(0, founded=False, settings={**METRICS, PORT_KEY: str(port)})
    ensemble.settles(leader=1)
    code, text = eventually(lambda: scraped(port), what="the metrics to be served", every=LOCAL)
    assert code == 200
    for name in ("znode_count", "quorum_size", "outstanding_requests", "jvm_memory_bytes_used"):
        assert f"\n{name}" in text, name


def test_a_server_without_them_does_not_listen(ensemble: LoopbackEnsemble) -> None:
    (port,) = free_ports(1)
    ensemble.start(0, founded=False, settings={PORT_KEY: str(port)})
    ensemble.settles(leader=1)
    with pytest.raises(ConnectionRefusedError):
        scraped(port)
