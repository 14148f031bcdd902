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
from pulsar_operator.api.v1alpha1.security import Authentication, Authorization

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
                "replicas of a managed ZooKeeper ensemble are immutable in this version, because the operator "
                "does not reconfigure an ensemble",
            ),
            *STORAGE_IMMUTABLE,
        )
    )

    replicas: EnsembleReplicas = 3
    """Number of ZooKeeper servers, which cannot be changed."""
    storage: Storage = Storage(size="10Gi")
    """Volume of each server."""
    resources: Resources | None = None
    """Compute resources, which replace those of spec.preset as a whole. If unset, spec.preset determines the
    resources."""
    jvm: Jvm | None = None
    """Java memory and JVM arguments. If unset, spec.preset determines the memory and the arguments."""
    config: Annotated[dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=64)] | None = None
    """Settings for zoo.cfg, which override the operator's settings. The operator refuses reserved keys, which
    docs/clusters.md lists. If unset, none are added."""
    metrics: bool = False
    """Whether each server serves Prometheus metrics at /metrics on port 8000. A change restarts the servers."""
    pod: PodTemplate | None = None
    """Settings of the pods. If unset, those of the operator apply."""


class ExternalZooKeeper(ApiModel):
    """A ZooKeeper ensemble that already exists."""

    servers: Annotated[str, Field(min_length=1, max_length=1024, pattern=ZOOKEEPER_SERVERS)]
    """Comma-separated list of host:port. A host without a port is contacted on port 2181."""
    chroot: Annotated[str, Field(max_length=256, pattern=CHROOT)] | None = None
    """Path below which all data is stored, such as /pulsar. If unset, data is stored below the root."""


class ClusterStore(ApiModel):
    """The metadata store of one member cluster, used as the configuration store."""

    name: ObjectName
    """Name of the PulsarCluster (metadata.name), which is in the same Kubernetes namespace as the instance."""


class ConfigurationStore(ApiModel):
    """The configuration store of an instance. Exactly one of managed, cluster and external must be set."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "[has(self.managed), has(self.cluster), has(self.external)].filter(x, x).size() == 1",
                "exactly one of managed, cluster and external must be set in spec.configurationStore",
            ),
            (
                "has(self.managed) == has(oldSelf.managed) && has(self.cluster) == has(oldSelf.cluster) && "
                "has(self.external) == has(oldSelf.external)",
                "The kind of configuration store is immutable, because the instance would lose the data in the "
                "current store",
            ),
            (
                "!has(self.cluster) || !has(oldSelf.cluster) || self.cluster == oldSelf.cluster",
                "configurationStore.cluster is immutable, because the instance would lose the data in the "
                "current store",
            ),
            (
                "!has(self.external) || !has(oldSelf.external) || "
                "(has(self.external.chroot) == has(oldSelf.external.chroot) && "
                "(!has(self.external.chroot) || self.external.chroot == oldSelf.external.chroot))",
                "configurationStore.external.chroot is immutable, because the instance would lose the data below "
                "the current chroot",
            ),
            (
                "!has(self.external) || !has(oldSelf.external) || self.external.servers == oldSelf.external.servers",
                "configurationStore.external.servers is immutable, because another ensemble does not have the "
                "data of the current one",
            ),
        )
    )

    managed: ManagedZooKeeper | None = None
    """ZooKeeper ensemble that the operator deploys for the instance alone."""
    cluster: ClusterStore | None = None
    """Metadata store of a cluster of the instance that is also used as the configuration store."""
    external: ExternalZooKeeper | None = None
    """ZooKeeper ensemble that already exists."""


CREATION_ONLY = (
    "This version does not change the setting for running clusters. Create another PulsarInstance with the new "
    "setting, and move the clients there"
)
INSTANCE_RULES = (
    object_name_rule(
        "PulsarInstance", max_length=40, why=("the pods of the configuration store have this name as a prefix")
    ),
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
            immutable(
                "authentication",
                why="the running clusters would refuse their current clients",
                remedy=CREATION_ONLY,
            ),
            (
                "has(self.authorization) == has(oldSelf.authorization)",
                "spec.authorization can neither be added nor removed, because the running clusters would refuse their "
                f"current clients or would admit every client. {CREATION_ONLY}",
            ),
            (
                "!has(self.authorization) || has(self.authentication)",
                "spec.authorization requires spec.authentication, because no client has a role without authentication",
            ),
        )
    )

    configuration_store: ConfigurationStore
    """Configuration store that all clusters of the instance share."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Other Kubernetes namespaces whose objects may refer to this instance. "*" allows all. If empty, only objects in
    the Kubernetes namespace of the instance may refer to it."""
    preset: Preset = Preset.PRODUCTION
    """Default compute resources and JVM settings of a managed configuration store."""
    image: StoreImages = Field(default=StoreImages())
    """Image of a managed configuration store, and how it is pulled."""
    version: PulsarVersion = "4.0.8"
    """Pulsar version whose ZooKeeper a managed configuration store runs, which is also the tag of the default image."""
    cluster_domain: Annotated[str, Field(min_length=1, max_length=253)] = "cluster.local"
    """DNS domain of the Kubernetes cluster."""
    reclaim_policy: ReclaimPolicy = ReclaimPolicy.RETAIN
    """What happens to the volumes of a managed configuration store when the instance is deleted. Retain keeps the
    volumes, and Delete deletes the volumes."""
    platform: Platform = Field(default=Platform())
    """Settings of a managed configuration store that depend on the Kubernetes distribution."""
    authentication: Authentication | None = None
    """Authentication of the clients of all clusters, which cannot be changed. If unset, everybody who reaches a broker
    or a proxy may do everything."""
    authorization: Authorization | None = None
    """Authorization of the clients of all clusters. The field can neither be added nor removed after creation. If
    unset, every client may do everything."""


MAX_OUTAGES: Final = 8
"""Outages of the configuration store in a status."""
MAX_PAIRS: Final = 1024
"""Entries of status.replication."""


class OutageStatus(ApiModel):
    """An outage of the configuration store."""

    since: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time of the last known answer before the outage."""
    until: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time of the first answer after the outage. The time is later than the end of the previous outage, even if a clock
    was set back."""


class InstanceClusterStatus(ApiModel):
    """A cluster of the instance as last observed."""

    name: str
    """Name of the cluster in Pulsar."""
    object_name: str
    """Name of the PulsarCluster (metadata.name)."""
    object_namespace: str
    """Kubernetes namespace of the PulsarCluster."""
    ready: bool
    """Whether the cluster's Ready condition is True."""
    version: str | None = None
    """Pulsar version that the cluster runs."""
    reachable: bool | None = None
    """Whether the admin REST API of the cluster answers. After three consecutive calls without an answer, the value is
    false, operations skip the cluster, and the operator checks the cluster at least once per minute. Unset if the
    cluster has no ready brokers, or was not checked yet."""
    since: str | None = None
    """Time at which reachable last changed."""
    last_response_time: str | None = None
    """Time of an answer of the cluster. While the cluster is reachable, this time may be up to half an hour older than
    the last answer."""


