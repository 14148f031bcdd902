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
    Column("Ready", _condition("Ready", "status"), description="Whether the object is as its specification says."),
    Column("Reason", _condition("Ready", "reason"), description="Why it is, or is not."),
)
AGE = Column("Age", ".metadata.creationTimestamp", type="date")
_PULSAR_NAME = Column("Pulsar Name", ".status.pulsarName", priority=1, description="Full name inside Pulsar.")
MESSAGE = Column("Message", _condition("Ready", "message"), priority=1, description="The reason in a sentence.")

PRESENTATION: dict[Kind, Presentation] = {
    Kind.INSTANCE: Presentation(
        columns=(
            Column("Clusters", ".status.readyClusters", description="Ready clusters of all clusters."),
            Column("Store", ".status.configurationStoreServers", priority=1, description="Configuration store."),
        )
    ),
    Kind.CLUSTER: Presentation(
        columns=(
            Column("Version", ".status.version", description="Pulsar version the brokers run."),
            Column("Bookies", ".status.bookkeeper.summary", description="Ready bookies of all."),
            Column("Brokers", ".status.broker.summary", description="Ready brokers of all."),
            Column("Proxies", ".status.proxy.summary", description="Ready proxies of all."),
            Column(
                "Scaling",
                _condition("ScalingActive", "reason"),
                priority=1,
                description="What autoscaling decided last; empty without it.",
            ),
            Column("Waiting", ".status.waitingFor", priority=1, description="What bring-up waits for."),
        ),
        # The horizontal autoscaler divides by the current pods. `desired` is the workload's own replica count, which
        # the operator may set apart from spec; pods that exist but are not ready count there, as they must.
        scale=Scale(".spec.broker.replicas", ".status.broker.desired", ".status.broker.selector"),
    ),
    Kind.TENANT: Presentation(
        columns=(
            Column("Clusters", ".status.clusterNames", description="Clusters the tenant may use."),
            Column("Dependents", ".status.dependents", type="integer", priority=1, description="Namespaces."),
            _PULSAR_NAME,
        )
    ),
    Kind.NAMESPACE: Presentation(
        columns=(
            Column("Bundles", ".status.bundleCount", type="integer", description="Bundles in the first cluster."),
            Column("Dependents", ".status.dependents", type="integer", priority=1, description="Topics."),
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
                description="Partitions; empty for a non-partitioned topic.",
            ),
        )
    ),
    Kind.RESOURCE_GROUP: Presentation(
        columns=(
            Column(
                "Publish", ".spec.limits.publishRate.messagesPerSecond", type="integer", description="Messages/s in."
            ),
            Column(
                "Dispatch", ".spec.limits.dispatchRate.messagesPerSecond", type="integer", description="Messages/s out."
            ),
            _PULSAR_NAME,
        )
    ),
    Kind.ISOLATION_POLICY: Presentation(
        columns=(
            Column("Namespaces", ".status.summary.namespaces", description="Namespaces it is for."),
            Column("Primary", ".status.summary.primary", description="Brokers that serve them."),
            Column("Clusters", ".status.summary.clusters", priority=1, description="Clusters it is for."),
            _PULSAR_NAME,
        )
    ),
    Kind.REBALANCE: Presentation(
        columns=(
            Column("Mode", ".spec.mode", description="Which steps it may do."),
            Column("Splits", ".status.proposal.splits", type="integer", description="Cuts proposed."),
            Column("Moves", ".status.proposal.moves", type="integer", description="Bundles to be moved."),
            Column("Clients", ".status.proposal.clients", type="integer", description="Clients that reconnect."),
            Column("Done", ".status.progress.summary", description="Steps verified in Pulsar, of all."),
            Column(
                "Imbalance",
                ".status.summary",
                description="Busiest broker's load over the mean: before -> after (best).",
            ),
            Column("Traffic %", ".status.proposal.trafficMovedPercent", priority=1, description="Traffic moved."),
            Column("Expected", ".status.proposal.expectedDuration", priority=1, description="Expected duration."),
            Column("Took", ".status.progress.duration", priority=1, description="Duration of the steps."),
            Column("Proposal", ".status.proposal.id", priority=1, description="Id to approve."),
        )
    ),
    Kind.TOPIC_SET: Presentation(
        columns=(
            Column("Topics", ".status.summary", description="Topics that are as declared, of all."),
            Column("Drifted", ".status.drifted", type="integer", description="Topics another writer changed."),
            Column("Refused", ".status.refused", type="integer", priority=1, description="Topics Pulsar refuses."),
            Column("Leaving", ".status.leaving", type="integer", priority=1, description="Topics to be deleted."),
            _PULSAR_NAME,
        )
    ),
}
