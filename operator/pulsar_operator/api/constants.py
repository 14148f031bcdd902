"""Every name other people see: API group, labels, annotations, finalizers, condition types and reasons.

One module, so that a rename is one change and a reader finds each word of a condition explained once.
"""

from __future__ import annotations

from enum import StrEnum

GROUP = "pulsaroperator.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "pulsar"

FIELD_MANAGER = "pulsar-operator"
"""Owner of whole child objects and of status under server-side apply."""
FINALIZER_MANAGER = "pulsar-operator-finalizer"
"""Separate owner for finalizers on custom resources, so that applying one never drops the other."""
TEAR_DOWN_MANAGER = "pulsar-operator-tear-down"
"""Separate owner for the annotation that a tear-down has begun."""
FINALIZER = f"{GROUP}/cleanup"
LEASE_NAME = "pulsar-operator"

# Labels (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/)
LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "pulsar-operator"
LABEL_OWNER_KIND = f"{GROUP}/owner-kind"
"""Kind of the custom resource a child belongs to (PulsarCluster, PulsarInstance)."""
LABEL_OWNER_NAME = f"{GROUP}/owner-name"
"""metadata.name of the custom resource a child belongs to; at most 40 characters for clusters."""
LABEL_PURPOSE = f"{GROUP}/purpose"
"""On PulsarRebalances that the operator makes for a roll or a change of size: drain or fill. On ConfigMaps that no pod
mounts: templates, where pod templates are kept."""

# Annotations
ANNOTATION_PAUSE = f"{GROUP}/pause"
ANNOTATION_DRY_RUN = f"{GROUP}/dry-run"
ANNOTATION_CONFIRM_DELETE = f"{GROUP}/confirm-delete"
"""With the object's own name: a parent may be deleted before its dependents. Read by the chart's admission policy."""
ANNOTATION_DELETE_AFTER_DEPENDENTS = f"{GROUP}/delete-after-dependents"
"""With the object's own name: the deletion guard accepts a deletion before the dependents are gone. The operator reads
nothing of it, and keeps a cluster or a configuration store running until nothing needs it."""
ANNOTATION_CONFIRM_REMOVAL = f"{GROUP}/confirm-removal"
"""On a PulsarTopicSet, with its generation and the beginning of its UID: many topics that left it may be deleted."""
ANNOTATION_CONFIRM_LOSS = f"{GROUP}/confirm-loss"
"""On a PulsarTenant, PulsarNamespace, PulsarTopic or PulsarTopicSet: what of its policies Pulsar may keep for a shorter
time, as condition Accepted prints it; several with commas between them."""
ANNOTATION_TEAR_DOWN = f"{GROUP}/tear-down"
"""On a PulsarCluster or PulsarInstance that is being deleted, with its UID: the operator has begun to stop its pods."""
ANNOTATION_CONFIRM_RETAINED = f"{GROUP}/confirm-retained"
"""On a PulsarTenant or PulsarNamespace that is being deleted with deletionPolicy ForceDelete, as condition
DeletionBlocked prints it: the content inside that deletionPolicy Retain left there may be destroyed."""
ANNOTATION_REBALANCE = f"{GROUP}/rebalance"
"""On a PulsarRebalance, what a person wants done with its proposal: approve, refresh or stop. Taken off when done."""
ANNOTATION_PROPOSAL = f"{GROUP}/proposal"
"""On the ConfigMap of a PulsarRebalance: id of the proposal whose steps it holds."""
ANNOTATION_CONFIG_HASH = f"{GROUP}/config-hash"
"""On pod templates: a change of rendered configuration is a change of the pod, with a reason to roll."""
ANNOTATION_APPLIED_HASH = f"{GROUP}/applied-hash"
"""On children: hash of the manifest as last applied, so that a field that left it is noticed."""
ANNOTATION_TEMPLATE = f"{GROUP}/template"
"""On StatefulSets: hash of the pod template that was applied last, by which the record of templates has it."""
ANNOTATION_RESTART = f"{GROUP}/restart"
"""On a PulsarCluster: its pods are replaced one after another; the value is the reason, a new value asks again."""
ANNOTATION_VERIFIED_EMPTY = f"{GROUP}/verified-empty"
"""On claims of a bookie that was removed: its id, the instance id, and when no ledger named it any more. Such a claim
is deleted before its ordinal has a pod again."""
ANNOTATION_REPLACE_VOLUME = f"{GROUP}/replace-volume"
"""At a bookie's pod: it is emptied and starts with a new volume; the value says why, and false takes it back."""
ANNOTATION_VOLUME_REQUESTED = f"{GROUP}/volume-requested"
"""On claims of a bookie: that its pod was annotated with replace-volume, so that the request outlives the pod."""
ANNOTATION_RACK = f"{GROUP}/rack"
"""On pods of bookies: the rack that the metadata store has for it. The bookie waits for it before it registers."""
ANNOTATION_RESTART_REASON = f"{GROUP}/restart-reason"
"""On pod templates: the reason of the last restart that was asked for."""
ANNOTATION_STORE_UNAVAILABLE = f"{GROUP}/store-unavailable"
"""On pod templates of brokers: end of the last outage of the configuration store that outlasted their sessions."""
ANNOTATION_REMOTE_CLUSTERS = f"{GROUP}/remote-clusters"
"""On pod templates of brokers: by cluster of the instance, when its URLs became others; brokers keep their clients."""
ANNOTATION_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
"""On pod templates: the emptyDirs that may be lost, by which the cluster autoscaler may take the pod's node away."""
ANNOTATION_REMOTE_URLS = f"{GROUP}/remote-urls"
"""On StatefulSets of brokers: by cluster of the instance, that time and a digest of its URLs since."""


