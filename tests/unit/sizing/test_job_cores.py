"""Processors that the job may use, by the quotas of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pulsar_sizing.job.cores import usable

V2, V1 = "0::/a/b\n", "4:memory:/a\n3:cpu,cpuacct:/a/b\n0::/\n"


@pytest.mark.parametrize(
    "membership, files, available, wanted",
    [
        ("", {}, 8, 8),
        (V2, {"a/b/cpu.max": "max 100000\n"}, 8, 8),
        (V2, {"a/b/cpu.max": "150000 100000\n"}, 8, 2),
        (V2, {"a/b/cpu.max": "10000 100000\n"}, 8, 1),
        (V2, {"a/b/cpu.max": "1600000 100000\n"}, 8, 8),
        (V2, {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 8, 3),
        ("0::/\n", {"cpu.max": "200000 50000\n"}, 8, 4),
        ("0::/../other\n", {"cpu.max": "200000 50000\n"}, 8, 8),
        (V2, {"a/b/cpu.max": "nonsense\n"}, 8, 8),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n"}, 8, 8),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n"}, 8, 3),
        (V1, {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8, 1),
        (V1, {"memory/a/cpu.max": "50000 100000\n"}, 8, 8),
        (V2, {"a/b/cpu.max": "500000 100000\n"}, 1, 1),
    ],
    ids=[
        "no cgroups", "v2 none", "v2 rounded up", "v2 a tenth", "v2 above the affinity", "v2 of the group above",
        "v2 in a container", "v2 outside", "v2 nonsense", "v1 none", "v1 rounded up", "v1 in a container",
        "another controller", "fewer processors",
    ],
)  # fmt: skip
def test_the_tightest_quota_counts(
    tmp_path: Path, membership: str, files: dict[str, str], available: int, wanted: int
) -> None:
    (tmp_path / "self").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert usable(available, cgroups=tmp_path / "cgroup", membership=tmp_path / "self") == wanted


def test_without_quota_the_affinity_counts(tmp_path: Path) -> None:
    assert usable(cgroups=tmp_path, membership=tmp_path / "none") == len(os.sched_getaffinity(0))


def test_local_sessions_have_shuffles_of_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    from pulsar_sizing.job import session

    monkeypatch.setattr(session, "usable", lambda: 3)
    wanted = {"local[*]": "12", "local[2]": "8", "local": "4", "local[*,2]": "12"}
    assert {master: session._local(master)["spark.sql.shuffle.partitions"] for master in wanted} == wanted
