"""Whether the configuration store is away, in the middle of a pass."""

from __future__ import annotations

from pulsar_operator.controllers.dataplane.outage import unavailable_store
from pulsar_operator.controllers.dataplane.phases.phase import Step


def store_away(step: Step) -> str | None:
    """Why the configuration store is unavailable, in words; None = it is not."""
    return unavailable_store(step.facts, step.view)
