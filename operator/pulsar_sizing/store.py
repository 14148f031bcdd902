"""Where recorded traffic and sizing results lie below a root: see files.py for the file system.

**What a reader must do**: read what :func:`live_files` returns, and keep the rows with a ``sample_time`` in its range.
A closed hour is compacted into one file that lists the files it replaces in its Parquet metadata (key ``REPLACES``);
these stay for a while after that, for readers that listed them before, and count no more: see :func:`layout.covered`.
The markers of a round are written after its traffic, so an answered marker means that the traffic is there.

**Addresses**: a local root gives plain absolute paths, another one URLs of its own scheme. :func:`files.spark_path`
turns either into what Spark takes: ``s3://`` becomes ``s3a://`` (hadoop-aws), a path ``file://``; ``gs://`` stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing import layout
from pulsar_sizing.arrow import fs, parquet, table_schema
from pulsar_sizing.files import Files, StoreError, spark_path
from pulsar_sizing.place import S3, Place
from pulsar_sizing.results import latest_result_text, store_result
from pulsar_sizing.schema import TRAFFIC

__all__ = [
    "REPLACES",
    "S3",
    "Place",
    "Store",
    "StoreError",
    "Upload",
    "live_files",
    "spark_path",
    "spark_paths",
]

REPLACES = b"pulsar_sizing.replaces"
"""Parquet metadata key of a compacted file: JSON list of the names, in its folder, that it replaces at every remove."""
LISTINGS = 3
"""Times a folder is listed anew when a file that was just listed is gone."""


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


class Store(Files):
    """Recorded traffic and results below one root. Methods block: call them in a thread from async code."""

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
    s3: S3 | None = None,
) -> list[str]:
    """Addresses of the files to read for the samples in [start, end), each row in exactly one of them.

    Whole hours: rows outside of the range are for the reader to drop. ``table`` is ``traffic`` or ``markers``. Times
    are aware. Files that compaction replaces while they are read stay for an hour (``--linger-minutes``). Raises
    StoreError for a root that cannot be used or a compacted file that does not say what it replaces, OSError when the
    store fails.
    """
    return Store(root, s3=s3).live_files(instance, cluster, start, end, table=table)


def spark_paths(addresses: Iterable[str]) -> list[str]:
    """:func:`spark_path` of each."""
    return [spark_path(address) for address in addresses]


def _overlaps(hour: datetime, start: datetime, end: datetime) -> bool:
    return hour < end and start < hour + timedelta(hours=1)
