"""``python -m benchmarks.data_plane [--sizes 1000,10000,100000]``: publish latency of one broker that has many topics.

A real Pulsar standalone of this machine: broker, bookie and metadata store (RocksDB) in one JVM of a stated heap, one
copy of each message, acknowledged once it is synced to the bookie's journal. Topics are made by admin REST, and the
broker opens each as it makes it; they stay open while more are added for the next size. Then messages of 1 KiB are
published to a sample of the topics at a fixed rate, in repetitions: each message has a time at which it is due, and its
latency runs from then until its acknowledgement. Prints medians with the least and the most of the repetitions, how far
it got and what stopped it, and leaves the raw figures as CSV.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import pulsar

from benchmarks.data_plane import topics
from benchmarks.data_plane.schedule import Answers, evenly, milliseconds, publish, spread
from benchmarks.data_plane.topics import Server
from e2e.kind.paths import paths
from tests.support.standalone.server import open_standalone

SETTINGS = {
    # As distributed bookies do by default; a standalone's file says false.
    "journalSyncData": "true",
    # Lines of single topics would be the work of each look at the broker's metrics.
    "exposeTopicLevelMetricsInPrometheus": "false",
}
JVM = "-XX:+UseG1GC -XX:+ExitOnOutOfMemoryError"
PAYLOAD = b"x" * 1024
ANSWERS_WITHIN = 30.0
"""Seconds after the last message until those without an answer count as failed."""
SPARE = 15.0
"""Seconds beside the messages that a size takes: its producers, a collection of the heap."""
COLUMNS = ("topics", "p50_ms", "p99_ms", "max_ms", "live_heap_mb", "kb_a_topic", "created_a_second")


@dataclass
class Load:
    """What is asked for, and what came out."""

    rate: float
    seconds: float
    runs: int
    warm_up: float
    sample: int
    end: float
    """When all is to be over, of time.monotonic."""
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def reserved(self) -> float:
        """Seconds that the measurements of one size take."""
        return self.warm_up + self.runs * self.seconds + SPARE


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_plane", description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of topics, one after the other")
    parser.add_argument("--rate", type=float, default=200, help="messages a second, over all topics of the sample")
    parser.add_argument("--seconds", type=float, default=30, help="of a repetition")
    parser.add_argument("--runs", type=int, default=5, help="repetitions")
    parser.add_argument("--warm-up", type=float, default=20, help="seconds of messages before the first one")
    parser.add_argument("--sample", type=int, default=100, help="topics that are published to")
    parser.add_argument("--heap", default="4g", help="of the JVM; direct memory is limited to 2g")
    parser.add_argument("--minutes", type=float, default=28, help="of the whole run")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/data_plane.csv"))
    options = parser.parse_args(argv)
    sizes = sorted(int(each) for each in options.sizes.split(","))
    load = Load(
        options.rate,
        options.seconds,
        options.runs,
        options.warm_up,
        options.sample,
        time.monotonic() + options.minutes * 60,
    )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors before the run", flush=True)
    memory = f"-Xms{options.heap} -Xmx{options.heap} -XX:MaxDirectMemorySize=2g"
    with tempfile.TemporaryDirectory(prefix="bench-data-plane-") as folder:
        synced = milliseconds(topics.sync_seconds(Path(folder)))
        print(f"the disk makes 4 KiB safe in {synced['p50_ms']} ms (p50), {synced['p99_ms']} ms (p99)", flush=True)
        home = paths().pulsar_home
        with open_standalone(home, Path(folder) / "server", SETTINGS, jvm=JVM, memory=memory) as running:
            stopped = grow(Server(running.admin_url, running.pid, running.log), running.service_url, sizes, load)
    for row in load.rows:
        row |= {"heap": options.heap, "sync_p50_ms": synced["p50_ms"], "sync_p99_ms": synced["p99_ms"]}
    write(options.csv, load.rows)
    print(f"\n{table(load.rows)}")
    if stopped:
        print(f"stopped: {stopped}")
    print(f"load average {os.getloadavg()[0]:.1f} after the run; raw: {options.csv}")
    return 0 if load.rows else 1


def grow(server: Server, service_url: str, sizes: Sequence[int], load: Load) -> str:
    """Each size after the other on one server; what stopped it before the last one, or ""."""
    topics.prepare(server.admin_url)
    empty, there = server.live_heap(), 0
    print(f"without topics {_mb(empty)} MB of the heap are live", flush=True)
    for size in sizes:
        made = asyncio.run(topics.create(server.admin_url, there, size, load.end - load.reserved))
        speed = (made.topics - there) / made.seconds
        print(f"{made.topics:,} topics: the last {made.topics - there:,} in {made.seconds:.0f} s", flush=True)
        there, stopped = made.topics, made.stopped
        if stopped:
            stopped = f"{there:,} of {size:,} topics could be made: {server.died_of() or stopped}"
        try:
            heap = server.live_heap()
            facts = {
                "made": there,
                "topics": server.topics(),
                "live_heap_mb": _mb(heap),
                "kb_a_topic": round((heap - empty) / max(1, there) / 1024, 1),
                "resident_mb": _mb(server.resident()),
                "created_a_second": round(speed),
            }
            measure(service_url, there, facts, load)
        except (OSError, LookupError, SubprocessError, pulsar.PulsarException) as error:
            return stopped or f"with {there:,} topics the server does not serve: {server.died_of() or error}"
        if stopped:
            return stopped
    return ""


def measure(service_url: str, there: int, facts: dict[str, Any], load: Load) -> None:
    """Publish to a sample of the topics, a few times over; each repetition is a row."""
    log = pulsar.FileLogger(pulsar.LoggerLevel.Warn, os.devnull)
    client = pulsar.Client(service_url, logger=log, operation_timeout_seconds=60)
    try:
        producers = [
            client.create_producer(topics.name(number), batching_enabled=False, send_timeout_millis=60_000)
            for number in evenly(load.sample, there)
        ]
        _publish(producers, load.rate, load.warm_up)
        for run in range(1, load.runs + 1):
            answers = _publish(producers, load.rate, load.seconds)
            row = {
                **facts,
                "run": run,
                "messages": len(answers.due),
                "a_second": load.rate,
                "sampled": len(producers),
                **milliseconds(answers.latencies()),
                "failed": len(answers.failed) + len(answers.due) - len(answers.took),
                "sent_late_max_ms": round(answers.late * 1000, 2),
                "load_average": round(os.getloadavg()[0], 1),
            }
            load.rows.append(row)
            print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    finally:
        client.close()


def _publish(producers: Sequence[Any], rate: float, seconds: float) -> Answers:
    answers = Answers(time.monotonic)

    def send(number: int) -> None:
        def answered(result: Any, _message: Any) -> None:
            answers.answered(number, result == pulsar.Result.Ok)

        producers[number % len(producers)].send_async(PAYLOAD, answered)

    publish(send, answers, rate=rate, count=int(rate * seconds), sleep=time.sleep)
    limit = time.monotonic() + ANSWERS_WITHIN
    while not answers.complete and time.monotonic() < limit:
        time.sleep(0.05)
    return answers


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Medians of each size, with the least and the most of its repetitions."""
    lines = ["".join(f"{column:>24}" for column in COLUMNS)]
    for size in dict.fromkeys(row["topics"] for row in rows):
        several = [row for row in rows if row["topics"] == size]
        texts = [f"{size:,}"]
        for column in COLUMNS[1:]:
            found = spread([row[column] for row in several])
            texts.append(str(found) if column.endswith("_ms") else f"{found.middle:g}")
        lines.append("".join(f"{text:>24}" for text in texts))
    return "\n".join(lines)


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The raw figures as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0] if rows else COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def _mb(size: float) -> int:
    return round(size / 2**20)


if __name__ == "__main__":
    sys.exit(main())
