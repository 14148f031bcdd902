"""Children that the specification does not ask for any more."""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.dataplane.children import prune, prune_configurations
from pulsar_operator.controllers.dataplane.phases.phase import Step

NEVER_PRUNED: Final = frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.STANDALONE})
"""Components that hold data: only a deleted PulsarCluster takes their pods away."""


async def leftovers(step: Step) -> None:
    """Delete them."""
    await prune(step.hand, step.live, step.rendered.all(), keep=NEVER_PRUNED)
    await prune_configurations(step.hand, step.live, step.rendered.all())
