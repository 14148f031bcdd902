"""A volume that takes no more bytes: what was begun goes, so that nothing fills what becomes free."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pulsar_sizing.layout import TEMPORARY
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import Store
from tests.support.sizing_store import rows_of

TOPICS = 20_000
MOST = 30_000


@contextmanager
def full() -> Iterator[None]:
    """No file grows beyond MOST bytes; a write that would is an OSError, as on a full volume."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def left(root: Path) -> list[Path]:
    return [path for path in (root / TEMPORARY).rglob("*") if path.is_file()]


def test_a_sample_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    moment = datetime(2026, 3, 2, tzinfo=UTC)
    upload = store.upload(TRAFFIC, "i", "c", moment, "b")
    with full():
        with pytest.raises(OSError, match="File too large"):
            upload.write(rows_of("b", moment, TOPICS))
            upload.commit()
        upload.abort()
    assert left(tmp_path) == [] and store.recorded_paths("i", "c", moment, moment + timedelta(hours=1)) == []


def test_a_small_file_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with full(), pytest.raises(OSError, match="File too large"):
        store.put("tables/snapshot", bytes(2 * MOST))
    assert left(tmp_path) == [] and store.get("tables/snapshot") is None
