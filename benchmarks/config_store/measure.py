"""The measurements: what one change costs and how long it takes, with all clusters well and with one that hangs."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from benchmarks.config_store.changes import Change, by_run
from benchmarks.config_store.operations import NEW_SESSION, OPERATOR, by_owner, calls_about, logged, owners, watched
from benchmarks.config_store.site import (
    CLUSTERS,
    EVERY_FIFTH,
    HANGS,
    LIMIT_SECONDS,
    NAMESPACES,
    OTHERS,
    Place,
    Site,
)
from benchmarks.objects.figures import Table, percentile
from benchmarks.objects.measure import LIMIT, Requests, check_alive, is_ready, quiet
from benchmarks.objects.world import Running, wait
from e2e.support.admin import ask

BAR_SECONDS = 5.0
NOISE = 1.3
"""How much more a p99 may be with one cluster hanging: what runs on a shared machine differ by anyhow."""
COUNTED = 10
"""Changes whose operations are counted; of namespaces in all clusters."""
FALLING_SECONDS = 20
"""So long a change begins every second after a cluster fell silent."""
ATTEMPTS = 3
"""How often operations are counted while sessions are lost."""
SETTLED_SECONDS = 4.0
"""Without a call about what changed: the look that the operator's own write asks for is over."""
WELL, FALLING, HANGING = "well", "falling silent", "hanging"
HAND = "by hand"


@dataclass
class Load:
    """What is measured, and what was found."""

    table: Table
    size: int
    runs: int
    changes: int
    """In each run."""
    found: list[Change] = field(default_factory=list)
    ttl: Iterator[int] = field(default_factory=lambda: itertools.count(4000))
    """Values of the policy that changes: each is another one."""

    def say(
        self, figure: str, value: float | list[float], unit: str, *, who: str = OPERATOR, most: float | None = None
    ) -> None:
        """Take a figure in."""
        self.table.say(who, self.size, figure, value, unit, most=most)


def converge(site: Site, running: Running, size: int) -> float:
    """Wait until all namespaces are Ready; seconds."""
    begin = time.monotonic()

    def done() -> bool:
        check_alive(site.world, running)
        return sum(map(is_ready, site.world.listed(NAMESPACES))) >= size

    wait(done, LIMIT, f"{size} namespaces to be Ready", every=0.5)
    return time.monotonic() - begin


# ------------------------------------------------------------------------------------------------ what a change costs


@dataclass(frozen=True)
class Spent:
    """What some changes took."""

    changes: int
    calls: dict[str, Counter[str]]
    """Admin calls by cluster."""
    stored: Counter[tuple[str, str]]
    """Requests to ZooKeeper by whose they were and kind."""
    asked: Requests
    """Of the API server."""
    undisturbed: bool
    """Whether no session began meanwhile: one that does reads everything anew."""


def count(site: Site, load: Load, running: Running, size: int) -> None:
    """Operations of one change, with so many namespaces there."""
    nodes = {site.place(number).node for number in range(size)}

    def all_watched() -> bool:
        found = logged(site.zookeeper.log)
        return nodes <= watched(found, owners(found, CLUSTERS))

    # A namespace that is watched from now on is looked at once more.
    wait(all_watched, LIMIT_SECONDS, "all to be watched", every=1)
    wait(lambda: running.metric("pulsar_operator_queue_depth") == 0, LIMIT_SECONDS, "all to be looked at")
    quiet(site.world)
    for _ in range(ATTEMPTS):
        spent = _spend(site, load, size)
        if spent.undisturbed:
            break
    _tell(load.table, size, spent)


