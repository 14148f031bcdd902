"""The facts of one pass over a PulsarCluster: what it read first, and what each phase reports. Pure and immutable.

A phase reports what it found in a value of a separate type; phases pass nothing on in any other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import (
    BalancerStatus,
    DrainStatus,
    HandoverStatus,
    PlacementStatus,
    RecoveryDelayStatus,
    RolloutStatus,
)
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmation
from pulsar_operator.api.v1alpha1.tls import EdgeMode
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import GivenUp
from pulsar_operator.domain.bookkeeper.bookie_racks import RacksCondition
from pulsar_operator.domain.bookkeeper.read_only_bookies import ReadOnlyBookies
from pulsar_operator.domain.bookkeeper.storage_facts import Space, StorageFacts
from pulsar_operator.domain.dataplane.cluster.bring_up import MetadataFact, StoreFact
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import ComponentFacts
from pulsar_operator.domain.dataplane.observed.edge_certificate import EdgeCertificate
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder
from pulsar_operator.domain.dataplane.scaling.replicas import Rows
from pulsar_operator.domain.render import BRING_UP_ORDER, RenderedCluster, Security
from pulsar_operator.domain.render.external_listeners import KnownAddresses


@dataclass(frozen=True)
class InstanceFact:
    """The facts about its instance that a cluster needs."""

    found: bool
    store: StoreFact
    own_store: bool = False
    """Whether the cluster's own metadata store is the configuration store."""
    security: Security | None = None
    """Authentication and authorization of the instance; None if it has none, or was not found."""

    @property
    def store_known(self) -> bool:
        """Whether the configuration store's address is known, ready or not."""
        return self.own_store or self.store.servers is not None


@dataclass(frozen=True)
class StorageFact:
    """What the metadata store contains about bookies and copies of ledgers."""

    facts: StorageFacts | None = None
    """None if the store could not be read."""
    problem: str = ""
    """Why the store could not be read, as a message."""
    delay: RecoveryDelayStatus | None = None
    """BookKeeper's lostBookieRecoveryDelay while it is raised."""
    given_up: Mapping[str, GivenUp] | None = field(default_factory=dict)
    """Abandoned ledgers that still reference the bookie, by bookie id; None if the record cannot be read."""
    disks: Mapping[str, Space] = field(default_factory=dict)
    """Ledger disks by bookie id, of the bookies that reported them."""
    disks_at: datetime | None = None
    """When the bookies were asked for their disks; None if they were not."""

    @property
    def usage(self) -> Mapping[str, int]:
        """Used share of the ledger disks in percent by bookie id, of the bookies that reported it."""
        return {bookie: space.percent for bookie, space in self.disks.items()}


@dataclass(frozen=True)
class RacksFact:
    """What the metadata store contains about the racks of bookies."""

    written: Mapping[str, str] | None = None
    """Rack by bookie id, other clusters' bookies included; None if the racks are not known or not needed."""
    ours: frozenset[str] = frozenset()
    """Ids of bookies whose racks the operator wrote."""
    condition: RacksCondition | None = None
    """Condition RacksKnown; None if the specification names no racks."""
    again: bool = False
    """Whether another writer changed the racks first, so that the next pass must follow soon."""


@dataclass(frozen=True)
class PlacementFact:
    """How the ledgers comply with the rack rule."""

    status: PlacementStatus | None = None
    """None if no rack rule applies, or the ledgers were never counted."""
    examining: str | None = None
    """Progress of the count, as a message; None if no count is in progress."""
    again: bool = False
    """Whether the count is incomplete, so that the next pass must follow soon."""


@dataclass(frozen=True)
class TierFact:
    """What a phase that applies components reports."""

    gates: Mapping[Component, Blocker | None] = field(default_factory=dict)
    """What blocks the creation of each component; None if nothing does."""


