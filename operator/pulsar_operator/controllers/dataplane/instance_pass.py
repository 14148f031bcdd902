"""What one pass over a PulsarInstance knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_operator.api.v1alpha1.instance import OutageStatus, PulsarInstanceSpec
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.objects import Meta
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.dataplane.reach import Sight
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import Json


@dataclass
class InstancePass:
    """What one pass learned."""

    obj: Json
    meta: Meta
    spec: PulsarInstanceSpec
    conditions: ConditionSet
    actor: Actor
    owner: Owner
    servers: str | None = None
    chroot: str | None = None
    clusters: tuple[Json, ...] = ()
    others: tuple[Json, ...] = ()
    """Dependents that are no clusters."""
    seen: bool = False
    """Whether clusters and others are known: a list that failed says nothing."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """Whether clusters answer, by name inside Pulsar."""
    outages: Sequence[OutageStatus] | None = None
    """Of the store; None = it was not asked."""
    backoff: bool = False
