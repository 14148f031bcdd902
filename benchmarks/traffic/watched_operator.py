"""The operator as a process that reconciles rebalances, and notes how long its event loop was away.

    python -m benchmarks.traffic.watched_operator GAPS_FILE

Everything else is the real thing: settings, Lease, watches, queue, controllers, adapters, health, metrics. Clusters are
left as the benchmark made them, for there are no pods behind them. A line of the file is a time (Unix), for how many
seconds longer than asked the loop was away, and how much processor time of the process went by meanwhile: on a busy
machine the first counts the others' work too, the second counts this process alone.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection
from pathlib import Path

from benchmarks.objects.logical_operator import only
from pulsar_operator import logs
from pulsar_operator.api.constants import Kind
from pulsar_operator.runtime import operate
from pulsar_operator.settings import Settings, load

BEAT_SECONDS = 0.01
NOTED_SECONDS = 0.03


async def heartbeat(path: Path) -> None:
    """Note every gap."""
    with path.open("a", buffering=1) as out:
        wall, spent = time.monotonic(), time.process_time()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now, used = time.monotonic(), time.process_time()
            if now - wall - BEAT_SECONDS > NOTED_SECONDS:
                out.write(f"{time.time():.3f} {now - wall - BEAT_SECONDS:.4f} {used - spent:.4f}\n")
            wall, spent = now, used


async def run(settings: Settings, kinds: Collection[Kind], gaps: Path) -> int:
    """The operator with its heartbeat."""
    beat = asyncio.create_task(heartbeat(gaps))
    try:
        return await operate(settings, make_reconcilers=only(kinds))
    finally:
        beat.cancel()


if __name__ == "__main__":
    found = load()
    logs.configure(level=found.log_level, style=found.log_format)
    sys.exit(asyncio.run(run(found, {Kind.REBALANCE}, Path(sys.argv[1]))))
