"""Fixtures of the chart tests: the real helm."""

from __future__ import annotations

import pytest

from tests.support.processes.helm import Helm, helm_binary


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The helm binary with folders of its own, so that nothing of the user's is read or written."""
    return Helm(helm_binary(), tmp_path_factory.mktemp("helm"))
