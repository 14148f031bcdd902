"""The count of children that guards a deletion."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.logical.world import LogicalWorld


async def test_dependents_are_counted_while_pulsar_is_away() -> None:
    """The count guards deletions (admission policy of the chart), so it must not wait for Pulsar."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic()
    await w.run()
    w.admin.down.add("a")
    w.topic("y")
    await w.run()
    assert w.status(Kind.NAMESPACE, "n")["dependents"] == 2
    w.delete(Kind.TOPIC, "y")
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.status(Kind.NAMESPACE, "n")["dependents"] == 0
