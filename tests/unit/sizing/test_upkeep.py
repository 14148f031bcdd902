"""upkeep.py: old days and leftovers are deleted; and a sample that is killed while it is written is whole or absent."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import groupby
from pathlib import Path

import pytest

from pulsar_sizing.store import Store
from pulsar_sizing.upkeep import maintain
from tests.fakes.killed import Killed
from tests.fakes.killed_filesystem import KilledFileSystem
from tests.support.sizing_store import BROKERS, HOUR, NOW, add, files, fill, now, seen


def test_days_past_retention_go(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for days in (0, 1, 2, 3):
        add(store, "h:1", NOW - timedelta(days=days))
    assert maintain(store, "i", NOW, 2).days == 1
    assert len(files(tmp_path)) == 3


def test_leftovers_of_killed_writers_go_after_an_hour(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    (tmp_path / "_tmp").mkdir()
    for name, age in (("old", 3700), ("young", 60)):
        (tmp_path / "_tmp" / name).write_text("x")
        os.utime(tmp_path / "_tmp" / name, (now().timestamp() - age,) * 2)
    assert maintain(store, "i", now()).leftovers == 1 and files(tmp_path) == ["_tmp/young"]


def points(writes: list[str]) -> list[int]:
    """Where to kill: at every write, but of a run of bytes into one file the first, a middle and the last."""
    chosen: list[int] = []
    for name, run in groupby(range(len(writes)), key=lambda at: writes[at]):
        at = list(run)
        chosen += sorted({at[0], at[len(at) // 2], at[-1]}) if name == "write" else at
    return chosen


@pytest.mark.parametrize("after", [False, True])
def test_an_upload_killed_at_any_write_is_there_whole_or_not_at_all(tmp_path: Path, after: bool) -> None:
    def act(store: Store) -> None:
        add(store, BROKERS[0], HOUR)

    undisturbed = KilledFileSystem()
    act(Store(str(tmp_path / "undisturbed"), filesystem=undisturbed.filesystem()))
    assert {"move", "write", "close"} <= set(undisturbed.writes)
    outcomes = set()
    for point in points(undisturbed.writes):
        root = tmp_path / str(point)
        with pytest.raises(Killed):
            act(Store(str(root), filesystem=KilledFileSystem(point, after=after).filesystem()))
        outcomes.add(len(seen(root)))
        act(Store(str(root)))
        assert sorted(seen(root).values()) == [1, 1, 1]
        Store(str(root)).clean_temporary(now() + timedelta(hours=2))
        assert len(files(root)) == 1
    assert outcomes == ({0, 3} if after else {0})


@pytest.mark.parametrize("after", [False, True])
def test_upkeep_killed_at_any_deletion_is_ended_by_the_next(tmp_path: Path, after: bool) -> None:
    def filled(root: Path) -> None:
        fill(root)
        for days in (20, 21):
            add(Store(str(root)), BROKERS[0], HOUR - timedelta(days=days))

    filled(tmp_path / "whole")
    undisturbed = KilledFileSystem()
    maintain(Store(str(tmp_path / "whole"), filesystem=undisturbed.filesystem()), "i", now())
    for point in range(len(undisturbed.writes)):
        root = tmp_path / str(point)
        filled(root)
        with pytest.raises(Killed):
            maintain(Store(str(root), filesystem=KilledFileSystem(point, after=after).filesystem()), "i", now())
        maintain(Store(str(root)), "i", now())
        assert sum(seen(root, HOUR - timedelta(days=30)).values()) == 12
