"""The collector at a million topics: rows a second, peak memory of its process, bytes a row.

    python -m benchmarks.collector [--brokers 20] [--topics 50000] [--runs 5] [--directory FOLDER]

Brokers on 127.0.0.1 stream generated broker-stats documents of that many topics each (one producer, one subscription
with one consumer, names and rates from a fixed seed). Each run is one round by ``python -m pulsar_sizing collect
--once`` in a process of its own; its peak resident memory and CPU time are the kernel's (wait4).
The seconds of a round include the brokers' work on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.fakes.broker_stats import FakeTopic, topic_stats

NAMESPACES = 10
BUNDLES = 16
CHUNK_TOPICS = 64
SEED = 7


@dataclass(frozen=True)
class Run:
    """One process."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    output: str


def stream(broker: int, topics: int) -> Iterator[bytes]:
    """A document of that many topics. Bundle ranges are not those of the names' hashes: the collector reads both."""
    rates = random.Random(SEED + broker)
    before, after = _pieces()
    yield b"{"
    per_bundle = -(-topics // (NAMESPACES * BUNDLES))
    made = 0
    for namespace in range(NAMESPACES):
        yield f'{"," if namespace else ""}"tenant/namespace-{namespace}":{{'.encode()
        for bundle in range(BUNDLES):
            low = bundle << 28
            high = min(low + (1 << 28), 0xFFFFFFFF)
            yield f'{"," if bundle else ""}"0x{low:08x}_0x{high:08x}":{{"persistent":{{'.encode()
            lines: list[str] = []
            for index in range(min(per_bundle, topics - made)):
                name = f"persistent://tenant/namespace-{namespace}/orders-{broker}-{made}-partition-{made % 12}"
                rate = rates.expovariate(0.1)
                lines.append(
                    f'{"," if index else ""}"{name}":{before}"msgRateIn":{rate:.3f},"msgRateOut":{2 * rate:.3f},'
                    f'"msgThroughputIn":{900 * rate:.3f},"msgThroughputOut":{1800 * rate:.3f},{after}'
                )
                made += 1
                if len(lines) == CHUNK_TOPICS:
                    yield "".join(lines).encode()
                    lines.clear()
            yield "".join(lines).encode() + b"}}"
        yield b"}"
    yield b"}"


def _pieces() -> tuple[str, str]:
    """The text of one topic without its four rates."""
    stats = topic_stats(FakeTopic("persistent://t/n/x", 1.0, 2.0, 900.0, 1800.0, 1, (1,), (3,), 12_345_678))
    for name in ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"):
        del stats[name]
    early = {k: stats.pop(k) for k in ("publishers", "replication", "subscriptions", "producerCount", "averageMsgSize")}
    return (
        json.dumps(early, separators=(",", ":"))[:-1] + ",",
        json.dumps(stats, separators=(",", ":"))[1:],
    )


def serve(brokers: int, topics: int, port: Any) -> None:
    """Fake brokers, in a process of their own."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in stream(int(request.match_info["broker"].removeprefix("broker-")), topics):
            await response.write(chunk)
        await response.write_eof()
        return response

    async def registered(request: web.Request) -> web.Response:
        return web.json_response([f"broker-{i}:8080" for i in range(brokers)])

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/admin/v2/brokers", registered)
        app.router.add_get("/{broker}/admin/v2/broker-stats/topics", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def measured(arguments: list[str]) -> Run:
    """Run Python with arguments; raises RuntimeError if it fails."""
    environ = {**os.environ, "PYTHONPATH": "operator"}
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen([sys.executable, *arguments], stdout=output, env=environ)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode != 0:
        raise RuntimeError(f"{arguments[:3]} ended with {process.returncode}: {text[-2000:]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def collected(root: Path, url: str, concurrency: int) -> Run:
    """One round."""
    return measured(
        [
            *("-m", "pulsar_sizing", "collect", "--once", "--log-level", "error"),
            *("--instance", "bench", "--cluster", f"c={url}", "--root", str(root)),
            *("--broker-url", url + "/{host}", "--deadline", "600", "--interval", "600"),
            *("--concurrency", str(concurrency)),
        ]
    )


def size_of(root: Path, pattern: str) -> int:
    """Bytes of the traffic files of a pattern."""
    return sum(p.stat().st_size for p in (root / "traffic").rglob(pattern))


def spread(values: list[float], digits: int = 1) -> str:
    """Median and range."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--topics", type=int, default=50_000, help="of each broker")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--directory", type=Path, help="where the store is made (default: a temporary folder)")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(options.brokers, options.topics, port), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{port.get(timeout=60)}"
    rows = options.brokers * options.topics
    try:
        with tempfile.TemporaryDirectory(dir=options.directory) as folder:
            root = Path(folder)
            runs = []
            for _ in range(options.runs):
                runs.append(collected(root, url, options.concurrency))
                brokers = json.loads(runs[-1].output)["rounds"][0]["brokers"]
                assert sum(b["topics"] for b in brokers) == rows
                received = sum(b["bytes"] for b in brokers)
            small = size_of(root, "*.parquet")
    finally:
        server.terminate()
        server.join()
    total = rows * options.runs
    print(f"{options.brokers} brokers x {options.topics:,} topics, {options.runs} runs, median (range)")
    for label, value in (
        ("received a topic", f"{received / rows:,.0f} bytes"),
        ("round", spread([r.seconds for r in runs]) + " s"),
        ("CPU of the collector", spread([r.cpu_seconds for r in runs]) + " s"),
        ("rows a second", spread([rows / r.seconds for r in runs], 0)),
        ("rows a second of CPU", spread([rows / r.cpu_seconds for r in runs], 0)),
        ("peak resident", spread([r.peak_mib for r in runs], 0) + " MiB"),
        ("stored a row", f"{small / total:,.1f} bytes"),
    ):
        print(f"{label:<40}{value}")


if __name__ == "__main__":
    main()
