"""The run of the checks that need other settings: of those checks alone, and only where the settings are in force."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import promises
from pulsar_conformance.context import Instance
from pulsar_conformance.model import CheckFailed, Status
from pulsar_conformance.runner import JavaMissingError
from pulsar_conformance.settings import IN_FORCE
from tests.support.checks import fails, make
from tests.support.played_admin import Played

CHECKS = [
    make("ack.batch_index", lambda _ctx: "by index"),
    make("key_shared.consistent_hashing", lambda _ctx: "at defaults only"),
    make("reader.start", lambda _ctx: "at defaults"),
    make("ttl.periodic", fails(CheckFailed("not within 100 s"))),
]


@pytest.fixture
def _instance(found: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Pulsar and no Java client."""

    @contextlib.contextmanager
    def connect(_service_url: str, _admin_url: str, _log: Path) -> Iterator[Instance]:
        yield found

    monkeypatch.setattr(promises, "connect", connect)
    monkeypatch.setattr(promises, "all_checks", lambda: CHECKS)


@pytest.mark.usefixtures("_instance")
def test_the_checks_that_need_them_are_run_and_told(found: Instance, tmp_path: Path) -> None:
    found.settings, told = IN_FORCE, list[str]()
    outcomes = promises.run_configured("pulsar://p:6650", "http://p:8080", tmp_path / "log", told.append)
    assert {outcome.check.id: outcome.status for outcome in outcomes} == {
        "ack.batch_index": Status.PASSED,
        "ttl.periodic": Status.FAILED,
    }
    assert sum("by index" in line for line in told) == 1 and sum("not within 100 s" in line for line in told) == 1


@pytest.mark.usefixtures("_instance")
@pytest.mark.parametrize("name", sorted(IN_FORCE))
def test_no_check_is_run_where_a_setting_is_another(found: Instance, tmp_path: Path, name: str) -> None:
    found.settings, told = {**IN_FORCE, name: "another"}, list[str]()
    with pytest.raises(AssertionError, match=f"{name} is another, not {IN_FORCE[name]}"):
        promises.run_configured("pulsar://p:6650", "http://p:8080", tmp_path / "log", told.append)
    assert told == []


def test_without_a_java_client_there_is_no_run(played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (
        pytest.raises(JavaMissingError, match=r"no Java client: .*python -m e2e\.kind java-client"),
        promises.connect("pulsar://p:6650", played.url, tmp_path / "log"),
    ):
        pytest.fail("connected")
    assert ("DELETE", "/admin/v2/tenants/conformance", None) in played.asked