class Kind(StrEnum):
    """Kinds of the API group, as written in manifests."""

    INSTANCE = "PulsarInstance"
    CLUSTER = "PulsarCluster"
    TENANT = "PulsarTenant"
    NAMESPACE = "PulsarNamespace"
    TOPIC = "PulsarTopic"
    RESOURCE_GROUP = "PulsarResourceGroup"
    ISOLATION_POLICY = "PulsarIsolationPolicy"
    REBALANCE = "PulsarRebalance"
    TOPIC_SET = "PulsarTopicSet"


PLURALS: dict[Kind, str] = {
    Kind.INSTANCE: "pulsarinstances",
    Kind.CLUSTER: "pulsarclusters",
    Kind.TENANT: "pulsartenants",
    Kind.NAMESPACE: "pulsarnamespaces",
    Kind.TOPIC: "pulsartopics",
    Kind.RESOURCE_GROUP: "pulsarresourcegroups",
    Kind.ISOLATION_POLICY: "pulsarisolationpolicies",
    Kind.REBALANCE: "pulsarrebalances",
    Kind.TOPIC_SET: "pulsartopicsets",
}
# pc would be PriorityClass to kubectl.
SHORT_NAMES: dict[Kind, str] = {
    Kind.INSTANCE: "pi",
    Kind.CLUSTER: "pcl",
    Kind.TENANT: "ptn",
    Kind.NAMESPACE: "pns",
    Kind.TOPIC: "pt",
    Kind.RESOURCE_GROUP: "prg",
    Kind.ISOLATION_POLICY: "pisol",
    Kind.REBALANCE: "prb",
    Kind.TOPIC_SET: "pts",
}


class Component(StrEnum):
    """Value of the component label; also the suffix of child object names."""

    ZOOKEEPER = "zookeeper"
    CONFIGURATION_STORE = "configuration-store"
    BOOKIE = "bookie"
    AUTORECOVERY = "autorecovery"
    BROKER = "broker"
    PROXY = "proxy"
    STANDALONE = "standalone"


class ConditionType(StrEnum):
    """Condition types; adjectives or past tense, True is the good state except Progressing, Stalled,
    Reconciling and Drifted."""

    READY = "Ready"
    ACCEPTED = "Accepted"
    PROGRESSING = "Progressing"
    # Of kstatus, which Flux and others wait by: set only while True.
    STALLED = "Stalled"
    RECONCILING = "Reconciling"
    # PulsarInstance
    CONFIGURATION_STORE_READY = "ConfigurationStoreReady"
    CLUSTERS_READY = "ClustersReady"
    REPLICATION_HEALTHY = "ReplicationHealthy"
    # PulsarCluster
    METADATA_READY = "MetadataReady"
    BOOKKEEPER_READY = "BookKeeperReady"
    REPLICATED = "Replicated"
    RACKS_KNOWN = "RacksKnown"
    CONFIG_APPLIED = "ConfigApplied"
    SCALING_ACTIVE = "ScalingActive"
    BALANCING_ACTIVE = "BalancingActive"
    BROKERS_READY = "BrokersReady"
    LISTENERS_READY = "ListenersReady"
    TLS_READY = "TLSReady"
    CERTIFICATES_VALID = "CertificatesValid"
    PROXIES_READY = "ProxiesReady"
    UP_TO_DATE = "UpToDate"
    # PulsarRebalance
    PROPOSAL_READY = "ProposalReady"
    APPROVED = "Approved"
    EXECUTING = "Executing"
    COMPLETED = "Completed"
    STOPPED = "Stopped"
    # logical plane
    DRIFTED = "Drifted"
    SHARED_BROKERS_AVAILABLE = "SharedBrokersAvailable"
    DELETION_BLOCKED = "DeletionBlocked"


