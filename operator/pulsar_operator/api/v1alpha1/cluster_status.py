"""Status of a PulsarCluster: what the operator observed."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel, CommonStatus
from pulsar_operator.api.v1alpha1.confirmations import UsedClusterConfirmations
from pulsar_operator.api.v1alpha1.scaling_status import AutoscalingStatus

MAX_BOOKIES: Final = 512
"""Rows of status.bookies."""
MAX_MISSING: Final = 64
"""Rows of status.missingPods."""
MAX_REMOTE: Final = 64
"""Rows of status.remoteClusters."""
MAX_REMOTE_NAME: Final = 253
MAX_URL: Final = 2048
"""Characters."""


class VersionStatus(ApiModel):
    """Pods of one component that run one version of Pulsar."""

    version: Annotated[str, Field(max_length=64)]
    """The version; unknown where a pod was made before the operator kept its template on record."""
    pods: Annotated[list[str], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})]
    """Names of the pods."""


class ComponentStatus(ApiModel):
    """Pods of one component."""

    desired: int = 0
    """Pods wanted."""
    ready: int = 0
    """Pods ready."""
    summary: str | None = None
    """Pods ready of those wanted, for the eye: 2/3."""
    updated: int = 0
    """Pods of the newest revision."""
    revision: str | None = None
    """Revision the pods should have."""
    selector: str | None = None
    """Label selector of the pods."""
    versions: Annotated[
        list[VersionStatus],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["version"]},
        ),
    ] = Field(default_factory=list)
    """Which pods run which version of Pulsar."""


class RolloutStatus(ApiModel):
    """A roll in progress."""

    component: str
    """Component being rolled."""
    reason: str
    """Why."""
    pods_done: int = 0
    """Pods already of the new revision."""
    pods_total: int = 0
    """Pods in all."""
    waiting_for: str | None = None
    """What the next step waits for."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when it is this cluster's turn among those of its instance, or would be; absent while something else holds
    it, such as a maintenance window."""
    progressed: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the last pod was done, or the first tier began; other clusters of the instance do not wait for one that has
    not gone on for long, unless it tries what they would change too."""


class MissingPodStatus(ApiModel):
    """A pod that its StatefulSet wants and that does not exist."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the pod."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time since which the operator observes that the pod does not exist. The progress deadline counts from it."""
    last_observed: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    """Time at which the operator last observed it, recorded every two minutes. If the operator did not look for ten
    minutes, the pod may have existed in between, and the time since which it is missing starts again."""


class DrainStatus(ApiModel):
    """Brokers that hand over their bundles before they are replaced or removed."""

    pods: Annotated[list[str], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})] = Field(
        default_factory=list
    )
    """Their pods."""
    occasion: Annotated[str, Field(max_length=253)] | None = None
    """What they go for: the replacement of one pod, or a number of replicas; a new one begins a new time-out."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Since when."""
    bundles: int | None = None
    """Bundles they still have; absent = they do not answer."""
    rebalance: str | None = None
    """The PulsarRebalance that moves them."""


class BookieStatus(ApiModel):
    """A bookie, as the metadata store has it."""

    id: Annotated[str, Field(max_length=512)]
    """Id it registers with."""
    ordinal: int | None = None
    """Ordinal of its pod; absent where it is not of this cluster's pods."""
    state: Annotated[str, Field(max_length=64)]
    """Writable; ReadOnly: it serves what it has and takes nothing new; Missing: it may have data and is not registered;
    New: it never was up."""
    rack: Annotated[str, Field(max_length=256)] | None = None
    """Rack it is in for brokers, by the metadata store; absent = they know none, or spec.bookkeeper.racks is absent."""
    usage: Annotated[int, Field(ge=0, le=100)] | None = None
    """Percent of its ledger disks that is used, within one, as it said at most one resync ago; absent = not known."""
    step: Annotated[str, Field(max_length=64)] | None = None
    """Where it is on its way out; absent while it stays."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Why it is ReadOnly although nobody removes it: DisksFull or BookieReadOnly; absent = it is not."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when it is in this state."""


