"""Upkeep of the store: closed hours become one file each, old days go, leftovers of killed writers go.

Safe to kill at any line, because each step leaves a store that reads the same (see store.py):

1. the compacted file is written under ``_tmp`` - nobody sees it;
2. it is moved into the hour: from then on the files it lists are left out by every reader, all at once;
3. those files are deleted when the compacted file is older than ``linger``, in any order and any number of times.

Files that come late into a compacted hour count beside the compacted file, until the next upkeep merges both. A file
that cannot be read stays as it is, for the reader to reject, and is reported.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from pulsar_sizing import layout
from pulsar_sizing.arrow import fs, parquet, table_schema
from pulsar_sizing.schema import MARKERS, SCHEMA_VERSION, TRAFFIC
from pulsar_sizing.sorting import in_order
from pulsar_sizing.store import REPLACES, Store, StoreError, Upload

READ_ROWS = 65_536
MAX_BYTES = 4 * 1024**3
"""On an object store an hour larger than this stays in small files: one request copies at most 5 GiB."""
DICTIONARY_BYTES = 8 * 1024**2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Policy:
    """When what is done."""

    settle: timedelta = timedelta(minutes=5)
    """An hour is closed when it ended so long ago: retries of its last sample are over."""
    linger: timedelta = timedelta(hours=1)
    """How long replaced files stay for readers that listed them before. Longer than any reader reads."""
    retention_days: int = 14
    """Whole days (UTC) that are kept besides today."""


@dataclass
class Report:
    """What one upkeep did."""

    hours: int = 0
    """Hours compacted."""
    rows: int = 0
    deleted: int = 0
    """Replaced files deleted."""
    days: int = 0
    """Days past retention deleted."""
    leftovers: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Addresses of files that are no readable Parquet of this schema."""
    failed: list[str] = field(default_factory=list)
    """Hours left as they were, with the reason."""


