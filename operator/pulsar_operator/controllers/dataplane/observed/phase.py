"""What a phase is, what it is given, and what phases of several rooms ask of that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.controllers.dataplane.observed.outage import unavailable_store
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.domain.render import RenderedCluster
from pulsar_operator.ports import STATEFUL_SETS, ResourceType

Field = Literal[
    "template_order",
    "metadata",
    "storage",
    "racks",
    "bookies",
    "brokers",
    "proxies",
    "volumes",
    "decommission",
    "read_only_bookies",
    "placement",
    "rollout",
    "scale",
    "balance",
    "scaling",
]
"""Fields of ClusterView that a phase fills."""

_REFUSED = frozenset({Reason.METADATA_LOST, Reason.METADATA_CONFLICT})


@dataclass(frozen=True)
class PhaseContext:
    """What a phase has: what was read, what the phases before it found, and a hand that writes what it may write."""

    facts: ClusterFacts
    view: ClusterView
    manifests: RenderedCluster | None
    """None if the specification is refused, and only what is given back is done."""
    actor: Actor

    @property
    def rendered(self) -> RenderedCluster:
        """What there is to be."""
        assert self.manifests is not None
        return self.manifests

    @property
    def live(self) -> Live:
        """Children as they are by now."""
        return (self.view.live or self.facts.live).having(*self.actor.written)

    @property
    def store_unavailable(self) -> str | None:
        """Why the configuration store is unavailable, as a message; None if it is not."""
        return unavailable_store(self.facts, self.view)


@dataclass(frozen=True)
class Phase:
    """One part of a pass."""

    name: str
    run: Callable[[PhaseContext], Awaitable[object]]
    """Does its part and says what it found. Raises PortError, NameConflictError."""
    writes: frozenset[ResourceType]
    """Types of Kubernetes objects it may apply or delete."""
    needs: frozenset[str] = frozenset()
    """Names of phases without which it does not run."""
    finds: Field | None = None
    """Where what it found goes; None if it only writes."""


def not_ours(ctx: PhaseContext) -> bool:
    """Whether the configuration store is not the one that the cluster was registered in, or is somebody else's: a pod
    that is made again must not get a template that names it."""
    found = ctx.view.metadata
    return found is not None and found.local_ready and found.reason in _REFUSED


def desired_pods(ctx: PhaseContext, component: Component) -> int:
    """Pods of a component, as rendered."""
    return next(replicas_of(m) for m in ctx.rendered.of(component) if m["kind"] == STATEFUL_SETS.kind)
