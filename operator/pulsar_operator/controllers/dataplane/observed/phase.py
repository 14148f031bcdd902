"""The type of a phase, its context, and helpers that phases of several rooms share."""

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
    "listeners",
    "certificate",
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
"""Fields of ClusterView that a phase sets."""

_REFUSED = frozenset({Reason.METADATA_LOST, Reason.METADATA_CONFLICT})


@dataclass(frozen=True)
class PhaseContext:
    """The context of a phase: the facts, the results of earlier phases, and an actor limited to what the phase may
    write."""

    facts: ClusterFacts
    view: ClusterView
    manifests: RenderedCluster | None
    """None if the specification is refused, and settings are only restored."""
    actor: Actor

    @property
    def rendered(self) -> RenderedCluster:
        """The rendered cluster."""
        assert self.manifests is not None
        return self.manifests

    @property
    def live(self) -> Live:
        """The current children."""
        return (self.view.live or self.facts.live).having(*self.actor.written)

    @property
    def store_unavailable(self) -> str | None:
        """Returns why the configuration store is unavailable, as a message. None if it is available."""
        return unavailable_store(self.facts, self.view)


@dataclass(frozen=True)
class Phase:
    """One part of a pass."""

    name: str
    run: Callable[[PhaseContext], Awaitable[object]]
    """Does its part and returns its report. Raises PortError, NameConflictError."""
    writes: frozenset[ResourceType]
    """Types of Kubernetes objects it may apply or delete."""
    needs: frozenset[str] = frozenset()
    """Names of phases that must have run before."""
    finds: Field | None = None
    """Field of ClusterView for its report; None if it only writes."""


def not_ours(ctx: PhaseContext) -> bool:
    """Whether the configuration store is not the one that the cluster was registered in, or belongs to another owner: a
    pod that is created again must not get a template that names it."""
    found = ctx.view.metadata
    return found is not None and found.local_ready and found.reason in _REFUSED


def desired_pods(ctx: PhaseContext, component: Component) -> int:
    """Returns the rendered number of pods of a component."""
    return next(replicas_of(m) for m in ctx.rendered.of(component) if m["kind"] == STATEFUL_SETS.kind)
