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
from pulsar_operator.api.v1alpha1.listeners import LISTENER_RULES, Listeners
from pulsar_operator.api.v1alpha1.load_balancing import LoadBalancing
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.api.v1alpha1.quantities import KIBI, ByteSize
from pulsar_operator.api.v1alpha1.racks import RACK_RULES, Racks
from pulsar_operator.api.v1alpha1.rolling import MaintenanceWindow, Upgrade
from pulsar_operator.api.v1alpha1.services import BrokerService, ProxyService
from pulsar_operator.api.v1alpha1.tls import TLS_RULES, Tls


class ClusterMode(StrEnum):
    """Deployment of a cluster."""

    DISTRIBUTED = "Distributed"
    STANDALONE = "Standalone"


class MetadataStore(ApiModel):
    """The cluster's own metadata store. Exactly one of managed and external must be set."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "has(self.managed) != has(self.external)",
                "exactly one of managed and external must be set in spec.metadataStore",
            ),
            (
                "has(self.managed) == has(oldSelf.managed)",
                "The kind of metadata store is immutable, because the cluster would lose the metadata in the "
                "current store",
            ),
            (
                "!has(self.external) || !has(oldSelf.external) || "
                "(has(self.external.chroot) == has(oldSelf.external.chroot) && "
                "(!has(self.external.chroot) || self.external.chroot == oldSelf.external.chroot))",
                "metadataStore.external.chroot is immutable, because the cluster would lose the metadata below "
                "the current chroot",
            ),
        )
    )

    managed: ManagedZooKeeper | None = None
    """ZooKeeper ensemble that the operator deploys."""
    external: ExternalZooKeeper | None = None
    """ZooKeeper ensemble that already exists."""


VolumeSize = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$")]


class BookieVolumes(ApiModel):
    """Volumes of one purpose on every bookie."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            ("quantity(self.size).isGreaterThan(quantity('0'))", "size must be greater than 0"),
            immutable(
                "storageClassName",
                at="",
                why="the class of existing volumes cannot be changed",
                remedy="To use another class, create another PulsarCluster",
            ),
            (
                "self.size == oldSelf.size",
                "size is immutable in this version, because existing volumes are not resized",
            ),
            ("self.count == oldSelf.count", "count is immutable, because bookies refuse to start with other folders"),
        )
    )

    size: VolumeSize
    """Size that each volume requests."""
    storage_class_name: Annotated[str, Field(max_length=253)] | None = None
    """StorageClass of the volumes. If unset, the default StorageClass of the Kubernetes cluster is used."""
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of volumes of each bookie. Each volume has one directory of BookKeeper."""


class JournalVolumes(BookieVolumes):
    """Journal volumes of every bookie."""

    size: VolumeSize = "10Gi"
    """Size that each volume requests."""


class LedgerVolumes(BookieVolumes):
    """Ledger volumes of every bookie."""

    size: VolumeSize = "50Gi"
    """Size that each volume requests."""


class Ensemble(ApiModel):
    """Default quorums of managed ledgers. The operator calculates unset values from the number of bookies when it
    creates the cluster."""

    ensemble_size: Annotated[int, Field(ge=1, le=32)] | None = None
    """Number of bookies over which the entries of a ledger are spread (managedLedgerDefaultEnsembleSize). If unset, the
    number is calculated once, when the cluster is created."""
    write_quorum: Annotated[int, Field(ge=1, le=32)] | None = None
    """Number of copies of each entry (managedLedgerDefaultWriteQuorum). If unset, the number is calculated once, when
    the cluster is created."""
    ack_quorum: Annotated[int, Field(ge=1, le=32)] | None = None
    """Number of copies that must be stored before an entry is acknowledged (managedLedgerDefaultAckQuorum). If unset,
    the number is calculated once, when the cluster is created."""


class AutoRecovery(ApiModel):
    """BookKeeper's auto-recovery."""

    replicas: Annotated[int, Field(ge=0, le=64)] = 1
    """Number of auto-recovery pods. With 0, no under-replicated ledger is repaired automatically."""
    resources: Resources | None = None
    """Compute resources, which replace those of spec.preset as a whole. If unset, spec.preset determines the
    resources."""
    jvm: Jvm | None = None
    """Java memory and JVM arguments. If unset, spec.preset determines the memory and the arguments."""
    pod: PodTemplate | None = None
    """Settings of the pods. If unset, those of the operator apply."""


