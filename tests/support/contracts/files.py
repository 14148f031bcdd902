"""What pulsar_sizing.files.Files promises on every kind of store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from pulsar_sizing import layout
from pulsar_sizing.arrow import parquet
from pulsar_sizing.files import Files
from pulsar_sizing.store import Store, Upload

STRANGE = layout.partition("cluster", "east=1:2/ü %")
"""A folder as a cluster of a hostile name gets it, percent-encoded."""
MANY = 1_100
"""Files of a folder: more than one page of a listing on S3, which is 1,000."""
LONG = 12 << 20
"""Bytes that no S3 client sends in one part."""


def rows(count: int) -> Any:
    """A table of that many rows."""
    return pa.table({"n": pa.array(range(count), pa.int64())})


class FilesContract:
    """Tests against the fixtures ``files``, an empty store, and ``again``, the same one opened anew."""

    def test_a_small_file_is_read_as_it_was_written_and_over_what_was_there(self, files: Files, again: Files) -> None:
        assert files.get("a/b/c.json") is None
        files.put("a/b/c.json", b"one")
        assert again.get("a/b/c.json") == b"one"
        again.put("a/b/c.json", b"the second, longer")
        assert files.get("a/b/c.json") == b"the second, longer"
        files.put("a/b/c.json", b"")
        assert again.get("a/b/c.json") == b""
        assert files.names("a/b") == ["c.json"]
        assert files.names(layout.TEMPORARY) == [], "nothing of it is left under the folder of what is being written"

    def test_a_long_file_is_read_as_it_was_written(self, files: Files, again: Files) -> None:
        data = bytes(range(256)) * (LONG // 256)
        files.put("a/long", data)
        assert again.get("a/long") == data

    def test_listings(self, files: Files, again: Files) -> None:
        assert files.listing("a") == [] and files.folders("a") == [] and files.names("a") == []
        for path in ("a/z.json", "a/b.json", f"a/{STRANGE}/day=1/x.parquet", "a/day=2/y.parquet", "ab/other.json"):
            files.put(path, path.encode())
        assert again.names("a") == ["b.json", "z.json"]
        assert again.folders("a") == sorted([STRANGE, "day=2"])
        assert layout.partition_value(STRANGE) == "east=1:2/ü %"
        found = {again.relative(info): info.size for info in again.listing("a", recursive=True) if info.is_file}
        assert found == {
            path: len(path) for path in ("a/b.json", "a/z.json", f"a/{STRANGE}/day=1/x.parquet", "a/day=2/y.parquet")
        }
        times = [info.mtime for info in again.listing("a", recursive=True) if info.is_file]
        assert all(abs(time - datetime.now(UTC)) < timedelta(minutes=5) for time in times)

    def test_a_folder_of_more_files_than_a_page_of_a_listing(self, files: Files, again: Files) -> None:
        names = [f"{number:05d}.json" for number in range(MANY)]
        for name in names:
            files.put(f"many/{name}", b"x")
        assert again.names("many") == names
        files.delete_folder("many")
        assert again.names("many") == []

    def test_what_is_gone_is_gone_and_may_be_deleted_again(self, files: Files, again: Files) -> None:
        files.put("a/b/c.json", b"x")
        files.put("a/d.json", b"x")
        files.delete("a/b/c.json")
        files.delete("a/b/c.json")
        files.delete("nowhere/c.json")
        assert again.get("a/b/c.json") is None and again.names("a/b") == []
        files.delete_folder("a")
        files.delete_folder("a")
        assert again.listing("a", recursive=True) == [] and again.get("a/d.json") is None

    def test_a_part_of_a_file_is_read_and_a_missing_one_is_told(self, files: Files, again: Files) -> None:
        files.put("a/b", b"0123456789")
        with again.open("a/b") as stream:
            stream.seek(4)
            assert stream.read(3) == b"456"
        with pytest.raises(FileNotFoundError):
            again.open("a/c")

    def test_a_file_in_the_making_is_seen_when_it_is_whole(self, files: Files, again: Files) -> None:
        upload = self._upload(files)
        upload.write(rows(10))
        assert again.listing("table", recursive=True) == []
        size = upload.commit()
        (info,) = [info for info in again.listing("table", recursive=True) if info.is_file]
        assert (again.relative(info), info.size) == ("table/day=1/x.parquet", size)
        with again.open("table/day=1/x.parquet") as stream:
            assert parquet.read_table(stream).num_rows == 10
        assert again.names(layout.TEMPORARY) == []

    @pytest.mark.parametrize("committed", [False, True])
    def test_a_file_that_is_taken_back_leaves_nothing(self, files: Files, again: Files, committed: bool) -> None:
        upload = self._upload(files)
        upload.write(rows(10))
        if committed:
            upload.commit()
        upload.abort()
        assert [info for info in again.listing("table", recursive=True) if info.is_file] == []
        assert again.names(layout.TEMPORARY) == []

    def test_a_file_that_is_published_replaces_what_was_there(self, files: Files, again: Files) -> None:
        for count in (10, 20):
            upload = self._upload(files)
            upload.write(rows(count))
            upload.commit()
        with again.open("table/day=1/x.parquet") as stream:
            assert parquet.read_table(stream).num_rows == 20

    def test_leftovers_of_killed_writers_go_when_they_are_old(self, files: Files, again: Files) -> None:
        self._upload(files).write(rows(1))
        files.put(f"{layout.TEMPORARY}/left", b"x")
        now = datetime.now(UTC)
        assert again.clean_temporary(now) == 0
        assert again.clean_temporary(now + timedelta(hours=2)) >= 1
        assert again.names(layout.TEMPORARY) == []

    def test_the_root_itself_can_be_made(self, files: Files, again: Files) -> None:
        files.make_root()
        files.make_root()
        assert again.listing("") == [] or again.listing("", recursive=True) == []

    @staticmethod
    def _upload(files: Files) -> Upload:
        assert isinstance(files, Store)
        return Upload(files, "table/day=1/x.parquet", rows(0).schema)