class Reason(StrEnum):
    """Reasons of conditions and events; one CamelCase word each."""

    # general
    READY = "Ready"
    NOT_READY = "NotReady"
    PENDING = "Pending"
    UNKNOWN = "Unknown"
    PAUSED = "Paused"
    DRY_RUN = "DryRun"
    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    VERSION_REFUSED = "VersionRefused"
    INTERNAL_ERROR = "InternalError"
    FORBIDDEN = "Forbidden"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    AUTHORIZATION_FAILED = "AuthorizationFailed"
    DELETING = "Deleting"
    NOT_APPLICABLE = "NotApplicable"
    # references
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    REFERENCE_NOT_ALLOWED = "ReferenceNotAllowed"
    PARENT_NOT_READY = "ParentNotReady"
    PARENT_DELETED = "ParentDeleted"
    DUPLICATE = "Duplicate"
    NAME_CONFLICT = "NameConflict"
    WAITING_FOR_GARBAGE_COLLECTION = "WaitingForGarbageCollection"
    DEPENDENTS_EXIST = "DependentsExist"
    # metadata
    METADATA_INITIALIZED = "MetadataInitialized"
    METADATA_LOST = "MetadataLost"
    METADATA_CONFLICT = "MetadataConflict"
    METADATA_UNREACHABLE = "MetadataUnreachable"
    WAITING_FOR_ZOOKEEPER = "WaitingForZooKeeper"
    WAITING_FOR_METADATA = "WaitingForMetadata"
    WAITING_FOR_BOOKIES = "WaitingForBookies"
    WAITING_FOR_BROKERS = "WaitingForBrokers"
    WAITING_FOR_CONFIGURATION_STORE = "WaitingForConfigurationStore"
    WAITING_FOR_CLUSTERS = "WaitingForClusters"
    # storage
    REPLICATED = "Replicated"
    UNDER_REPLICATED = "UnderReplicated"
    LEDGERS_LOST = "LedgersLost"
    NO_AUDITOR = "NoAuditor"
    REPLICATION_DISABLED = "ReplicationDisabled"
    DECOMMISSIONING_BOOKIE = "DecommissioningBookie"
    BOOKIE_DECOMMISSIONED = "BookieDecommissioned"
    DECOMMISSION_REFUSED = "DecommissionRefused"
    DECOMMISSION_STUCK = "DecommissionStuck"
    CONFIG_NOT_APPLIED = "ConfigNotApplied"
    CONFIG_UNCHECKED = "ConfigUnchecked"
    RACKS_KNOWN = "RacksKnown"
    RACK_UNKNOWN = "RackUnknown"
    RACKS_UNREADABLE = "RacksUnreadable"
    TOO_FEW_RACKS = "TooFewRacks"
    ADDRESS_PENDING = "AddressPending"
    CERTIFICATE_INVALID = "CertificateInvalid"
    CERTIFICATE_EXPIRING = "CertificateExpiring"
    FOREIGN_VOLUME = "ForeignVolume"
    VOLUME_LOST = "VolumeLost"
    REPLACING_VOLUME = "ReplacingVolume"
    VOLUME_REPLACED = "VolumeReplaced"
    SMALLER_VOLUME = "SmallerVolume"
    DISKS_FULL = "DisksFull"
    BOOKIE_READ_ONLY = "BookieReadOnly"
    # replication between clusters
    REPLICATING = "Replicating"
    WAITING_FOR_REPLICATION = "WaitingForReplication"
    NOT_CONNECTED = "NotConnected"
    FALLING_BEHIND = "FallingBehind"
    NOT_DELIVERING = "NotDelivering"
    EXPIRING = "Expiring"
    # workloads
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CRASH_LOOPING = "CrashLooping"
    UNSCHEDULABLE = "Unschedulable"
    VOLUME_PENDING = "VolumePending"
    POD_REFUSED = "PodRefused"
    EVICTION_REFUSED = "EvictionRefused"
    NODE_UNREACHABLE = "NodeUnreachable"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    POD_REPLACED = "PodReplaced"
    SCALED_TO_ZERO = "ScaledToZero"
    ROLLOUT_COMPLETE = "RolloutComplete"
    ROLLOUT_FAILED = "RolloutFailed"
    CANARY_FAILED = "CanaryFailed"
    CANARY_UNDER_OBSERVATION = "CanaryUnderObservation"
    DISRUPTION_BUDGET = "DisruptionBudget"
    TOO_FEW_BOOKIES = "TooFewBookies"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    CONFIGURATION_STORE_UNAVAILABLE = "ConfigurationStoreUnavailable"
    DRAINING = "Draining"
    STATUS_UNREADABLE = "StatusUnreadable"
    DRAIN_INCOMPLETE = "DrainIncomplete"
    DELETED = "Deleted"
    NOT_DELETED = "NotDeleted"
    # logical plane
    CREATED = "Created"
    CHANGED = "Changed"
    ADOPTED = "Adopted"
    REPAIRED = "Repaired"
    IN_SYNC = "InSync"
    DRIFT_DETECTED = "DriftDetected"
    DRIFT_REPAIRED = "DriftRepaired"
    CONFLICTING_WRITER = "ConflictingWriter"
    REJECTED_BY_PULSAR = "RejectedByPulsar"
    ADMIN_UNREACHABLE = "AdminUnreachable"
    NOT_EMPTY = "NotEmpty"
    DELETION_UNFINISHED = "DeletionUnfinished"
    TOPIC_FENCED = "TopicFenced"
    IMMUTABLE_IN_PULSAR = "ImmutableInPulsar"
    COMPACTION_TRIGGERED = "CompactionTriggered"
    CONFIRMATION_REQUIRED = "ConfirmationRequired"
    IN_USE = "InUse"
    NO_BROKER_MATCHES = "NoBrokerMatches"
    BROKERS_SHARED = "BrokersShared"
    NO_BROKERS_FOR_OTHERS = "NoBrokersForOthers"
    EXPRESSION_NOT_EVALUATED = "ExpressionNotEvaluated"
    FINALIZER_RELEASED = "FinalizerReleased"
    HANDED_OVER = "HandedOver"
    WAITING_FOR_CONFIRMATION = "WaitingForConfirmation"
    # balancing
    PROPOSED = "Proposed"
    BALANCED = "Balanced"
    NO_DATA = "NoData"
    ALREADY_DRAINED = "AlreadyDrained"
    NO_IMPROVEMENT_POSSIBLE = "NoImprovementPossible"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    APPROVED = "Approved"
    AUTO_APPROVED = "AutoApproved"
    WAITING_FOR_BALANCER = "WaitingForBalancer"
    BROKERS_CHANGING = "BrokersChanging"
    EXECUTING = "Executing"
    STEP_DONE = "StepDone"
    MEASURING = "Measuring"
    COMPLETED = "Completed"
    STOPPED_BY_USER = "StoppedByUser"
    PLAN_INVALIDATED = "PlanInvalidated"
    REFRESHED = "Refreshed"
    EXPIRED = "Expired"
    APPROVAL_REFUSED = "ApprovalRefused"
    LOAD_BALANCER_PAUSED = "LoadBalancerPaused"
    LOAD_BALANCER_RESUMED = "LoadBalancerResumed"
    LOAD_BALANCER_NOT_RESUMED = "LoadBalancerNotResumed"
    OPERATOR_BALANCES = "OperatorBalances"
    PULSAR_BALANCES = "PulsarBalances"
    NOT_SUPPORTED = "NotSupported"
    # autoscaling
    WITHIN_TARGET = "WithinTarget"
    SCALED_OUT = "ScaledOut"
    SCALED_IN = "ScaledIn"
    STABILIZING = "Stabilizing"
    AT_LIMIT = "AtLimit"
    REBALANCING = "Rebalancing"


NO_ANSWER = frozenset({Reason.ADMIN_UNREACHABLE, Reason.AUTHENTICATION_FAILED, Reason.AUTHORIZATION_FAILED})
"""Reasons with which nothing is known of what a cluster has: it does not answer, or it does not admit the operator."""