@dataclass(frozen=True)
class ListenersFact:
    """The external listeners of the brokers."""

    known: KnownAddresses = field(default_factory=KnownAddresses)
    stale: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Why a broker must be replaced that advertises an address which is not its current one, by UID of its pod."""
    lagging: tuple[str, ...] = ()
    """Pods of brokers that do not advertise a listener, because they have an earlier template."""

    @property
    def blocker(self) -> Blocker | None:
        """Why brokers cannot be created, added or changed. None if every address is known."""
        if not self.known.missing:
            return None
        more = f" (and {len(self.known.missing) - 1} more)" if len(self.known.missing) > 1 else ""
        return Blocker(Reason.ADDRESS_PENDING, f"{self.known.missing[0]}{more}")


@dataclass(frozen=True)
class CertificateFact:
    """TLS at the edge."""

    certificate: EdgeCertificate | None
    """None if no pod uses TLS by the specification."""
    mode: EdgeMode = EdgeMode.PLAIN
    """Which connections proxies accept now: both while they change to another mode."""
    lagging: tuple[str, ...] = ()
    """Names of the proxies that do not accept the connections of that mode yet."""
    kept: bool = False
    """Whether the operator's copy of the Secret exists, or is to exist."""

    @property
    def blocker(self) -> Blocker | None:
        """Why pods with TLS cannot be created or changed; None if they can."""
        return self.certificate.blocker if self.certificate is not None else None


@dataclass(frozen=True)
class DrainFact:
    """A drain of brokers."""

    status: DrainStatus
    blocker: Blocker
    """Why the brokers may not stop yet."""


@dataclass(frozen=True)
class RolloutFact:
    """The progress of a rollout."""

    status: RolloutStatus | None = None
    drain: DrainFact | None = None
    """The drain of the broker that is replaced next."""
    asked: frozenset[str] = frozenset()
    """Names of the PulsarRebalances that the rollout needs."""
    confirmed: UsedClusterConfirmation | None = None
    """The confirmation that the rollout uses."""
    goes_on: bool = True
    """False if the rollout is incomplete and replaces no pod until the specification is corrected."""
    drained: DrainStatus | None = None
    """The drain of the broker that is replaced next, if it ended while the broker still had bundles."""

    @property
    def of_brokers(self) -> bool:
        """Whether brokers are being replaced."""
        return self.goes_on and self.status is not None and self.status.component == Component.BROKER.value


@dataclass(frozen=True)
class DecommissionFact:
    """The decommission of a bookie, or the replacement of its volume."""

    bookie: str | None = None
    """Id of the bookie; None if no bookie is decommissioned."""
    ordinal: int | None = None
    step: str | None = None
    """The step of the decommission; None if it has not begun."""
    reason: Reason | None = None
    """Why the decommission cannot proceed; None if it proceeds, or is expected to."""
    message: str = ""
    """State and cause, for the condition."""
    blocks_rollout: bool = False
    """Whether no pod may be replaced during this step."""
    doing: Reason = Reason.DECOMMISSIONING_BOOKIE
    """The operation: a decommission or the replacement of a volume."""
    confirmed: UsedClusterConfirmation | None = None
    """The confirmation by which ledgers are abandoned. It counts once the status has it."""
    forgotten: bool = False
    """Whether its cookie is deleted and its claims are not marked yet, so that its ordinal cannot be used again yet."""
    again: bool = False
    """Whether an action was only started, so that the next pass must follow soon."""


@dataclass(frozen=True)
class VolumesFact:
    """Bookies that lost their volumes, or have smaller volumes than others."""

    lost: Mapping[int, str] = field(default_factory=dict, hash=False)
    """What happened to the volume, as a message, by the ordinal of each bookie that is not up."""
    smaller: str | None = None
    """Which claims are smaller than the others of their kind, as a message; None if no claim is."""
    refused: str | None = None
    """Why a pod that cannot start on its volumes is not replaced, as a message; None if no such pod is kept."""
    foreign: str | None = None
    """Why a pod does not start on the volume of another bookie, as a message; None if no pod has such a volume."""
    problem: str | None = None
    """Why lost volumes cannot be detected, with the remedy, as a message; None if they can."""


@dataclass(frozen=True)
class ScaleFact:
    """Pods that are added or removed."""

    drain: DrainFact | None = None
    """The drain of the brokers that are removed."""
    asked: frozenset[str] = frozenset()
    """PulsarRebalances it needs."""
    blockers: tuple[Blocker, ...] = ()
    """Why pods are not added or removed yet."""
    foreign: str | None = None
    """Why a bookie cannot be added, as a message."""
    drained: DrainStatus | None = None
    """The drain of brokers that are too many and still there, where it ended with bundles left."""