class _UnreadableError(Exception):
    """A file to compact cannot be read."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name


def maintain(store: Store, instance: str, now: datetime, policy: Policy | None = None) -> Report:
    """Clean, expire and compact everything of an instance. Blocks; run at most one at a time per root.

    What fails for an hour is reported and leaves the others alone. Raises OSError when the store cannot be listed.
    """
    policy = policy or Policy()
    report = Report(leftovers=store.clean_temporary(now))
    for table in (TRAFFIC, MARKERS):
        above = f"{table}/v{SCHEMA_VERSION}/{layout.partition('instance', instance)}"
        for cluster in store.folders(above):
            for folder in store.folders(f"{above}/{cluster}"):
                day = layout.day_of(folder)
                if day is None:
                    continue
                path = f"{above}/{cluster}/{folder}"
                if (now.date() - day).days > policy.retention_days:
                    store.delete_folder(path)
                    report.days += 1
                    continue
                _maintain_day(store, table, path, now, policy, report)
    return report


def _maintain_day(store: Store, table: str, day: str, now: datetime, policy: Policy, report: Report) -> None:
    hours: dict[str, list[Any]] = {}
    for info in store.listing(day, recursive=True):
        folder = store.relative(info).rpartition("/")[0]
        if info.type == fs.FileType.File and layout.hour_of(folder) is not None and layout.is_visible(info.base_name):
            hours.setdefault(folder, []).append(info)
    for folder, files in sorted(hours.items()):
        begin = layout.hour_of(folder)
        if begin is None or now < begin + timedelta(hours=1) + policy.settle:
            continue
        try:
            report.deleted += _sweep(store, folder, files, now, policy.linger)
            _compact_hour(store, table, folder, files, report)
        except (OSError, pa.ArrowException, StoreError) as error:
            report.failed.append(f"{store.address(folder)}: {error}")


def _sweep(store: Store, folder: str, files: list[Any], now: datetime, linger: timedelta) -> int:
    """Delete what was replaced long enough ago."""
    live = set(store.live_in(folder, [info.base_name for info in files]))
    settled = [
        store.replaced_by(f"{folder}/{info.base_name}")
        for info in files
        if info.base_name in live and layout.is_compacted(info.base_name) and now - info.mtime >= linger
    ]
    gone = 0
    for info in files:
        name = info.base_name
        if name in live:
            continue
        held = store.replaced_by(f"{folder}/{name}") if layout.is_compacted(name) else frozenset[str]()
        if any(name in replaced or (held and held < replaced) for replaced in settled):
            store.delete(f"{folder}/{name}")
            gone += 1
    return gone


def _compact_hour(store: Store, table: str, folder: str, files: list[Any], report: Report) -> None:
    live = store.live_in(folder, [info.base_name for info in files])
    while len(live) > 1:
        sizes = {info.base_name: int(info.size or 0) for info in files}
        if store.copies and sum(sizes[name] for name in live) > MAX_BYTES:
            report.failed.append(f"{store.address(folder)}: larger than {MAX_BYTES} bytes, left in small files")
            return
        try:
            report.rows += _write_compacted(store, table, folder, live)
            report.hours += 1
            return
        except _UnreadableError as error:
            log.warning("a recorded file cannot be read and is not compacted", extra={"file": str(error)})
            report.unreadable.append(store.address(f"{folder}/{error.name}"))
            live = [name for name in live if name != error.name]
    return


def _write_compacted(store: Store, table: str, folder: str, live: list[str]) -> int:
    replaced = set(live)
    for name in live:
        if layout.is_compacted(name):
            replaced |= store.replaced_by(f"{folder}/{name}")
    schema = table_schema(table).with_metadata({REPLACES: json.dumps(sorted(replaced)).encode()})
    words = [f.name for f in schema if pa.types.is_string(f.type)]
    upload = Upload(
        store,
        f"{folder}/{layout.compacted_file(replaced)}",
        schema,
        use_dictionary=words,
        dictionary_pagesize_limit=DICTIONARY_BYTES,
    )
    try:
        for data in in_order(store, schema, _batches(store, table, folder, live), _rows(store, folder, live)):
            upload.write(data.replace_schema_metadata(schema.metadata))
        upload.commit()
    except BaseException:
        upload.abort()
        raise
    return upload.rows


def _batches(store: Store, table: str, folder: str, names: list[str]) -> Iterator[Any]:
    """Tables of files, with this version's columns: what an older writer did not have is null.

    Compacted files come last: what cannot be read is found before the long ones are read.
    """
    schema = table_schema(table)
    for name in sorted(names, key=layout.is_compacted):
        try:
            with store.open(f"{folder}/{name}") as stream:
                file = parquet.ParquetFile(stream)
                _check(file.schema_arrow, schema)
                for batch in file.iter_batches(READ_ROWS, use_threads=False):
                    yield _conform(pa.Table.from_batches([batch]), schema)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise _UnreadableError(name, str(error)) from None


def _check(found: Any, wanted: Any) -> None:
    """Raises ArrowInvalid unless every row survives: no required column missing, none that this version would drop."""
    missing = [f.name for f in wanted if not f.nullable and f.name not in found.names]
    extra = [name for name in found.names if name not in wanted.names]
    if missing or extra:
        raise pa.ArrowInvalid(f"columns missing: {missing}, columns not known to this version: {extra}")


def _conform(data: Any, schema: Any) -> Any:
    columns = [
        data.column(f.name).cast(f.type) if f.name in data.schema.names else pa.nulls(data.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _rows(store: Store, folder: str, names: list[str]) -> int:
    """Rows of files, for :func:`in_order`; what cannot be read has none here and is found by :func:`_batches`."""
    rows = 0
    for name in names:
        with suppress(pa.ArrowException), store.open(f"{folder}/{name}") as stream:
            rows += int(parquet.read_metadata(stream).num_rows)
    return rows
