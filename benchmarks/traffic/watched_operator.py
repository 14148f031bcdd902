"""The operator as a process that reconciles rebalances, and notes how long its event loop was away.

    python -m benchmarks.traffic.watched_operator GAPS_FILE [PATIENCE]

Everything else is the real thing: settings, Lease, watches, queue, controllers, adapters, health, metrics. Clusters are
left as the benchmark made them, for there are no pods behind them. A line of the file is a time (Unix), for how many
seconds longer than asked the loop was away, and how much processor time of the process went by meanwhile: on a busy
machine the first counts the others' work too, the second counts this process alone. The time limits of reading and of a
pass are PATIENCE times as long as they ship.
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
from pulsar_operator.controllers.core import broker_reads
from pulsar_operator.controllers.core.engine import PASS_SECONDS, Engine
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


def patient(times: float) -> None:
    """Lengthen the limits, for a machine that is not the operator's alone."""
    broker_reads.STATS_DEADLINE_SECONDS *= times
    broker_reads.READ_ALL_SECONDS *= times
    defaults = Engine.__init__.__kwdefaults__
    assert defaults is not None
    defaults["pass_seconds"] = PASS_SECONDS * times


if __name__ == "__main__":
    patient(float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
    found = load()
    logs.configure(level=found.log_level, style=found.log_format)
    sys.exit(asyncio.run(run(found, {Kind.REBALANCE}, Path(sys.argv[1]))))
