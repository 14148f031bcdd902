"""What Pulsar promises under the settings of test_rolls, not its defaults; see pulsar_conformance.settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.conftest import Deployed
from e2e.support.promises import run_configured
from pulsar_conformance.model import Status


def test_promises_that_need_other_settings(
    deployed: Deployed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings were declared on the cluster and rolled out by the operator; every check that needs them passes."""
    with capsys.disabled():
        found = run_configured(deployed.service_url, deployed.admin_url, tmp_path / "client.log")
    assert found
    assert [(o.check.id, o.text) for o in found if o.status is not Status.PASSED] == []
