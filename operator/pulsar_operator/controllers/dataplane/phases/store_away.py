"""Whether the configuration store is away, in the middle of a pass."""

from __future__ import annotations

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.dataplane.outage import known_away
from pulsar_operator.controllers.dataplane.phases.phase import Step


def store_away(step: Step) -> str | None:
    """Why the configuration store is away, in words, as the status of the instance says or this pass found when it read
    the store; None = it is not."""
    instance, found = step.facts.instance, step.view.metadata
    if (known := known_away(step.facts)) is not None or step.facts.spec.mode is ClusterMode.STANDALONE:
        return known
    if found is None:
        looked = "metadata" in step.view.ran
        return (
            "ZooKeeper, which is the configuration store, to have a quorum" if instance.own_store and looked else None
        )
    # With its own store done a cluster asks the configuration store.
    asked = found.local_ready or instance.own_store
    silent = found.reason is Reason.METADATA_UNREACHABLE and asked
    return f"the configuration store to answer: {found.message}" if silent else None
