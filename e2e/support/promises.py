"""The conformance suite on a cluster of the end-to-end tests: connected to, with other settings, with faults."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from e2e.kind.paths import paths
from pulsar_conformance import report
from pulsar_conformance.catalogue import all_checks
from pulsar_conformance.commands import fault_command
from pulsar_conformance.context import Instance
from pulsar_conformance.java.client import JavaProcess
from pulsar_conformance.model import Outcome
from pulsar_conformance.runner import Target, instance, run_checks
from pulsar_conformance.settings import configured, not_in_force


def connect(service_url: str, admin_url: str, log: Path) -> AbstractContextManager[Instance]:
    """A cluster without security, with the Java client; ``log`` is for the client library's own log.

    Raises JavaMissingError on entry when the Java client is not built.
    """
    target = Target(service_url, admin_url, client_log=str(log))
    return instance(target, lambda: JavaProcess.start(classpath=paths().java_client))


def run_configured(service_url: str, admin_url: str, log: Path, said: Callable[[str], None] = print) -> list[Outcome]:
    """Run the checks that need pulsar_conformance.settings.SETTINGS; all are to have passed, none is skipped there.

    ``said`` is told a line as each ends. Raises AssertionError, before any check, when the broker has other settings:
    then its outcomes would be those of the defaults.
    """
    checks = configured(all_checks())
    with connect(service_url, admin_url, log) as found:
        other = not_in_force(found.settings)
        assert not other, f"the broker has not the settings these checks need: {'; '.join(other)}"
        return run_checks(found, checks, on_outcome=lambda outcome: said(report.line(outcome)), warned=said)


def run_failures(
    service_url: str, admin_url: str, fault: str, log: Path, *, only: str = "", but: str = ""
) -> list[Outcome]:
    """Run the checks of failures, ``only`` one or all ``but`` one of them, with a fault command; none is to be skipped.

    A line is printed as each ends.
    """
    wanted = [
        check
        for check in all_checks()
        if check.theme == "failures" and only in ("", check.id.partition(".")[2]) and check.id != f"failures.{but}"
    ]
    target = Target(service_url, admin_url, client_log=str(log), fault=fault_command(fault))
    with instance(target, None) as found:
        return run_checks(
            found, wanted, on_outcome=lambda outcome: print(report.line(outcome), flush=True), warned=print
        )