@dataclass(frozen=True)
class BalanceFact:
    """Who balances: the operator, or Pulsar."""

    status: BalancerStatus | None = None
    """None if Pulsar balances."""
    again: bool = False
    """Whether an action was only started, so that the next pass must follow soon."""
    observed: bool = True
    """False if the brokers did not report their settings."""
    moving: str | None = None
    """namespace/name of a PulsarRebalance that executes."""
    handover: HandoverStatus | None = None
    """The record of times at which Pulsar's balancer was restored."""
    condition: tuple[bool, Reason, str] | None = None
    """Condition BalancingActive; None if it is not evaluated."""


@dataclass(frozen=True)
class ScalingFact:
    """The decision of autoscaling."""

    rows: Rows = field(default_factory=dict)
    again: bool = False
    """Whether a replica count changed, which the next pass applies."""


@dataclass(frozen=True)
class ClusterView:
    """The facts of one pass over a cluster: what it read first, and what each phase reports.

    None means unknown: the fact was not read, or the pass ended before its phase. The status keeps its stored value.
    """

    dependents: int | None = None
    """Objects that need the cluster."""
    instance: InstanceFact | None = None
    live: Live | None = None
    """Children as read, with the changes that the pass wrote."""
    rendered: RenderedCluster | None = None
    template_order: TemplateOrder | None = None
    metadata: MetadataFact | None = None
    """None also if ZooKeeper has no quorum."""
    storage: StorageFact | None = None
    racks: RacksFact | None = None
    bookies: TierFact | None = None
    listeners: ListenersFact | None = None
    certificate: CertificateFact | None = None
    brokers: TierFact | None = None
    proxies: TierFact | None = None
    volumes: VolumesFact | None = None
    decommission: DecommissionFact | None = None
    read_only_bookies: ReadOnlyBookies | None = None
    placement: PlacementFact | None = None
    rollout: RolloutFact | None = None
    scale: ScaleFact | None = None
    balance: BalanceFact | None = None
    scaling: ScalingFact | None = None
    ran: frozenset[str] = frozenset()
    """Names of the phases that ran."""
    stopped_for: str | None = None
    """Why the pass stopped before it did anything, as a message."""
    kept_for: str | None = None
    """Why a cluster that is being deleted is kept."""
    kept_by: Reason = Reason.DEPENDENTS_EXIST
    config: tuple[str, ...] = ()
    """Keys of config that are not applied, one sentence for each."""
    config_unchecked: bool = False
    """Whether all of config is applied because the operator has no list of settings of this version."""
    refused: tuple[str, ...] = ()
    refusal: Reason = Reason.INVALID_SPEC
    """Why the specification is refused."""
    name_conflict: str | None = None
    error: str | None = None
    error_reason: Reason = Reason.INTERNAL_ERROR

    @cached_property
    def components(self) -> Mapping[Component, ComponentFacts]:
        """The components that exist, in bring-up order."""
        if self.live is None:
            return {}
        return {c: facts for c in BRING_UP_ORDER if (facts := self.live.facts(c)) is not None}

    @property
    def missing(self) -> list[str] | None:
        """Names of desired pods that do not exist; None if pods were not read."""
        return self.live.missing() if self.live is not None else None

    @property
    def gates(self) -> Mapping[Component, Blocker | None]:
        """Blockers of all components whose phase ran."""
        tiers = (self.bookies, self.brokers, self.proxies)
        return {component: gate for tier in tiers if tier is not None for component, gate in tier.gates.items()}

    @property
    def drain(self) -> DrainFact | None:
        """The drain in progress. A drain for scaling comes before a drain for a rollout."""
        return next((fact.drain for fact in (self.scale, self.rollout) if fact is not None and fact.drain), None)

    @property
    def blocker(self) -> str | None:
        """Returns what the cluster waits for, as a message: the first blocker in bring-up order. None if it waits for
        nothing."""
        if self.stopped_for is not None:
            return self.stopped_for
        for component, gate in self.gates.items():
            if gate is not None and component not in self.components:
                return gate.message
        if self.scale is not None and self.scale.drain is not None:
            return self.scale.drain.blocker.message
        return _unready(self)


NOUNS = {
    Component.ZOOKEEPER: "ZooKeeper servers",
    Component.STANDALONE: "standalone pods",
    Component.BOOKIE: "bookies",
    Component.AUTORECOVERY: "auto-recovery pods",
    Component.BROKER: "brokers",
    Component.PROXY: "proxies",
}


def _unready(view: ClusterView) -> str | None:
    """Returns the message for the first component in bring-up order that exists and is not ready."""
    for component, facts in view.components.items():
        if facts.all_ready is False:
            return facts.summary(NOUNS[component])[1]
    return None
