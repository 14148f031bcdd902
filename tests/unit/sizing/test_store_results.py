"""Sizing results on the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pulsar_operator.balance.sizing.result import ExpectedBalance, SizingResult, Verdict
from pulsar_sizing.store import Store, StoreError
from tests.fakes.killed import Killed
from tests.fakes.killed_filesystem import KilledFileSystem

FIRST = datetime(2025, 1, 1, 12, tzinfo=UTC)


def result(generated: datetime = FIRST, cluster: str = "c", samples: int = 1) -> SizingResult:
    return SizingResult(
        instance="i",
        cluster=cluster,
        generated_time=generated,
        from_time=FIRST - timedelta(days=7),
        to_time=FIRST,
        samples=samples,
        completeness=1.0,
        percentile=0.99,
        growth=1.2,
        namespaces=(),
        partitions=(),
        brokers=(),
        verdict=Verdict(verdict="RightSized", brokers_now=3, brokers=3, reason="enough"),
        balance=ExpectedBalance(before=1.5, after=1.1, bound=1.0),
    )


def folder(root: Path) -> Path:
    return root / "results/v1/instance=i/cluster=c"


def test_none_at_first(tmp_path: Path) -> None:
    assert Store(str(tmp_path)).latest_result("i", "c") is None


def test_the_latest_comes_back_and_clusters_are_apart(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for minutes in (0, 5):
        path = store.write_result(result(FIRST + timedelta(minutes=minutes)))
        assert Path(path).is_file()
    store.write_result(result(FIRST + timedelta(minutes=9), cluster="d"))
    assert store.latest_result("i", "c") == result(FIRST + timedelta(minutes=5))
    assert store.latest_result("j", "c") is None


def test_an_older_result_never_replaces_a_later_one(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.write_result(result(FIRST + timedelta(minutes=5)))
    store.write_result(result(FIRST))
    assert store.latest_result("i", "c") == result(FIRST + timedelta(minutes=5))


def test_the_same_time_again_replaces(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for samples in (1, 2):
        store.write_result(result(samples=samples))
    assert store.latest_result("i", "c") == result(samples=2)


def test_the_twenty_newest_are_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for minutes in range(25):
        store.write_result(result(FIRST + timedelta(minutes=minutes)))
    names = sorted(p.name for p in folder(tmp_path).iterdir() if p.name != "latest.json")
    assert len(names) == 20 and names[0] == "20250101T120500.000000Z.json"
    late = store.write_result(result(FIRST - timedelta(minutes=1)))
    assert not Path(late).exists(), "too old to be kept"
    assert store.latest_result("i", "c") == result(FIRST + timedelta(minutes=24))


@pytest.mark.parametrize(
    "pointer", ["", "{}", "[]", '{"file": 3}', '{"file": "../../x.json"}', '{"file": "gone.json"}']
)
def test_a_pointer_that_points_nowhere(tmp_path: Path, pointer: str) -> None:
    store = Store(str(tmp_path))
    store.write_result(result())
    (folder(tmp_path) / "latest.json").write_text(pointer)
    assert store.latest_result("i", "c") is None
    store.write_result(result(FIRST + timedelta(minutes=1)))
    assert store.latest_result("i", "c") == result(FIRST + timedelta(minutes=1))


def test_a_result_that_cannot_be_read(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    Path(store.write_result(result())).write_text('{"version": 2}')
    with pytest.raises(StoreError, match="latest sizing result of cluster c cannot be read"):
        store.latest_result("i", "c")


@pytest.mark.parametrize("after", [False, True])
def test_a_writer_killed_at_any_write_leaves_the_old_or_the_new_result(tmp_path: Path, after: bool) -> None:
    old, new = result(), result(FIRST + timedelta(minutes=1))
    found = []
    for point in range(100):
        root = tmp_path / str(point)
        Store(str(root)).write_result(old)
        disk = KilledFileSystem(point, after=after)
        try:
            Store(str(root), filesystem=disk.filesystem()).write_result(new)
            assert len(disk.writes) == point, "the process lived on after its kill"
            break
        except Killed:
            found.append(Store(str(root)).latest_result("i", "c"))
        Store(str(root)).write_result(new)
        assert Store(str(root)).latest_result("i", "c") == new
    assert found[0] == old and all(r in (old, new) for r in found) and (new in found) == after
