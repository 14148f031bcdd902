"""The data of one pass over a PulsarInstance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_operator.api.v1alpha1.instance import OutageStatus, PulsarInstanceSpec, PulsarInstanceStatus
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.controllers.core.reconcile import Context
from pulsar_operator.domain.dataplane.instance.reachability import ReachabilityFact
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import Json


@dataclass
class InstancePass(Context[PulsarInstanceSpec, PulsarInstanceStatus]):
    """The data of one pass."""

    servers: str | None = None
    chroot: str | None = None
    clusters: tuple[Json, ...] = ()
    others: tuple[Json, ...] = ()
    """Dependents other than clusters."""
    observed: bool = False
    """Whether clusters and other dependents are known; False if a list failed."""
    reachability: Mapping[str, ReachabilityFact] = field(default_factory=dict)
    """Whether clusters answer, by name inside Pulsar."""
    outages: Sequence[OutageStatus] | None = None
    """Outages of the store; None if it was not asked."""
    backoff: bool = False

    @property
    def owner(self) -> Owner:
        """The instance as owner of rendered children."""
        return owner_of(self.obj, part_of=self.meta.name)
