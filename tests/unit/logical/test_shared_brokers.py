"""controllers/logical/shared_brokers.py: how many namespaces are looked at to find some without a broker."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from tests.support.logical.isolation import PIP, B
from tests.support.logical.world import LogicalWorld

LEFT = "SharedBrokersAvailable"
READS = 50


def crowded(away: int, here: int = 1) -> LogicalWorld:
    """A cluster whose brokers are all taken; of a tenant's namespaces the first are in another cluster alone."""
    w = LogicalWorld("a", "b")
    w.pulsar.tenants = {"bank": {"adminRoles": [], "allowedClusters": ["a", "b"]}}
    for number in range(away + here):
        w.pulsar.namespaces[f"bank/n{number:03}"] = {"replication_clusters": ["b" if number < away else "a"]}
    w.pulsar.live_brokers["a"] = B[:2]
    w.isolation(namespaces=["shop/.*"], primary=[".*"], clusters=["a"])
    return w


def looked_at(w: LogicalWorld) -> list[str]:
    """Namespaces whose clusters were asked for, in the last pass."""
    return [call.path[2] for call in w.admin.calls if call.path[:2] == ("namespaces", "bank") and len(call.path) == 3]


@pytest.mark.parametrize(("away", "told"), [(READS - 1, True), (READS, False), (READS + 20, False)])
async def test_only_so_many_namespaces_are_checked(away: int, told: bool) -> None:
    """Thousands of namespaces elsewhere are not read in every pass; that one is missed then is what it costs."""
    w = crowded(away)
    await w.reconcile(PIP, "i")
    w.admin.calls.clear()
    await w.reconcile(PIP, "i")
    assert looked_at(w) == [f"n{number:03}" for number in range(READS)]
    assert w.condition(PIP, "i", LEFT)[:2] == (("False", "NoBrokersForOthers") if told else ("True", "BrokersShared"))


async def test_it_ends_when_there_are_enough_to_name() -> None:
    w = crowded(0, here=10)
    await w.reconcile(PIP, "i")
    w.admin.calls.clear()
    await w.reconcile(PIP, "i")
    assert looked_at(w) == ["n000", "n001", "n002"]
    assert "such as bank/n000, bank/n001, bank/n002, have" in w.condition(PIP, "i", LEFT)[2]


async def test_namespaces_of_the_policies_cost_no_observation() -> None:
    w = crowded(READS)
    w.isolation(namespaces=["bank/n00.*"], primary=[".*"], clusters=["a"])
    await w.reconcile(PIP, "i")
    w.admin.calls.clear()
    await w.reconcile(PIP, "i")
    assert looked_at(w) == [f"n{number:03}" for number in range(10, READS + 1)]
    assert w.condition(PIP, "i", LEFT)[0] == "False"
    assert w.condition(Kind.ISOLATION_POLICY, "i")[0] == "True"


async def test_brokers_of_a_cluster_that_does_not_answer_are_unknown() -> None:
    w = LogicalWorld("a", "b")
    w.pulsar.live_brokers |= {"a": B[:2], "b": B[:2]}
    w.admin.down.add("b")
    w.isolation(namespaces=["shop/.*"], primary=["b-0.*"])
    await w.run()
    status, reason, message = w.condition(PIP, "i", LEFT)
    assert (status, reason) == ("Unknown", "AdminUnreachable") and message.startswith(
        "These clusters do not answer: b. "
    )
    w.admin.down.clear()
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("True", "BrokersShared")


async def test_an_expression_that_cannot_be_evaluated_is_named() -> None:
    w = LogicalWorld("a")
    w.pulsar.live_brokers["a"] = B[:2]
    others = {"namespaces": ["(?!bank/).*", "[a[b]]"], "primary": ["x.*"], "secondary": []}
    w.pulsar.isolation["a"] = {"by\nhand": others}
    w.isolation(namespaces=["shop/.*"], primary=["b-0.*"])
    await w.run()
    status, reason, message = w.condition(PIP, "i", LEFT)
    assert (status, reason) == ("Unknown", "ExpressionNotEvaluated")
    assert 'cannot evaluate the expressions "(?!bank/).*" of policy by\\nhand, "[a[b]]" of policy' in message
    assert "does not move or split namespaces that these expressions may match" in message
    assert w.reasons(PIP).count("ExpressionNotEvaluated") == 1
    assert await w.second_pass_writes() == ([], [])
    w.pulsar.isolation["a"].pop("by\nhand")
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("True", "BrokersShared")


async def test_brokers_that_are_all_taken_are_reported_anyway() -> None:
    w = crowded(0)
    w.pulsar.isolation["a"] = {"odd": {"namespaces": ["(?!bank/).*"], "primary": ["(?=x)"], "secondary": []}}
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("Unknown", "ExpressionNotEvaluated"), "odd may cover the namespaces"
    w.pulsar.isolation["a"]["odd"]["namespaces"] = ["shop/.*"]
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("False", "NoBrokersForOthers")


async def test_an_expression_that_backtracks_is_evaluated() -> None:
    """Seen on Pulsar 4.0.8, which needs 10 ms for it; Python's own engine does not end."""
    w = crowded(0)
    w.pulsar.namespaces = {"bank/" + "a" * 60: {"replication_clusters": ["a"]}}
    w.isolation(namespaces=["([a-z0-9./-]+)+!"], primary=[".*"], clusters=["a"])
    await w.run()
    assert w.condition(PIP, "i", LEFT)[:2] == ("False", "NoBrokersForOthers")
