"""What an outage of the configuration store means for pods that read it, and for how long they may take.

A pod that is replaced while it is away does not come up; one that exited by itself comes back by itself when the store
does (measured on 4.0.8: eight seconds later), so there is nothing to repair, and no time that passed meanwhile counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isinf
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.domain.conditions import parse_time, seconds_since
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView
from pulsar_operator.domain.dataplane.rollout.facts import DEPENDS_ON

READERS: Final = frozenset({Component.BROKER, Component.PROXY})
"""Components that need the configuration store to start."""
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def stored_unavailability(facts: ClusterFacts) -> str | None:
    """Why the configuration store is away as the status of the instance says, as a message; None if it is not."""
    store = facts.instance.store
    if facts.spec.mode is ClusterMode.STANDALONE or store.ready:
        return None
    return f"The configuration store of the instance is unavailable: {store.message}"


def unavailable_store(facts: ClusterFacts, view: ClusterView) -> str | None:
    """Why the configuration store is unavailable, as a message, as the status of the instance says or this pass found
    when it read the store; None if it is not."""
    instance, found = facts.instance, view.metadata
    if (known := stored_unavailability(facts)) is not None or facts.spec.mode is ClusterMode.STANDALONE:
        return known
    if found is None:
        observed = "metadata" in view.ran
        return "ZooKeeper, which is the configuration store, has no quorum" if instance.own_store and observed else None
    # With its own store done a cluster asks the configuration store.
    asked = found.local_ready or instance.own_store
    silent = found.reason is Reason.METADATA_UNREACHABLE and asked
    return f"The configuration store does not answer: {found.message}" if silent else None


def answers_since(facts: ClusterFacts, component: Component, now: datetime) -> datetime | None:
    """Time since which the store answers that a component's pods read to start: what became of them before says nothing
    of their template. Now while it does not, or no status says that it does; None if the component does not read it."""
    return (back_since(facts, now) or now) if component in READERS else None


def back_since(facts: ClusterFacts, now: datetime) -> datetime | None:
    """Time since which the store answers; None while it does not, or no status says that it does."""
    return _not_ahead(facts.instance.store.since, now) if stored_unavailability(facts) is None else None


def _not_ahead(text: str | None, now: datetime) -> datetime | None:
    """A time of a status. A time in the future was written before the clock was set back: it counts as long ago, so
    that no deadline waits until it is reached."""
    found = parse_time(text)
    return LONG_AGO if found is not None and isinf(seconds_since(found, now)) else found


def stores_answer_since(facts: ClusterFacts, now: datetime) -> Mapping[Component, datetime]:
    """Time since which the stores answer that each component's pods read to start; ``now`` where one does not, or no
    status says that it does. Without the components that read none."""
    if facts.spec.mode is ClusterMode.STANDALONE:
        return {}
    metadata = condition_of(facts.obj, ConditionType.METADATA_READY) or {}
    local = _not_ahead(metadata.get("lastTransitionTime"), now) if metadata.get("status") == "True" else None
    found = dict.fromkeys(DEPENDS_ON, local or now)
    return found | {component: max(found[component], back_since(facts, now) or now) for component in READERS}
