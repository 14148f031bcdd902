"""What was recorded: the files of every hour, which of them can be read, and what the markers say."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from pulsar_sizing import layout
from pulsar_sizing.arrow import fs, parquet, table_schema
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import Store

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

UNREADABLE: Final = "file_unreadable"
WRONG_SCHEMA: Final = "file_wrong_schema"
READERS: Final = 8
CLOCKS_DIFFER: Final = timedelta(hours=1)
MARKER_TABLE: Final = pa.schema([field for field in table_schema(MARKERS) if field.name != "error"])
MILLION: Final = 1_000_000
"""Shares of a CPU are added up in millionths: the order of whole numbers does not matter."""


class VanishedError(Exception):
    """A file that was listed is gone: retention was faster. List again."""


@dataclass(frozen=True)
class Hour:
    """The landing files of one hour. Paths are relative to the store's root."""

    start: datetime
    traffic: tuple[str, ...]
    markers: tuple[str, ...]
    digest: str
    """Of names, sizes and times of change: differs when any file came, went or changed."""
    size: int = 0
    """Bytes of the files."""

    @property
    def unit(self) -> int:
        """Hours since 1970."""
        return unit_of(self.start)


@dataclass(frozen=True)
class Markers:
    """What the markers of an hour say."""

    expected: int = 0
    """Broker samples that should be there."""
    answered: int = 0
    announced: int = 0
    """Rows that the answers had."""
    rounds: int = 0
    """Sample times at which any broker answered."""
    rejected: Counter[str] = field(default_factory=Counter)
    newest: datetime | None = None
    """The last round in which all brokers answered, else the last round."""
    brokers: tuple[str, ...] = ()
    """The brokers that were registered at the newest round."""
    by_broker: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Samples that should be there of each broker, and those that it answered."""
    due: int = 0
    """Broker samples that the hour has where the collector makes all its rounds; 0 = its interval is not known."""
    cpu: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Samples of each broker that report its CPU, and the sum of its shares in millionths."""


def unit_of(moment: datetime) -> int:
    """Hours since 1970."""
    return int(moment.timestamp()) // 3600


def start_of(unit: int) -> datetime:
    """The hour's begin."""
    return datetime.fromtimestamp(unit * 3600, UTC)


def recorded_days(store: Store, instance: str, cluster: str) -> list[datetime]:
    """Begins of the days that have a folder, in order. Of a day on which no topic was loaded there are markers."""
    folders = (
        each for table in (TRAFFIC, MARKERS) for each in store.folders(layout.cluster_folder(table, instance, cluster))
    )
    found = {day for folder in folders if (day := layout.day_of(folder)) is not None}
    return [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in sorted(found)]


def newest_day(days: Sequence[datetime], now: datetime) -> datetime:
    """The last of some days that began by now, give or take the clocks of two machines.

    A collector whose clock ran ahead left a day to come: it must not be the one that the window ends with, until then.
    Where all days are to come it is the clock of this machine that is wrong, and the last one counts.
    """
    return max((day for day in days if day <= now + CLOCKS_DIFFER), default=days[-1])


def hours(store: Store, instance: str, cluster: str, start: datetime, end: datetime) -> list[Hour]:
    """The hours with files in [start, end), in order. `start` and `end` are whole hours."""
    files: dict[datetime, dict[str, list[Any]]] = {}
    for table in (TRAFFIC, MARKERS):
        for day in layout.days(start, end):
            folder = f"{layout.cluster_folder(table, instance, cluster)}/day={day.isoformat()}"
            for info in store.listing(folder, recursive=True):
                hour = layout.hour_of(store.relative(info).rpartition("/")[0])
                if info.type == fs.FileType.File and hour is not None and start <= hour < end:
                    files.setdefault(hour, {}).setdefault(table, []).append(info)
    return [_hour(store, hour, files[hour]) for hour in sorted(files)]


def _hour(store: Store, start: datetime, tables: Mapping[str, Sequence[Any]]) -> Hour:
    digest = hashlib.sha256()
    paths: dict[str, list[str]] = {}
    size = 0
    for table in (TRAFFIC, MARKERS):
        infos = {store.relative(info): info for info in tables.get(table, ()) if layout.is_visible(info.base_name)}
        paths[table] = sorted(infos)
        for path in paths[table]:
            digest.update(f"{path}\n{infos[path].size}\n{infos[path].mtime_ns}\n".encode())
            size += infos[path].size or 0
    return Hour(start, tuple(paths[TRAFFIC]), tuple(paths[MARKERS]), digest.hexdigest(), size)


def damaged(store: Store, paths: Sequence[str]) -> frozenset[str]:
    """The traffic files with a sound footer whose pages cannot be read. Reads them whole.

    Raises VanishedError when one is gone.
    """
    with ThreadPoolExecutor(READERS) as pool:
        verdicts = list(pool.map(partial(_is_damaged, store), paths))
    return frozenset(path for path, bad in zip(paths, verdicts, strict=True) if bad)


def _is_damaged(store: Store, path: str) -> bool:
    try:
        with store.open(path) as stream:
            for _ in parquet.ParquetFile(stream).iter_batches(use_threads=False):
                pass
    except FileNotFoundError:
        raise VanishedError(path) from None
    except (pa.ArrowException, OSError) as error:
        # An error number is the store's; a damaged page has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return True
    return False


