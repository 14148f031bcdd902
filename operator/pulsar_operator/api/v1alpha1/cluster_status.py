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
    """Pods of a component that run the same version of Pulsar."""

    version: Annotated[str, Field(max_length=64)]
    """Version of Pulsar, or unknown if the operator has no record of the template of the pods."""
    pods: Annotated[list[str], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})]
    """Names of the pods."""


class ComponentStatus(ApiModel):
    """Pods of a component."""

    desired: int = 0
    """Desired number of pods."""
    ready: int = 0
    """Number of ready pods."""
    summary: str | None = None
    """Ready and desired pods, such as 2/3."""
    updated: int = 0
    """Number of pods of the current revision."""
    revision: str | None = None
    """Revision that the pods should have."""
    selector: str | None = None
    """Label selector of the pods."""
    versions: Annotated[
        list[VersionStatus],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["version"]},
        ),
    ] = Field(default_factory=list)
    """Versions of Pulsar that the pods run."""


class RolloutStatus(ApiModel):
    """A rollout in progress."""

    component: str
    """Component that is being rolled out."""
    reason: str
    """Reason for the rollout."""
    pods_done: int = 0
    """Number of pods that have the new revision."""
    pods_total: int = 0
    """Number of pods of the component."""
    blocked_by: str | None = None
    """Reason why the next pod is not replaced now. Unset while a pod is being replaced."""
    message: str | None = None
    """Message that says what blocks the next pod, and what helps. Unset while a pod is being replaced."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which this cluster's turn in the rollout order of the instance began. Unset while something else blocks
    the rollout, such as a maintenance window."""


class MissingPodStatus(ApiModel):
    """A pod that its StatefulSet should have and that does not exist."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the pod."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which the operator first observed that the pod does not exist. The progress deadline counts from this
    time."""
    last_observed: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    """Time at which the operator last observed that the pod does not exist, updated every two minutes. If the operator
    makes no observation for ten minutes, the time in since is reset."""


