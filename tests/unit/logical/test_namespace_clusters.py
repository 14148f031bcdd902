"""Clusters join and leave a namespace, or a topic; nothing is lost without a confirmation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.confirmations import Confirmation, ConfirmationAction
from pulsar_operator.domain.logical.clusters import confirmed
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.world import DRY_RUN, NS, LogicalWorld

X = "persistent://t/n/x"
LATER = "2026-06-01T00:00:00Z"
"""After the clock of the world."""
BEFORE = "2025-06-01T00:00:00Z"


def confirmation(cluster: str, expires: str = LATER) -> Json:
    """An entry of spec.confirmations."""
    return {"action": "RemoveCluster", "cluster": cluster, "expiresTime": expires}


async def world(*clusters: str, **spec: Any) -> LogicalWorld:
    """A namespace in clusters a and b, with topic x in each."""
    w = LogicalWorld(*(clusters or ("a", "b")))
    w.tenant()
    w.namespace(**spec)
    await w.run()
    for names in w.pulsar.clusters:
        w.pulsar.topics.setdefault(names, {})[X] = FakeTopic()
    return w


def lists(w: LogicalWorld) -> tuple[list[str], list[str]]:
    """replication_clusters and allowed_clusters."""
    live = w.pulsar.namespaces["t/n"]
    return live["replication_clusters"], live["allowed_clusters"]


def holding(w: LogicalWorld) -> set[str]:
    """Clusters that have topic x."""
    return {cluster for cluster, names in w.pulsar.topics.items() if X in names}


async def test_a_cluster_that_leaves_the_replication_keeps_its_data() -> None:
    w = await world(replicationClusters=["a", "b"])
    with w.admin.recording() as made:
        w.namespace(replicationClusters=["a"])
        await w.run()
    assert [path.rsplit("/", 1)[1] for method, path in made if method == "POST"] == ["allowedClusters", "replication"]
    assert lists(w) == (["a"], ["a", "b"])
    assert holding(w) == {"a", "b"}
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert [c["name"] for c in w.status(Kind.NAMESPACE, "n")["clusters"]] == ["a", "b"]
    assert await w.second_pass_writes() == ([], [])


async def test_bundles_are_compared_across_clusters() -> None:
    w = await world(replicationClusters=["a", "b"])
    assert w.status(Kind.NAMESPACE, "n")["boundariesMatch"] is True
    w.pulsar.split["b", "t/n"] = ["0x00000000", "0x80000000", "0xffffffff"]
    await w.run()
    assert w.status(Kind.NAMESPACE, "n")["boundariesMatch"] is False
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b")])
    await w.run()
    assert "boundariesMatch" not in w.status(Kind.NAMESPACE, "n")


async def test_what_pulsar_refuses_to_widen_is_not_shrunk() -> None:
    w = await world(replicationClusters=["a", "b"])
    w.pulsar.refuse["allowedClusters"] = "no"
    w.namespace(replicationClusters=["a"], policies={"maxTopics": 3})
    await w.run()
    assert lists(w) == (["a", "b"], [])
    assert holding(w) == {"a", "b"}
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[:2] == ("False", "RejectedByPulsar")
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 3, "the rest converges"


async def test_a_cluster_leaves_with_its_data_only_by_confirmation() -> None:
    w = await world(replicationClusters=["a", "b"], allowedClusters=["a", "b"])
    w.namespace(replicationClusters=["a"], allowedClusters=["a"])
    await w.run()
    assert lists(w) == (["a"], ["a", "b"])
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "Accepted")
    assert (status, reason) == ("False", "ConfirmationRequired")
    assert "spec.allowedClusters no longer contains b" in message and "spec.confirmations" in message
    assert await w.second_pass_writes() == ([], [])
    for dead in (confirmation("b", BEFORE), confirmation("a")):
        w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[dead])
        await w.run()
        assert holding(w) == {"a", "b"}
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b")])
    await w.run()
    assert lists(w) == (["a"], ["a"])
    assert holding(w) == {"a"}
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    used = {each["cluster"]: each["expiresTime"] for each in w.status(Kind.NAMESPACE, "n")["usedConfirmations"]}
    assert used == {"a": LATER, "b": LATER}, "one was void, and would count later"
    assert await w.second_pass_writes() == ([], [])


async def test_both_lists_shrink_in_one_change_step_by_step() -> None:
    w = await world(replicationClusters=["a", "b"])
    with w.admin.recording() as made:
        w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b")])
        await w.run()
    steps = [path.rsplit("/", 1)[1] for method, path in made if method == "POST"]
    assert steps == ["allowedClusters", "replication", "allowedClusters"]
    assert lists(w) == (["a"], ["a"])


async def test_a_consent_is_used_once() -> None:
    w = await world(replicationClusters=["a"], allowedClusters=["a", "b"])
    given = {"confirmations": [confirmation("b")]}
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], **given)
    await w.run()
    assert lists(w)[1] == ["a"]
    w.namespace(replicationClusters=["a"], allowedClusters=["a", "b"], **given)
    await w.run()
    w.pulsar.topics["b"][X] = FakeTopic()
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], **given)
    await w.run()
    assert holding(w) == {"a", "b"}
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[1] == "ConfirmationRequired"
    w.namespace(replicationClusters=["a"], allowedClusters=["a"])
    await w.run()
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], **given)  # taken out and put back
    await w.run()
    assert holding(w) == {"a", "b"}
    w.namespace(replicationClusters=["a"], allowedClusters=["a"])
    await w.run()
    w.stepping.forward(365 * 86400)
    await w.run()
    assert not w.status(Kind.NAMESPACE, "n").get("usedConfirmations"), "it would not count any more"


async def test_a_consent_is_not_forgotten_for_a_later_one() -> None:
    """A manifest of before is applied again: what it confirms was used, though another one was used since."""
    w = await world(replicationClusters=["a"], allowedClusters=["a", "b"])
    for expires in (LATER, "2026-05-01T00:00:00Z"):
        w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b", expires)])
        await w.run()
        assert lists(w)[1] == ["a"]
        w.namespace(replicationClusters=["a"], allowedClusters=["a", "b"])
        await w.run()
    w.pulsar.topics["b"][X] = FakeTopic()
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b")])
    await w.run()
    assert holding(w) == {"a", "b"}
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[1] == "ConfirmationRequired"


async def test_a_consent_is_not_forgotten_over_an_entry_of_a_newer_version() -> None:
    """After a downgrade nobody can read the list."""
    given: Json = {"confirmations": [confirmation("b")]}
    w = await world(replicationClusters=["a"], allowedClusters=["a", "b"])
    for allowed in (["a"], ["a", "b"]):
        w.namespace(replicationClusters=["a"], allowedClusters=allowed, **given)
        await w.run()
    w.pulsar.topics["b"][X] = FakeTopic()
    newer = {**confirmation("b"), "action": "OfANewerVersion", "usedTime": BEFORE}
    status = w.status(Kind.NAMESPACE, "n")
    status["usedConfirmations"] = [*status["usedConfirmations"], newer]
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", status)
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], **given)
    await w.run()
    assert holding(w) == {"a", "b"}
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[1] == "ConfirmationRequired"
    w.namespace(
        replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b", "2026-05-01T00:00:00Z")]
    )
    await w.run()
    assert holding(w) == {"a"}, "another one counts"


def renamed(w: LogicalWorld, spec: Json) -> str:
    w.namespace("n2", name="n", **spec)
    w.delete(Kind.NAMESPACE, "n")
    return "n2"


def made_again(w: LogicalWorld, spec: Json) -> str:
    """As with its Kubernetes namespace."""
    w.delete(Kind.NAMESPACE, "n")
    w.namespace(**spec)
    return "n"


def without_status(w: LogicalWorld, spec: Json) -> str:
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", {})
    return "n"


def restored_with_an_old_status(w: LogicalWorld, spec: Json) -> str:
    """The backup is of the moment before the confirmations were used, and has the status."""
    status = {**w.status(Kind.NAMESPACE, "n"), "usedConfirmations": []}
    w.delete(Kind.NAMESPACE, "n")
    w.namespace(**spec)
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", status)
    return "n"


@pytest.mark.parametrize("action", ["RemoveCluster", "AbandonBacklog"])
@pytest.mark.parametrize("change", [renamed, made_again, without_status, restored_with_an_old_status])
async def test_a_consent_that_was_used_does_not_count_for_who_takes_over(
    change: Callable[[LogicalWorld, Json], str], action: str
) -> None:
    gone: Json = {
        "replicationClusters": ["a"],
        "allowedClusters": ["a"],
        "confirmations": [confirmation("b"), {**confirmation("b"), "action": "AbandonBacklog"}],
    }
    w = await world(replicationClusters=["a", "b"])
    w.namespace(**gone)
    await w.run()
    assert lists(w) == (["a"], ["a"]) and holding(w) == {"a"}
    replicating = ["a", "b"] if action == "AbandonBacklog" else ["a"]
    w.pulsar.namespaces["t/n"].update(replication_clusters=replicating, allowed_clusters=["a", "b"])
    w.pulsar.topics["b"][X] = FakeTopic()
    w.pulsar.topics["a"][X] = FakeTopic(entries=9, undelivered={"b": 4} if action == "AbandonBacklog" else {})
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[0] == "False" and holding(w) == {"a", "b"}
    name = change(w, gone)
    await w.run()
    assert (lists(w)[0], holding(w), w.pulsar.abandoned) == (replicating, {"a", "b"}, 0)
    status, _, text = w.condition(Kind.NAMESPACE, name, "Accepted")
    assert status == "False" and f"has action {action}, " in text
    again = "2026-05-01T00:00:00Z"
    anew = [confirmation("b", again), {**confirmation("b", again), "action": "AbandonBacklog"}]
    w.namespace(name, name="n", **{**gone, "confirmations": anew})
    await w.run()
    assert lists(w) == (["a"], ["a"]) and holding(w) == {"a"}


async def test_a_consent_for_a_cluster_that_stays_is_void() -> None:
    w = await world(replicationClusters=["a", "b"], allowedClusters=["a", "b"], confirmations=[confirmation("b")])
    w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b")])
    await w.run()
    assert holding(w) == {"a", "b"}
    w.namespace(
        replicationClusters=["a"], allowedClusters=["a"], confirmations=[confirmation("b", "2026-07-01T00:00:00+02:00")]
    )
    await w.run()
    assert holding(w) == {"a"}


async def test_where_replication_goes_on_nothing_leaves() -> None:
    w = await world()
    w.namespace(allowedClusters=["a"], confirmations=[confirmation("b")])
    await w.run()
    assert lists(w) == (["a", "b"], ["a", "b"])
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "but replication_clusters of the namespace does. Remove b from spec.replicationClusters" in message


async def test_a_cluster_joins_a_namespace_with_a_list() -> None:
    w = await world("a", "b", "c", replicationClusters=["a"], allowedClusters=["a"])
    w.namespace(replicationClusters=["a", "b"], allowedClusters=["a", "b", "c"])
    await w.run()
    assert lists(w) == (["a", "b"], ["a", "b", "c"])
    w.namespace(replicationClusters=["a", "b", "c"])
    await w.run()
    assert lists(w) == (["a", "b", "c"], ["a", "b", "c"])
    w.namespace()
    await w.run()
    assert lists(w) == (["a", "b", "c"], ["a", "b", "c"]), "lists of clusters are not reset"


async def test_a_new_namespace_is_made_where_it_is_allowed() -> None:
    w = await world("a", "b", allowedClusters=["b"])
    assert lists(w) == (["b"], ["b"])


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_drift_of_the_lists(policy: str) -> None:
    w = await world("a", "b", "c", replicationClusters=["a"], allowedClusters=["a", "b"], driftPolicy=policy)
    w.pulsar.namespaces["t/n"] |= {"replication_clusters": ["a", "c"], "allowed_clusters": ["a", "b", "c"]}
    await w.run()
    status, reason, _ = w.condition(Kind.NAMESPACE, "n", "Accepted")
    assert (status, reason) == ("False", "ConfirmationRequired"), "c has what was written there meanwhile"
    expected = (["a"], ["a", "b", "c"]) if policy == "Repair" else (["a", "c"], ["a", "b", "c"])
    assert lists(w) == expected
    w.pulsar.namespaces["t/n"] |= {"replication_clusters": ["a"], "allowed_clusters": ["a"]}
    await w.run()
    assert lists(w) == (["a"], ["a", "b"] if policy == "Repair" else ["a"])


async def test_an_unknown_cluster_is_reported_and_a_lost_one_stays() -> None:
    w = await world("a", "b", replicationClusters=["a", "b"], allowedClusters=["a", "b", "typo"])
    message = w.condition(Kind.NAMESPACE, "n", "Accepted")[2]
    assert "spec.allowedClusters names 'typo', which is no cluster of the instance (the instance has: a, b)" in message
    assert lists(w) == (["a", "b"], [])
    w.delete(Kind.CLUSTER, "b")
    await w.run()
    assert lists(w) == (["a", "b"], [])


async def test_dry_run_shows_the_first_step() -> None:
    w = await world(replicationClusters=["a", "b"])
    w.namespace(replicationClusters=["a"], annotations=DRY_RUN)
    await w.run()
    assert lists(w) == (["a", "b"], [])
    assert w.status(Kind.NAMESPACE, "n")["pendingActions"] == [
        'Widen allowed_clusters to ["a", "b"] (was empty), so that b can leave spec.replicationClusters and the data '
        "in that cluster stays"
    ]


def test_a_consent_counts_until_its_moment() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    given = Confirmation(
        action=ConfirmationAction.REMOVE_CLUSTER, cluster="b", expires_time="2026-01-01T01:00:00+01:00"
    )
    assert confirmed([given], [], moment - timedelta(seconds=1)) == {"b"}
    assert confirmed([given], [], moment) == frozenset()


CLUSTERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(sorted)
SPECS = st.tuples(st.none() | CLUSTERS, st.none() | CLUSTERS, st.none() | st.sampled_from("abc"), st.booleans())


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(SPECS, min_size=1, max_size=5))
async def test_no_data_is_lost_without_a_confirmation(changes: list[tuple[Any, Any, Any, bool]]) -> None:
    w = await world("a", "b", "c", replicationClusters=["a", "b", "c"])
    for number, (replicating, allowed, leaves, meddles) in enumerate(changes):
        spec: Json = {}
        if replicating is not None:
            spec["replicationClusters"] = replicating
        if allowed is not None:
            spec["allowedClusters"] = sorted({*allowed, *(replicating or ())})
        if leaves is not None:
            spec["confirmations"] = [confirmation(leaves, f"2026-06-0{number + 1}T00:00:00Z")]
        if meddles:
            w.pulsar.namespaces["t/n"]["replication_clusters"] = ["a", "b", "c"]
            w.pulsar.namespaces["t/n"]["allowed_clusters"] = []
        before = holding(w)
        w.namespace(**spec)
        await w.run()
        lost = before - holding(w)
        assert lost <= {leaves} - set(spec.get("allowedClusters", "abc"))
        assert await w.second_pass_writes() == ([], [])


# -------------------------------------------------------------------------------------------------------- topics


async def topic(w: LogicalWorld, **spec: Any) -> None:
    """Topic x with these fields."""
    w.topic(**spec)
    await w.run()


def replicated(w: LogicalWorld, where: str) -> Any:
    """The list of topic x in a cluster, or in the replicated set (*)."""
    return w.pulsar.topic_policies.get((where, X), {}).get("replication")


async def test_a_topic_of_its_own_clusters() -> None:
    w = await world()
    await topic(w, replicationClusters=["a"])
    assert (replicated(w, "a"), replicated(w, "b")) == (["a"], ["b"]), "b keeps it for itself"
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert await w.second_pass_writes() == ([], [])
    w.pulsar.topic_policies["b", X]["replication"] = ["a", "b"]
    await w.run()
    assert replicated(w, "b") == ["b"]
    assert "DriftRepaired" in w.reasons(Kind.TOPIC)
    await topic(w)
    assert (replicated(w, "a"), replicated(w, "b")) == (None, None)
    assert holding(w) == {"a", "b"}


async def test_a_global_list_must_not_delete_the_topic_elsewhere() -> None:
    w = await world()
    await topic(w, replicationClusters=["a"], policies={"maxProducers": 3}, policyScope="Global")
    status, reason, message = w.condition(Kind.TOPIC, "x", "Accepted")
    assert (status, reason) == ("False", "ConfirmationRequired")
    assert "Pulsar would delete the topic in b" in message
    assert replicated(w, "*") is None and holding(w) == {"a", "b"}
    assert w.pulsar.topic_policies["*", X]["maxProducers"] == 3, "the rest converges"
    w.namespace(allowedClusters=["a", "b"])
    await w.run()
    assert replicated(w, "*") == ["a"] and holding(w) == {"a", "b"}
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert await w.second_pass_writes() == ([], [])


async def test_a_topic_goes_where_its_namespace_may_be() -> None:
    w = await world(replicationClusters=["a"], allowedClusters=["a", "b"])
    del w.pulsar.topics["b"][X]
    await topic(w, replicationClusters=["a", "b"], deletionPolicy="Delete")
    assert holding(w) == {"a", "b"}
    assert replicated(w, "a") == replicated(w, "b") == ["a", "b"]
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert holding(w) == set()


@pytest.mark.parametrize("scope", ["Local", "Global"])
async def test_a_topic_whose_namespace_left_a_cluster_of_its_list_says_so(scope: str) -> None:
    """Two users, the second of whom does not know of the list: the others would keep messages for b for ever."""
    w = await world("a", "b", "c", replicationClusters=["a", "c"], allowedClusters=["a", "b", "c"])
    await topic(w, replicationClusters=["a", "b", "c"], policyScope=scope)
    where = "a" if scope == "Local" else "*"
    assert w.condition(Kind.TOPIC, "x")[0] == "True" and replicated(w, where) == ["a", "b", "c"]
    gone = {"replicationClusters": ["a", "c"], "allowedClusters": ["a", "c"]}
    w.namespace(**gone, confirmations=[confirmation("b")])
    await w.run()
    assert holding(w) == {"a", "c"}
    status, reason, text = w.condition(Kind.TOPIC, "x", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.replicationClusters names b, but namespace t/n is not allowed in b" in text
    assert await w.second_pass_writes() == ([], [])
    await topic(w, replicationClusters=["a", "c"], policyScope=scope)
    assert w.condition(Kind.TOPIC, "x")[0] == "True" and replicated(w, where) == ["a", "c"]


@pytest.mark.parametrize("scope", ["Local", "Global"])
@pytest.mark.parametrize("clusters", [["typo"], ["a", "typo"], ["a", "b", "typo"]])
async def test_a_cluster_that_is_not_known_is_refused(clusters: list[str], scope: str) -> None:
    """Nothing of the list is written: the name may be meant for a cluster that has the topic."""
    w = await world()
    await topic(w, replicationClusters=["a", "b"], policies={"maxProducers": 3}, policyScope=scope)
    await topic(w, replicationClusters=clusters, policies={"maxProducers": 4}, policyScope=scope)
    status, reason, message = w.condition(Kind.TOPIC, "x", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.replicationClusters names 'typo', which is no cluster of the instance" in message
    assert "Correct the name, or create a PulsarCluster with that clusterName" in message
    assert w.condition(Kind.TOPIC, "x")[0] == "False"
    where = "a" if scope == "Local" else "*"
    assert replicated(w, where) == ["a", "b"] and holding(w) == {"a", "b"}
    assert w.pulsar.topic_policies[where, X]["maxProducers"] == 4, "the rest converges"
    assert await w.second_pass_writes() == ([], [])
    await topic(w, replicationClusters=["a", "b"], policies={"maxProducers": 3}, policyScope=scope)
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    await topic(w)
    assert replicated(w, where) is None, "it was still the operator's to take back"
