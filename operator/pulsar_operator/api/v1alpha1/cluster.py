"""PulsarCluster: one cluster of an instance, with its metadata store, bookies, brokers and proxies."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.autoscaling import (
    BOOKKEEPER_RULES,
    BROKER_RULES,
    PROXY_RULES,
    BookieAutoscaling,
    BrokerAutoscaling,
    ProxyAutoscaling,
)
from pulsar_operator.api.v1alpha1.base import (
    DNS_1035,
    RECLAIM_FIRST,
    STORAGE_IMMUTABLE,
    AllowedKubernetesNamespaces,
    ApiModel,
    ConfigMapValues,
    Jvm,
    ObjectReference,
    Preset,
    PulsarVersion,
    ReclaimPolicy,
    Resources,
    Storage,
    immutable,
    object_name_rule,
    validations,
)
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmations
from pulsar_operator.api.v1alpha1.images import Images
from pulsar_operator.api.v1alpha1.instance import ExternalZooKeeper, ManagedZooKeeper
from pulsar_operator.api.v1alpha1.load_balancing import LoadBalancing
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.api.v1alpha1.quantities import KIBI, ByteSize
from pulsar_operator.api.v1alpha1.racks import RACK_RULES, Racks
from pulsar_operator.api.v1alpha1.rolling import MaintenanceWindow, Upgrade
from pulsar_operator.api.v1alpha1.services import BrokerService, ProxyService


class ClusterMode(StrEnum):
    """How the cluster is deployed."""

    DISTRIBUTED = "Distributed"
    STANDALONE = "Standalone"


class MetadataStore(ApiModel):
    """The cluster's local metadata store: exactly one of managed and external."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "has(self.managed) != has(self.external)",
                "exactly one of managed and external must be set in spec.metadataStore",
            ),
            (
                "has(self.managed) == has(oldSelf.managed)",
                "the kind of metadata store is immutable: its content would be left behind",
            ),
            (
                "!has(self.external) || !has(oldSelf.external) || "
                "(has(self.external.chroot) == has(oldSelf.external.chroot) && "
                "(!has(self.external.chroot) || self.external.chroot == oldSelf.external.chroot))",
                "metadataStore.external.chroot is immutable: its content would be left behind",
            ),
        )
    )

    managed: ManagedZooKeeper | None = None
    """A ZooKeeper ensemble the operator deploys."""
    external: ExternalZooKeeper | None = None
    """A ZooKeeper ensemble that exists already."""


VolumeSize = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$")]


class BookieVolumes(ApiModel):
    """Volumes of one purpose on every bookie."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            ("quantity(self.size).isGreaterThan(quantity('0'))", "size must be greater than 0"),
            immutable(
                "storageClassName",
                at="",
                why="volumes that exist cannot change class",
                remedy="to use another class, create another PulsarCluster",
            ),
            ("self.size == oldSelf.size", "size is immutable in this version: volumes that exist are not resized"),
            ("self.count == oldSelf.count", "count is immutable: bookies refuse to start with other folders"),
        )
    )

    size: VolumeSize
    """Size of each volume."""
    storage_class_name: Annotated[str, Field(max_length=253)] | None = None
    """StorageClass; absent = the cluster's default."""
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """Volumes on each bookie; one folder per volume."""


class JournalVolumes(BookieVolumes):
    """Journal volumes of every bookie."""

    size: VolumeSize = "10Gi"
    """Size of each volume."""


class LedgerVolumes(BookieVolumes):
    """Ledger volumes of every bookie."""

    size: VolumeSize = "50Gi"
    """Size of each volume."""


class Ensemble(ApiModel):
    """Default quorums of managed ledgers.

    Absent values are made to fit the number of bookies when the cluster is first brought up, and stay then
    (docs/clusters.md)."""

    ensemble_size: Annotated[int, Field(ge=1, le=32)] | None = None
    """Bookies over which a ledger's entries are spread (managedLedgerDefaultEnsembleSize)."""
    write_quorum: Annotated[int, Field(ge=1, le=32)] | None = None
    """Copies of each entry (managedLedgerDefaultWriteQuorum)."""
    ack_quorum: Annotated[int, Field(ge=1, le=32)] | None = None
    """Acknowledgements awaited per entry (managedLedgerDefaultAckQuorum)."""


