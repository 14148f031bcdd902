"""How kubectl shows each kind: printer columns and the scale subresource. Used by the generator of definitions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pulsar_operator.api.constants import Kind


@dataclass(frozen=True)
class Column:
    """A column of ``kubectl get``; priority 1 shows only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True)
class Scale:
    """Paths of the scale subresource."""

    spec_replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True)
class Presentation:
    """What a definition has besides its schema."""

    columns: tuple[Column, ...] = ()
    scale: Scale | None = None


def _condition(name: str, member: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].{member}'


READY = (
    Column("Ready", _condition("Ready", "status"), description="Whether the object matches its spec."),
    Column("Reason", _condition("Ready", "reason"), description="Reason of the Ready status."),
)
AGE = Column("Age", ".metadata.creationTimestamp", type="date")
_PULSAR_NAME = Column("Pulsar Name", ".status.pulsarName", priority=1, description="Full name in Pulsar.")
MESSAGE = Column("Message", _condition("Ready", "message"), priority=1, description="Explanation of the reason.")

PRESENTATION: dict[Kind, Presentation] = {
    Kind.INSTANCE: Presentation(
        columns=(
            Column("Clusters", ".status.readyClusters", description="Ready clusters of all clusters."),
            Column(
                "Store",
                ".status.configurationStoreServers",
                priority=1,
                description="Servers of the configuration store.",
            ),
        )
    ),
    Kind.CLUSTER: Presentation(
        columns=(
            Column("Version", ".status.version", description="Pulsar version that all pods run."),
            Column("Bookies", ".status.bookkeeper.summary", description="Ready and desired bookies."),
            Column("Brokers", ".status.broker.summary", description="Ready and desired brokers."),
            Column("Proxies", ".status.proxy.summary", description="Ready and desired proxies."),
            Column(
                "Scaling",
                _condition("ScalingActive", "reason"),
                priority=1,
                description="Last decision of autoscaling.",
            ),
            Column("Blocker", ".status.blocker", priority=1, description="What blocks bring-up or deletion."),
        ),
        # The horizontal autoscaler divides by the current pods. `desired` is the workload's own replica count, which
        # the operator may set apart from spec; pods that exist but are not ready count there, as they must.
        scale=Scale(".spec.broker.replicas", ".status.broker.desired", ".status.broker.selector"),
    ),
    Kind.TENANT: Presentation(
        columns=(
            Column("Clusters", ".status.clusterNames", description="Clusters that the tenant may use."),
            Column("Dependents", ".status.dependents", type="integer", priority=1, description="Number of namespaces."),
            _PULSAR_NAME,
        )
    ),
    Kind.NAMESPACE: Presentation(
        columns=(
            Column(
                "Bundles", ".status.bundleCount", type="integer", description="Number of bundles in the first cluster."
            ),
            Column(
                "Dependents",
                ".status.dependents",
                type="integer",
                priority=1,
                description="Number of topics and topic sets.",
            ),
            _PULSAR_NAME,
        )
    ),
    Kind.TOPIC: Presentation(
        columns=(
            replace(_PULSAR_NAME, priority=0),
            Column(
                "Partitions",
                ".status.partitions",
                type="integer",
                description="Number of partitions. Empty for a non-partitioned topic.",
            ),
        )
    ),
    Kind.RESOURCE_GROUP: Presentation(
        columns=(
            Column(
                "Publish",
                ".spec.limits.publishRate.messagesPerSecond",
                type="integer",
                description="Maximum number of messages published per second.",
            ),
            Column(
                "Dispatch",
                ".spec.limits.dispatchRate.messagesPerSecond",
                type="integer",
                description="Maximum number of messages delivered per second.",
            ),
            _PULSAR_NAME,
        )
    ),
    Kind.ISOLATION_POLICY: Presentation(
        columns=(
            Column("Namespaces", ".status.summary.namespaces", description="Namespaces that the policy matches."),
            Column("Primary", ".status.summary.primary", description="Brokers that serve the namespaces."),
            Column(
                "Clusters", ".status.summary.clusters", priority=1, description="Clusters that the policy applies to."
            ),
            _PULSAR_NAME,
        )
    ),
    Kind.REBALANCE: Presentation(
        columns=(
            Column("Mode", ".spec.mode", description="Steps that a proposal may contain."),
            Column("Splits", ".status.proposal.splits", type="integer", description="Number of proposed splits."),
            Column("Moves", ".status.proposal.moves", type="integer", description="Number of proposed moves."),
            Column(
                "Clients", ".status.proposal.clients", type="integer", description="Number of clients that reconnect."
            ),
            Column("Done", ".status.progress.summary", description="Verified steps of all steps."),
            Column(
                "Imbalance",
                ".status.summary",
                description="Load of the busiest broker divided by the mean: before -> after (best possible).",
            ),
            Column(
                "Traffic %",
                ".status.proposal.trafficMovedPercent",
                priority=1,
                description="Percentage of the traffic that is moved.",
            ),
            Column(
                "Expected",
                ".status.proposal.expectedDuration",
                priority=1,
                description="Expected duration of the steps.",
            ),
            Column("Took", ".status.progress.duration", priority=1, description="Actual duration of the steps."),
            Column("Proposal", ".status.proposal.id", priority=1, description="ID of the proposal to approve."),
        )
    ),
    Kind.TOPIC_SET: Presentation(
        columns=(
            Column("Topics", ".status.summary", description="Topics that match their declaration, of all topics."),
            Column(
                "Drifted",
                ".status.drifted",
                type="integer",
                description="Number of topics that another writer changed.",
            ),
            Column(
                "Refused",
                ".status.refused",
                type="integer",
                priority=1,
                description="Number of topics for which Pulsar refuses a value.",
            ),
            Column(
                "Deleting",
                ".status.pendingDeletion",
                type="integer",
                priority=1,
                description="Number of topics to be deleted.",
            ),
            _PULSAR_NAME,
        )
    ),
}