def _spend(site: Site, load: Load, size: int) -> Spent:
    everywhere = [number for number in range(size) if number % EVERY_FIFTH]
    numbers = everywhere[:: max(1, len(everywhere) // COUNTED)][:COUNTED]
    places = {site.place(number) for number in numbers}
    about = {place.full for place in places}

    def calls() -> dict[str, Counter[str]]:
        return {name: calls_about(pulsar.counted("calls"), about) for name, (pulsar, _) in site.brokers.items()}

    before = _rest(calls)
    start, mark = site.zookeeper.log.stat().st_size, site.world.api.audit_mark()
    for number in numbers:
        declared(site, site.place(number), next(load.ttl))
    after = _rest(calls)
    asked = Requests.since(site.world, mark)
    known = owners(logged(site.zookeeper.log), CLUSTERS)
    found = logged(site.zookeeper.log, start)
    return Spent(
        len(numbers),
        {name: after[name] - before[name] for name in site.brokers},
        by_owner(found, {place.node for place in places}, known),
        asked,
        all(each.kind != NEW_SESSION for each in found),
    )


def _tell(table: Table, size: int, spent: Spent) -> None:
    changes = spent.changes
    for name, calls in spent.calls.items():
        table.say(name, size, "admin calls a change", calls.total() / changes, "calls")
    total = sum(calls.total() for calls in spent.calls.values())
    table.say("all", size, "admin calls a change", total / changes, "calls")
    for who in (*spent.calls, OPERATOR):
        asked = sum(number for (owner, _), number in spent.stored.items() if owner == who)
        table.say(who, size, "ZooKeeper requests a change", asked / changes, "requests")
    table.say("all", size, "ZooKeeper requests a change", spent.stored.total() / changes, "requests")
    writes = sum(number for (_, kind), number in spent.stored.items() if kind == "setData")
    table.say("all", size, "of these, writes", writes / changes, "requests")
    namespaces = sum(n for (what, _), n in spent.asked.counts.items() if what.split("/")[0] == "pulsarnamespaces")
    table.say(OPERATOR, size, "requests to the API server about namespaces a change", namespaces / changes, "requests")
    table.say(OPERATOR, size, "writes to the API server a change, with events", spent.asked.writes / changes, "writes")
    if not spent.undisturbed:
        print("         a session with ZooKeeper was lost meanwhile: the machine is too busy to count", flush=True)
    print(f"         calls: { {name: dict(its) for name, its in spent.calls.items()} }")
    print(f"         ZooKeeper: { {' '.join(key): number for key, number in sorted(spent.stored.items())} }")
    print(f"         API server: { {' '.join(key): number for key, number in spent.asked.counts.items()} }", flush=True)


def _rest(calls: Callable[[], dict[str, Counter[str]]]) -> dict[str, Counter[str]]:
    """The calls once there are no more."""
    seen, since = calls(), time.monotonic()
    while time.monotonic() - since < SETTLED_SECONDS:
        time.sleep(0.5)
        now = calls()
        if now != seen:
            seen, since = now, time.monotonic()
    return seen


# ------------------------------------------------------------------------------------------------ how long it takes


def declared(site: Site, place: Place, ttl: int) -> int:
    """Change the policy of a declared namespace and wait for its status; the generation."""
    generation = _patch(site, place, ttl)
    site.statuses.ready(place.name, generation, LIMIT_SECONDS)
    return generation


def _patch(site: Site, place: Place, ttl: int) -> int:
    body = {"spec": {"policies": {"messageTTLSeconds": ttl}}}
    path = f"{NAMESPACES}/{place.name}"
    changed = site.world.must("PATCH", path, body, content_type="application/merge-patch+json")
    return int(changed["metadata"]["generation"])


def change(site: Site, load: Load, run: int, case: str, number: int) -> Change:
    """One declared change, followed to its end."""
    place, ttl = site.place(number), next(load.ttl)
    asked = CLUSTERS if case == WELL else OTHERS
    begin, stored, clusters, generation = site.follow(place, ttl, asked, lambda: _patch(site, place, ttl))
    ready = site.statuses.ready(place.name, generation, LIMIT_SECONDS) - begin
    return Change(load.size, run, case, OPERATOR, group_of(number), place.full, stored, clusters, ready)


def by_hand(site: Site, load: Load, run: int, case: str, place: Place) -> Change:
    """The same without an operator: one call to a cluster that answers, and a look at each."""
    ttl = next(load.ttl)
    asked = CLUSTERS if case == WELL else OTHERS
    url = site.brokers[asked[0]][0].admin_url
    _, stored, clusters, _ = site.follow(
        place, ttl, asked, lambda: ask(url, "POST", f"namespaces/{place.full}/messageTTL", ttl)
    )
    return Change(load.size, run, case, HAND, "all", place.full, stored, clusters)


def group_of(number: int) -> str:
    """Whether a namespace is in the cluster that hangs."""
    return "all" if number % EVERY_FIFTH else "others"


def chosen(size: int, run: int, changes: int) -> list[int]:
    """Which namespaces a run changes: others in each run where there are enough, every third not in the cluster that
    hangs."""
    others = [number for number in range(size) if number % EVERY_FIFTH == 0]
    everywhere = [number for number in range(size) if number % EVERY_FIFTH]
    out = []
    for number in range(run * changes, (run + 1) * changes):
        group = others if number % 3 == 2 else everywhere
        out.append(group[(number // 3 if number % 3 == 2 else number - number // 3) % len(group)])
    return out


def one_by_one(site: Site, load: Load, run: int, case: str, places: list[Place]) -> None:
    """Changes one after another, each with one by hand before it."""
    for index, number in enumerate(chosen(load.size, run, load.changes)):
        load.found.append(by_hand(site, load, run, case, places[index % len(places)]))
        load.found.append(change(site, load, run, case, number))


def silent(site: Site, load: Load, run: int, places: list[Place]) -> float:
    """A change a second, and one by hand, while a cluster falls silent; seconds until the status of the instance says
    so."""
    begin = time.monotonic()
    with ThreadPoolExecutor(2 * FALLING_SECONDS) as pool:
        begun = []
        for second, number in enumerate(chosen(load.size, run, FALLING_SECONDS)):
            time.sleep(max(0.0, begin + second - time.monotonic()))
            begun.append(pool.submit(by_hand, site, load, run, FALLING, places[second]))
            begun.append(pool.submit(change, site, load, run, FALLING, number))
        wait(lambda: site.reachable(HANGS) is False, LIMIT_SECONDS, f"{HANGS} to be left out")
        left_out = time.monotonic() - begin
        load.found += [each.result() for each in begun]
    return left_out


def measure(site: Site, load: Load, running: Running) -> None:
    """All runs of one size, first with all clusters well."""
    places = site.make_by_hand(FALLING_SECONDS)
    quiet(site.world)
    for run in range(load.runs):
        one_by_one(site, load, run, WELL, places)
        print(f"         run {run + 1} with all clusters well", flush=True)
    left_out = []
    for run in range(load.runs):
        wait(lambda: site.reachable(HANGS), LIMIT_SECONDS, f"{HANGS} to answer")
        quiet(site.world)
        with site.hanging():
            left_out.append(silent(site, load, run, places))
            one_by_one(site, load, run, HANGING, places)
        print(f"         run {run + 1} with {HANGS} hanging", flush=True)
        check_alive(site.world, running)
    tell(load)
    load.say(f"{HANGS} hangs until its absence is in the instance's status", left_out, "s")


def tell(load: Load) -> None:
    """The figures of all changes: of each run its p50, p99 and most, and of these the median."""
    for case in (WELL, FALLING, HANGING):
        _bound(load, case)
        for group in ("all", "others"):
            runs = by_run(load.found, case, OPERATOR, group)
            where = "" if group == "all" else f", namespaces without {HANGS}"
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                parts = {
                    "in ZooKeeper": [percentile([c.stored for c in run], share) for run in runs],
                    "in every cluster that answers": [percentile([c.consistent for c in run], share) for run in runs],
                    "status": [percentile([c.ready or 0.0 for c in run], share) for run in runs],
                }
                for part, values in parts.items():
                    load.say(f"{case}{where}: {part}, {name}", [1000 * value for value in values], "ms")
            most = max(c.done for run in runs for c in run)
            load.say(f"{case}{where}: all of it, longest of all runs", most, "s", most=BAR_SECONDS)
    for who, group, most_times in ((HAND, "all", None), (OPERATOR, "all", NOISE), (OPERATOR, "others", NOISE)):
        well, hanging = (
            [percentile([c.done for c in run], 0.99) for run in by_run(load.found, case, who, group)]
            for case in (WELL, HANGING)
        )
        where = "" if group == "all" else f", namespaces without {HANGS}"
        shares = [mine / statistics.median(well) for mine in hanging]
        load.say(f"p99 with {HANGS} hanging, of that without{where}", shares, "x", who=who, most=most_times)


def _bound(load: Load, case: str) -> None:
    runs = by_run(load.found, case, HAND)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        values = [1000 * percentile([c.consistent for c in run], share) for run in runs]
        load.say(f"{case}: in every cluster that answers, {name}", values, "ms", who=HAND)
