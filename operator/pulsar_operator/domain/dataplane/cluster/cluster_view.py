"""What a pass over a PulsarCluster knows: what it read first, and what each phase found. Pure, and never changed.

A phase says what it found in a value of its own; nothing is passed on in any other way.
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
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import GivenUp
from pulsar_operator.domain.bookkeeper.bookie_racks import RacksCondition
from pulsar_operator.domain.bookkeeper.read_only_bookies import ReadOnlyBookies
from pulsar_operator.domain.bookkeeper.storage_facts import Space, StorageFacts
from pulsar_operator.domain.dataplane.cluster.bring_up import MetadataFact, StoreFact
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.pods import ComponentFacts
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder
from pulsar_operator.domain.dataplane.scaling.replicas import Rows
from pulsar_operator.domain.render import BRING_UP_ORDER, RenderedCluster
from pulsar_operator.domain.texts import sentence


@dataclass(frozen=True)
class InstanceFact:
    """What a cluster needs to know of its instance."""

    found: bool
    store: StoreFact
    own_store: bool = False
    """Whether the cluster's own metadata store is the configuration store."""

    @property
    def store_known(self) -> bool:
        """Whether the configuration store's address is known, ready or not."""
        return self.own_store or self.store.servers is not None


@dataclass(frozen=True)
class StorageFact:
    """What the metadata store says of bookies and copies."""

    facts: StorageFacts | None = None
    """None = it could not be read."""
    problem: str = ""
    """Why not, in words."""
    delay: RecoveryDelayStatus | None = None
    """BookKeeper's lostBookieRecoveryDelay while it is raised."""
    given_up: Mapping[str, GivenUp] | None = field(default_factory=dict)
    """Ledgers that were given up and still name the bookie, by its id; None = the record cannot be read."""
    disks: Mapping[str, Space] = field(default_factory=dict)
    """The ledger disks, by the id of each bookie that said so."""
    disks_at: datetime | None = None
    """When bookies were asked for that; None = they were not."""

    @property
    def usage(self) -> Mapping[str, int]:
        """Percent of its ledger disks that is used, by the id of each bookie that said so."""
        return {bookie: space.percent for bookie, space in self.disks.items()}


@dataclass(frozen=True)
class RacksFact:
    """What the metadata store says of the racks of bookies."""

    written: Mapping[str, str] | None = None
    """Rack by the bookie's id, also of bookies of others; None = not known, or nobody wants to know."""
    ours: frozenset[str] = frozenset()
    """Ids of bookies whose racks the operator wrote."""
    condition: RacksCondition | None = None
    """Condition RacksKnown; None = the specification names no racks."""
    again: bool = False
    """Somebody else was faster: look again soon."""


@dataclass(frozen=True)
class PlacementFact:
    """Ledgers against the rule of racks."""

    status: PlacementStatus | None = None
    """None = there is no rule, or they were never counted."""
    examining: str | None = None
    """How far the count is, in words; None = none is under way."""
    again: bool = False
    """The count is not through: look again soon."""


@dataclass(frozen=True)
class TierFact:
    """What a phase that applies components found."""

    gates: Mapping[Component, Blocker | None] = field(default_factory=dict)
    """Why a component is not created yet; None = it may be."""


@dataclass(frozen=True)
class DrainFact:
    """Brokers that hand over their bundles."""

    status: DrainStatus
    blocker: Blocker
    """Why they may not stop yet."""


@dataclass(frozen=True)
class RolloutFact:
    """Whether pods are being replaced."""

    status: RolloutStatus | None = None
    drain: DrainFact | None = None
    """Of the broker that is next."""
    asked: frozenset[str] = frozenset()
    """PulsarRebalances it needs."""
    confirmed: UsedClusterConfirmation | None = None
    """The confirmation it uses."""
    goes_on: bool = True
    """False = it is half done, and no pod goes before the specification is corrected."""
    drained: DrainStatus | None = None
    """The drain of the broker that is next, where it ended with bundles left."""

    @property
    def of_brokers(self) -> bool:
        """Whether brokers are being replaced."""
        return self.goes_on and self.status is not None and self.status.component == Component.BROKER.value


@dataclass(frozen=True)
class DecommissionFact:
    """Whether a bookie is being removed."""

    bookie: str | None = None
    """Its id; None = none is, or may be."""
    ordinal: int | None = None
    step: str | None = None
    """The step of the decommission; None = it has not begun."""
    reason: Reason | None = None
    """Why it does not leave; None = it does, or may soon."""
    message: str = ""
    """What is said of it."""
    blocks_rollout: bool = False
    """Whether no pod may be replaced meanwhile."""
    doing: Reason = Reason.DECOMMISSIONING_BOOKIE
    """What is done to it."""
    confirmed: UsedClusterConfirmation | None = None
    """The confirmation by which ledgers are given up, or will be once the status has it."""
    forgotten: bool = False
    """Whether its cookie is deleted and its claims not marked yet: its ordinal cannot come back for a moment."""
    again: bool = False
    """Something was only begun: look again soon."""


