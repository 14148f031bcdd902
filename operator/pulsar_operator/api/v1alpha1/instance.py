"""PulsarInstance: the configuration store and what its clusters share."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import (
    RECLAIM_FIRST,
    STORAGE_IMMUTABLE,
    AllowedKubernetesNamespaces,
    ApiModel,
    CommonStatus,
    Jvm,
    ObjectName,
    Preset,
    PulsarVersion,
    ReclaimPolicy,
    Resources,
    Storage,
    immutable,
    object_name_rule,
    validations,
)
from pulsar_operator.api.v1alpha1.images import StoreImages
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.api.v1alpha1.pods import PodTemplate

ZOOKEEPER_SERVERS = r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?(,[A-Za-z0-9.-]+(:[0-9]{1,5})?)*$"
CHROOT = r"^(/[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
"""An absolute path without a trailing slash; no part consists of dots alone, which ZooKeeper refuses as relative."""

EnsembleReplicas = Annotated[int, Field(ge=1, le=5, json_schema_extra={"enum": [1, 3, 5]})]


class ManagedZooKeeper(ApiModel):
    """A ZooKeeper ensemble the operator deploys."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.replicas == oldSelf.replicas",
                "replicas of a managed ZooKeeper ensemble cannot be changed yet: the ensemble would need a "
                "reconfiguration step by step, which this version does not do",
            ),
            *STORAGE_IMMUTABLE,
        )
    )

    replicas: EnsembleReplicas = 3
    """Servers of the ensemble: 1, 3 or 5."""
    storage: Storage = Storage(size="10Gi")
    """Volume of each server."""
    resources: Resources | None = None
    """Compute resources; absent = from the preset."""
    jvm: Jvm | None = None
    """Java memory; absent = from the preset."""
    config: Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] | None = None
    """Settings laid over zoo.cfg; membership, ports and data folders are reserved."""
    metrics: bool = False
    """Whether each server has its metrics for Prometheus at /metrics of port 8000. A change rolls the servers."""
    pod: PodTemplate | None = None
    """Pod settings."""


class ExternalZooKeeper(ApiModel):
    """A ZooKeeper ensemble somebody else runs."""

    servers: Annotated[str, Field(min_length=1, max_length=1024, pattern=ZOOKEEPER_SERVERS)]
    """Comma-separated host:port list; the port defaults to 2181."""
    chroot: Annotated[str, Field(max_length=256, pattern=CHROOT)] | None = None
    """Path under which all nodes live, such as /pulsar."""


class ClusterStore(ApiModel):
    """The metadata store of one member cluster, used as the configuration store."""

    name: ObjectName
    """metadata.name of the PulsarCluster, in the same Kubernetes namespace as the instance."""


class ConfigurationStore(ApiModel):
    """Where the clusters of the instance keep what they share: exactly one of managed, cluster, external."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "[has(self.managed), has(self.cluster), has(self.external)].filter(x, x).size() == 1",
                "exactly one of managed, cluster and external must be set in spec.configurationStore",
            ),
            (
                "has(self.managed) == has(oldSelf.managed) && has(self.cluster) == has(oldSelf.cluster) && "
                "has(self.external) == has(oldSelf.external)",
                "the kind of configuration store is immutable: its content would be left behind",
            ),
            (
                "!has(self.cluster) || !has(oldSelf.cluster) || self.cluster == oldSelf.cluster",
                "configurationStore.cluster is immutable: its content would be left behind",
            ),
            (
                "!has(self.external) || !has(oldSelf.external) || "
                "(has(self.external.chroot) == has(oldSelf.external.chroot) && "
                "(!has(self.external.chroot) || self.external.chroot == oldSelf.external.chroot))",
                "configurationStore.external.chroot is immutable: its content would be left behind",
            ),
            (
                "!has(self.external) || !has(oldSelf.external) || self.external.servers == oldSelf.external.servers",
                "configurationStore.external.servers is immutable: another ensemble would not have its content",
            ),
        )
    )

    managed: ManagedZooKeeper | None = None
    """A ZooKeeper ensemble of its own, deployed by the operator."""
    cluster: ClusterStore | None = None
    """The metadata store of one of the instance's clusters."""
    external: ExternalZooKeeper | None = None
    """An ensemble that exists already."""


INSTANCE_RULES = (
    object_name_rule("PulsarInstance", max_length=40, why="the configuration store's pods are named after it"),
)