class PlacementStatus(ApiModel):
    """How many ledgers have copies in fewer racks than spec.bookkeeper.racks.minimum."""

    against: Annotated[int, Field(ge=0)] | None = None
    """Ledgers with entries whose copies are in too few racks; absent = not all ledgers could be looked at."""
    ledgers: Annotated[int, Field(ge=0)] | None = None
    """Ledgers that were looked at."""
    time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When; again a day later, or when bookies are in other racks."""
    racks: Annotated[str, Field(max_length=64)]
    """Stands for the racks of that time."""


Url = Annotated[str, Field(max_length=MAX_URL)]


class RemoteClusterStatus(ApiModel):
    """Another cluster of the instance, by its ClusterData in the configuration store."""

    name: Annotated[str, Field(max_length=MAX_REMOTE_NAME)]
    """Its name inside Pulsar."""
    service_url: Url | None = None
    """Admin REST."""
    service_url_tls: Url | None = None
    """Admin REST over TLS."""
    broker_service_url: Url | None = None
    """Binary protocol."""
    broker_service_url_tls: Url | None = None
    """Binary protocol over TLS."""
    changed: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When these became others than they were: brokers that are older are replaced, for they keep the clients that they
    made from the old ones. Absent = they did not."""


class RecoveryDelayStatus(ApiModel):
    """Seconds that auto-recovery waits for a bookie that is gone, while bookies are replaced."""

    before: int
    """What it was, and will be."""
    raised: int
    """What it is now."""


class CounterStatus(ApiModel):
    """What a pod had counted of one sort of operation."""

    pod: Annotated[str, Field(max_length=253)]
    """The pod."""
    uid: Annotated[str, Field(max_length=64)]
    """Its UID."""
    sort: Annotated[str, Field(max_length=64)]
    """Sort of operation, such as log (lines of the log) or lookup."""
    operations: Annotated[int, Field(ge=0)]
    """Operations by then, those that failed included."""
    errors: Annotated[int, Field(ge=0)]
    """Those that failed."""


CounterRows = Annotated[
    list[CounterStatus],
    Field(
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid", "sort"]},
    ),
]


class CanaryStatus(ApiModel):
    """The first pod of a component that runs another version, whose errors are compared with those of its peers."""

    component: Annotated[str, Field(max_length=64)]
    """The component."""
    pod: Annotated[str, Field(max_length=253)] | None = None
    """The pod; absent until it is ready."""
    uid: Annotated[str, Field(max_length=64)] | None = None
    """Its UID."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Since when its errors are compared."""
    counters: CounterRows = Field(default_factory=list)
    """What it and its peers had counted then; a peer that came later, when it came."""
    before: CounterRows = Field(default_factory=list)
    """What the only pod of the component had counted when it was replaced: it has no peers."""


class EnsembleStatus(ApiModel):
    """Quorums that new ledgers get where no namespace or topic says otherwise."""

    ensemble_size: int
    """Bookies over which a ledger's entries are spread."""
    write_quorum: int
    """Copies of each entry."""
    ack_quorum: int
    """Acknowledgements awaited per entry."""


class Endpoints(ApiModel):
    """Where clients and tools reach the cluster from inside Kubernetes."""

    service_url: str | None = None
    """Binary protocol, for clients."""
    web_service_url: str | None = None
    """Admin REST, through the proxy where there is one."""
    broker_service_url: str | None = None
    """Binary protocol of the brokers; also registered for geo-replication."""
    broker_web_service_url: str | None = None
    """Admin REST of the brokers."""


class FlagStatus(ApiModel):
    """A dynamic setting of the brokers that the operator has taken over."""

    name: Annotated[str, Field(max_length=128)]
    """Setting."""
    before: Annotated[str, Field(max_length=256)] | None = None
    """Its dynamic value before; absent = it had none, and the brokers' own configuration counted."""