def sound(store: Store, paths: Sequence[str]) -> tuple[dict[str, int], Counter[str]]:
    """Rows of each traffic file that can be read, and how many files cannot, by reason.

    A file can be read if its footer is sound and has the columns of the schema. Raises VanishedError when one is gone.
    """
    with ThreadPoolExecutor(READERS) as pool:
        footers = dict(zip(paths, pool.map(partial(_rows, store), paths), strict=True))
    return {path: each for path, each in footers.items() if isinstance(each, int)}, Counter(
        each for each in footers.values() if isinstance(each, str)
    )


def _rows(store: Store, path: str) -> int | str:
    footer = _footer(store, path, TRAFFIC)
    return footer if isinstance(footer, str) else int(footer.num_rows)


def _footer(store: Store, path: str, table: str) -> Any:
    """The Parquet metadata of a file, or why it does not count. Raises VanishedError when it is gone."""
    try:
        with store.open(path) as stream:
            metadata = parquet.read_metadata(stream)
            found = metadata.schema.to_arrow_schema()
    except FileNotFoundError:
        raise VanishedError(path) from None
    except (pa.ArrowException, OSError):
        return UNREADABLE
    fits = all(
        field.name in found.names and found.field(field.name).type == field.type
        for field in table_schema(table)
        if not field.nullable or field.name in found.names
    )
    return metadata if fits else WRONG_SCHEMA


def markers(store: Store, paths: Sequence[str]) -> Markers:
    """What the markers of an hour say; each broker and sample counts once, answered if any row says so."""
    tables = [MARKER_TABLE.empty_table()]
    rejected: Counter[str] = Counter()
    for path in paths:
        verdict = _footer(store, path, MARKERS)
        if not isinstance(verdict, str):
            try:
                tables.append(_marker_rows(store, path))
                continue
            except FileNotFoundError:
                raise VanishedError(path) from None
            except (pa.ArrowException, OSError):
                verdict = UNREADABLE
        rejected[verdict] += 1
    rows = pa.concat_tables(tables)
    cpu = _cpu(rows)
    topics = compute.max_element_wise(compute.fill_null(rows["topics"], 0), 0)
    # Null where the broker did not answer.
    answered = rows.append_column("told", compute.if_else(rows["answered"], topics, pa.scalar(None, pa.int64())))
    answers = answered.group_by(["sample_time", "broker"]).aggregate([("told", "max")])
    times = answers.group_by("sample_time").aggregate([("told_max", "count"), ("broker", "count")])
    complete = times.filter(compute.equal(times["told_max_count"], times["broker_count"]))
    newest = compute.max((complete if complete.num_rows else times)["sample_time"])
    there = answers.filter(compute.equal(answers["sample_time"], newest))["broker"].to_pylist()
    by_broker = answers.group_by("broker").aggregate([("sample_time", "count"), ("told_max", "count")])
    return Markers(
        expected=answers.num_rows,
        answered=answers.num_rows - answers["told_max"].null_count,
        announced=compute.sum(answers["told_max"]).as_py() or 0,
        rounds=times.filter(compute.greater(times["told_max_count"], 0)).num_rows,
        rejected=rejected,
        newest=newest.as_py(),
        brokers=tuple(sorted(there)),
        by_broker={row["broker"]: (row["sample_time_count"], row["told_max_count"]) for row in by_broker.to_pylist()},
        due=_due(rows["interval_seconds"], answers.num_rows, times.num_rows),
        cpu=cpu,
    )


def _due(intervals: Any, samples: int, rounds: int) -> int:
    """Broker samples of an hour in which a round is made at each interval, with as many brokers as there were.

    Where the interval was changed in the hour the longest one counts.
    """
    longest = compute.max(intervals).as_py()
    return round(samples * max(3600 / longest / rounds, 1.0)) if rounds and longest and longest > 0 else 0


def _marker_rows(store: Store, path: str) -> Any:
    """The markers of a file; what an older collector did not write is null."""
    with store.open(path) as stream:
        found = parquet.ParquetFile(stream).read(MARKER_TABLE.names)
    for column in MARKER_TABLE:
        if column.name not in found.column_names:
            found = found.append_column(column, pa.nulls(found.num_rows, column.type))
    return found.select(MARKER_TABLE.names).cast(MARKER_TABLE)


def _cpu(rows: Any) -> dict[str, tuple[int, int]]:
    """Returns the CPU by broker, each sample once. An invalid share counts as missing; more than all of a CPU counts as
    all of it."""
    counts = compute.and_(compute.greater(rows["cpu"], 0.0), compute.is_finite(rows["cpu"]))
    parts = compute.multiply(compute.min_element_wise(rows["cpu"], 1.0), float(MILLION))
    reported = rows.select(["sample_time", "broker"]).append_column("parts", parts).filter(counts)
    reported = reported.set_column(2, "parts", compute.round(reported["parts"]).cast(pa.int64()))
    once = reported.group_by(["sample_time", "broker"]).aggregate([("parts", "max")])
    found = once.group_by("broker").aggregate([("parts_max", "count"), ("parts_max", "sum")])
    return {row["broker"]: (row["parts_max_count"], row["parts_max_sum"]) for row in found.to_pylist()}
