"""The effect of an outage of the configuration store on pods that read it, and on their deadlines.

A pod that is replaced during the outage does not come up. A pod that exited recovers automatically when the store does
(measured on 4.0.8: eight seconds later), so there is nothing to repair, and the time of the outage does not count.
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
    """Returns why the configuration store is unavailable according to the instance's status, as a message; None if it
    is available."""
    store = facts.instance.store
    if facts.spec.mode is ClusterMode.STANDALONE or store.ready:
        return None
    return f"The configuration store of the instance is unavailable: {store.message}"


def unavailable_store(facts: ClusterFacts, view: ClusterView) -> str | None:
    """Returns why the configuration store is unavailable, as a message, according to the instance's status or this
    pass's own read; None if it is available."""
    instance, found = facts.instance, view.metadata
    if (known := stored_unavailability(facts)) is not None or facts.spec.mode is ClusterMode.STANDALONE:
        return known
    if found is None:
        observed = "metadata" in view.ran
        return "ZooKeeper, which is the configuration store, has no quorum" if instance.own_store and observed else None
    # With its own store done a cluster asks the configuration store.
    asked = found.local_ready or instance.own_store
    silent = found.reason is Reason.METADATA_UNREACHABLE and asked
    return f"The configuration store cannot be read: {found.message}" if silent else None


def answers_since(facts: ClusterFacts, component: Component, now: datetime) -> datetime | None:
    """Returns the time since which the store answers that a component's pods read to start: earlier failures of them do
    not prove their template wrong.

    The current time while it does not answer, or no status reports it; None if the component does not read it.
    """
    return (back_since(facts, now) or now) if component in READERS else None


def back_since(facts: ClusterFacts, now: datetime) -> datetime | None:
    """Returns the time since which the store answers; None while it does not, or no status reports it."""
    return _not_ahead(facts.instance.store.since, now) if stored_unavailability(facts) is None else None


def _not_ahead(text: str | None, now: datetime) -> datetime | None:
    """Parses a time of a status. A time in the future was written before the clock was set back: it counts as long ago,
    so that no deadline waits for it."""
    found = parse_time(text)
    return LONG_AGO if found is not None and isinf(seconds_since(found, now)) else found


def stores_answer_since(facts: ClusterFacts, now: datetime) -> Mapping[Component, datetime]:
    """Returns the time since which the stores answer that each component's pods read to start; ``now`` if one does not,
    or no status reports it. Components that read none are left out."""
    if facts.spec.mode is ClusterMode.STANDALONE:
        return {}
    metadata = condition_of(facts.obj, ConditionType.METADATA_READY) or {}
    local = _not_ahead(metadata.get("lastTransitionTime"), now) if metadata.get("status") == "True" else None
    found = dict.fromkeys(DEPENDS_ON, local or now)
    return found | {component: max(found[component], back_since(facts, now) or now) for component in READERS}