class AutoRecovery(ApiModel):
    """BookKeeper's auto-recovery processes."""

    replicas: Annotated[int, Field(ge=0, le=64)] = 1
    """Number of auto-recovery pods; 0 = none."""
    resources: Resources | None = None
    """Compute resources; absent = from the preset."""
    jvm: Jvm | None = None
    """Java memory; absent = from the preset."""
    pod: PodTemplate | None = None
    """Pod settings."""


class Decommission(ApiModel):
    """How bookies are removed."""

    timeout_seconds: Annotated[int, Field(ge=60, le=604800)] = 3600
    """A bookie that is not empty after this long becomes writable again and stays; it is tried again after the next
    change of the specification."""


class BookKeeper(ApiModel):
    """The bookies."""

    model_config = ConfigDict(json_schema_extra=validations(*RACK_RULES, *BOOKKEEPER_RULES))

    replicas: Annotated[int, Field(ge=1, le=512)] = 3
    """Number of bookies. Fewer: one after another is emptied and removed, the highest ordinal first."""
    autoscaling: BookieAutoscaling | None = None
    """The operator decides how many bookies there are; absent = replicas says it."""
    journal: JournalVolumes = JournalVolumes()
    """Volumes of the journal, to which bookies write first."""
    ledgers: LedgerVolumes = LedgerVolumes()
    """Volumes of the ledgers, where messages stay."""
    ensemble: Ensemble = Field(default=Ensemble())
    """Default quorums of new ledgers; absent values are fitted to the bookies at the first bring-up, and stay."""
    racks: Racks | None = None
    """In which rack each bookie is, so that the copies of an entry are in several; absent = nobody is told."""
    auto_recovery: AutoRecovery = Field(default=AutoRecovery())
    """Auto-recovery processes."""
    decommission: Decommission = Field(default=Decommission())
    """How bookies are removed."""
    config: ConfigMapValues | None = None
    """Settings laid over bookkeeper.conf; reserved keys are refused with the field to use instead."""
    resources: Resources | None = None
    """Compute resources; absent = from the preset."""
    jvm: Jvm | None = None
    """Java memory; absent = from the preset."""
    pod: PodTemplate | None = None
    """Pod settings."""


class Drain(ApiModel):
    """How bundles are handed over when brokers are replaced, removed or added."""

    enabled: bool = True
    """Before a broker is replaced or removed its bundles move to others, by plan, one after another; brokers that were
    added, and the last one of a roll, get a share. False: a broker unloads its bundles itself while it stops, and
    Pulsar's load manager places them."""
    timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """After this long the broker is replaced or removed all the same; what it still has it unloads while it stops."""
    moves_per_minute: Annotated[int, Field(ge=1, le=600)] = 600
    """Upper bound of the pace. A bundle leaves a broker that is emptied as soon as the one before has arrived."""


class Broker(ApiModel):
    """The brokers."""

    model_config = ConfigDict(json_schema_extra=validations(*BROKER_RULES))

    replicas: Annotated[int, Field(ge=0, le=1024)] = 2
    """Number of brokers; also the target of the scale subresource."""
    autoscaling: BrokerAutoscaling | None = None
    """The operator decides how many brokers there are; absent = replicas says it."""
    config: ConfigMapValues | None = None
    """Settings laid over broker.conf; reserved keys are refused with the field to use instead."""
    max_message_size: Annotated[int, ByteSize(ge=KIBI, le=2**30)] | None = None
    """Largest message; brokers and bookies are set in step, proxies and clients learn it from brokers. Absent =
    Pulsar's 5 MiB."""
    resources: Resources | None = None
    """Compute resources; absent = from the preset."""
    jvm: Jvm | None = None
    """Java memory; absent = from the preset."""
    drain: Drain = Field(default=Drain())
    """How bundles are handed over when brokers are replaced, removed or added."""
    service: BrokerService | None = None
    """The Service in front of the brokers."""
    pod: PodTemplate | None = None
    """Pod settings."""


