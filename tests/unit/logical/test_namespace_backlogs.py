"""A cluster leaves the replication of a namespace once what waits between it and the others is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.logical import replication_backlog
from pulsar_operator.controllers.logical.replication_backlog import FRESH_SECONDS, MOST
from pulsar_operator.domain.logical.replication_backlog import Delivery, delivery, is_asked, undelivered
from pulsar_operator.ports import AdminEndpoint, Json, UnavailableError
from tests.fakes.admin import AdminCall, FakeAdmin
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.world import LogicalWorld

X, Y = "persistent://t/n/x", "persistent://t/n/y"
LATER = "2026-06-01T00:00:00Z"


def consent(cluster: str, expires: str = LATER) -> Json:
    return {"action": "AbandonBacklog", "cluster": cluster, "expiresTime": expires}


def has(w: LogicalWorld, cluster: str, topic: str, entries: int, **undelivered: int) -> FakeTopic:
    """A topic with so many entries in a cluster, and what its replicators have still to deliver."""
    found = w.pulsar.topics.setdefault(cluster, {})[topic] = FakeTopic(entries=entries, undelivered=undelivered)
    return found


async def world(*clusters: str, **spec: Any) -> LogicalWorld:
    """A namespace in clusters a and b."""
    w = LogicalWorld(*(clusters or ("a", "b")))
    w.tenant()
    w.namespace(**({"replicationClusters": list(clusters or ("a", "b"))} | spec))
    await w.run()
    return w


class Odd(FakeAdmin):
    """Whoever stands in front of Pulsar answers questions for the topics of a namespace."""

    instead: tuple[Any, ...] = ()

    async def call(self, endpoint: AdminEndpoint, method: str, path: Sequence[str], **options: Any) -> Any:
        """See ports.PulsarAdminPort."""
        answer = await super().call(endpoint, method, path, **options)
        return self.instead[0] if self.instead and path[-1] == "topics" else answer


def busy(w: LogicalWorld, *topics: FakeTopic) -> None:
    """They are published to at each question, and what they had is delivered."""

    def published(call: AdminCall) -> None:
        if call.path[-1] == "internalStats":
            for topic in topics:
                topic.entries += 40
                topic.undelivered["b"] = 40

    w.admin.after.append(published)


def replicating(w: LogicalWorld) -> list[str]:
    found: list[str] = w.pulsar.namespaces["t/n"]["replication_clusters"]
    return found


def asked(w: LogicalWorld) -> list[str]:
    """Topics whose replicators were looked at."""
    return ["/".join(call.path) for call in w.admin.calls if call.path[-1] == "internalStats"]


def accepted(w: LogicalWorld) -> tuple[str, str, str]:
    return w.condition(Kind.NAMESPACE, "n", "Accepted")


async def test_what_waits_for_the_cluster_that_leaves_is_waited_for() -> None:
    w = await world()
    topic, other = has(w, "a", X, 100, b=12), has(w, "a", Y, 5, b=0)
    has(w, "b", X, 100, a=0)
    w.namespace(replicationClusters=["a"], policies={"maxTopics": 3})
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0
    status, reason, text = accepted(w)
    assert (status, reason) == ("False", "WaitingForReplication")
    assert f"in a {X} (12 for b)" in text and Y not in text and "AbandonBacklog" in text
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 3, "the rest converges"
    assert await w.second_pass_writes() == ([], [])
    topic.entries, topic.undelivered["b"] = 400, 305  # 95 of the 100 it had when it was asked first
    other.entries, other.undelivered["b"] = 50, 45
    await w.run()
    assert replicating(w) == ["a", "b"]
    assert Y not in accepted(w)[2], "what is published later is not waited for"
    topic.undelivered["b"] = 300
    busy(w, topic, other)
    await w.run()
    assert replicating(w) == ["a"]
    assert accepted(w)[0] == "True" and w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert "DriftRepaired" not in w.reasons(Kind.NAMESPACE), "it was asked for"
    assert await w.second_pass_writes() == ([], [])


async def test_what_the_cluster_that_leaves_has_for_the_others_is_waited_for() -> None:
    w = await world("a", "b", "c")
    topic = has(w, "c", X, 10, a=0, b=4)
    w.namespace(replicationClusters=["a", "b"])
    await w.run()
    assert replicating(w) == ["a", "b", "c"]
    assert f"in c {X} (4 for b)" in accepted(w)[2]
    topic.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0


async def test_what_waits_between_those_that_stay_is_their_own() -> None:
    w = await world("a", "b", "c")
    has(w, "a", X, 10, b=4, c=0)
    w.namespace(replicationClusters=["a", "b"])
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.topics["a"][X].undelivered == {"b": 4}


async def test_a_consent_lets_it_go_and_counts_once() -> None:
    w = await world()
    has(w, "a", X, 10, b=4)
    gone: Json = {"replicationClusters": ["a"], "confirmations": [{**consent("b"), "action": "RemoveCluster"}]}
    w.namespace(**gone)
    await w.run()
    assert replicating(w) == ["a", "b"], "that its data may go says nothing of what is not there yet"
    gone["confirmations"] = [consent("b")]
    w.namespace(**gone)
    await w.run()
    assert replicating(w) == ["a"] and w.pulsar.abandoned == 4
    (used,) = w.status(Kind.NAMESPACE, "n")["usedConfirmations"]
    assert (used["action"], used["cluster"]) == ("AbandonBacklog", "b")
    w.namespace(**{**gone, "replicationClusters": ["a", "b"]})
    await w.run()
    has(w, "a", X, 10, b=4)
    w.namespace(**gone)
    await w.run()
    assert replicating(w) == ["a", "b"] and accepted(w)[1] == "WaitingForReplication"


async def test_a_cluster_that_does_not_answer_needs_a_consent() -> None:
    w = await world()
    has(w, "a", X, 10, b=0)
    w.admin.hanging.add("b")
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"]
    assert accepted(w)[1] == "WaitingForReplication" and "the backlog of b for a is not known" in accepted(w)[2]
    w.namespace(replicationClusters=["a"], confirmations=[consent("b")])
    await w.run()
    assert replicating(w) == ["a"]


async def test_a_broker_of_several_that_does_not_answer_is_waited_for() -> None:
    """What its topics have is not known, whatever others say; and partitions that were added meanwhile are asked."""
    w = await world()
    has(w, "a", X, 10, b=0)
    has(w, "a", Y, 10, b=0)

    def silent(call: AdminCall) -> None:
        if call.path[-2:] == ("y", "internalStats"):
            raise UnavailableError("no answer from its broker")

    w.admin.before.append(silent)
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"] and "the backlog of a for b is not known" in accepted(w)[2]
    added = has(w, "a", f"{X}-partition-4", 3, b=3)
    w.admin.before.clear()
    await w.run()
    assert replicating(w) == ["a", "b"] and "x-partition-4 (3 for b)" in accepted(w)[2]
    added.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a"] and w.pulsar.abandoned == 0


@pytest.mark.parametrize("answer", [None, {}, {"reason": "odd"}, [None]])
async def test_an_answer_without_a_list_is_not_that_there_are_no_topics(answer: Any) -> None:
    admin = Odd()
    w = LogicalWorld("a", "b", admin=admin)
    admin.pulsar = w.pulsar
    w.tenant()
    w.namespace(replicationClusters=["a", "b"])
    await w.run()
    has(w, "a", X, 10, b=4)
    admin.instead = (answer,)
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0
    assert "without a list of names" in accepted(w)[2]
    has(w, "b", Y, 3)
    w.namespace(replicationClusters=["a", "b"], deletionPolicy="Delete")
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert replicating(w) == ["a", "b"] and Y in w.pulsar.topics["b"], "nor for its deletion"


async def test_a_cluster_of_another_instance_needs_a_consent() -> None:
    w = await world()
    w.delete(Kind.CLUSTER, "b")
    await w.run()
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"]
    assert "the backlog of b for a is not known, because b is no cluster of the instance" in accepted(w)[2]


async def test_a_new_process_asks_again() -> None:
    w = await world()
    topic = has(w, "a", X, 10, b=4)
    w.namespace(replicationClusters=["a"])
    await w.run()
    topic.entries, topic.undelivered["b"] = 20, 10
    w.restart()
    await w.run()
    assert replicating(w) == ["a", "b"], "what was published until now is waited for"
    topic.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a"]


async def test_what_was_delivered_long_ago_is_asked_again() -> None:
    """The other cluster may have been cut off since."""
    w = await world("a", "b", "c")
    slow, other = has(w, "a", X, 10, c=4), has(w, "b", X, 10, c=0)
    w.namespace(replicationClusters=["a", "b"])
    await w.run()
    other.entries, other.undelivered["c"] = 50, 40
    await w.run()
    assert "in b" not in accepted(w)[2]
    w.stepping.forward(FRESH_SECONDS)
    slow.undelivered["c"] = 0
    await w.run()
    assert replicating(w) == ["a", "b", "c"] and f"in b {X} (40 for c)" in accepted(w)[2]
    other.undelivered["c"] = 0
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0


@pytest.mark.parametrize("delivers", [True, False], ids=["delivered", "still waits"])
async def test_a_clock_that_is_put_back_keeps_nothing_fresh(delivers: bool) -> None:
    """What was seen while it was ahead is of a moment that nobody knows."""
    w = await world("a", "b", "c")
    w.stepping.forward(86400)
    slow, other = has(w, "a", X, 10, c=4), has(w, "b", X, 10, c=0 if delivers else 2)
    w.namespace(replicationClusters=["a", "b"])
    await w.run()
    w.stepping.forward(-86400)
    other.entries, other.undelivered["c"] = 50, 40
    w.stepping.forward(2 * FRESH_SECONDS)
    slow.undelivered["c"] = 0
    await w.run()
    assert replicating(w) == ["a", "b", "c"] and f"in b {X} (40 for c)" in accepted(w)[2]
    other.undelivered["c"] = 0
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0


async def test_the_change_taken_back_is_forgotten() -> None:
    w = await world()
    topic = has(w, "a", X, 10, b=4)
    for clusters in (["a"], ["a", "b"]):
        w.namespace(replicationClusters=clusters)
        await w.run()
    assert replicating(w) == ["a", "b"] and accepted(w)[0] == "True"
    topic.entries, topic.undelivered["b"] = 20, 10
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"], "what was published meanwhile is waited for too"


async def test_drift_that_is_only_reported_asks_nothing() -> None:
    w = await world("a", "b", "c", replicationClusters=["a", "b"], driftPolicy="Report")
    w.pulsar.namespaces["t/n"] |= {"replication_clusters": ["a", "b", "c"]}
    has(w, "a", X, 10, c=4)
    await w.run()
    assert asked(w) == []
    assert replicating(w) == ["a", "b", "c"] and accepted(w)[0] == "True"


async def test_a_cluster_that_another_writer_added_is_waited_for_too() -> None:
    w = await world("a", "b", "c", replicationClusters=["a", "b"], driftPolicy="Repair")
    w.pulsar.namespaces["t/n"] |= {"replication_clusters": ["a", "b", "c"]}
    topic = has(w, "a", X, 10, c=4)
    await w.run()
    assert replicating(w) == ["a", "b", "c"] and accepted(w)[1] == "WaitingForReplication"
    topic.undelivered["c"] = 0
    await w.run()
    assert replicating(w) == ["a", "b"]


async def test_very_many_topics_are_asked_in_turns() -> None:
    w = await world()
    for number in range(MOST + 10):
        has(w, "a", f"persistent://t/n/t{number}", 3, b=0)
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a"]
    assert len(asked(w)) == len(set(asked(w))) == MOST + 10


async def test_what_comes_to_a_topic_that_has_delivered_is_waited_for() -> None:
    """Others have not yet, so that it is not asked for a while."""
    w = await world()
    slow, other = has(w, "a", X, 10, b=4), has(w, "a", Y, 10, b=0)
    w.namespace(replicationClusters=["a"])
    await w.run()
    other.entries, other.undelivered["b"] = 9010, 9000
    slow.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0
    assert f"in a {Y} (9000 for b)" in accepted(w)[2] and X not in accepted(w)[2]
    other.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a"] and w.pulsar.abandoned == 0


async def test_a_topic_that_does_not_answer_the_last_question_is_waited_for() -> None:
    w = await world()
    slow = has(w, "a", X, 10, b=4)
    has(w, "a", Y, 10, b=0)
    w.namespace(replicationClusters=["a"])
    await w.run()

    def silent(call: AdminCall) -> None:
        if call.path[-2:] == ("y", "internalStats"):
            raise UnavailableError("no answer from its broker")

    w.admin.before.append(silent)
    slow.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a", "b"] and "the backlog of a for b is not known" in accepted(w)[2]


async def test_topics_that_one_pass_cannot_ask_were_asked_a_short_time_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_backlog, "LAST_MOST", 2)
    w = await world()
    slow = has(w, "a", X, 10, b=4)
    others = [has(w, "a", f"persistent://t/n/t{number}", 10, b=0) for number in range(5)]
    w.namespace(replicationClusters=["a"])
    await w.run()
    w.stepping.forward(FRESH_SECONDS - 60)
    slow.undelivered["b"] = 0
    others[-1].entries, others[-1].undelivered["b"] = 20, 10
    for _ in range(5):
        await w.run()
        assert replicating(w) == ["a", "b"]
    assert "t4 (10 for b)" in accepted(w)[2]
    others[-1].undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a"]


STATS = {
    "entriesAddedCounter": 9,
    "lastConfirmedEntry": "5:8",
    "cursors": {"pulsar.repl.b": {"messagesConsumedCounter": 4, "markDeletePosition": "5:3"}, "kept": {}},
}


def test_statistics_are_read() -> None:
    assert delivery(STATS, {"b", "c"}) == Delivery((5, 8), {"b": 5}, {"b": (5, 3)})


@pytest.mark.parametrize("change", [{"cursors": None}, {"entriesAddedCounter": None}, {"lastConfirmedEntry": "5"}])
def test_statistics_that_do_not_report_are_an_error(change: Json) -> None:
    with pytest.raises(ValueError):
        delivery({**STATS, **change}, {"b"})


@pytest.mark.parametrize(
    ("waiting", "mark", "goal", "expected"),
    [
        (5, (5, 3), (5, 8), {"b": 5}),
        (5, (5, 8), (5, 8), {}),
        (5, (6, 0), (5, 8), {}),
        (0, (5, 8), (6, -1), {}),  # an empty ledger after the last entry
        (3, (5, 8), (6, -1), {"b": 3}),
        (-7, (5, 3), (5, 8), {"b": -7}),  # counters that are wrong
        (-7, (5, 8), (5, 8), {}),
        (-7, (5, 8), (6, -1), {"b": -7}),
        (0, (5, 3), (5, 8), {"b": 0}),
    ],
)
def test_what_is_undelivered(waiting: int, mark: tuple[int, int], goal: tuple[int, int], expected: Json) -> None:
    assert undelivered(Delivery((9, 9), {"b": waiting}, {"b": mark}), goal) == expected


class Skewed(FakeTopic):
    """A topic whose replicators count as delivered five entries more than were."""

    def internal_stats(self) -> Json:
        """As GET internalStats tells it."""
        stats = super().internal_stats()
        for cursor in stats["cursors"].values():
            cursor["messagesConsumedCounter"] += 5
        return stats


@pytest.mark.parametrize("waiting", [5, 4])
async def test_counters_that_are_wrong_do_not_say_that_nothing_waits(waiting: int) -> None:
    w = await world()
    w.pulsar.topics.setdefault("a", {})[X] = topic = Skewed(entries=100, undelivered={"b": waiting})
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"] and f"in a {X} (an unknown number for b)" in accepted(w)[2]
    topic.undelivered["b"] = 0
    await w.run()
    assert replicating(w) == ["a"] and w.pulsar.abandoned == 0


def test_topics_of_pulsar_itself_are_not_asked() -> None:
    assert is_asked(X) and not is_asked("non-persistent://t/n/x")
    for own in ("__change_events", "__change_events-partition-0", "__transaction_buffer_snapshot_indexes"):
        assert not is_asked(f"persistent://t/n/{own}")


async def test_two_underscores_make_no_topic_pulsars_own() -> None:
    w = await world()
    has(w, "a", "persistent://t/n/__orders", 10, b=4)
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert replicating(w) == ["a", "b"] and w.pulsar.abandoned == 0
    assert "__orders (4 for b)" in accepted(w)[2]


CLUSTERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(sorted)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(CLUSTERS, st.sampled_from("abc"), st.booleans()), min_size=1, max_size=5))
async def test_nothing_that_waits_is_dropped_without_a_consent(changes: list[tuple[Any, Any, bool]]) -> None:
    w = await world("a", "b", "c")
    for number, (clusters, target, agreed) in enumerate(changes):
        for cluster in "abc":
            others = {each: 0 for each in replicating(w) if each != cluster and cluster in replicating(w)}
            has(w, cluster, X, 10 * (number + 1), **(others | ({target: 3} if target in others else {})))
        w.stepping.forward(2 * FRESH_SECONDS)
        before = w.pulsar.abandoned
        spec: Json = {"replicationClusters": clusters}
        if agreed:
            spec["confirmations"] = [consent(target, f"2026-06-0{number + 1}T00:00:00Z")]
        w.namespace(**spec)
        await w.run()
        assert agreed or w.pulsar.abandoned == before
        assert await w.second_pass_writes() == ([], [])