class BalancerStatus(ApiModel):
    """Who balances."""

    held_for: str | None = None
    """namespace/name of the PulsarRebalance that Pulsar's own balancing is off for; absent = nobody yet."""
    saved: Annotated[
        list[FlagStatus],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """What to restore afterwards; written before the first setting is changed."""


Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class HandoverStatus(ApiModel):
    """Whether the operator can balance, with spec.loadBalancing.driver Operator."""

    undecided_since: Moment | None = None
    """Since when the operator cannot decide what to move; later by four times as long as it could in between. If unset,
    it can."""
    decided_since: Moment | None = None
    """Since when the operator can decide again, while Pulsar still balances."""
    looked_time: Moment | None = None
    """About when the operator looked last, while it counts a time. After a gap it counts from the beginning."""
    given_back_time: Moment | None = None
    """When the operator gave Pulsar's own balancer back because it could not decide. If unset, the operator
    balances."""
    count: int = 0
    """How often the operator gave Pulsar's own balancer back because it could not decide."""


class PulsarClusterStatus(CommonStatus):
    """Observed state of a PulsarCluster."""

    zookeeper: ComponentStatus | None = None
    """ZooKeeper servers."""
    bookkeeper: ComponentStatus | None = None
    """Bookies."""
    bookies: Annotated[
        list[BookieStatus],
        Field(
            max_length=MAX_BOOKIES,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = Field(default_factory=list)
    """Each bookie: those with a pod, and those that the metadata store still knows."""
    placement: PlacementStatus | None = None
    """Ledgers against the rule of spec.bookkeeper.racks; absent without it, and until they were counted."""
    ensemble: EnsembleStatus | None = None
    """Quorums of new ledgers: those of the first bring-up, changed only by spec.bookkeeper.ensemble since."""
    autorecovery: ComponentStatus | None = None
    """Auto-recovery pods."""
    broker: ComponentStatus | None = None
    """Brokers."""
    proxy: ComponentStatus | None = None
    """Proxies."""
    standalone: ComponentStatus | None = None
    """The pod of mode Standalone."""
    endpoints: Endpoints | None = None
    """Service URLs."""
    waiting_for: str | None = None
    """What bring-up waits for; absent when nothing."""
    rollout: RolloutStatus | None = None
    """The roll in progress."""
    missing_pods: Annotated[
        list[MissingPodStatus],
        Field(
            max_length=MAX_MISSING,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Pods that do not exist although their StatefulSets want them. The list is empty while every pod exists."""
    canaries: Annotated[
        list[CanaryStatus],
        Field(
            max_length=8,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["component"]},
        ),
    ] = Field(default_factory=list)
    """First pods of another version, while they are watched (spec.upgrade.canary)."""
    used_confirmations: UsedClusterConfirmations = Field(default_factory=list)
    """Confirmations that were used, and when."""
    recovery_delay: RecoveryDelayStatus | None = None
    """BookKeeper's lostBookieRecoveryDelay, while it is raised so that a bookie's restart is not taken for its loss."""
    drain: DrainStatus | None = None
    """Brokers that hand over their bundles; absent when none does."""
    balancer: BalancerStatus | None = None
    """Who balances, while it is not Pulsar itself."""
    handover: HandoverStatus | None = None
    """Whether the operator can balance, with spec.loadBalancing.driver Operator. Absent while it always could."""
    remote_clusters: Annotated[
        list[RemoteClusterStatus],
        Field(
            max_length=MAX_REMOTE,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """The other clusters of the instance, as brokers find them."""
    autoscaling: AutoscalingStatus | None = None
    """Replicas that autoscaling decided; absent where it never did."""
    instance_id: str | None = None
    """BookKeeper's INSTANCEID of this cluster."""
    dependents: int | None = None
    """Tenants, namespaces, resource groups and isolation policies that need the cluster: they name it, or are in it; of
    the last cluster of an instance, all of them."""
    version: str | None = None
    """Pulsar version that all pods were last seen to run; another one is on its way while UpToDate is False."""
    metadata_store_servers: str | None = None
    """Connection string of the cluster's own metadata store, without chroot."""
    metadata_store_chroot: str | None = None
    """Chroot of the metadata store, when there is one."""
