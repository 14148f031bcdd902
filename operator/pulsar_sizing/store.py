"""Where recorded traffic and sizing results lie: a folder, or any URL that pyarrow.fs and Spark both read.

What holds for every file: it is written whole under ``_tmp`` (hidden from Spark) and then moved to its name, so a
reader sees all of it or nothing. A file system renames; on an object store a move is a copy on the server, and a copy
appears whole.

**What a reader must do**: read what :func:`live_files` returns, and keep the rows with a ``sample_time`` in its range.
A closed hour is compacted into one file that lists the files it replaces in its Parquet metadata (key ``REPLACES``);
these stay for a while after that, for readers that listed them before, and count no more: see :func:`layout.covered`.
The markers of a round are written after its traffic, so an answered marker means that the traffic is there.

**Addresses**: a local root gives plain absolute paths, another one URLs of its own scheme. :func:`spark_path` turns
either into what Spark takes: ``s3://`` becomes ``s3a://`` (hadoop-aws), a plain path ``file://``; ``gs://`` stays.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing import layout
from pulsar_sizing.arrow import fs, parquet, table_schema
from pulsar_sizing.results import latest_result_text, store_result
from pulsar_sizing.schema import TRAFFIC

REPLACES = b"pulsar_sizing.replaces"
"""Parquet metadata key of a compacted file: JSON list of the names, in its folder, that it replaces at every remove."""
TEMPORARY_AGE = timedelta(hours=1)
"""A file under ``_tmp`` that nobody wrote to for so long was left by a killed writer."""
OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
LISTINGS = 3
"""Times a folder is listed anew when a file that was just listed is gone."""


class StoreError(Exception):
    """The store cannot be used as asked; the message says what to do."""


@dataclass(frozen=True)
class Place:
    """What a process on another machine needs to open the same store."""

    root: str
    s3_endpoint: str | None = None


class Upload:
    """One Parquet file in the making; nothing is visible before :meth:`commit`. Calls block: use a thread."""

    def __init__(self, store: Store, path: str, schema: Any, **options: Any) -> None:
        """``path`` is relative to the root; ``options`` go to pyarrow's ParquetWriter."""
        self._store = store
        self._path = path
        self._temporary = store.temporary(path)
        self._stream = store.create(self._temporary)
        try:
            self._writer = parquet.ParquetWriter(self._stream, schema, compression="zstd", **options)
        except BaseException:
            self._stream.close()
            raise
        self._published = False
        self.rows = 0

    def write(self, data: Any) -> None:
        """Append a RecordBatch or a Table; each becomes row groups of its own."""
        self._writer.write(data)
        self.rows += data.num_rows

    def commit(self) -> int:
        """Finish the file and put it in its place; returns its bytes."""
        self._writer.close()
        size = int(self._stream.tell())
        self._stream.close()
        self._store.publish(self._temporary, self._path)
        self._published = True
        return size

    def abort(self) -> None:
        """Take back what was written, also after a commit; never raises for a store that is away (a later start cleans
        up what is under ``_tmp``)."""
        try:
            if self._published:
                self._store.delete(self._path)
                return
            self._writer.close()
            self._stream.close()
            self._store.delete(self._temporary)
        except (OSError, pa.ArrowException):
            pass