class Decommission(ApiModel):
    """Removal of bookies."""

    timeout_seconds: Annotated[int, Field(ge=60, le=604800)] = 3600
    """Seconds after which a decommission is given up if the bookie still has ledgers. The bookie then becomes writable
    again and stays. The operator retries after the next change of the spec."""


class BookKeeper(ApiModel):
    """The bookies of a cluster."""

    model_config = ConfigDict(json_schema_extra=validations(*RACK_RULES, *BOOKKEEPER_RULES))

    replicas: Annotated[int, Field(ge=1, le=512)] = 3
    """Number of bookies. If the number is lowered, the operator decommissions bookies one after another, the highest
    ordinal first. With autoscaling, this is only the initial number."""
    autoscaling: BookieAutoscaling | None = None
    """Autoscaling of the bookies. If unset, the number of bookies is replicas."""
    journal: JournalVolumes = JournalVolumes()
    """Volumes of the journal, to which bookies write each entry first."""
    ledgers: LedgerVolumes = LedgerVolumes()
    """Volumes of the ledgers, which store the messages."""
    ensemble: Ensemble = Field(default=Ensemble())
    """Default quorums of new ledgers."""
    racks: Racks | None = None
    """Racks of the bookies, for rack-aware placement. If unset, rack awareness is disabled."""
    auto_recovery: AutoRecovery = Field(default=AutoRecovery())
    """BookKeeper's auto-recovery, which copies under-replicated ledgers."""
    decommission: Decommission = Field(default=Decommission())
    """Settings that apply when bookies are removed."""
    config: ConfigMapValues | None = None
    """Settings for bookkeeper.conf, which override the operator's settings. The operator refuses reserved keys, which
    docs/clusters.md lists. If unset, none are added."""
    resources: Resources | None = None
    """Compute resources, which replace those of spec.preset as a whole. If unset, spec.preset determines the
    resources."""
    jvm: Jvm | None = None
    """Java memory and JVM arguments. If unset, spec.preset determines the memory and the arguments."""
    pod: PodTemplate | None = None
    """Settings of the pods. If unset, those of the operator apply."""


class Drain(ApiModel):
    """Drain of brokers before they are restarted or removed."""

    enabled: bool = True
    """Whether the operator moves the bundles of a broker to other brokers before it restarts or removes the broker, and
    moves bundles to added brokers and to the last broker of a rollout. If false, a broker unloads its bundles while it
    stops, and Pulsar's load manager assigns them."""
    timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """Seconds after which a broker is restarted or removed although it still has bundles. The broker unloads these
    bundles while it stops."""
    moves_per_minute: Annotated[int, Field(ge=1, le=600)] = 600
    """Maximum number of bundles that are moved per minute. The next bundle of a draining broker is moved once the
    previous one has arrived."""


