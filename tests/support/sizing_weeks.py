"""Twenty generated recordings of a day to a week, for the sizing job to find what it always found in them.

Each week has a fixed seed and one or two things that sizing must handle: brokers of different size, an absent broker,
learned cost factors, gaps in the profile, hot partitions, late, duplicate and damaged files, dirty rows. What the first
job found is committed as data/weeks.json.gz below tests/unit/sizing, see sizing_found.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.spark.traffic import Recording, folder, save, traffic_table, write
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import Store

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
"""Half a day after the last recorded hour of a week."""
NUMBERS = ("bytes_in", "bytes_out", "messages_in", "messages_out")

Edit = Callable[["Week", Path], None]


@dataclass(frozen=True)
class Week:
    """One recording and one question about it."""

    name: str
    recording: Recording
    question: dict[str, Any] = field(default_factory=dict)
    """Fields of the request beside instance and cluster."""
    edits: tuple[Edit, ...] = ()
    """Changes to the recorded files, in order."""
    steps: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of hours; the job runs after each of them was recorded. Empty = all hours, one run."""
    now: datetime = NOW
    files_per_round: tuple[int, int] = (0, 3)
    """Half-open range of the hours that have a file for each broker and round; the others have one file."""

    def record(self, root: Path, first: int, last: int) -> None:
        """Write some hours of the recording."""
        hours = self.recording.hours
        begin, end = (min(max(edge, first), last) for edge in self.files_per_round)
        for low, high, per_round in ((first, begin, False), (begin, end, True), (end, last, False)):
            write(self.recording, root, per_round=per_round, hours=hours[low:high])

    def play(self, root: Path, run: Callable[[], Any]) -> Any:
        """Record everything and run the job; what its last run returned."""
        for first, last in self.steps[:-1]:
            self.record(root, first, last)
            run()
        first, last = self.steps[-1] if self.steps else (0, len(self.recording.hours))
        self.record(root, first, last)
        for edit in self.edits:
            edit(self, root)
        return run()

    def rows(self, root: Path, hour: int, change: Callable[[Any], Any], table: str = TRAFFIC) -> None:
        """Replace the rows of each file of an hour."""
        for path in self.files(root, hour, table):
            save(change(pq.ParquetFile(path).read()), path)

    def files(self, root: Path, hour: int, table: str = TRAFFIC) -> list[Path]:
        """Files of an hour, in order."""
        return sorted(folder(root, table, self.recording, self.recording.hours[hour]).glob("*.parquet"))

    def store(self, root: Path) -> Store:
        """The store at a root."""
        return Store(str(root))


