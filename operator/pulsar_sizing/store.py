"""Where recorded traffic and sizing results lie below a root: see files.py for the file system.

**What a reader must do**: read what :func:`recorded_files` returns, keep the rows with a ``sample_time`` in its range,
and of the rows of a topic and ``sample_time`` keep one: a file may be there twice, and both brokers report a topic that
moves. The markers of a round are written after its traffic, so that an answered marker means that the traffic is there.

**Addresses**: a local root gives plain absolute paths, another one URLs of its scheme. :func:`files.spark_path` turns
either into what Spark takes: ``s3://`` becomes ``s3a://`` (hadoop-aws), a path ``file://``; ``gs://`` stays.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    "S3",
    "Place",
    "Store",
    "StoreError",
    "Upload",
    "recorded_files",
    "spark_path",
    "spark_paths",
]


class Upload:
    """One Parquet file in the making; nothing is visible before :meth:`commit`. Calls block: use a thread."""

    def __init__(self, store: Store, path: str, schema: Any, **options: Any) -> None:
        """``path`` is relative to the root; ``options`` go to pyarrow's ParquetWriter."""
        self._store = store
        self._path = path
        self._temporary = store.temporary(path)
        self._stream = store.create(self._temporary)
        try:
            self._writer = parquet.ParquetWriter(self._stream, schema, **options)
        except BaseException:
            self._stream.close()
            raise
        self._published = False
        self.rows = 0

    def write(self, data: Any) -> None:
        """Appends a RecordBatch or a Table; each becomes separate row groups."""
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
        path = f"{folder}/{layout.sample_file(who, sample_time)}"
        return Upload(self, path, table_schema(table), **file_options(table))

    def recorded_files(
        self, instance: str, cluster: str, start: datetime, end: datetime, *, table: str = TRAFFIC
    ) -> list[str]:
        """See :func:`recorded_files`."""
        return [self.address(path) for path in self.recorded_paths(instance, cluster, start, end, table=table)]

    def recorded_paths(
        self, instance: str, cluster: str, start: datetime, end: datetime, *, table: str = TRAFFIC
    ) -> list[str]:
        """The same, relative to the root, for :meth:`open`."""
        found: list[str] = []
        for day in layout.days(start, end):
            folder = f"{layout.cluster_folder(table, instance, cluster)}/day={day.isoformat()}"
            found += self._recorded_in_day(folder, start, end)
        return found

    def _recorded_in_day(self, day_folder: str, start: datetime, end: datetime) -> list[str]:
        found: list[str] = []
        for info in self.listing(day_folder, recursive=True):
            path = self.relative(info)
            folder, _, name = path.rpartition("/")
            hour = layout.hour_of(folder)
            if info.type == fs.FileType.File and layout.is_visible(name) and hour and _overlaps(hour, start, end):
                found.append(path)
        return sorted(found)

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


def file_options(table: str) -> dict[str, Any]:
    """How pyarrow writes the landing files of a table: codec, and the columns with few distinct values."""
    repeating = [name for name in ("broker", "namespace", "bundle") if name in table_schema(table).names]
    return {"compression": "zstd", "use_dictionary": repeating}


def recorded_files(
    root: str,
    instance: str,
    cluster: str,
    start: datetime,
    end: datetime,
    *,
    table: str = TRAFFIC,
    s3: S3 | None = None,
) -> list[str]:
    """Addresses of the files to read for the samples in [start, end).

    Whole hours: rows outside of the range are for the reader to drop. ``table`` is ``traffic`` or ``markers``. Times
    are aware. Raises StoreError for a root that cannot be used, OSError when the store fails.
    """
    return Store(root, s3=s3).recorded_files(instance, cluster, start, end, table=table)


def spark_paths(addresses: Iterable[str]) -> list[str]:
    """:func:`spark_path` of each."""
    return [spark_path(address) for address in addresses]


def _overlaps(hour: datetime, start: datetime, end: datetime) -> bool:
    return hour < end and start < hour + timedelta(hours=1)
