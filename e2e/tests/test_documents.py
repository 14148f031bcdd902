"""What the pages tell their readers to type, on the quickstart, page by page."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from e2e.conftest import Deployed
from e2e.kind.paths import paths
from e2e.support.followed import follow, runnable
from tests.support.documents import PAGES, ROOT

MARKED = [page for page in PAGES if runnable(page)]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_page_is_followed(deployed: Deployed, page: Path) -> None:
    """Every object is Ready afterwards: a page puts back what it changes."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(deployed.kubectl.kubeconfig),
        "PATH": os.pathsep.join((paths()["bin"], str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    follow(page, runnable(page), ROOT, environment)
    deployed.wait_ready(within=60)
    assert len(deployed.kubectl.items("pulsar", deployed.namespace)) == 6, "the quickstart's objects, and no other"