@dataclass(frozen=True)
class VolumesFact:
    """Which bookies lost their volumes, or have smaller ones than others."""

    lost: Mapping[int, str] = field(default_factory=dict, hash=False)
    """What became of the volume, in words, by ordinal, of those that are not up."""
    smaller: str | None = None
    """Which claims are smaller than their siblings, in words; None = none is."""
    refused: str | None = None
    """Why a pod that never starts on its volumes is not replaced, in words; None = none is kept."""
    foreign: str | None = None
    """Why a pod does not start on the volume of another bookie, in words; None = none has one."""
    problem: str | None = None
    """Why nothing is known of lost volumes, with the remedy, in words; None = it is."""


@dataclass(frozen=True)
class ScaleFact:
    """Whether pods are being added or removed."""

    drain: DrainFact | None = None
    """Of the brokers that are too many."""
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
    """Who balances."""

    status: BalancerStatus | None = None
    """None = Pulsar itself."""
    again: bool = False
    """Something was only begun: look again soon."""
    observed: bool = True
    """False = the brokers did not say."""
    moving: str | None = None
    """namespace/name of a PulsarRebalance that executes."""
    handover: HandoverStatus | None = None
    """What is remembered of giving Pulsar's balancer back."""
    condition: tuple[bool, Reason, str] | None = None
    """Condition BalancingActive; None = not judged."""


@dataclass(frozen=True)
class ScalingFact:
    """What was decided on replicas."""

    rows: Rows = field(default_factory=dict)
    again: bool = False
    """A number was changed, and is acted on in the next pass."""


@dataclass(frozen=True)
class ClusterView:
    """What a pass knows of a cluster: what it read first, and what each phase found. None = unknown: not read, or the
    phase did not run, for the pass ended before; what the status says of it stays."""

    dependents: int | None = None
    """Objects that need the cluster."""
    instance: InstanceFact | None = None
    live: Live | None = None
    """Children as read, and as written since."""
    rendered: RenderedCluster | None = None
    template_order: TemplateOrder | None = None
    metadata: MetadataFact | None = None
    """None also while ZooKeeper has no quorum."""
    storage: StorageFact | None = None
    racks: RacksFact | None = None
    bookies: TierFact | None = None
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
    """What is waited for before anything is done."""
    kept_for: str | None = None
    """Why a cluster that is being deleted is kept."""
    kept_by: Reason = Reason.DEPENDENTS_EXIST
    config: tuple[str, ...] = ()
    """Keys of config that are not applied, a sentence each."""
    config_unchecked: bool = False
    """All of config is applied, and nobody knows the settings of this version."""
    refused: tuple[str, ...] = ()
    refusal: Reason = Reason.INVALID_SPEC
    """Why the specification is refused."""
    name_conflict: str | None = None
    error: str | None = None
    error_reason: Reason = Reason.INTERNAL_ERROR

    @cached_property
    def components(self) -> Mapping[Component, ComponentFacts]:
        """The components that exist."""
        if self.live is None:
            return {}
        return {c: facts for c in BRING_UP_ORDER if (facts := self.live.facts(c)) is not None}

    @property
    def missing(self) -> list[str] | None:
        """Names of pods that do not exist although they are wanted; None = nobody looked."""
        return self.live.missing() if self.live is not None else None

    @property
    def gates(self) -> Mapping[Component, Blocker | None]:
        """Of all components whose phase ran."""
        tiers = (self.bookies, self.brokers, self.proxies)
        return {component: gate for tier in tiers if tier is not None for component, gate in tier.gates.items()}

    @property
    def drain(self) -> DrainFact | None:
        """The drain in progress: brokers that are too many go before outdated ones."""
        return next((fact.drain for fact in (self.scale, self.rollout) if fact is not None and fact.drain), None)

    @property
    def blocker(self) -> str | None:
        """What the cluster waits for, in words: the first of all in the order of bring-up."""
        if self.stopped_for is not None:
            return self.stopped_for
        for component, gate in self.gates.items():
            if gate is not None and component not in self.components:
                return gate.message
        if self.scale is not None and self.scale.drain is not None:
            return self.scale.drain.blocker.message
        return _unready(self)


NOUNS = {
    Component.ZOOKEEPER: "ZooKeeper",
    Component.STANDALONE: "standalone pods",
    Component.BOOKIE: "bookies",
    Component.AUTORECOVERY: "auto-recovery pods",
    Component.BROKER: "brokers",
    Component.PROXY: "proxies",
}


def _unready(view: ClusterView) -> str | None:
    """The first component in bring-up order that exists and is not ready."""
    for component, facts in view.components.items():
        if facts.all_ready is False:
            noun = NOUNS[component]
            verb = "is" if component is Component.ZOOKEEPER else "are"
            return f"{sentence(noun)} {verb} not ready: {facts.summary(noun)[1]}"
    return None
