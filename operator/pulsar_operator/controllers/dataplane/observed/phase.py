"""What a phase is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.balancing.broker_drains import BrokerDrains
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.controllers.dataplane.observed.outage import answers_since, unavailable_store
from pulsar_operator.domain.dataplane.cluster.applied_config import load_managers
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.render import RenderedCluster
from pulsar_operator.ports import ResourceType

Field = Literal[
    "turns",
    "metadata",
    "storage",
    "racks",
    "bookies",
    "brokers",
    "proxies",
    "volumes",
    "leave",
    "unwritable",
    "placement",
    "roll",
    "scale",
    "balance",
    "scaling",
]
"""Fields of ClusterView that a phase fills."""


@dataclass(frozen=True)
class Step:
    """What a phase has: what was read, what the phases before it found, and a hand that writes what it may write."""

    facts: ClusterFacts
    view: ClusterView
    manifests: RenderedCluster | None
    """None = the specification is refused, and only what is given back is done."""
    hand: Actor

    @property
    def rendered(self) -> RenderedCluster:
        """What there is to be."""
        assert self.manifests is not None
        return self.manifests

    @property
    def live(self) -> Live:
        """Children as they are by now."""
        return (self.view.live or self.facts.live).having(*self.hand.written)

    @property
    def store_unavailable(self) -> str | None:
        """Why the configuration store is unavailable, in words; None = it is not."""
        return unavailable_store(self.facts, self.view)

    @property
    def drains(self) -> BrokerDrains | None:
        """What brokers do before they go; None where there are no brokers that could be asked."""
        brokers, facts = self.live.facts(Component.BROKER), self.facts
        if facts.spec.broker is None or brokers is None or not brokers.ready:
            return None
        endpoint = facts.brokers(self.manifests)
        if facts.spec.mode is ClusterMode.STANDALONE or endpoint is None:
            return None
        found = BrokerDrains(self.hand.deps, self.hand, facts.obj, facts.spec, endpoint, facts.before.drain)
        found.mixed_managers = len(load_managers(self.live)) > 1
        found.counts_from = answers_since(facts, Component.BROKER, self.hand.deps.clock)
        return found


@dataclass(frozen=True)
class Phase:
    """One part of a pass."""

    name: str
    run: Callable[[Step], Awaitable[object]]
    """Does its part and says what it found. Raises PortError, NameConflictError."""
    writes: frozenset[ResourceType]
    """Types of Kubernetes objects it may apply or delete."""
    needs: frozenset[str] = frozenset()
    """Names of phases without which it does not run."""
    finds: Field | None = None
    """Where what it found goes; None = it only writes."""
