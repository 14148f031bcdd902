"""Sets of thousands: how often Pulsar is asked, what a restart costs; and kills at every write."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.controllers.topicset.topic_schedule import CANARIES, PERIOD_SECONDS, ROUND, SLICE_SECONDS
from pulsar_operator.ports import CUSTOM
from tests.fakes.killed import Killed
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, TTL, SetWorld
from tests.support.sampling import first, sample_or_each

MANY = 20_000


def spec(number: int, **more: Any) -> dict[str, Any]:
    return {"count": {"prefix": "x-", "number": number}, "template": TTL, **more}


async def complete(number: int) -> SetWorld:
    """A world whose set was finished by a process before, without its passes."""
    w = await SetWorld.made()
    w.topics("s", **spec(1))
    await w.work()
    names = [f"persistent://t/n/x-{n}" for n in range(number)]
    w.pulsar.topics["a"].update({name: FakeTopic() for name in names})
    w.pulsar.topic_policies.update({("a", name): {"messageTTL": 60} for name in names})
    w.pulsar.topic_properties.update({("a", name): {OWNER_PROPERTY: "PulsarTopicSet apps/s"} for name in names})
    w.topics("s", **spec(number))
    status = w.status(SET, "s") | {"desired": number, "ready": number}
    status["clusters"][0]["topics"] = number
    w.kube.set_status(CUSTOM[SET], "apps", "s", status)
    w.restart()
    return w


def counted(w: SetWorld, since: int) -> Counter[str]:
    """Calls by what they are for."""
    kinds = {3: "list", 4: "list", 5: "policy"}
    return Counter(f"{c.method} {kinds[len(c.path)]}" for c in w.admin.calls[since:])


async def test_twenty_thousand_after_a_restart() -> None:
    """Nothing is written and nothing read at once; in a tenth of a period a tenth of the topics is read."""
    w = await complete(MANY)
    since, writes = len(w.admin.calls), len(w.kube.changes)
    outcome = await w.reconcile(SET, "s")
    assert counted(w, since) == {"GET list": 3}, "the namespace and its two lists"
    assert outcome.requeue_after is not None and outcome.requeue_after >= SLICE_SECONDS
    passes = await w.wait(PERIOD_SECONDS / 10)
    found = counted(w, since)
    assert MANY / 15 <= found.pop("GET policy") <= MANY / 8
    assert found == {"GET list": 3}
    assert passes <= 2 + 2 * PERIOD_SECONDS / 10 / SLICE_SECONDS
    # The generation of the specification was not seen before.
    assert len([change for change in w.kube.changes[writes:] if change[1] == SET.value]) <= 1
    assert len(json.dumps(w.status(SET, "s"))) < 4000
    assert w.condition(SET, "s")[:2] == ("True", "Ready")


async def test_what_drifts_in_a_large_set_is_found_within_a_period() -> None:
    w = await complete(3000)
    await w.work()
    w.pulsar.topic_policies["a", "persistent://t/n/x-2100"]["messageTTL"] = 7
    w.pulsar._drop_topic("persistent://t/n/x-17")
    since, writes = len(w.admin.calls), len(w.kube.writes)
    await w.wait(PERIOD_SECONDS + 30)
    assert 3000 <= counted(w, since)["GET policy"] <= 3400, "each is read once in a period"
    assert counted(w, since)["GET list"] <= 12
    assert len(w.kube.writes) - writes <= 6
    assert w.policies("x-2100") == {"messageTTL": 60}
    assert w.policies("x-17") == {"messageTTL": 60}
    assert {"DriftRepaired", "Repaired"} <= set(w.reasons(SET))


async def test_made_in_rounds_with_one_status_each() -> None:
    w = await SetWorld.made()
    number = 3 * ROUND
    w.topics("s", **spec(number))
    since, writes = len(w.admin.calls), len(w.kube.writes)
    rounds = 0
    while True:
        outcome = await w.reconcile(SET, "s")
        rounds += 1
        ready = w.counts()["ready"]
        assert ready <= CANARIES + (rounds - 1) * ROUND
        if outcome.requeue_after != 0.0:
            break
    assert w.counts() == {"desired": number, "ready": number}
    assert rounds == 4
    # Two writes and two reads a topic; the lists are made once.
    found = Counter(c.method for c in w.admin.calls[since:])
    assert found["PUT"] == found["POST"] == number
    assert found["GET"] <= 2 * number + 10
    assert len([each for each in w.kube.writes[writes:] if each[0] == "apply_status"]) == rounds + 1
    assert len(w.told()) <= 2 * rounds, "one event for a round and a reason"


async def test_growing_leaves_the_others_alone() -> None:
    w = await complete(3000)
    await w.work()
    since = len(w.admin.calls)
    w.topics("s", **spec(3010))
    await w.work()
    assert counted(w, since)["GET policy"] <= 10 + ROUND, "new ones, and whose turn it is"
    assert w.counts() == {"desired": 3010, "ready": 3010}


# ------------------------------------------------------------------------------------------------------------- kills


def make(w: SetWorld) -> None:
    w.topics("s", **spec(12, deletionPolicy="Delete"))


def change(w: SetWorld) -> None:
    """Another value, one more field, one less, four topics less."""
    template = {"policies": {"maxProducers": 4}, "properties": {"k": "v"}}
    w.topics("s", count={"prefix": "x-", "number": 8}, template=template, deletionPolicy="Delete")


def lose(w: SetWorld) -> None:
    for n in (3, 9):
        w.pulsar._drop_topic(f"persistent://t/n/x-{n}")


def remove(w: SetWorld) -> None:
    w.delete(SET, "s")


SCENARIOS = {"make": [make], "change": [make, change], "lose": [make, lose], "remove": [make, remove]}


async def play(name: str, kill_at: int, *, after: bool) -> tuple[str, bool, int]:
    """The end state, whether a kill happened, and how many writes there were."""
    *before, last = SCENARIOS[name]
    w = await SetWorld.made("a", "b")
    for step in before:
        step(w)
        await w.work()
    last(w)
    count = 0

    def look(call: Any) -> None:
        nonlocal count
        count += call.is_write
        if call.is_write and count == kill_at:
            raise Killed

    for hooks in (w.kube.after, w.admin.after) if after else (w.kube.before, w.admin.before):
        hooks.append(look)
    killed = False
    try:
        await w.work()
    except* Killed:
        killed = True
    if killed:
        w.restart()
        await w.work()
    await w.wait(120)
    status = {} if w.get(SET, "s") is None else w.status(SET, "s")
    for condition in status.get("conditions") or ():
        del condition["lastTransitionTime"]
    return json.dumps([status, w.pulsar.snapshot()], sort_keys=True, default=str), killed, count


@pytest.mark.parametrize("every", sample_or_each(6))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_killed_at_every_write(name: str, after: bool, every: int) -> None:
    undisturbed, killed, writes = await play(name, 0, after=after)
    assert not killed and writes > 3
    step = 1 if name == "lose" else min(every, writes)  # the former has few
    for at in range(1 + first(step), writes + 1, step):
        found, killed, _ = await play(name, at, after=after)
        assert killed, f"not killed at write {at}"
        assert found == undisturbed, f"killed {'after' if after else 'before'} write {at}"