class PulsarInstanceSpec(ApiModel):
    """A Pulsar instance: one or more clusters that share a configuration store."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable(
                "clusterDomain",
                why="the stored membership of a managed ensemble contains it",
                remedy=RECLAIM_FIRST,
            ),
        )
    )

    configuration_store: ConfigurationStore
    """The store shared by all clusters of the instance."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Kubernetes namespaces, besides its own, whose objects may refer to this instance; "*" = all."""
    preset: Preset = Preset.PRODUCTION
    """Resources and JVM settings of a managed configuration store."""
    image: StoreImages = Field(default=StoreImages())
    """Image of a managed configuration store."""
    version: PulsarVersion = "4.0.8"
    """Pulsar version whose ZooKeeper a managed configuration store runs; also the tag of the default image."""
    cluster_domain: Annotated[str, Field(min_length=1, max_length=253)] = "cluster.local"
    """DNS domain of the Kubernetes cluster."""
    reclaim_policy: ReclaimPolicy = ReclaimPolicy.RETAIN
    """What happens to the volumes of a managed configuration store when the instance is deleted."""
    platform: Platform = Field(default=Platform())
    """What the Kubernetes is like that the pods of a managed configuration store run in."""


MAX_OUTAGES: Final = 8
MAX_PAIRS: Final = 1024
"""Rows of status.replication."""
"""Of the configuration store that a status tells at most."""


class OutageStatus(ApiModel):
    """A time in which the configuration store gave no answer."""

    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Its last answer before, as far as that is known."""
    until: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Its first one after; later than that of the outage before, also where a clock was set back."""


class InstanceClusterStatus(ApiModel):
    """A cluster of the instance as last seen."""

    name: str
    """Name of the cluster inside Pulsar."""
    object_name: str
    """metadata.name of the PulsarCluster."""
    object_namespace: str
    """Kubernetes namespace of the PulsarCluster."""
    ready: bool
    """Whether the cluster's Ready condition is True."""
    version: str | None = None
    """Pulsar version the cluster runs."""
    reachable: bool | None = None
    """Whether its admin REST answers; false after three calls in a row without an answer: then it is left out of
    everything, and asked again at least once per minute. Absent = it has no ready brokers, or was not asked yet."""
    since: str | None = None
    """Since when reachable is what it is."""
    last_seen: str | None = None
    """An answer of it; up to half an hour older than the last one while it is reachable."""


class Waiting(ApiModel):
    """What waits for another cluster in one place."""

    name: Annotated[str, Field(max_length=2048)]
    """Full name of the namespace, or of the topic."""
    backlog: int
    """Messages that wait."""


WaitingRows = Annotated[
    list[Waiting],
    Field(max_length=5, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
]


class ReplicationPair(ApiModel):
    """What one cluster of the instance replicates to another, by all topics that are loaded there. Numbers above 99
    have two digits that count. Absent numbers: not all brokers of the first cluster answer."""

    source: Annotated[str, Field(alias="from")]
    """Name of the cluster that replicates."""
    target: Annotated[str, Field(alias="to")]
    """Name of the cluster that it replicates to."""
    connected: bool | None = None
    """Whether all replicators are connected."""
    replicators: int | None = None
    """Topics that are replicated, partitions each by themselves."""
    backlog: int | None = None
    """Messages that wait."""
    delay_seconds: int | None = None
    """Age of the oldest message that was sent and not confirmed yet."""
    rate_out: int | None = None
    """Messages delivered a second."""
    since: str | None = None
    """Since when connected is what it is."""
    namespaces: WaitingRows = Field(default_factory=list)
    """Namespaces in which most waits, at most five."""
    topics: WaitingRows = Field(default_factory=list)
    """Topics of which most waits, at most five; absent where brokers tell of namespaces alone."""


class PulsarInstanceStatus(CommonStatus):
    """Observed state of a PulsarInstance."""

    configuration_store_servers: str | None = None
    """Connection string of the configuration store, without chroot."""
    configuration_store_chroot: str | None = None
    """Chroot of the configuration store, when there is one."""
    configuration_store_outages: Annotated[list[OutageStatus], Field(max_length=MAX_OUTAGES)] | None = None
    """The last time in which it gave no answer, and before it each one that was longer than all that followed; brokers
    whose sessions one outlasted are replaced."""
    clusters: Annotated[
        list[InstanceClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """Clusters of the instance."""
    replication: (
        Annotated[
            list[ReplicationPair],
            Field(
                max_length=MAX_PAIRS,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["from", "to"]},
            ),
        ]
        | None
    ) = None
    """What the clusters replicate to each other; absent while nothing is replicated."""
    cluster_count: int | None = None
    """Number of clusters."""
    ready_clusters: str | None = None
    """Ready clusters of all, as in 1/2."""
    dependents: int | None = None
    """Clusters and tenants that refer to this instance."""
