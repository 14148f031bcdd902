"""What the status of a topic says of its clusters while one of them does not answer."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.logical.world import LogicalWorld


async def test_clusters_stay_in_order_and_as_they_were_last_seen() -> None:
    """Another order would be a write of the status whenever a cluster goes away or comes back."""
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace()
    w.topic("x")
    await w.run()
    before = w.status(Kind.TOPIC, "x")["clusters"]
    assert [each["name"] for each in before] == ["a", "b"] and all(each["exists"] for each in before)
    w.admin.down.add("a")
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] != "True"
    assert w.status(Kind.TOPIC, "x")["clusters"] == before
