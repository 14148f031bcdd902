"""The operator is killed before and after every single write, and a new one ends where an undisturbed one would."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.fakes.killed import Killed
from tests.support.logical.world import LOGICAL, LogicalWorld
from tests.support.sampling import first, sample_or_each

RETENTION = {"timeMinutes": 60, "size": "100Mi"}


def create(w: LogicalWorld) -> None:
    w.tenant(adminRoles=["r"], deletionPolicy="Delete")
    w.namespace(
        bundles={"count": 3},
        policies={"retention": RETENTION, "messageTTLSeconds": 5, "publishRate": {"messagesPerSecond": 3}},
        deletionPolicy="Delete",
    )
    w.topic("x", deletionPolicy="Delete", policies={"retention": RETENTION, "maxProducers": 3})
    w.topic("p", partitions=2, deletionPolicy="Delete")


BROKERS = [f"a-broker-{n}.h:8080" for n in range(3)]


def create_shared(w: LogicalWorld) -> None:
    """What lives beside namespaces: a resource group, an isolation policy and failure domains."""
    w.tenant(deletionPolicy="Delete")
    w.namespace(policies={"resourceGroup": "g"}, deletionPolicy="Delete")
    w.group(limits={"publishRate": {"messagesPerSecond": 5, "bytesPerSecond": 6}}, deletionPolicy="Delete")
    w.isolation(
        namespaces=["t/.*"],
        primary=[".*-0.*"],
        secondary=[".*-1.*"],
        unloadScope="None",
        failureDomains=[{"name": "x", "brokers": BROKERS[:1]}, {"name": "y", "brokers": BROKERS[1:]}],
        deletionPolicy="Delete",
    )


def change_shared(w: LogicalWorld) -> None:
    """Limits change and go, a field and a cluster leave, two domains swap a broker, and one is new."""
    w.namespace(policies={}, deletionPolicy="Delete")
    w.group(limits={"publishRate": {"messagesPerSecond": 7}}, driftPolicy="Report", deletionPolicy="Delete")
    w.isolation(
        clusters=["a"],
        namespaces=["t/.*", "u/n"],
        primary=[".*-0.*"],
        autoFailover={"minLimit": 2},
        failureDomains=[{"name": "x", "brokers": BROKERS[1:2]}, {"name": "z", "brokers": BROKERS[:1]}],
        driftPolicy="Report",
        deletionPolicy="Delete",
    )


def lose_shared(w: LogicalWorld) -> None:
    """All of it is lost under objects that only report drift."""
    w.pulsar.resource_groups.clear()
    w.pulsar.group_limits.clear()
    w.pulsar.isolation.clear()
    w.pulsar.domains.clear()


def change(w: LogicalWorld) -> None:
    w.tenant(adminRoles=["s"], deletionPolicy="Delete")
    w.namespace(bundles={"count": 3}, policies={"messageTTLSeconds": 6}, driftPolicy="Report", deletionPolicy="Delete")
    w.topic("x", deletionPolicy="Delete", policies={"maxProducers": 4}, policyScope="Global")
    w.topic("p", partitions=4, deletionPolicy="Delete")


def lose(w: LogicalWorld) -> None:
    """Everything in Pulsar is lost under objects that only report drift."""
    w.pulsar.tenants.clear()
    w.pulsar.namespaces.clear()
    w.pulsar.partitioned.clear()
    w.pulsar.topics.clear()
    w.pulsar.topic_policies.clear()


def remove(w: LogicalWorld) -> None:
    for kind in LOGICAL:
        for obj in w.kube.all(CUSTOM[kind]):
            w.delete(kind, obj["metadata"]["name"])


SCENARIOS: dict[str, list[Callable[[LogicalWorld], None]]] = {
    "create": [create],
    "change": [create, change],
    "lose": [create, change, lose],
    "remove": [create, remove],
    "shared-create": [create_shared],
    "shared-change": [create_shared, change_shared],
    "shared-lose": [create_shared, change_shared, lose_shared],
    "shared-remove": [create_shared, remove],
}


def end_state(w: LogicalWorld) -> str:
    objects: dict[str, Any] = {}
    for kind in LOGICAL:
        for obj in w.kube.all(CUSTOM[kind]):
            status = json.loads(json.dumps(obj.get("status") or {}))
            for condition in status.get("conditions") or []:
                del condition["lastTransitionTime"]
            objects[f"{kind}/{obj['metadata']['name']}"] = [status, obj["metadata"].get("finalizers")]
    return json.dumps([objects, w.pulsar.snapshot()], sort_keys=True, default=str)


class Killer:
    """Ends the process at the n-th write, before it or after it."""

    def __init__(self, w: LogicalWorld, at: int, *, after: bool) -> None:
        self.count, self.at, self.w = 0, at, w
        w.kube.before.append(lambda call: self.look(call.is_write, after is False))
        w.kube.after.append(lambda call: self.look(call.is_write, after is True))
        w.admin.before.append(lambda call: self.look(call.is_write, after is False))
        w.admin.after.append(lambda call: self.look(call.is_write, after is True))

    def look(self, is_write: bool, mine: bool) -> None:
        if is_write and mine:
            self.count += 1
            if self.count == self.at:
                raise Killed


async def play(scenario: list[Callable[[LogicalWorld], None]], kill_at: int, *, after: bool) -> tuple[str, bool, int]:
    """The end state, whether a kill happened, and how many writes there were."""
    w = LogicalWorld("a", "b")
    for step in scenario[:-1]:
        step(w)
        await w.run(12)
    scenario[-1](w)
    killer = Killer(w, kill_at, after=after)
    killed = False
    try:
        await w.run(12)
    except Killed:
        killed = True
        w.restart()
        await w.run(12)
    return end_state(w), killed, killer.count


@pytest.mark.parametrize("every", sample_or_each(3))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_killed_at_every_write(name: str, after: bool, every: int) -> None:
    undisturbed, killed, writes = await play(SCENARIOS[name], 0, after=after)
    assert not killed and writes > 3
    step = min(every, writes)
    for at in range(1 + first(step), writes + 1, step):
        found, killed, _ = await play(SCENARIOS[name], at, after=after)
        assert killed, f"not killed at write {at}"
        assert found == undisturbed, f"killed {'after' if after else 'before'} write {at}"


async def test_the_managed_fields_are_stored_before_the_first_write() -> None:
    w = LogicalWorld()
    w.tenant()
    await w.run()
    w.namespace(policies={"messageTTLSeconds": 5})

    def look(call: Any) -> None:
        if call.is_write and call.path[0] == "namespaces":
            assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["policies.messageTTLSeconds"]
            raise Killed

    w.admin.before.append(look)
    with pytest.raises(Killed):
        await w.run()
