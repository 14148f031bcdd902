"""``python -m benchmarks.objects [--sizes 1000,5000,10000]``: the bars P1 to P4, one table, raw figures as CSV.

P1 converge N topics from the operator's start with the objects there; P2 one change to its status; P3 memory;
P4 writes at rest and after a restart.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.objects.world import TOPICS, Running, World, operator, wait, world

SPEC = {"namespaceRef": {"name": "orders"}}
LIMIT = 900
REST_SECONDS = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run all parts for every size and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.objects", description=__doc__)
    parser.add_argument("--sizes", default="1000,5000,10000", help="numbers of topics")
    parser.add_argument("--workers", type=int, help="reconcile passes at once (the operator's default)")
    parser.add_argument("--changes", type=int, default=100, help="single changes timed for P2")
    parser.add_argument("--foreign", type=int, default=10000, help="foreign objects for P3")
    parser.add_argument("--spec", type=json.loads, default={}, help="more of the topics' spec, as JSON")
    parser.add_argument("--csv", type=Path, default=Path("build/bench-objects.csv"))
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for size in [int(text) for text in options.sizes.split(",")]:
        with tempfile.TemporaryDirectory(prefix="bench-objects-") as folder, world(Path(folder)) as found:
            rows += measure(found, size, options)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    with options.csv.open("w", newline="") as out:
        writer = csv.DictWriter(out, ["size", "figure", "value", "unit", "bar"])
        writer.writeheader()
        writer.writerows(rows)
    print(f"\n{'topics':>7}  {'figure':<56}{'value':>12}  {'unit':<10} bar")
    for row in rows:
        print(f"{row['size']:>7}  {row['figure']:<56}{row['value']:>12}  {row['unit']:<10} {row['bar']}")
    print(f"raw: {options.csv}")
    return 0


def measure(found: World, size: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All figures of one size."""
    rows: list[dict[str, Any]] = []

    def say(figure: str, value: float, unit: str, bar: str = "") -> None:
        rows.append({"size": size, "figure": figure, "value": f"{value:.2f}".rstrip("0").rstrip("."), "unit": unit})
        rows[-1]["bar"] = bar
        print(f"  {size:>6} {figure}: {rows[-1]['value']} {unit} {bar}", flush=True)

    spec = {**SPEC, **options.spec}
    say("objects created by the benchmark", found.create_topics(0, size, spec), "objects/s")
    with operator(found, workers=options.workers) as running:
        before = found.admin_counts()
        mark = found.api.audit_mark()
        converge(found, running, size)
        seconds, writes = _last_write(found, mark, running.started)
        bar = "<= 60 s" if size == 10000 else ""
        say("P1 start until every topic is Ready", seconds, "s", bar)
        say("P1 topics", size / seconds, "objects/s")
        say("P1 writes an object", writes / size, "writes", "1")
        calls = found.admin_counts() - before
        say("P1 admin calls an object", calls.total() / size, "calls")
        print(f"         admin calls: {dict(calls.most_common(8))}")
        say("P1 processor time of the operator", running.cpu_seconds(), "s")
        say("P3 resident after converging", running.rss_mib(), "MiB", "<= 250 MiB")
        say("P3 peak", running.rss_mib("VmHWM"), "MiB")
        idle = change_latency(found, range(0, size, max(1, size // options.changes)), running)
        say("P2 change to status, median", 1000 * statistics.median(idle), "ms")
        say("P2 change to status, p99", 1000 * _percentile(idle, 0.99), "ms", "<= 250 ms")
        busy = threading.Thread(target=found.create_topics, args=(size, size + size // 5, spec))
        busy.start()
        loaded = change_latency(found, range(1, size, max(1, size // (options.changes // 2))), running)
        busy.join()
        say("P2 during a bulk create, p99", 1000 * _percentile(loaded, 0.99), "ms", "<= 2000 ms")
        converge(found, running, size + size // 5)
        mark = found.api.audit_mark()
        calls = found.admin_counts()
        time.sleep(REST_SECONDS)
        say(f"P4 writes at rest in {REST_SECONDS:.0f} s", _writes(found, mark), "writes", "0")
        say("P4 admin calls at rest", (found.admin_counts() - calls).total(), "calls")
    mark = found.api.audit_mark()
    calls = found.admin_counts()
    with operator(found, workers=options.workers) as running:
        wait(running.is_ready, LIMIT, "the restarted operator to know all")
        say("P4 restart until all is known again", time.time() - running.started, "s", "<= 30 s")
        say("P4 writes after the restart", _writes(found, mark), "writes", "0")
        say("P4 admin calls after the restart", (found.admin_counts() - calls).total(), "calls")
        quiet = running.rss_mib()
        _foreign(found, options.foreign)
        time.sleep(5)
        say(f"P3 {options.foreign} foreign objects", running.rss_mib() - quiet, "MiB more", "0")
    return rows


def converge(found: World, running: Running, size: int) -> None:
    """Wait until every topic is Ready."""
    begin = time.monotonic()

    def done() -> bool:
        passes = running.metric("pulsar_operator_reconciles_total", kind="PulsarTopic", result="ok")
        print(f"\r         {passes:.0f} passes, {time.monotonic() - begin:.0f} s", end="", flush=True)
        if running.process.poll() is not None:
            raise RuntimeError(f"the operator ended: {(found.folder / 'operator.log').read_text()[-2000:]}")
        return passes >= size and sum(map(_ready, found.topics())) >= size

    wait(done, LIMIT, f"{size} topics to be Ready", every=0.5)
    print("\r", end="")


def _ready(topic: dict[str, Any]) -> bool:
    conditions = (topic.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _last_write(found: World, mark: int, started: float) -> tuple[float, int]:
    """Seconds from the start to the last status write of a topic, and how many writes concern topics."""
    times = []
    end = found.api.audit_mark()
    with found.api.audit_log.open("rb") as stream:
        stream.seek(mark)
        for line in stream.read(end - mark).splitlines():
            event = json.loads(line)
            target = event.get("objectRef") or {}
            if target.get("resource") == "pulsartopics" and event["verb"] in {"patch", "update"}:
                times.append(datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00")).timestamp())
    return max(times) - started, len(times)


def _writes(found: World, mark: int) -> int:
    """Writes of the operator other than its Lease."""
    return sum(event.resource != "leases" for event in found.api.audit_writes(since=mark))


def change_latency(found: World, numbers: range, running: Running) -> list[float]:
    """Seconds from the answer to a change of one topic's spec until its status says that generation is done."""
    out = []
    for number in numbers:
        path = f"{TOPICS}/t{number:05d}"
        label = {"spec": {"driftPolicy": "Report" if number % 2 else "Repair"}}
        current = found.api.request("GET", path).body
        if current["spec"].get("driftPolicy") == label["spec"]["driftPolicy"]:
            label["spec"]["driftPolicy"] = "Repair" if number % 2 else "Report"
        begin = time.monotonic()
        changed = found.must("PATCH", path, label, content_type="application/merge-patch+json")
        generation = changed["metadata"]["generation"]
        wait(
            lambda path=path, generation=generation: (
                (found.api.request("GET", path).body.get("status") or {}).get("observedGeneration") == generation
            ),
            60,
            f"status of {path}",
            every=0.002,
        )
        out.append(time.monotonic() - begin)
    return out


def _foreign(found: World, count: int) -> None:
    path = "/api/v1/namespaces/bench/configmaps"
    for number in range(count):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"foreign-{number}"}, "data": {"k": "v"}}
        found.must("POST", path, body)


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    sys.exit(main())