class Broker(ApiModel):
    """The brokers of a cluster."""

    model_config = ConfigDict(json_schema_extra=validations(*BROKER_RULES))

    replicas: Annotated[int, Field(ge=0, le=1024)] = 2
    """Number of brokers, which the scale subresource sets. With autoscaling, this is only the initial number."""
    autoscaling: BrokerAutoscaling | None = None
    """Autoscaling of the brokers. If unset, the number of brokers is replicas."""
    config: ConfigMapValues | None = None
    """Settings for broker.conf, which override the operator's settings. The operator refuses reserved keys, which
    docs/clusters.md lists. If unset, none are added."""
    max_message_size: Annotated[int, ByteSize(ge=KIBI, le=2**30)] | None = None
    """Maximum size of a message. The operator configures brokers and bookies for it; proxies and clients learn it from
    brokers. If unset, Pulsar's default of 5 MiB applies."""
    resources: Resources | None = None
    """Compute resources, which replace those of spec.preset as a whole. If unset, spec.preset determines the
    resources."""
    jvm: Jvm | None = None
    """Java memory and JVM arguments. If unset, spec.preset determines the memory and the arguments."""
    drain: Drain = Field(default=Drain())
    """Drain of brokers before they are restarted or removed."""
    service: BrokerService | None = None
    """Service of the brokers, which is reachable only inside Kubernetes. If unset, the Service has no additional
    annotations."""
    pod: PodTemplate | None = None
    """Settings of the pods. If unset, those of the operator apply."""


class Proxy(ApiModel):
    """The proxies of a cluster."""

    model_config = ConfigDict(json_schema_extra=validations(*PROXY_RULES))

    replicas: Annotated[int, Field(ge=0, le=1024)] = 2
    """Number of proxies. With 0, the cluster has no proxies. With autoscaling, this is only the initial number."""
    autoscaling: ProxyAutoscaling | None = None
    """Autoscaling of the proxies. If unset, the number of proxies is replicas."""
    service: ProxyService = Field(default=ProxyService())
    """Service of the proxies, which clients connect to."""
    config: ConfigMapValues | None = None
    """Settings for proxy.conf, which override the operator's settings. The operator refuses reserved keys, which
    docs/clusters.md lists. If unset, none are added."""
    resources: Resources | None = None
    """Compute resources, which replace those of spec.preset as a whole. If unset, spec.preset determines the
    resources."""
    jvm: Jvm | None = None
    """Java memory and JVM arguments. If unset, spec.preset determines the memory and the arguments."""
    pod: PodTemplate | None = None
    """Settings of the pods. If unset, those of the operator apply."""


class Standalone(ApiModel):
    """The pod of mode Standalone."""

    model_config = ConfigDict(json_schema_extra=validations(*STORAGE_IMMUTABLE))

    storage: Storage = Storage(size="10Gi")
    """Volume of the pod."""
    service: ProxyService = Field(default=ProxyService())
    """Service of the pod, which clients connect to."""
    config: ConfigMapValues | None = None
    """Settings for standalone.conf, which override the operator's settings. The operator refuses reserved keys, which
    docs/clusters.md lists. If unset, none are added."""
    resources: Resources | None = None
    """Compute resources, which replace those of spec.preset as a whole. If unset, spec.preset determines the
    resources."""
    jvm: Jvm | None = None
    """Java memory and JVM arguments. If unset, spec.preset determines the memory and the arguments."""
    pod: PodTemplate | None = None
    """Settings of the pods. If unset, those of the operator apply."""


CLUSTER_RULES = (
    object_name_rule("PulsarCluster", max_length=40, why="pods and Services have this name as a prefix"),
    (
        "has(self.spec.clusterName) || self.metadata.name != 'global'",
        "metadata.name must not be global unless spec.clusterName is set, because Pulsar uses that name for the "
        "configuration store",
    ),
)


