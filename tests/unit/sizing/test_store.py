"""store.py: where rows are filed, and what a reader sees of them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_sizing import layout
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import S3, Store, StoreError, recorded_files, spark_path
from tests.support.sizing_store import BROKERS, HOUR, NOW, add, files, fill, rows_of, seen


def test_layout_is_that_of_the_schema(tmp_path: Path) -> None:
    add(Store(str(tmp_path)), "h.svc:8080", datetime(2025, 3, 4, 5, 6, 7, 89_000, UTC))
    (path,) = files(tmp_path)
    assert path.startswith("traffic/v1/instance=i/cluster=c/day=2025-03-04/hour=05/h.svc-8080-20250304T050607.089Z-")
    assert ":" not in path and path.endswith(".parquet")
    table = pq.read_table(tmp_path / path, partitioning=None)
    assert table.schema.equals(table_schema(TRAFFIC)) and table.num_rows == 3


def test_times_of_other_zones_are_filed_in_utc(tmp_path: Path) -> None:
    moment = datetime.fromisoformat("2025-03-04T01:30:00+05:00")
    add(Store(str(tmp_path)), "h:1", moment)
    assert "day=2025-03-03/hour=20" in files(tmp_path)[0]
    assert seen(tmp_path, moment, moment + timedelta(seconds=1)).total() == 3


def test_a_sample_written_twice_is_there_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    add(store, BROKERS[0], HOUR, topics=2)
    add(store, BROKERS[0], HOUR, topics=3)
    assert len(files(tmp_path)) == 1 and sum(seen(tmp_path).values()) == 3


def test_brokers_whose_names_look_alike_have_files_of_their_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    names = ["a-b:80", "a:b-80", "a.b:80", "x" * 253 + ":80", "x" * 253 + ":81", "_tmp:80", ".hidden:80"]
    for name in names:
        add(store, name, HOUR)
    assert len(files(tmp_path)) == len(names)
    assert all(layout.is_visible(Path(p).name) and len(Path(p).name) <= 255 for p in files(tmp_path))


@pytest.mark.parametrize("name", ["a/b", "..", "a=b", "a b", "ü", "a%2Fb", "a:b"])
def test_strange_cluster_names_stay_one_folder_and_come_back(tmp_path: Path, name: str) -> None:
    store = Store(str(tmp_path))
    upload = store.upload(TRAFFIC, name, name, HOUR, "h:1")
    upload.write(rows_of("h:1", HOUR))
    upload.commit()
    assert len(Path(files(tmp_path)[0]).parts) == 7
    assert len(store.recorded_files(name, name, HOUR, NOW)) == 1
    assert [layout.partition_value(f) for f in store.folders(f"traffic/v1/{layout.partition('instance', name)}")] == [
        name
    ]


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="instance is empty"):
        layout.cluster_folder(TRAFFIC, "", "c")


def test_an_aborted_upload_leaves_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for committed in (False, True):
        upload = store.upload(TRAFFIC, "i", "c", HOUR, "h:1")
        upload.write(rows_of("h:1", HOUR))
        if committed:
            upload.commit()
        upload.abort()
        assert files(tmp_path) == []


def test_range_takes_whole_hours_across_days(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    moments = [datetime(2025, 1, 1, 23, 30, tzinfo=UTC), datetime(2025, 1, 2, 0, 30, tzinfo=UTC)]
    for moment in moments:
        add(store, "h:1", moment)

    def hours(start: str, end: str) -> list[str]:
        found = store.recorded_files("i", "c", datetime.fromisoformat(start), datetime.fromisoformat(end))
        return [Path(p).parent.name for p in found]

    assert hours("2025-01-01T23:59:00+00:00", "2025-01-02T00:00:00+00:00") == ["hour=23"]
    assert hours("2025-01-01T23:59:00+00:00", "2025-01-02T00:00:01+00:00") == ["hour=23", "hour=00"]
    assert hours("2025-01-02T00:59:00+00:00", "2025-01-05T00:00:00+00:00") == ["hour=00"]
    assert hours("2025-01-02T01:00:00+00:00", "2025-01-02T02:00:00+00:00") == []
    assert store.recorded_files("i", "other", moments[0], moments[1]) == []


def test_what_is_no_data_is_not_listed(tmp_path: Path) -> None:
    fill(tmp_path)
    hour = (tmp_path / files(tmp_path)[0]).parent
    for name in ("_SUCCESS", ".hidden.parquet", "_metadata.parquet", "x.crc", "y.json"):
        (hour / name).write_text("x")
    (hour.parent / "hour=99").mkdir()
    (hour.parent / "hour=99" / "z.parquet").write_text("x")
    assert sum(seen(tmp_path).values()) == 12


# Addresses.


def test_markers_have_a_tree_of_their_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    upload = store.upload(MARKERS, "i", "c", HOUR, "markers")
    row = {"sample_time": HOUR, "broker": "h:1", "answered": False, "topics": 0}
    upload.write(pa.Table.from_pylist([row], table_schema(MARKERS)))
    upload.commit()
    assert files(tmp_path)[0].startswith("markers/v1/instance=i/cluster=c/day=")
    assert seen(tmp_path) == Counter()
    assert len(recorded_files(str(tmp_path), "i", "c", HOUR, NOW, table=MARKERS)) == 1


@pytest.mark.parametrize(
    ("address", "spark"),
    [
        ("/data/x.parquet", "file:///data/x.parquet"),
        ("s3://bucket/x.parquet", "s3a://bucket/x.parquet"),
        ("gs://bucket/x.parquet", "gs://bucket/x.parquet"),
    ],
)
def test_spark_paths(address: str, spark: str) -> None:
    assert spark_path(address) == spark


def test_file_urls_and_relative_paths_are_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "a")
    (direct,) = {Path(p).parent for p in recorded_files(str(tmp_path / "a"), "i", "c", HOUR, NOW)}
    (by_url,) = {Path(p).parent for p in recorded_files((tmp_path / "a").as_uri() + "/", "i", "c", HOUR, NOW)}
    monkeypatch.chdir(tmp_path)
    (relative,) = {Path(p).parent for p in recorded_files("a", "i", "c", HOUR, NOW)}
    assert direct == by_url == relative and direct.is_absolute()


@pytest.mark.parametrize(
    ("root", "endpoint", "words"),
    [
        ("", None, "root is empty"),
        ("nosuch://bucket/x", None, "'nosuch://bucket/x' cannot be used"),
        ("/data", "http://minio:9000", "use s3://bucket/folder"),
        ("s3://bucket/x", "minio:9000", "'minio:9000' is no URL"),
    ],
)
def test_roots_that_cannot_be_used(root: str, endpoint: str | None, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        Store(root, s3=S3(endpoint))
