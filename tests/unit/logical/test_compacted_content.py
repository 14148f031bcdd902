"""The compacted ledger is content: readers get the newest message of each key from it."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, SetWorld, count

X, P = "persistent://t/n/x", "persistent://t/n/p-partition-1"
FULL = {"x": X, "p": P}


async def compacted(name: str, topic: FakeTopic, cluster: str = "a") -> SetWorld:
    """Topic x, or partitioned topic p, with what is given in it, in a cluster; its deletion has begun."""
    w = await SetWorld.made("a", "b")
    w.topic(name, deletionPolicy="Delete", **({"partitions": 2} if name == "p" else {}))
    await w.run()
    w.pulsar.topics[cluster][FULL[name]] = topic
    w.delete(Kind.TOPIC, name)
    await w.run()
    return w


@pytest.mark.parametrize("cluster", ["a", "b"])
@pytest.mark.parametrize("entries", [0, 1])
@pytest.mark.parametrize("name", FULL)
async def test_what_was_compacted_blocks(name: str, entries: int, cluster: str) -> None:
    w = await compacted(name, FakeTopic(entries=entries, compacted=5000), cluster)
    assert FULL[name] in w.pulsar.topics[cluster], "5000 keys are lost"
    status, reason, message = w.condition(Kind.TOPIC, name, "DeletionBlocked")
    assert (status, reason) == ("True", "NotEmpty")
    assert f"topic {name} still has 5000 entries (205000 bytes) in cluster {cluster}" in message
    assert (
        "If these messages are no longer needed, set spec.deletionPolicy to ForceDelete. To release the object"
        in message
    )
    assert not [write for write in w.admin.writes if write[0] == "DELETE"]


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("name", FULL)
async def test_force_delete_is_the_consent(name: str, opens: bool) -> None:
    w = await compacted(name, FakeTopic(compacted=5000, compacted_opens=opens))
    w.topic(name, deletionPolicy="ForceDelete", **({"partitions": 2} if name == "p" else {}))
    await w.run()
    assert w.get(Kind.TOPIC, name) is None
    assert FULL[name] not in w.pulsar.topics["a"]


async def test_the_partitions_of_each_cluster_are_counted_together() -> None:
    w = await SetWorld.made("a", "b")
    w.topic("p", deletionPolicy="Delete", partitions=2)
    await w.run()
    for number, cluster in enumerate("ab", start=1):
        for part in range(2):
            w.pulsar.topics[cluster][f"persistent://t/n/p-partition-{part}"] = FakeTopic(compacted=number)
    w.delete(Kind.TOPIC, "p")
    await w.run()
    message = w.condition(Kind.TOPIC, "p", "DeletionBlocked")[2]
    assert "has 2 entries (82 bytes) in cluster a, 4 entries (164 bytes) in cluster b" in message


@pytest.mark.parametrize("topic", [FakeTopic(backlog={"__compaction": 0}), FakeTopic(compacted=0)])
@pytest.mark.parametrize("name", FULL)
async def test_without_a_compacted_entry_it_is_deleted(name: str, topic: FakeTopic) -> None:
    """Compaction never ran, or found nothing but keys that were deleted."""
    w = await compacted(name, topic)
    assert w.get(Kind.TOPIC, name) is None
    assert FULL[name] not in w.pulsar.topics["a"]


async def test_a_ledger_that_cannot_be_opened_is_not_empty() -> None:
    w = await compacted("x", FakeTopic(compacted=5000, compacted_opens=False))
    assert X in w.pulsar.topics["a"]
    assert w.condition(Kind.TOPIC, "x")[:2] == ("Unknown", "AdminUnreachable")
    assert "did not return the number of entries in the compacted ledger of topic x" in w.condition(Kind.TOPIC, "x")[2]


@pytest.mark.parametrize(
    "answer", [{}, {"compactedLedger": None}, {"compactedLedger": {"entries": -1, "size": -1}, "cursors": {}}]
)
async def test_an_answer_without_a_number_is_not_empty(answer: dict[str, Any]) -> None:
    class Odd(FakeTopic):
        """Tells less than Pulsar does."""

        def internal_stats(self) -> dict[str, Any]:
            """See FakeTopic."""
            return answer

    w = await compacted("x", Odd(backlog={"__compaction": 0}))
    assert X in w.pulsar.topics["a"]


async def test_a_topic_that_was_never_compacted_costs_no_further_question() -> None:
    w = await compacted("x", FakeTopic(backlog={"s": 0}))
    assert w.get(Kind.TOPIC, "x") is None
    assert not [call for call in w.admin.calls if call.path[-1] == "internalStats"]


@pytest.mark.parametrize("leaves", ["the number", "the set"])
async def test_of_a_set(leaves: str) -> None:
    w = await SetWorld.made()
    w.topics("s", **count(5, deletionPolicy="Delete"))
    await w.work()
    w.pulsar.topics["a"]["persistent://t/n/x-4"] = FakeTopic(compacted=12)
    if leaves == "the set":
        w.delete(SET, "s")
    else:
        w.topics("s", **count(4, deletionPolicy="Delete"))
    await w.work()
    assert "x-4" in w.local()
    assert "The compacted ledger of topic x-4 still has 12 entries" in w.condition(SET, "s")[2]
