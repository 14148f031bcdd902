"""Fixtures of all integration tests: one real API server a run, one Kubernetes namespace a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pulsar_operator import crdgen
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.control_plane import SPARING, running_apiserver


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver with this project's definitions installed; only its data is shared between tests.

    The definitions come from the models as they are now; a unit test keeps the committed files equal to them.
    """
    definitions = tmp_path_factory.mktemp("crds")
    crdgen.write(definitions)
    with running_apiserver(SPARING) as server:
        server.install_crds(definitions)
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> str:
    """A fresh Kubernetes namespace. It stays: without a controller-manager none is ever fully removed."""
    return apiserver.new_namespace()