class Waiting(ApiModel):
    """Replication backlog of a namespace or topic."""

    name: Annotated[str, Field(max_length=2048)]
    """Full name of the namespace or topic."""
    backlog: int
    """Number of messages that are not replicated yet."""


WaitingRows = Annotated[
    list[Waiting],
    Field(max_length=5, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
]


class ReplicationPair(ApiModel):
    """Replication from one cluster of the instance to another, over all topics that are loaded. Numbers above 99 are
    rounded to two significant digits. Numbers are unset if not all brokers of the first cluster answer."""

    source: Annotated[str, Field(alias="from")]
    """Name of the cluster that replicates."""
    target: Annotated[str, Field(alias="to")]
    """Name of the cluster that it replicates to."""
    connected: bool | None = None
    """Whether all replicators are connected."""
    replicators: int | None = None
    """Number of replicated topics, where each partition counts."""
    backlog: int | None = None
    """Number of messages that are not replicated yet."""
    delay_seconds: int | None = None
    """Age in seconds of the oldest message that was sent and is not confirmed yet."""
    rate_out: int | None = None
    """Number of messages delivered per second."""
    since: str | None = None
    """Time at which connected last changed."""
    namespaces: WaitingRows = Field(default_factory=list)
    """Namespaces with the largest backlog, at most five."""
    topics: WaitingRows = Field(default_factory=list)
    """Topics with the largest backlog, at most five. Empty if brokers report only namespaces."""


class PulsarInstanceStatus(CommonStatus):
    """Observed state of a PulsarInstance."""

    configuration_store_servers: str | None = None
    """Connection string of the configuration store, without the chroot."""
    configuration_store_chroot: str | None = None
    """Chroot of the configuration store. Unset if there is none."""
    configuration_store_outages: Annotated[list[OutageStatus], Field(max_length=MAX_OUTAGES)] | None = None
    """Last outage of the configuration store, and each earlier one that was longer than all later ones. Brokers whose
    sessions expired during an outage are restarted."""
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
    """Replication between the clusters. Numbers above 99 are rounded to two significant digits. Unset while nothing is
    replicated."""
    cluster_count: int | None = None
    """Number of clusters."""
    ready_clusters: str | None = None
    """Ready clusters of all clusters, such as 1/2."""
    dependents: int | None = None
    """Number of clusters and tenants that refer to this instance."""
