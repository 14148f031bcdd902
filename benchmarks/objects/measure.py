"""The measurements: what one size gives, for the operator and for the model of the peer."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks.objects.figures import Table, percentile
from benchmarks.objects.names import TOPICS
from benchmarks.objects.processors import Spent, processor_seconds, spent_since
from benchmarks.objects.world import Running, World, operator, peer, wait
from pulsar_operator.api.constants import Kind

LIMIT = 1800
REST_SECONDS = 30.0
QUIET_SECONDS = 5.0
"""Without a write for this long, what a bulk left behind (events) is written."""
POLL_SECONDS = 3.0
"""A page of metrics costs the operator ten milliseconds and more; the end of a run is known from the audit log."""
BUSY = "P1 processor time"
BOUND = "seconds by the processor bound of this run"
"""What everything took together, over the number of processors, is the least it can take; see processors.py."""
ALSO = (Kind.TOPIC_SET, Kind.REBALANCE)
"""Kinds that are reconciled besides the logical ones: all but those of pods, of which there are none."""
READS = frozenset({"get", "list"})
WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True)
class Load:
    """What is measured."""

    table: Table
    size: int
    spec: dict[str, Any]
    changes: int
    foreign: int
    workers: int | None

    def say(self, figure: str, value: float, unit: str, *, most: float | None = None, who: str = "operator") -> None:
        """Take a figure in."""
        self.table.say(who, self.size, figure, value, unit, most=most)


def measure(found: World, load: Load) -> None:
    """All figures of one size."""
    size = load.size
    with operator(found, workers=load.workers, also=ALSO) as running:
        wait(running.is_ready, LIMIT, "the operator to be ready without topics")
        load.say("P3 resident without topics", running.rss_mib(), "MiB")
        start = running.cpu_seconds()
        load.say("processor time of a start without topics", start, "s")
    load.say("topics created by the benchmark", found.create_topics(0, size, load.spec), "objects/s")
    with operator(found, workers=load.workers, also=ALSO) as running:
        _converging(found, load, running, start)
        _changing(found, load, running)
        _at_rest(found, load, running)
    _restarting(found, load)


def _converging(found: World, load: Load, running: Running, start: float) -> None:
    size, before, mark = load.size, found.admin_counts(running), found.api.audit_mark()
    clocks = processor_seconds()
    converge(found, running, size)
    spent = spent_since(clocks)
    asked = Requests.since(found, mark, running.started)
    load.say("P1 start until every topic is Ready", asked.last_status, "s")
    load.say(f"P1 {BOUND}", asked.last_status / spent.bound, "x", most=1.25)
    say_spent(load, spent, "operator", "P1 ")
    load.say("P1 topics", size / asked.last_status, "objects/s")
    load.say("P1 status writes a topic", asked.of("pulsartopics/status", WRITES) / size, "writes", most=2.05)
    load.say("P1 requests about topics a topic", asked.about_topics / size, "requests")
    load.say("P1 events a topic", asked.of("events", WRITES) / size, "writes")
    load.say("P1 all requests to the API server a topic", asked.total / size, "requests")
    calls = found.admin_counts(running) - before
    load.say("P1 admin calls a topic", calls.total() / size, "calls")
    print(f"         admin calls: {dict(calls.most_common(20))}")
    print(f"         requests: {dict(asked.counts.most_common(12))}")
    load.say(BUSY, running.cpu_seconds(), "s")
    load.say("P1 processor time a topic, without the start", 1000 * (running.cpu_seconds() - start) / size, "ms")
    load.say("P3 resident after converging", running.rss_mib(), "MiB", most=250)
    load.say("P3 peak", running.rss_mib("VmHWM"), "MiB")


def say_spent(load: Load, spent: Spent, who: str, prefix: str = "") -> None:
    """Processor time of a topic by program, and what follows from it."""
    load.say(f"{prefix}processor bound", spent.bound, "s", who=who)
    for program, seconds in sorted(spent.by_program.items()):
        load.say(f"{prefix}processor time a topic: {program}", 1000 * seconds / load.size, "ms", who=who)


def _changing(found: World, load: Load, running: Running) -> None:
    size = load.size
    quiet(found)
    idle = change_latency(found, range(0, size, max(1, size // load.changes)))
    load.say("P2 change to status, p50", 1000 * statistics.median(idle), "ms")
    load.say("P2 change to status, p99", 1000 * percentile(idle, 0.99), "ms", most=250)
    more = size + max(size // 5, 1)
    busy = threading.Thread(target=found.create_topics, args=(size, more, load.spec))
    busy.start()
    loaded = []
    numbers = iter(range(1, size, max(1, size // (2 * load.changes))))
    while running.metric("pulsar_operator_queue_depth") > 0 or busy.is_alive():
        number = next(numbers, None)
        if number is None:
            break
        loaded += change_latency(found, range(number, number + 1))
    busy.join()
    load.say("P2 during a bulk create: changes timed", len(loaded), "changes")
    load.say("P2 during a bulk create, p50", 1000 * statistics.median(loaded), "ms")
    load.say("P2 during a bulk create, p99", 1000 * percentile(loaded, 0.99), "ms", most=2000)
    converge(found, running, more)


def _at_rest(found: World, load: Load, running: Running) -> None:
    quiet(found)
    mark, calls, busy = found.api.audit_mark(), found.admin_counts(running), running.cpu_seconds()
    time.sleep(REST_SECONDS)
    load.say(f"P4 writes at rest in {REST_SECONDS:.0f} s", Requests.since(found, mark).writes, "writes", most=0)
    load.say("P4 admin calls at rest", (found.admin_counts(running) - calls).total(), "calls", most=0)
    load.say("P4 processor time at rest", 100 * (running.cpu_seconds() - busy) / REST_SECONDS, "% of one")


def _restarting(found: World, load: Load) -> None:
    mark = found.api.audit_mark()
    calls = found.admin_counts(None)
    with operator(found, workers=load.workers, also=ALSO) as running:
        wait(running.is_ready, LIMIT, "the restarted operator to know all")
        load.say("P4 restart until all is known again", time.time() - running.started, "s", most=30)
        load.say("P4 processor time of the restart", running.cpu_seconds(), "s")
        asked = Requests.since(found, mark)
        load.say("P4 writes after the restart", asked.writes, "writes", most=0)
        load.say("P4 reads of single topics after the restart", asked.of("pulsartopics", {"get"}), "reads")
        load.say("P4 admin calls after the restart", (found.admin_counts(running) - calls).total(), "calls")
        load.say("P3 peak of the restart", running.rss_mib("VmHWM"), "MiB", most=250)
        if load.foreign:
            before, busy = running.rss_mib(), running.cpu_seconds()
            _foreign(found, load.foreign)
            load.say(f"P3 {load.foreign} foreign objects", running.rss_mib() - before, "MiB more", most=1)
            load.say("P3 processor time for them", running.cpu_seconds() - busy, "s")


def measure_peer(found: World, load: Load) -> None:
    """The same load on the model of the peer."""
    load.say("topics created by the benchmark", found.create_topics(0, load.size, load.spec), "objects/s", who="peer")
    mark, calls = found.api.audit_mark(), found.admin_counts(None)
    with peer(found) as running:
        _wait_for_the_peer(found, running, load.size)
        asked = Requests.since(found, mark, running.started, agent="peer")
        load.say("P1 start until every topic is Ready", asked.last_status, "s", who="peer")
        load.say("P1 topics", load.size / asked.last_status, "objects/s", who="peer")
        load.say("P1 writes a topic", asked.writes / load.size, "writes", who="peer")
        load.say("P1 admin calls a topic", (found.admin_counts(None) - calls).total() / load.size, "calls", who="peer")
        load.say(BUSY, running.cpu_seconds(), "s", who="peer")
        idle = change_latency(found, range(0, load.size, max(1, load.size // load.changes)))
        load.say("P2 change to status, p50", 1000 * statistics.median(idle), "ms", who="peer")
        load.say("P2 change to status, p99", 1000 * percentile(idle, 0.99), "ms", who="peer")
        more = load.size + load.size // 5
        busy = threading.Thread(target=found.create_topics, args=(load.size, more, load.spec))
        busy.start()
        loaded = change_latency(found, range(1, load.size, max(1, load.size // load.changes)))
        busy.join()
        load.say("P2 during a bulk create, p50", 1000 * statistics.median(loaded), "ms", who="peer")
        load.say("P2 during a bulk create, p99", 1000 * percentile(loaded, 0.99), "ms", who="peer")


def _wait_for_the_peer(found: World, running: Running, size: int) -> None:
    def done() -> bool:
        check_alive(found, running)
        return sum(map(is_ready, found.listed())) >= size

    wait(done, LIMIT, "the peer's topics to be Ready", every=1)


def check_alive(found: World, running: Running) -> None:
    """Raises RuntimeError with the last words of a process that ended."""
    if running.process.poll() is not None:
        raise RuntimeError(f"the process ended: {(found.folder / 'operator.log').read_text()[-2000:]}")


@dataclass(frozen=True)
class Requests:
    """What one client asked of the API server, by resource and verb, without its Lease and its watches."""

    counts: Counter[tuple[str, str]]
    last_status: float
    """Seconds from ``started`` to the last status write of a topic."""

    @classmethod
    def since(cls, found: World, mark: int, started: float = 0.0, agent: str = "pulsar-operator") -> Requests:
        """From the audit log."""
        counts: Counter[tuple[str, str]] = Counter()
        last, end = started, found.api.audit_mark()
        with found.api.audit_log.open("rb") as stream:
            stream.seek(mark)
            for line in stream.read(end - mark).splitlines():
                event = json.loads(line)
                target, verb = event.get("objectRef") or {}, event["verb"]
                resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
                if not str(event.get("userAgent")).startswith(agent) or resource == "leases" or verb == "watch":
                    continue
                if event["stage"] != "ResponseComplete":
                    continue
                counts[resource, verb] += 1
                if resource == "pulsartopics/status":
                    last = max(last, datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00")).timestamp())
        return cls(counts, last - started)

    def of(self, resource: str, verbs: frozenset[str] | set[str]) -> int:
        """Requests about a resource."""
        return sum(n for (name, verb), n in self.counts.items() if name == resource and verb in verbs)

    @property
    def about_topics(self) -> int:
        """Requests about topics and their status."""
        return sum(n for (name, _), n in self.counts.items() if name.split("/")[0] == "pulsartopics")

    @property
    def writes(self) -> int:
        """Everything that asked for a change."""
        return sum(n for (_, verb), n in self.counts.items() if verb in WRITES)

    @property
    def total(self) -> int:
        """All of them."""
        return self.counts.total()


def quiet(found: World) -> None:
    """Wait until the operator writes nothing more of what a bulk left behind."""
    mark, since, deadline = found.api.audit_mark(), time.monotonic(), time.monotonic() + LIMIT
    while time.monotonic() - since < QUIET_SECONDS and time.monotonic() < deadline:
        time.sleep(1)
        if Requests.since(found, mark).writes:
            mark, since = found.api.audit_mark(), time.monotonic()


def converge(found: World, running: Running, size: int) -> None:
    """Wait until every topic is Ready."""
    begin = time.monotonic()

    def done() -> bool:
        passes = running.metric("pulsar_operator_reconciles_total", kind="PulsarTopic", result="ok")
        print(f"\r         {passes:.0f} passes, {time.monotonic() - begin:.0f} s", end="", flush=True)
        check_alive(found, running)
        return passes >= size and sum(map(is_ready, found.listed())) >= size

    wait(done, LIMIT, f"{size} topics to be Ready", every=POLL_SECONDS)
    print("\r", end="")


def is_ready(obj: dict[str, Any]) -> bool:
    """Whether an object's status says Ready."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def change_latency(found: World, numbers: range) -> list[float]:
    """Seconds from the answer to a change of one topic's spec until its status says that generation is done."""
    out = []
    for number in numbers:
        path = f"{TOPICS}/t{number:05d}"
        spec = found.api.request("GET", path).body["spec"]
        consumers = spec["policies"]["maxConsumers"] + 1
        begin = time.monotonic()
        changed = found.must(
            "PATCH",
            path,
            {"spec": {"policies": {"maxConsumers": consumers}}},
            content_type="application/merge-patch+json",
        )
        generation = changed["metadata"]["generation"]
        wait(
            lambda path=path, generation=generation: (
                (found.api.request("GET", path).body.get("status") or {}).get("observedGeneration") == generation
            ),
            600,
            f"status of {path}",
            every=0.005,
        )
        out.append(time.monotonic() - begin)
    return out


def _foreign(found: World, count: int) -> None:
    path = "/api/v1/namespaces/bench/configmaps"
    for number in range(count):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"foreign-{number}"}, "data": {"k": "v"}}
        found.must("POST", path, body)
    time.sleep(5)
