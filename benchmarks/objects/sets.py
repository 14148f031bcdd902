"""The measurement of a PulsarTopicSet: from its creation until every topic of it is as declared."""

from __future__ import annotations

import time

from benchmarks.objects.measure import BOUND, LIMIT, Load, Requests, check_alive, is_ready, say_spent
from benchmarks.objects.names import objects
from benchmarks.objects.processors import processor_seconds, spent_since
from benchmarks.objects.world import World, operator, wait
from pulsar_operator.api.constants import PLURALS, Kind

SETS = PLURALS[Kind.TOPIC_SET]
WHO = "set"


def measure_set(found: World, load: Load) -> None:
    """A set of ``load.size`` topics, whose template is the specification of single topics."""
    template = {name: value for name, value in load.spec.items() if name != "namespaceRef"}
    count = {"prefix": "s-", "number": load.size}
    spec = {"namespaceRef": load.spec["namespaceRef"], "count": count, "template": template}
    with operator(found, workers=load.workers, also=(Kind.TOPIC_SET,)) as running:
        wait(running.is_ready, LIMIT, "the operator to be ready without topics")
        mark, calls, before = found.api.audit_mark(), found.admin_counts(running), processor_seconds()
        start = time.monotonic()
        found.put(SETS, "all", spec)

        def done() -> bool:
            check_alive(found, running)
            return is_ready(found.api.request("GET", f"{objects(SETS)}/all").body)

        wait(done, LIMIT, f"a set of {load.size} topics to be Ready", every=0.25)
        seconds, spent = time.monotonic() - start, spent_since(before)
        most = {10000: 60.0}.get(load.size)
        load.say("creation of the set until it is Ready", seconds, "s", most=most, who=WHO)
        load.say("topics", load.size / seconds, "topics/s", who=WHO)
        load.say(BOUND, seconds / spent.bound, "x", most=1.25, who=WHO)
        say_spent(load, spent, WHO)
        made = found.admin_counts(running) - calls
        load.say("admin calls a topic", made.total() / load.size, "calls", who=WHO)
        asked = Requests.since(found, mark)
        load.say("requests to the API server", asked.total, "requests", who=WHO)
        load.say("P3 resident after converging", running.rss_mib(), "MiB", most=250, who=WHO)
        load.say("P3 peak", running.rss_mib("VmHWM"), "MiB", who=WHO)