class Store:
    """Reads and writes below one root. Methods block: call them in a thread from async code."""

    def __init__(self, root: str, *, s3_endpoint: str | None = None, filesystem: Any = None) -> None:
        """``root`` is a path or URL; ``s3_endpoint`` (http://host:port) the S3-compatible server of an s3:// root.

        Credentials of object stores come from where their SDK looks (environment, files, workload identity).
        ``filesystem`` is a pyarrow FileSystem to use instead, with ``root`` a path in it. Raises StoreError for a root
        that pyarrow does not understand.
        """
        self.root = root.rstrip("/")
        self.place = Place(root, s3_endpoint)
        self._scheme = root.partition("://")[0] if "://" in root and not root.startswith("file://") else None
        if filesystem is not None:
            self._fs, self._base = filesystem, self.root
        else:
            self._fs, self._base = _open(root, s3_endpoint)
        self._has_folders = self._fs.type_name not in OBJECT_STORES

    @property
    def copies(self) -> bool:
        """Whether a file is copied when it is moved to its name: object stores have no rename."""
        return not self._has_folders

    # Paths below are relative to the root.

    def address(self, path: str) -> str:
        """Absolute path or URL of a path below the root."""
        inside = self._at(path)
        return f"{self._scheme}://{inside}" if self._scheme else inside

    def _at(self, path: str) -> str:
        return f"{self._base}/{path}"

    def temporary(self, path: str) -> str:
        """A new name under ``_tmp`` for what will be ``path``."""
        return f"{layout.TEMPORARY}/{uuid.uuid4().hex}-{path.rpartition('/')[2]}"

    def create(self, path: str) -> Any:
        """An output stream to a file, its folder made where folders are."""
        self._make_folder(path)
        return self._fs.open_output_stream(self._at(path))

    def _make_folder(self, path: str) -> None:
        if self._has_folders:
            self._fs.create_dir(self._at(path.rpartition("/")[0]), recursive=True)

    def publish(self, temporary: str, path: str) -> None:
        """Move a finished file to its name, over what was there; on a local disk its bytes are on the disk before."""
        if isinstance(self._fs, fs.LocalFileSystem):
            _sync(Path(self._at(temporary)))
        self._make_folder(path)
        self._fs.move(self._at(temporary), self._at(path))

    def put(self, path: str, data: bytes) -> None:
        """Write a small file whole, over what was there."""
        temporary = self.temporary(path)
        try:
            with self.create(temporary) as stream:
                stream.write(data)
            self.publish(temporary, path)
        except OSError:
            with suppress(OSError):  # on a full volume what was begun would fill what becomes free
                self.delete(temporary)
            raise

    def get(self, path: str) -> bytes | None:
        """Bytes of a small file; None if there is none."""
        try:
            with self._fs.open_input_stream(self._at(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete a file; one that is gone already is fine."""
        with suppress(FileNotFoundError):
            self._fs.delete_file(self._at(path))

    def delete_folder(self, path: str) -> None:
        """Delete a folder and what is in it; one that is gone already is fine."""
        with suppress(FileNotFoundError):
            self._fs.delete_dir(self._at(path))

    def listing(self, folder: str, *, recursive: bool = False) -> list[Any]:
        """pyarrow FileInfo of what is in a folder, none if it is not there."""
        return list(
            self._fs.get_file_info(fs.FileSelector(self._at(folder), recursive=recursive, allow_not_found=True))
        )

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder, in order."""
        return sorted(info.base_name for info in self.listing(folder) if info.type == fs.FileType.Directory)

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, in order."""
        return sorted(info.base_name for info in self.listing(folder) if info.type == fs.FileType.File)

    def relative(self, info: Any) -> str:
        """Path below the root of a FileInfo."""
        return str(info.path)[len(self._base) + 1 :]

    def open(self, path: str) -> Any:
        """A random-access stream. Raises FileNotFoundError."""
        return self._fs.open_input_file(self._at(path))

    # Traffic and markers.

    def upload(self, table: str, instance: str, cluster: str, sample_time: datetime, who: str) -> Upload:
        """A file of one sample to write; ``who`` is the broker, or anything fixed for a table with one file a sample.

        The name follows from ``who`` and the time: a sample that is written twice is there once.
        """
        folder = layout.hour_folder(table, instance, cluster, sample_time)
        repeating = [name for name in ("broker", "namespace", "bundle") if name in table_schema(table).names]
        return Upload(
            self,
            f"{folder}/{layout.sample_file(who, sample_time)}",
            table_schema(table),
            use_dictionary=repeating,
        )

    def replaced_by(self, path: str) -> frozenset[str]:
        """Names that a compacted file replaces.

        Raises StoreError if it does not say, FileNotFoundError if it is gone.
        """
        try:
            with self.open(path) as stream:
                metadata = parquet.read_metadata(stream).metadata or {}
            return frozenset(json.loads(metadata[REPLACES]))
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise StoreError(
                f"{self.address(path)} does not say which files it replaces ({error}): it was not written by this "
                "program or is damaged; move it away, and the files it replaced count again if they are still there"
            ) from None

    def live_in(self, folder: str, files: Sequence[str]) -> list[str]:
        """Of the files (names) of an hour's folder those that count, in order. Raises as :meth:`replaced_by`."""
        visible = sorted(name for name in files if layout.is_visible(name))
        compacted = [name for name in visible if layout.is_compacted(name)]
        if not compacted or len(visible) == 1:
            return visible
        replaces = {name: self.replaced_by(f"{folder}/{name}") for name in compacted}
        try:
            dead = layout.covered(replaces, visible)
        except ValueError as error:
            raise StoreError(f"{self.address(folder)}: {error}") from None
        return [name for name in visible if name not in dead]

    def live_files(
        self, instance: str, cluster: str, start: datetime, end: datetime, *, table: str = TRAFFIC
    ) -> list[str]:
        """See :func:`live_files`."""
        return [self.address(path) for path in self.live_paths(instance, cluster, start, end, table=table)]

    def live_paths(
        self, instance: str, cluster: str, start: datetime, end: datetime, *, table: str = TRAFFIC
    ) -> list[str]:
        """The same, relative to the root, for :meth:`open`."""
        found: list[str] = []
        for day in layout.days(start, end):
            folder = f"{layout.cluster_folder(table, instance, cluster)}/day={day.isoformat()}"
            found += self._live_of_day(folder, start, end)
        return found

    def _live_of_day(self, day_folder: str, start: datetime, end: datetime) -> list[str]:
        for attempt in range(LISTINGS):
            hours: dict[str, list[str]] = {}
            for info in self.listing(day_folder, recursive=True):
                folder, _, name = self.relative(info).rpartition("/")
                hour = layout.hour_of(folder)
                if info.type == fs.FileType.File and hour is not None and _overlaps(hour, start, end):
                    hours.setdefault(folder, []).append(name)
            try:
                return [f"{f}/{name}" for f in sorted(hours) for name in self.live_in(f, hours[f])]
            except FileNotFoundError:
                if attempt == LISTINGS - 1:
                    raise
        raise AssertionError("not reached")

    def clean_temporary(self, now: datetime, *, age: timedelta = TEMPORARY_AGE) -> int:
        """Delete what killed writers left under ``_tmp``; returns how many files."""
        old = [
            info
            for info in self.listing(layout.TEMPORARY)
            if info.type == fs.FileType.File and info.mtime is not None and now - info.mtime > age
        ]
        for info in old:
            self.delete(self.relative(info))
        return len(old)

    # Sizing results.

    def write_result(self, result: SizingResult) -> str:
        """Store a result and point ``latest.json`` to it unless a later one is there; returns its address.

        The 20 newest are kept. Killed at any point, the latest result is the old or the new one, whole.
        """
        return self.address(store_result(self, result))

    def latest_result(self, instance: str, cluster: str) -> SizingResult | None:
        """The latest result; None if there is none. Raises StoreError if what is there cannot be read."""
        text = self.latest_result_text(instance, cluster)
        if text is None:
            return None
        try:
            return SizingResult.model_validate_json(text)
        except ValueError as error:
            raise StoreError(f"the latest sizing result of cluster {cluster} cannot be read: {error}") from None

    def latest_result_text(self, instance: str, cluster: str) -> bytes | None:
        """The latest result as its JSON document."""
        return latest_result_text(self, instance, cluster)


def live_files(
    root: str,
    instance: str,
    cluster: str,
    start: datetime,
    end: datetime,
    *,
    table: str = TRAFFIC,
    s3_endpoint: str | None = None,
) -> list[str]:
    """Addresses of the files to read for the samples in [start, end), each row in exactly one of them.

    Whole hours: rows outside of the range are for the reader to drop. ``table`` is ``traffic`` or ``markers``. Times
    are aware. Files that compaction replaces while they are read stay for an hour (``--linger-minutes``). Raises
    StoreError for a root that cannot be used or a compacted file that does not say what it replaces, OSError when the
    store fails.
    """
    return Store(root, s3_endpoint=s3_endpoint).live_files(instance, cluster, start, end, table=table)


def spark_path(address: str) -> str:
    """What Spark reads an address as: s3a:// for s3://, file:// for a plain path, others unchanged."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return "file://" + address
    return f"s3a://{rest}" if scheme == "s3" else address


def spark_paths(addresses: Iterable[str]) -> list[str]:
    """:func:`spark_path` of each."""
    return [spark_path(address) for address in addresses]


def _overlaps(hour: datetime, start: datetime, end: datetime) -> bool:
    return hour < end and start < hour + timedelta(hours=1)


def _open(root: str, s3_endpoint: str | None) -> tuple[Any, str]:
    if not root:
        raise StoreError("the root is empty: give a folder or a URL such as s3://bucket/folder")
    try:
        if s3_endpoint is not None:
            scheme, _, bucket = root.partition("://")
            if scheme != "s3":
                raise StoreError(f"an S3 endpoint is given, but the root is {root!r}: use s3://bucket/folder")
            protocol, mark, host = s3_endpoint.rstrip("/").partition("://")
            if not mark or protocol not in {"http", "https"}:
                raise StoreError(f"S3 endpoint {s3_endpoint!r} is no URL: give http://host:port or https://host:port")
            return fs.S3FileSystem(endpoint_override=host, scheme=protocol), bucket.rstrip("/")
        if "://" in root:
            system, path = fs.FileSystem.from_uri(root)
            return system, path.rstrip("/")
        return fs.LocalFileSystem(), str(Path(root).absolute())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"root {root!r} cannot be used: {error}") from None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
