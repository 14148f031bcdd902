"""Traffic of the days before now, in the store of a collector as that collector leaves it, every hour of the day the
same each day and a steep rise around the present hour.

Runs in the collector's pod too, where this text is what Python reads from standard input: of the repository it needs
nothing but the package ``pulsar_sizing``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import pyarrow as pa

from pulsar_sizing.arrow import table_schema
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import Store

HOUR_SECONDS = 3600
DAYS = 3
"""Of each hour of the day three: what a real collector records beside them is one of several, and the median counts."""
MINUTES = 15
"""Between two rounds."""
STEP = 8
"""Times the traffic of the hour before. A line from the middle of one hour to that of the next then rises by 1.28 times
within a quarter of an hour at least; whatever the step, it could be no more than 1.33."""
RISING = 3
"""Hours from the present one on that have STEP times the traffic of the one before; all others have the same."""
QUIET_RATE = 5.0
"""Messages a second of each topic in those."""
MESSAGE_BYTES = 1000.0


@dataclass(frozen=True)
class Placed:
    """A topic, named in full, and where it is."""

    topic: str
    bundle: str
    """Its range, 0x%08x_0x%08x."""
    broker: str
    """Id, host:port."""

    @property
    def namespace(self) -> str:
        """tenant/namespace."""
        return "/".join(self.topic.partition("://")[2].split("/")[:2])


def level(hour: int, present: int) -> int:
    """Times QUIET_RATE in an hour of a day, where the present one is ``present``; both in hours since 1970, UTC."""
    ahead = (hour - present) % 24
    return int(STEP ** (ahead + 1)) if ahead < RISING else 1


def write(store: Store, instance: str, cluster: str, now: datetime, topics: Sequence[Placed]) -> int:
    """Whole days up to the begin of the hour of ``now``, files and markers of each round; the rows of topics."""
    present = int(now.timestamp()) // HOUR_SECONDS
    brokers = sorted({each.broker for each in topics})
    rows = 0
    for hour in range(present - 24 * DAYS, present):
        rate = QUIET_RATE * level(hour, present)
        for minute in range(0, 60, MINUTES):
            time = datetime.fromtimestamp(hour * HOUR_SECONDS, UTC) + timedelta(minutes=minute)
            for broker in brokers:
                mine = [each for each in topics if each.broker == broker]
                rows += _save(
                    store, TRAFFIC, (instance, cluster, time, broker), [row(time, each, rate) for each in mine]
                )
            told = [marker(time, name, sum(each.broker == name for each in topics)) for name in brokers]
            # Last, as a collector does: markers say that the traffic is there.
            _save(store, MARKERS, (instance, cluster, time, "markers"), told)
    return rows


def row(time: datetime, each: Placed, rate: float) -> dict[str, Any]:
    """A topic that publishes at a rate, and one consumer that keeps up."""
    return {
        "sample_time": time,
        "broker": each.broker,
        "namespace": each.namespace,
        "bundle": each.bundle,
        "topic": each.topic,
        "position": crc32(each.topic.encode()),
        "messages_in": rate,
        "messages_out": rate,
        "bytes_in": rate * MESSAGE_BYTES,
        "bytes_out": rate * MESSAGE_BYTES,
        "producers": 1,
        "consumers": 1,
        "subscriptions": 1,
        "backlog": 0,
        "storage_bytes": 0,
    }


def marker(time: datetime, broker: str, topics: int) -> dict[str, Any]:
    """A broker that answered with so many topics."""
    return {"sample_time": time, "broker": broker, "answered": True, "topics": topics, "error": None, "cpu": None}


def _save(store: Store, table: str, sample: tuple[str, str, datetime, str], rows: list[dict[str, Any]]) -> int:
    upload = store.upload(table, *sample)
    try:
        upload.write(pa.Table.from_pylist(rows, table_schema(table)))
        upload.commit()
    except BaseException:
        upload.abort()
        raise
    return len(rows)


def arguments(root: str, instance: str, cluster: str, now: datetime, topics: Sequence[Placed]) -> list[str]:
    """Those of the process that writes."""
    placed = json.dumps([asdict(each) for each in topics])
    return [root, instance, cluster, now.isoformat(), placed]


def main(argv: Sequence[str]) -> int:
    """Write, and say how much."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("root", "instance", "cluster", "now", "topics"):
        parser.add_argument(name)
    options = parser.parse_args(argv)
    topics = [Placed(**each) for each in json.loads(options.topics)]
    now = datetime.fromisoformat(options.now)
    rows = write(Store(options.root), options.instance, options.cluster, now, topics)
    print(f"{rows} rows of {DAYS} days before {now:%Y-%m-%d %H}:00 UTC")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
