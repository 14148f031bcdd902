"""One pass over a PulsarCluster: what it knows, learns and does. Shared by the modules cluster*."""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.objects import Meta
from pulsar_operator.controllers.dataplane.drain import BrokerDrains
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.dataplane.cluster_status import ClusterView
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import Json


@dataclass
class ClusterPass:
    """What one pass learned and did."""

    obj: Json
    meta: Meta
    spec: PulsarClusterSpec
    conditions: ConditionSet
    actor: Actor
    owner: Owner
    view: ClusterView = field(default_factory=ClusterView)
    backoff: bool = False
    again: bool = False
    """Something was only begun: look again soon."""
    drains: BrokerDrains | None = None
    """Once the brokers can be asked."""