class PulsarClusterSpec(ApiModel):
    """A Pulsar cluster with its metadata store, bookies, brokers and proxies."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("clusterName", remedy=RECLAIM_FIRST),
            (
                "!has(self.clusterName) || self.clusterName != 'global'",
                "spec.clusterName must not be global, because Pulsar uses that name for the configuration store",
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
                "spec.bookkeeper is required in mode Distributed. To use the defaults, set it to an empty object",
            ),
            (
                "self.mode == 'Standalone' || has(self.broker)",
                "spec.broker is required in mode Distributed. To use the defaults, set it to an empty object",
            ),
            (
                "self.mode != 'Standalone' || has(self.standalone)",
                "spec.standalone is required in mode Standalone. To use the defaults, set it to an empty object",
            ),
            (
                "self.mode != 'Standalone' || "
                "(!has(self.metadataStore) && !has(self.bookkeeper) && !has(self.broker) && !has(self.proxy))",
                "metadataStore, bookkeeper, broker and proxy must not be set in mode Standalone, which runs all "
                "components in one pod",
            ),
            (
                "self.mode == 'Standalone' || !has(self.standalone)",
                "spec.standalone is allowed only in mode Standalone",
            ),
            *LISTENER_RULES,
            *TLS_RULES,
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
                "spec.bookkeeper.ensemble.ensembleSize must not exceed spec.bookkeeper.replicas. Raise replicas "
                "or lower ensembleSize",
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
    """PulsarInstance that the cluster belongs to."""
    cluster_name: Annotated[str, Field(min_length=1, max_length=40, pattern=DNS_1035)] | None = None
    """Name of the cluster in Pulsar. If unset, metadata.name is used."""
    mode: ClusterMode = ClusterMode.DISTRIBUTED
    """Deployment of the cluster. Distributed runs each component in separate pods. Standalone runs all of Pulsar in
    one pod, for development."""
    preset: Preset = Preset.PRODUCTION
    """Default compute resources, JVM settings and cache sizes of all components. The preset does not change the number
    of pods."""
    version: PulsarVersion = "4.0.8"
    """Pulsar version that the cluster runs, which is also the tag of the default images."""
    image: Images = Field(default=Images())
    """Images of the components, and how they are pulled."""
    cluster_domain: Annotated[str, Field(min_length=1, max_length=253)] = "cluster.local"
    """DNS domain of the Kubernetes cluster."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Other Kubernetes namespaces whose objects may refer to this cluster. "*" allows all. If empty, only objects in
    the Kubernetes namespace of the cluster may refer to it."""
    reclaim_policy: ReclaimPolicy = ReclaimPolicy.RETAIN
    """What happens to the volumes and their data when this object is deleted, and to the volumes of a bookie that was
    decommissioned. Retain keeps the volumes, and Delete deletes the volumes."""
    platform: Platform = Field(default=Platform())
    """Settings that depend on the Kubernetes distribution."""
    metadata_store: MetadataStore | None = None
    """Metadata store of the cluster. Required in mode Distributed, and must not be set in mode Standalone."""
    bookkeeper: BookKeeper | None = None
    """Bookies of the cluster. Required in mode Distributed, and must not be set in mode Standalone."""
    broker: Broker | None = None
    """Brokers of the cluster. Required in mode Distributed, and must not be set in mode Standalone."""
    proxy: Proxy | None = None
    """Proxies of the cluster. If unset, the cluster has no proxies."""
    standalone: Standalone | None = None
    """Pod that runs Pulsar. Required in mode Standalone, and must not be set in mode Distributed."""
    listeners: Listeners | None = None
    """External listeners, with which clients outside of the cluster's network reach brokers without a proxy. If unset,
    the cluster has none. The operator restarts the brokers one after another if a listener is added or removed."""
    tls: Tls | None = None
    """TLS of the cluster. If unset, all connections are without TLS."""
    load_balancing: LoadBalancing = Field(default=LoadBalancing())
    """Load balancing of bundles over brokers."""
    maintenance_windows: Annotated[list[MaintenanceWindow], Field(max_length=16)] = Field(default_factory=list)
    """Windows in which the operator may begin to replace running pods. Outside them it begins no replacement; one in
    progress is completed. Bring-up, scaling and the replacement of pods that were never ready do not wait. If empty,
    running pods may be replaced at any time."""
    progress_deadline_seconds: Annotated[int, Field(ge=60, le=86400)] = 600
    """Seconds after which the rollout stops if a replaced pod is not ready."""
    upgrade: Upgrade = Field(default=Upgrade())
    """Upgrade of the pods to another version of Pulsar."""
    confirmations: ClusterConfirmations = Field(default_factory=list)
    """Confirmations of operations that may lose data. Each one applies only to what its answers field names. If empty,
    such operations are blocked."""
