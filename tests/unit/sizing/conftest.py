"""One Spark session for all tests of the job, and a laboratory to record traffic and run the job in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def quick() -> dict[str, str]:
    """Spark's settings for a handful of rows: to generate and compile code costs far more than to interpret."""
    return {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, quick: dict[str, str]) -> Iterator[Any]:
    """A small local session."""
    from pyspark import SparkContext

    from pulsar_sizing.job import session

    found = session.create("local[2]", tmp_path_factory.mktemp("spark"), quick, memory="1g")
    yield found
    gateway = found.sparkContext._gateway
    found.stop()
    # Connections that Python drops as it exits say so (INFO), to handlers whose streams pytest has closed by then.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None


@dataclass
class Lab:
    """One root with a recording, and the job on it."""

    spark: Any
    root: Path
    recording: Any
    runs: int = 0

    def record(self, first: int = 0, last: int = 3, **changes: Any) -> int:
        """Write hours first to last - 1; the number of rows."""
        from benchmarks.spark import traffic

        what = replace(self.recording, **changes)
        return traffic.write(what, self.root, per_round=True, hours=what.hours[first:last])

    @property
    def store(self) -> Any:
        """The store at this root."""
        from pulsar_sizing.store import Store

        return Store(str(self.root))

    @property
    def tables(self) -> Any:
        """The tables below this root."""
        from pulsar_sizing.job.snapshot import Tables

        return Tables(self.store, self.recording.instance, self.recording.cluster)

    @property
    def parameters(self) -> str:
        """Of what the tables are made with."""
        from pulsar_sizing.job.request import Request

        return Request(self.recording.instance, self.recording.cluster).parameters

    def run(self, now: datetime = NOW, **question: Any) -> Any:
        """One run of the job; by default a recommendation needs no covered hour."""
        from pulsar_sizing.job.pipeline import run
        from pulsar_sizing.job.request import Request

        self.runs += 1
        request = Request(self.recording.instance, self.recording.cluster, **{"min_coverage_hours": 0} | question)
        return run(self.spark, self.store, request, now=now, unique=f"{self.runs:04d}", say=lambda text: None)

    def files(self, table: str = "traffic") -> list[Path]:
        """Recorded files, in order."""
        return sorted((self.root / table).rglob("*.parquet"))


@pytest.fixture
def lab(spark: Any, tmp_path: Path) -> Callable[[str], Lab]:
    """Makes laboratories."""
    from benchmarks.spark.traffic import Recording

    recording = Recording(days=1, topics=24, namespaces=2, brokers=2, bundles=4, interval_seconds=1200)
    return lambda name="root": Lab(spark, tmp_path / name, recording)


@pytest.fixture
def answer() -> Callable[[Any], dict[str, Any]]:
    """What a run found, without when."""
    return lambda outcome: outcome.result.model_dump(exclude={"generated_time"})
