"""How many writes the quickstart costs, per object; printed as a table (pytest -rP shows it) and bounded."""

from __future__ import annotations

from collections import Counter

from tests.support.cluster.copies import ready_world
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.journal import ADMIN, KUBERNETES, ZOOKEEPER, PortCall

STATUS_LIMITS = {
    "PulsarInstance": 5,
    "PulsarCluster": 9,
    "PulsarTenant": 3,
    "PulsarNamespace": 3,
    "PulsarTopic": 3,
}
"""Status writes of one object from creation to Ready: first look, write-ahead, and one for each stage it shows."""


def table(calls: list[PortCall]) -> str:
    """Writes by port, kind and verb, with the number of objects."""
    rows: Counter[tuple[str, str, str]] = Counter()
    objects: dict[tuple[str, str], set[str]] = {}
    for call in calls:
        kind = call.kind if call.port == KUBERNETES else "znode" if call.port == ZOOKEEPER else call.name.split("/")[0]
        rows[call.port, kind, call.verb] += 1
        objects.setdefault((call.port, kind), set()).add(call.name)
    lines = [f"{'port':11}{'kind':24}{'verb':11}{'writes':>7}{'objects':>9}{'per object':>12}"]
    for (port, kind, verb), number in sorted(rows.items()):
        count = len(objects[port, kind])
        lines.append(f"{port:11}{kind:24}{verb:11}{number:7}{count:9}{number / count:12.1f}")
    return "\n".join([*lines, f"{'':11}{'total':24}{'':11}{len(calls):7}"])


async def test_writes_of_the_quickstart() -> None:
    world = await ready_world()
    print(table(world.journal.attempts))
    applied = Counter((c.kind, c.name) for c in world.journal.effects if c.verb in ("apply", "create"))
    record = ("ConfigMap", "east-instance-id")
    # The record is written four times on purpose: before the store, after it, once registered, and once bookies are up.
    assert applied.pop(record) == 4
    # The record of templates before the workload, and once its template has proved itself.
    records = [key for key in applied if key[0] == "ConfigMap" and key[1].endswith("-templates")]
    assert [applied.pop(key) for key in records] == [2] * 5
    assert set(applied.values()) == {1}
    for kind, limit in STATUS_LIMITS.items():
        counted = Counter(c.name for c in world.journal.effects if (c.verb, c.kind) == ("status", kind))
        assert max(counted.values()) <= limit, f"{kind}: {dict(counted)}"
    assert len(world.journal.of(ADMIN)) == 7
    assert len(world.journal.attempts) == len(world.journal.effects)


async def test_a_hundred_topics_cost_three_writes_each() -> None:
    """With a running cluster: managedFields ahead, the topic, the status; and one of the parent for all of them."""
    world = await ready_world()
    topic = quickstart()[-1]
    mark = len(world.journal.attempts)
    topics = [{**topic, "metadata": {**topic["metadata"], "name": f"t{n}"}} for n in range(100)]
    await world.apply(*topics)
    await world.run()
    made = Counter((c.verb, c.kind) for c in world.journal.attempts[mark:] if c.port == KUBERNETES)
    print(table(world.journal.attempts[mark:]))
    assert made == {("status", "PulsarTopic"): 200, ("status", "PulsarNamespace"): 1}
    assert len([c for c in world.journal.attempts[mark:] if c.port == ADMIN]) == 100


async def test_status_does_not_flap() -> None:
    """Every status write of the bring-up changes more than it repeats: no status is ever written back to an old one."""
    world = ClusterWorld.fakes()
    seen: dict[str, list[str]] = {}
    await world.apply(*quickstart())

    async def look() -> None:
        for key in await world.keys():
            status = await world.status(key.kind, key.name)
            text = repr([(c["type"], c["status"], c["message"]) for c in status.get("conditions") or ()])
            history = seen.setdefault(str(key), [])
            if not history or history[-1] != text:
                assert text not in history, f"{key} returned to {text}"
                history.append(text)

    await world.run(each=look)
    assert await world.all_ready() == {}