class Proxy(ApiModel):
    """The proxies."""

    model_config = ConfigDict(json_schema_extra=validations(*PROXY_RULES))

    replicas: Annotated[int, Field(ge=0, le=1024)] = 2
    """Number of proxies; 0 = none."""
    autoscaling: ProxyAutoscaling | None = None
    """The operator decides how many proxies there are; absent = replicas says it."""
    service: ProxyService = Field(default=ProxyService())
    """The Service in front of the proxies."""
    config: ConfigMapValues | None = None
    """Settings laid over proxy.conf; reserved keys are refused with the field to use instead."""
    resources: Resources | None = None
    """Compute resources; absent = from the preset."""
    jvm: Jvm | None = None
    """Java memory; absent = from the preset."""
    pod: PodTemplate | None = None
    """Pod settings."""


class Standalone(ApiModel):
    """Settings of mode Standalone."""

    model_config = ConfigDict(json_schema_extra=validations(*STORAGE_IMMUTABLE))

    storage: Storage = Storage(size="10Gi")
    """Volume of the pod."""
    service: ProxyService = Field(default=ProxyService())
    """The Service in front of the pod."""
    config: ConfigMapValues | None = None
    """Settings laid over standalone.conf; reserved keys are refused with the field to use instead."""
    resources: Resources | None = None
    """Compute resources; absent = from the preset."""
    jvm: Jvm | None = None
    """Java memory; absent = from the preset."""
    pod: PodTemplate | None = None
    """Pod settings."""


CLUSTER_RULES = (
    object_name_rule("PulsarCluster", max_length=40, why="pods and Services are named after it"),
    (
        "has(self.spec.clusterName) || self.metadata.name != 'global'",
        "metadata.name must not be global unless spec.clusterName is set: Pulsar uses that name for the configuration "
        "store itself",
    ),
)