class DrainStatus(ApiModel):
    """Drain of brokers before they are restarted or removed."""

    pods: Annotated[list[str], Field(max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"})] = Field(
        default_factory=list
    )
    """Pods that are being drained."""
    occasion: Annotated[str, Field(max_length=253)] | None = None
    """Reason for the drain: the replacement of a pod, or a number of replicas. The timeout starts again when it
    changes."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which the drain started."""
    bundles: int | None = None
    """Number of bundles that the pods still have. Unset if the brokers do not answer."""
    rebalance: str | None = None
    """PulsarRebalance that moves the bundles."""
    incomplete_since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the operator stopped waiting for the drain, as event DrainIncomplete reports. From this time, the
    pods may be restarted or removed although they may still have bundles. Unset until then."""


class BookieStatus(ApiModel):
    """A bookie, as recorded in the metadata store."""

    id: Annotated[str, Field(max_length=512)]
    """ID under which the bookie registers."""
    ordinal: int | None = None
    """Ordinal of the pod. Unset for a bookie that is not a pod of this cluster."""
    state: Annotated[str, Field(max_length=64)]
    """Writable, ReadOnly, Missing if the bookie is not registered and may have data, or New if it never ran."""
    rack: Annotated[str, Field(max_length=256)] | None = None
    """Rack that brokers know for the bookie. Unset if brokers know no rack, or spec.bookkeeper.racks is unset."""
    usage: Annotated[int, Field(ge=0, le=100)] | None = None
    """Usage of the ledger disks in percent, accurate to one percent, as reported within the last resync interval. Unset
    if the usage is unknown."""
    step: Annotated[str, Field(max_length=64)] | None = None
    """Step of the decommission. Unset if the bookie is not being removed."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Reason why the bookie is read-only without being removed: DisksFull or BookieReadOnly. Unset otherwise."""
    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the bookie entered this state."""


class PlacementStatus(ApiModel):
    """Ledgers whose copies are in fewer racks than spec.bookkeeper.racks.minimum."""

    against: Annotated[int, Field(ge=0)] | None = None
    """Number of ledgers with entries whose copies are in too few racks. Unset if not all ledgers could be checked."""
    ledgers: Annotated[int, Field(ge=0)] | None = None
    """Number of ledgers that were checked."""
    time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time of the check. The check is repeated after a day, or when racks of bookies change."""
    racks: Annotated[str, Field(max_length=64)]
    """Hash of the rack assignment that was checked."""


Url = Annotated[str, Field(max_length=MAX_URL)]


class RemoteClusterStatus(ApiModel):
    """Another cluster of the instance, as registered in the configuration store."""

    name: Annotated[str, Field(max_length=MAX_REMOTE_NAME)]
    """Name of the cluster in Pulsar."""
    service_url: Url | None = None
    """URL of the admin REST API."""
    service_url_tls: Url | None = None
    """URL of the admin REST API over TLS."""
    broker_service_url: Url | None = None
    """URL of the binary protocol."""
    broker_service_url_tls: Url | None = None
    """URL of the binary protocol over TLS."""
    changed: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Time at which the URLs last changed. Brokers that started earlier are restarted, because they keep clients of the
    old URLs. Unset if the URLs never changed."""


class RecoveryDelayStatus(ApiModel):
    """Delay of auto-recovery for a lost bookie, in seconds, while bookies are restarted."""

    before: int
    """Value that is restored afterwards."""
    raised: int
    """Value that applies during the restarts."""


class CounterStatus(ApiModel):
    """Operations of one sort that a pod counted."""

    pod: Annotated[str, Field(max_length=253)]
    """Name of the pod."""
    uid: Annotated[str, Field(max_length=64)]
    """UID of the pod."""
    sort: Annotated[str, Field(max_length=64)]
    """Sort of the operations, such as log (lines of the log) or lookup."""
    operations: Annotated[int, Field(ge=0)]
    """Number of operations, including those that failed."""
    errors: Annotated[int, Field(ge=0)]
    """Number of operations that failed."""


CounterRows = Annotated[
    list[CounterStatus],
    Field(
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid", "sort"]},
    ),
]


class CanaryStatus(ApiModel):
    """The first pod of a component that runs another version. Its errors are compared with those of its peers."""

    component: Annotated[str, Field(max_length=64)]
    """Component of the pod."""
    pod: Annotated[str, Field(max_length=253)] | None = None
    """Name of the pod."""
    uid: Annotated[str, Field(max_length=64)] | None = None
    """UID of the pod."""
    counters: CounterRows = Field(default_factory=list)
    """Counters of the pod and its peers when the comparison began, or when a peer was added."""


class EnsembleStatus(ApiModel):
    """Default quorums of new ledgers."""

    ensemble_size: int
    """Number of bookies over which the entries of a ledger are spread."""
    write_quorum: int
    """Number of copies of each entry."""
    ack_quorum: int
    """Number of copies that must be stored before an entry is acknowledged."""


class Endpoints(ApiModel):
    """Endpoints of the cluster inside Kubernetes."""

    service_url: str | None = None
    """URL of the binary protocol, for clients. It is the URL with TLS if proxies accept no other connections."""
    service_url_tls: str | None = None
    """URL of the binary protocol with TLS, for clients. Unset if there are no proxies with TLS."""
    web_service_url: str | None = None
    """URL of the admin REST API, through the proxies if there are any. It is the URL with TLS if proxies accept no
    other connections."""
    web_service_url_tls: str | None = None
    """URL of the admin REST API with TLS. Unset if there are no proxies with TLS."""
    broker_service_url: str | None = None
    """URL of the binary protocol of the brokers, which is also registered for geo-replication."""
    broker_web_service_url: str | None = None
    """URL of the admin REST API of the brokers."""
    token_audience: str | None = None
    """Audience that the token of a client must have. Unset if the instance has no authentication."""


class ListenerStatus(ApiModel):
    """An external listener of the brokers."""

    name: Annotated[str, Field(max_length=10)]
    """Name of the listener."""
    service_url: Url | None = None
    """URL of the binary protocol, for clients outside. Unset until it is known."""


Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
MOST_NAMES: Final = 16
"""Names of a certificate that the status shows."""


class CertificateStatus(ApiModel):
    """A certificate that pods of the cluster use."""

    secret: Annotated[str, Field(max_length=253)]
    """Secret of the user that the certificate is from."""
    not_after: Moment
    """Time at which the certificate expires."""
    names: Annotated[list[Annotated[str, Field(max_length=253)]], Field(max_length=MOST_NAMES)] = Field(
        default_factory=list
    )
    """Names and addresses that the certificate is valid for, at most 16 of them."""


class FlagStatus(ApiModel):
    """A dynamic setting of the brokers that the operator changed."""

    name: Annotated[str, Field(max_length=128)]
    """Name of the setting."""
    before: Annotated[str, Field(max_length=256)] | None = None
    """Previous dynamic value. Unset if no dynamic value was set and the configuration of the brokers applied."""


class BalancerStatus(ApiModel):
    """Load balancing by the operator."""

    disabled_for: str | None = None
    """PulsarRebalance, as namespace/name, for which Pulsar's own balancer is disabled. Unset while the balancer is not
    disabled for a particular PulsarRebalance."""
    saved: Annotated[
        list[FlagStatus],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Settings of Pulsar's own balancer that the operator restores later, recorded before the first one is changed."""


class HandoverStatus(ApiModel):
    """Whether the operator can balance, if spec.loadBalancing.driver is Operator."""

    undecided_since: Moment | None = None
    """Time at which the operator became unable to decide what to move. The time moves forward by four times the
    duration for which the operator could decide in between. Unset while the operator can decide."""
    decided_since: Moment | None = None
    """Time at which the operator became able to decide again. Unset while the operator cannot decide, and once it has
    been able to decide for long enough."""
    evaluated_time: Moment | None = None
    """Approximate time of the last evaluation while a period is measured. After a gap the period starts again."""
    restored_time: Moment | None = None
    """Time at which the operator restored Pulsar's own balancer because it could not decide. Unset while the operator
    balances."""
    count: int = 0
    """Number of times that the operator restored Pulsar's own balancer because it could not decide."""


class PulsarClusterStatus(CommonStatus):
    """Observed state of a PulsarCluster."""

    zookeeper: ComponentStatus | None = None
    """ZooKeeper servers."""
    bookkeeper: ComponentStatus | None = None
    """Pods of the bookies."""
    bookies: Annotated[
        list[BookieStatus],
        Field(
            max_length=MAX_BOOKIES,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = Field(default_factory=list)
    """Bookies that have a pod or are recorded in the metadata store."""
    placement: PlacementStatus | None = None
    """Ledgers that violate spec.bookkeeper.racks. Unset without that field, and until the first check."""
    ensemble: EnsembleStatus | None = None
    """Default quorums of new ledgers, which only spec.bookkeeper.ensemble changes after the cluster was created."""
    autorecovery: ComponentStatus | None = None
    """Auto-recovery pods."""
    broker: ComponentStatus | None = None
    """Brokers."""
    proxy: ComponentStatus | None = None
    """Proxies."""
    standalone: ComponentStatus | None = None
    """The pod of mode Standalone."""
    endpoints: Endpoints | None = None
    """Service URLs of the cluster."""
    listeners: (
        Annotated[
            list[ListenerStatus],
            Field(
                max_length=8,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
        ]
        | None
    ) = None
    """External listeners. Unset without spec.listeners."""
    certificates: (
        Annotated[
            list[CertificateStatus],
            Field(
                max_length=8,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["secret"]},
            ),
        ]
        | None
    ) = None
    """Certificates that pods use. Unset if no pod uses TLS."""
    blocker: str | None = None
    """What blocks bring-up or deletion of the cluster. Unset if nothing does."""
    rollout: RolloutStatus | None = None
    """Rollout in progress."""
    missing_pods: Annotated[
        list[MissingPodStatus],
        Field(
            max_length=MAX_MISSING,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Pods that do not exist although their StatefulSets should have them."""
    canaries: Annotated[
        list[CanaryStatus],
        Field(
            max_length=8,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["component"]},
        ),
    ] = Field(default_factory=list)
    """First pods of another version while they are observed (spec.upgrade.canary)."""
    used_confirmations: UsedClusterConfirmations = Field(default_factory=list)
    """Confirmations that were used."""
    recovery_delay: RecoveryDelayStatus | None = None
    """BookKeeper's lostBookieRecoveryDelay while it is raised, so that the restart of a bookie does not count as its
    loss."""
    drain: DrainStatus | None = None
    """Drain of brokers. Unset if no broker is being drained."""
    balancer: BalancerStatus | None = None
    """Load balancing by the operator. Unset while Pulsar balances."""
    handover: HandoverStatus | None = None
    """Whether the operator can balance, if spec.loadBalancing.driver is Operator. Unset if the operator could always
    balance."""
    remote_clusters: Annotated[
        list[RemoteClusterStatus],
        Field(
            max_length=MAX_REMOTE,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Other clusters of the instance, as the brokers know them."""
    autoscaling: AutoscalingStatus | None = None
    """Decisions of autoscaling. Unset if there were none."""
    instance_id: str | None = None
    """BookKeeper's INSTANCEID of the cluster."""
    dependents: int | None = None
    """Number of tenants, namespaces, resource groups and isolation policies that name the cluster or are in it. For the
    last cluster of an instance, all of them count."""
    version: str | None = None
    """Pulsar version that all pods were last observed to run. Condition UpToDate is False while another version is
    rolled out."""
    metadata_store_servers: str | None = None
    """Connection string of the cluster's own metadata store, without the chroot."""
    metadata_store_chroot: str | None = None
    """Chroot of the metadata store. Unset if there is none."""
