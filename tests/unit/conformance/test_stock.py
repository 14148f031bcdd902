"""The command that runs the suite on a stock Pulsar, without one; and the page's table of what differs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.kind.paths import paths
from pulsar_conformance.catalogue import all_checks
from tests.support.standalone import stock
from tests.support.standalone.server import PLACES, Standalone

PAGE = Path(__file__).resolve().parents[3] / "docs/conformance.md"


@pytest.mark.parametrize("newer", [False, True])
def test_the_suite_runs_on_the_distribution_that_is_asked_for(newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Path, dict[str, Any]]] = []
    asked: list[list[str]] = []

    @contextlib.contextmanager
    def opened(home: Path, folder: Path, settings: dict[str, str], **more: Any) -> Iterator[Standalone]:
        started.append((home, {"settings": settings, **more}))
        yield Standalone("pulsar://there:1", "http://there:2", folder / "log")

    def suite(argv: list[str]) -> int:
        asked.append(argv)
        return 7

    monkeypatch.setattr(stock, "open_standalone", opened)
    monkeypatch.setattr(stock, "conformance", suite)
    assert stock.main([*(["--newer"] if newer else []), "--workers", "3"]) == 7
    ((home, how),) = started
    assert home == (paths().newer_pulsar_home if newer else paths().pulsar_home)
    assert how["functions"] is True
    assert asked[0][:4] == ["--service-url", "pulsar://there:1", "--admin-url", "http://there:2"]
    assert asked[0][-2:] == ["--workers", "3"]


def test_what_other_tests_set_is_set_back() -> None:
    """All but addresses, whose names say so."""
    addresses = {"bindAddress", "listeningInterface", "allowLoopback"}
    assert set(PLACES) - addresses == set(stock.STOCK)


def test_the_page_names_checks_that_are_there() -> None:
    _, _, part = PAGE.read_text(encoding="utf-8").partition("## Other Pulsars")
    rows = [line.split(" | ")[0] for line in part.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named and named <= {check.id for check in all_checks()}