class PulsarClusterSpec(ApiModel):
    """One Pulsar cluster."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("clusterName", remedy=RECLAIM_FIRST),
            (
                "!has(self.clusterName) || self.clusterName != 'global'",
                "spec.clusterName must not be global: Pulsar uses that name for the configuration store itself",
            ),
            immutable("instanceRef", remedy=RECLAIM_FIRST),
            immutable("mode", remedy=RECLAIM_FIRST),
            immutable("clusterDomain", why="stored bookie ids contain it", remedy=RECLAIM_FIRST),
            (
                "self.mode == 'Standalone' || has(self.metadataStore)",
                "spec.metadataStore is required in mode Distributed",
            ),
            (
                "self.mode == 'Standalone' || has(self.bookkeeper)",
                "spec.bookkeeper is required in mode Distributed (an empty object takes the defaults)",
            ),
            (
                "self.mode == 'Standalone' || has(self.broker)",
                "spec.broker is required in mode Distributed (an empty object takes the defaults)",
            ),
            (
                "self.mode != 'Standalone' || has(self.standalone)",
                "spec.standalone is required in mode Standalone (an empty object takes the defaults)",
            ),
            (
                "self.mode != 'Standalone' || "
                "(!has(self.metadataStore) && !has(self.bookkeeper) && !has(self.broker) && !has(self.proxy))",
                "mode Standalone is one pod: metadataStore, bookkeeper, broker and proxy must be absent",
            ),
            (
                "self.mode == 'Standalone' || !has(self.standalone)",
                "spec.standalone belongs to mode Standalone",
            ),
            (
                "has(self.metadataStore) == has(oldSelf.metadataStore)",
                "spec.metadataStore cannot be added or removed",
            ),
            (
                "has(self.bookkeeper) == has(oldSelf.bookkeeper)",
                "spec.bookkeeper cannot be added or removed",
            ),
            (
                "!has(self.bookkeeper) || !has(self.bookkeeper.ensemble.ensembleSize) || "
                "self.bookkeeper.ensemble.ensembleSize <= self.bookkeeper.replicas",
                "spec.bookkeeper.ensemble.ensembleSize must not exceed spec.bookkeeper.replicas: "
                "raise replicas or lower ensembleSize",
            ),
            (
                "!has(self.bookkeeper) || !has(self.bookkeeper.ensemble.writeQuorum) || "
                "self.bookkeeper.ensemble.writeQuorum <= (has(self.bookkeeper.ensemble.ensembleSize) ? "
                "self.bookkeeper.ensemble.ensembleSize : self.bookkeeper.replicas)",
                "spec.bookkeeper.ensemble.writeQuorum must not exceed ensembleSize and replicas",
            ),
            (
                "!has(self.bookkeeper) || !has(self.bookkeeper.ensemble.ackQuorum) || "
                "self.bookkeeper.ensemble.ackQuorum <= (has(self.bookkeeper.ensemble.writeQuorum) ? "
                "self.bookkeeper.ensemble.writeQuorum : (has(self.bookkeeper.ensemble.ensembleSize) ? "
                "self.bookkeeper.ensemble.ensembleSize : self.bookkeeper.replicas))",
                "spec.bookkeeper.ensemble.ackQuorum must not exceed writeQuorum, ensembleSize and replicas",
            ),
        )
    )

    instance_ref: ObjectReference
    """The PulsarInstance this cluster belongs to."""
    cluster_name: Annotated[str, Field(min_length=1, max_length=40, pattern=DNS_1035)] | None = None
    """Name of the cluster inside Pulsar; absent = metadata.name."""
    mode: ClusterMode = ClusterMode.DISTRIBUTED
    """Distributed, or Standalone: one pod, for development."""
    preset: Preset = Preset.PRODUCTION
    """Resources and JVM settings of all components; never replicas."""
    version: PulsarVersion = "4.0.8"
    """Pulsar version; also the tag of the default images."""
    image: Images = Field(default=Images())
    """Images, where not the operator's default for spec.version, and how they are pulled."""
    cluster_domain: Annotated[str, Field(min_length=1, max_length=253)] = "cluster.local"
    """DNS domain of the Kubernetes cluster."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Kubernetes namespaces, besides its own, whose objects may refer to this cluster; "*" = all."""
    reclaim_policy: ReclaimPolicy = ReclaimPolicy.RETAIN
    """What happens to the volumes, and to the data in them, when this object is deleted."""
    platform: Platform = Field(default=Platform())
    """What the Kubernetes is like that pods run in."""
    metadata_store: MetadataStore | None = None
    """The cluster's own metadata store."""
    bookkeeper: BookKeeper | None = None
    """The bookies."""
    broker: Broker | None = None
    """The brokers; absent = the defaults, in mode Distributed."""
    proxy: Proxy | None = None
    """The proxies; absent = none."""
    standalone: Standalone | None = None
    """Settings of mode Standalone."""
    load_balancing: LoadBalancing = Field(default=LoadBalancing())
    """How bundles are balanced over brokers."""
    maintenance_windows: Annotated[list[MaintenanceWindow], Field(max_length=16)] = Field(default_factory=list)
    """When pods that run may be replaced by others; outside of all windows no new one is, what was begun ends. Empty =
    always. Bring-up, scaling and the replacement of pods that never were ready wait for no window."""
    progress_deadline_seconds: Annotated[int, Field(ge=60, le=86400)] = 600
    """After this long a replaced pod that is not ready stops the roll."""
    upgrade: Upgrade = Field(default=Upgrade())
    """How the pods are changed to another version."""
    confirmations: ClusterConfirmations = Field(default_factory=list)
    """Answers to questions about the data of the cluster. Each names in answers what it is about, and counts for that
    alone."""