def _set(table: Any, name: str, values: Any) -> Any:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def absent(broker: int, hours: Sequence[int], rounds: Sequence[int] = ()) -> Edit:
    """A broker does not answer in some hours, in all rounds or those with the given numbers."""

    def edit(week: Week, root: Path) -> None:
        name = f"{week.recording.cluster}-broker-{broker}:8080"

        def away(table: Any) -> Any:
            seconds = pc.divide(pc.cast(table["sample_time"], pa.int64()), 1000)
            number = [s % 3600 // week.recording.interval_seconds for s in seconds.to_pylist()]
            there = [not rounds or n in rounds for n in number]
            return pc.and_(pc.equal(table["broker"], name), pa.array(there))

        def mark(table: Any) -> Any:
            gone = away(table)
            table = _set(table, "answered", pc.and_(table["answered"], pc.invert(gone)).to_pylist())
            table = _set(table, "topics", pc.if_else(gone, 0, table["topics"]).to_pylist())
            return _set(table, "cpu", pc.if_else(gone, pa.scalar(None, pa.float64()), table["cpu"]).to_pylist())

        for hour in hours:
            week.rows(root, hour, lambda table: table.filter(pc.invert(away(table))))
            week.rows(root, hour, mark, MARKERS)

    return edit


def moved(hours: Sequence[int], step: int) -> Edit:
    """Topics of every third bundle are on another broker."""

    def edit(week: Week, root: Path) -> None:
        many = week.recording.brokers

        def change(table: Any) -> Any:
            brokers = table["broker"].to_pylist()
            for at, bundle in enumerate(table["bundle"].to_pylist()):
                if int(bundle[:10], 16) >> 28 in (0, 3, 6, 9, 12, 15):
                    number = (int(brokers[at].partition("broker-")[2].partition(":")[0]) + step) % many
                    brokers[at] = f"{week.recording.cluster}-broker-{number}:8080"
            return _set(table, "broker", brokers)

        for hour in hours:
            week.rows(root, hour, change)

    return edit


def gone(hours: Sequence[int]) -> Edit:
    """Nothing was recorded in some hours."""

    def edit(week: Week, root: Path) -> None:
        for hour in hours:
            for table in (TRAFFIC, MARKERS):
                shutil.rmtree(folder(root, table, week.recording, week.recording.hours[hour]))

    return edit


def few_rounds(hours: Sequence[int], keep: int) -> Edit:
    """Of some hours only the first rounds were recorded."""

    def edit(week: Week, root: Path) -> None:
        for hour in hours:
            begin = week.recording.hours[hour]
            end = begin + timedelta(seconds=keep * week.recording.interval_seconds)
            for table in (TRAFFIC, MARKERS):
                limit = pa.scalar(end, pa.timestamp("ms", tz="UTC"))
                week.rows(root, hour, lambda t, limit=limit: t.filter(pc.less(t["sample_time"], limit)), table)

    return edit


def late(hours: Sequence[int]) -> Edit:
    """The files of some hours come after those of later hours."""

    def edit(week: Week, root: Path) -> None:
        for hour in hours:
            week.record(root, hour, hour + 1)

    return edit


def doubled(hours: Sequence[int], share: float) -> Edit:
    """The next broker reports some topics too, with smaller rates."""

    def edit(week: Week, root: Path) -> None:
        for hour in hours:
            for path in week.files(root, hour):
                table = pq.ParquetFile(path).read()
                also = table.filter(pa.array([crc32(name.encode()) % 5 == 0 for name in table["topic"].to_pylist()]))
                for name in NUMBERS:
                    also = _set(also, name, pc.multiply(also[name], share).to_pylist())
                also = _set(also, "broker", [f"{week.recording.cluster}-broker-0:8080"] * also.num_rows)
                save(also, path.with_name("also-" + path.name))

    return edit


def copied(hours: Sequence[int]) -> Edit:
    """Some files are there twice."""

    def edit(week: Week, root: Path) -> None:
        for hour in hours:
            for path in week.files(root, hour)[:2]:
                shutil.copy(path, path.with_name("again-" + path.name))

    return edit


def damaged(week: Week, root: Path) -> None:
    """Truncated, empty, of another schema, and with damaged pages behind a sound footer."""
    first, second, third, fourth = week.files(root, 0)[:4]
    first.write_bytes(first.read_bytes()[:-30])
    second.with_name("empty-" + second.name).write_bytes(b"")
    other = pq.ParquetFile(third).read().drop_columns(["topic"])
    save(other, third.with_name("other-" + third.name))
    pages = bytearray(fourth.read_bytes())
    start = pq.read_metadata(fourth).row_group(0).column(4).data_page_offset
    pages[start : start + 200] = b"\xff" * 200
    fourth.write_bytes(bytes(pages))
    for path in week.files(root, 1, MARKERS):
        path.with_name("broken-" + path.name).write_bytes(b"PAR1")


def dirty(week: Week, root: Path) -> None:
    """Rows of every kind that do not count."""
    for hour in (4, 19, 44):
        path = week.files(root, hour)[0]
        recorded = pq.ParquetFile(path).read()
        good = recorded.slice(0, 1).to_pylist()[0]
        rows = [
            good | {"bytes_in": -1.0},
            good | {"bytes_out": float("nan")},
            good | {"messages_in": 2e12},
            good | {"messages_out": None},
            good | {"producers": -1},
            good | {"backlog": None},
            good | {"sample_time": good["sample_time"] + timedelta(hours=1)},
            good | {"sample_time": None},
            good | {"position": good["position"] + 1},
            good | {"position": None},
            good | {"topic": None},
            good | {"namespace": "other/ns"},
            good | {"namespace": None},
            good | {"bytes_in": -1.0, "position": 5},
            good | {"broker": None, "bytes_in": 0.0},
        ]
        dirt = traffic_table(rows)
        save(pa.concat_tables([recorded.cast(dirt.schema), dirt]), path)


def renamed(week: Week, root: Path) -> None:
    """Names of other forms: non-persistent topics, and those of Pulsar 1 with a cluster in the name."""

    def change(table: Any) -> Any:
        names, spaces = table["topic"].to_pylist(), table["namespace"].to_pylist()
        for at, name in enumerate(names):
            rest = name.removeprefix("persistent://")
            if crc32(name.encode()) % 7 == 0:
                names[at] = f"non-persistent://{rest}"
            elif crc32(name.encode()) % 7 == 1:
                tenant, _, last = rest.partition("/")
                space, _, topic = last.partition("/")
                spaces[at] = f"{tenant}/us/{space}"
                names[at] = f"persistent://{tenant}/us/{space}/{topic}"
        table = _set(_set(table, "topic", names), "namespace", spaces)
        return _set(table, "position", [crc32(name.encode()) for name in names])

    for hour in range(len(week.recording.hours)):
        week.rows(root, hour, change)


def equal_rates(week: Week, root: Path) -> None:
    """All topics of the first namespace weigh the same."""

    def change(table: Any) -> Any:
        same = [space.endswith("-0") for space in table["namespace"].to_pylist()]
        for name in NUMBERS:
            table = _set(table, name, pc.if_else(pa.array(same), 1000.0, table[name]).to_pylist())
        return table

    for hour in range(len(week.recording.hours)):
        week.rows(root, hour, change)


def new_topic(week: Week, root: Path) -> None:
    """A topic that only the newest hour knows."""
    name = "persistent://tenant-0/namespace-0/new"

    def change(table: Any) -> Any:
        row = table.slice(0, 1).to_pylist()[0]
        more = traffic_table(
            [row | {"topic": name, "position": crc32(name.encode()), "namespace": "tenant-0/namespace-0"}]
        )
        return pa.concat_tables([table.cast(more.schema), more])

    week.rows(root, len(week.recording.hours) - 1, change)


def without_markers(hours: Sequence[int]) -> Edit:
    """Nothing tells who was asked in some hours."""

    def edit(week: Week, root: Path) -> None:
        for hour in hours:
            shutil.rmtree(folder(root, MARKERS, week.recording, week.recording.hours[hour]))

    return edit


def compacted(week: Week, root: Path) -> None:
    """An older collector made one file of each hour, and one file comes late."""
    held = week.files(root, 2)[0]
    kept = held.read_bytes()
    for hour in range(len(week.recording.hours)):
        for table in (TRAFFIC, MARKERS):
            files = week.files(root, hour, table)
            rows = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
            for path in files:
                path.unlink()
            save(rows, files[0].with_name(f"hour-{hour:016x}.compacted.parquet"))
    late = pq.read_table(pa.BufferReader(kept)).cast(table_schema(TRAFFIC))
    save(late, held.with_name("late-" + held.name))


def _recording(seed: int, **changes: Any) -> Recording:
    usual = {"topics": 160, "namespaces": 4, "brokers": 3, "bundles": 16, "interval_seconds": 1200}
    return Recording(**usual | {"seed": seed} | changes)


CPUS = {"east-broker-0": "1", "east-broker-1": "2", "east-broker-2": "500m"}
BUSY = (42, 43, 44, 45, 67, 68, 69, 92)
"""Some hours in which traffic is high."""

WEEKS: tuple[Week, ...] = (
    Week("plain", _recording(1, topics=300), {"capacity": 6e8}),
    Week("capacities", _recording(2, days=3), {"capacities": CPUS, "capacity": 5e8}),
    Week("absent broker", _recording(3), {"capacity": 5e8}, (absent(0, BUSY),)),
    Week(
        "broker absent at times",
        _recording(4, days=5, brokers=4),
        {},
        (absent(1, BUSY, (0,)), absent(2, (110, 111), (1, 2))),
    ),
    Week("cost factors", _recording(5, days=5, dearest=8.0, zipf=0.8, brokers=4, namespaces=6)),
    Week(
        "cost factors, capacities and an absent broker",
        _recording(6, dearest=8.0, zipf=0.7),
        {"capacities": CPUS, "capacity": 8e8, "target": 0.5},
        (moved(range(24, 90), 1), moved(range(100, 130), 2), absent(2, (70, 71))),
    ),
    Week("profile with gaps", _recording(7), {}, (gone((10, 11, 12, 50)), few_rounds((80, 120), 1), absent(1, (90,)))),
    Week("profile of a day", _recording(8, days=3), {"window_days": 30}),
    Week("one day", _recording(9, days=1), {"percentile": 50.0}),
    Week("hot partitions", _recording(10, days=3, zipf=2.0, namespaces=2), {"capacity": 4e8}),
    Week(
        "seven brokers",
        _recording(11, days=3, brokers=7, bundles=4),
        {"tolerance": 0.2, "growth": 1.0, "percentile": 99.9},
    ),
    Week("late files", _recording(12), {}, (late((30,)), copied((31, 90))), steps=((0, 30), (31, 140), (140, 168))),
    Week(
        "doubles",
        _recording(13, days=4),
        {"capacity": 6e8},
        (doubled(BUSY, 0.3), doubled((95,), 1.5), copied((0, 1, 40))),
    ),
    Week("damaged files", _recording(14, days=2), {"min_completeness": 0.5}, (damaged, copied((2,)))),
    Week("dirty rows", _recording(15, days=2), {}, (dirty,)),
    Week("too little", _recording(16, days=2), {}, (absent(0, range(10, 40)), absent(1, range(30, 48), (0, 1)))),
    Week("odd names", _recording(17, days=3, topics=240), {"percentile": 75.0}, (renamed, equal_rates)),
    Week(
        "a new topic in an hour that is not over",
        _recording(18, days=4),
        {"window_days": 4},
        (few_rounds((95,), 2), new_topic),
        now=datetime(2026, 3, 5, 23, 50, tzinfo=UTC),
    ),
    Week("compacted", _recording(19, days=3), {}, (compacted,), files_per_round=(0, 8)),
    Week("one broker, short window", _recording(20, days=8, brokers=1), {"window_days": 3}, (without_markers((130,)),)),
)
