"""What ends a state in which an object is not Ready, by its reason: time alone, another object, or a person.

The one place that decides about condition ``Stalled``, and with it about what kstatus and Argo CD make of an object.
Every reason is in exactly one of the sets below, also those that never stand in Ready.
"""

from __future__ import annotations

from enum import StrEnum

from pulsar_operator.api.constants import Reason


class Healing(StrEnum):
    """What ends it."""

    ITSELF = "Itself"
    """The operator, Kubernetes or Pulsar continues without a person. Also reasons of a healthy object."""
    OTHERS = "Others"
    """Something outside the object: it may follow, as when all objects are applied together, or never come."""
    CONSENT = "Consent"
    """A person stopped it, or is asked first."""
    CHANGE = "Change"
    """The object, or what it found, must be changed."""


_OTHERS = {
    Reason.FORBIDDEN,
    # Somebody corrects the settings of brokers, or the keys that they know.
    Reason.AUTHENTICATION_FAILED,
    Reason.AUTHORIZATION_FAILED,
    Reason.REFERENCE_NOT_FOUND,
    Reason.REFERENCE_NOT_ALLOWED,
    Reason.DUPLICATE,
    Reason.NAME_CONFLICT,
    Reason.DEPENDENTS_EXIST,
    Reason.NOT_EMPTY,
    # Somebody finishes what was begun in Pulsar.
    Reason.DELETION_UNFINISHED,
    Reason.IN_USE,
    # What Pulsar refuses today it may take tomorrow: a cluster that is registered, a limit that another object raises.
    Reason.REJECTED_BY_PULSAR,
    Reason.NO_BROKER_MATCHES,
    Reason.CONFLICTING_WRITER,
    # Somebody switched it off, and may be at work.
    Reason.REPLICATION_DISABLED,
    # A node of another rack may come.
    Reason.RACK_UNKNOWN,
    Reason.TOO_FEW_RACKS,
    # The cloud provider, or a load balancer controller that a person installs, assigns the address.
    Reason.ADDRESS_PENDING,
    # A person, or cert-manager, writes the Secret.
    Reason.CERTIFICATE_INVALID,
    Reason.CERTIFICATE_EXPIRING,
    # The other cluster comes back, or the network between both.
    Reason.WAITING_FOR_REPLICATION,
    Reason.NOT_CONNECTED,
    Reason.FALLING_BEHIND,
    Reason.NOT_DELIVERING,
    Reason.EXPIRING,
    # A quota is raised, a PriorityClass or a node comes back.
    Reason.POD_REFUSED,
    Reason.EVICTION_REFUSED,
    Reason.NODE_UNREACHABLE,
    # Somebody raises the claim.
    Reason.SMALLER_VOLUME,
    # A restart ends what somebody did by hand.
    Reason.BOOKIE_READ_ONLY,
}
_CONSENT = {
    Reason.PAUSED,
    Reason.DRY_RUN,
    Reason.SCALED_TO_ZERO,
    Reason.CONFIRMATION_REQUIRED,
    Reason.WAITING_FOR_CONFIRMATION,
    Reason.WAITING_FOR_APPROVAL,
    # A person is asked before what was done once is done again.
    Reason.STATUS_UNREADABLE,
    Reason.STOPPED_BY_USER,
}
_CHANGE = {
    Reason.INVALID_SPEC,
    Reason.VERSION_REFUSED,
    Reason.METADATA_LOST,
    Reason.METADATA_CONFLICT,
    Reason.IMMUTABLE_IN_PULSAR,
    Reason.PLAN_INVALIDATED,
    Reason.NOT_SUPPORTED,
    Reason.ROLLOUT_FAILED,
    Reason.CANARY_FAILED,
    Reason.DECOMMISSION_REFUSED,
    Reason.DECOMMISSION_STUCK,
    Reason.FOREIGN_VOLUME,
    Reason.VOLUME_LOST,
    Reason.RACKS_UNREADABLE,
    Reason.CONFIG_NOT_APPLIED,
    Reason.DISKS_FULL,
}
_ITSELF = {
    Reason.REPLICATING,
    Reason.REPLACING_VOLUME,
    Reason.VOLUME_REPLACED,
    Reason.RACKS_KNOWN,
    Reason.CONFIG_UNCHECKED,
    Reason.READY,
    Reason.NOT_READY,
    Reason.PENDING,
    Reason.UNKNOWN,
    Reason.VALID,
    # A defect, or a call that failed: tried again, and the next answer may be another.
    Reason.INTERNAL_ERROR,
    Reason.DELETING,
    Reason.NOT_APPLICABLE,
    # The parent has a condition of its own, which says whether it waits for somebody.
    Reason.PARENT_NOT_READY,
    Reason.PARENT_DELETED,
    Reason.WAITING_FOR_GARBAGE_COLLECTION,
    Reason.METADATA_INITIALIZED,
    Reason.METADATA_UNREACHABLE,
    Reason.WAITING_FOR_ZOOKEEPER,
    Reason.WAITING_FOR_METADATA,
    Reason.WAITING_FOR_BOOKIES,
    Reason.WAITING_FOR_BROKERS,
    Reason.WAITING_FOR_CONFIGURATION_STORE,
    Reason.WAITING_FOR_CLUSTERS,
    Reason.REPLICATED,
    Reason.UNDER_REPLICATED,
    # Until the retention of what was lost ends.
    Reason.LEDGERS_LOST,
    # An auto-recovery pod that comes up is elected.
    Reason.NO_AUDITOR,
    Reason.DECOMMISSIONING_BOOKIE,
    Reason.BOOKIE_DECOMMISSIONED,
    # Kubernetes goes on trying: a registry, a node or a volume may be back, or be added, at any moment.
    Reason.IMAGE_PULL_FAILED,
    Reason.CRASH_LOOPING,
    Reason.UNSCHEDULABLE,
    Reason.VOLUME_PENDING,
    Reason.ROLLOUT_IN_PROGRESS,
    Reason.POD_REPLACED,
    Reason.ROLLOUT_COMPLETE,
    Reason.TOO_FEW_BOOKIES,
    Reason.MAINTENANCE_WINDOW,
    Reason.CANARY_UNDER_OBSERVATION,
    Reason.DISRUPTION_BUDGET,
    Reason.CONFIGURATION_STORE_UNAVAILABLE,
    Reason.DRAINING,
    Reason.DRAIN_INCOMPLETE,
    Reason.DELETED,
    Reason.NOT_DELETED,
    Reason.CREATED,
    Reason.CHANGED,
    Reason.ADOPTED,
    Reason.REPAIRED,
    Reason.IN_SYNC,
    Reason.DRIFT_DETECTED,
    Reason.DRIFT_REPAIRED,
    Reason.ADMIN_UNREACHABLE,
    Reason.TOPIC_FENCED,
    Reason.COMPACTION_TRIGGERED,
    Reason.BROKERS_SHARED,
    Reason.NO_BROKERS_FOR_OTHERS,
    Reason.EXPRESSION_NOT_EVALUATED,
    Reason.FINALIZER_RELEASED,
    Reason.HANDED_OVER,
    Reason.PROPOSED,
    Reason.BALANCED,
    Reason.NO_DATA,
    Reason.ALREADY_DRAINED,
    Reason.NO_IMPROVEMENT_POSSIBLE,
    Reason.APPROVED,
    Reason.AUTO_APPROVED,
    Reason.WAITING_FOR_BALANCER,
    Reason.BROKERS_CHANGING,
    Reason.EXECUTING,
    Reason.STEP_DONE,
    Reason.MEASURING,
    Reason.COMPLETED,
    Reason.REFRESHED,
    Reason.EXPIRED,
    Reason.APPROVAL_REFUSED,
    Reason.LOAD_BALANCER_PAUSED,
    Reason.LOAD_BALANCER_RESUMED,
    Reason.LOAD_BALANCER_NOT_RESUMED,
    Reason.OPERATOR_BALANCES,
    # The operator takes over again when it can decide.
    Reason.PULSAR_BALANCES,
    Reason.WITHIN_TARGET,
    Reason.SCALED_OUT,
    Reason.SCALED_IN,
    Reason.STABILIZING,
    Reason.AT_LIMIT,
    Reason.REBALANCING,
}
SETS: dict[Healing, frozenset[Reason]] = {
    Healing.ITSELF: frozenset(_ITSELF),
    Healing.OTHERS: frozenset(_OTHERS),
    Healing.CONSENT: frozenset(_CONSENT),
    Healing.CHANGE: frozenset(_CHANGE),
}
"""All reasons."""
HEALING: dict[Reason, Healing] = {reason: healing for healing, reasons in SETS.items() for reason in reasons}
"""What ends it, by reason."""
