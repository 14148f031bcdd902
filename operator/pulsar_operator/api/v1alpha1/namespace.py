"""PulsarNamespace: a namespace of a tenant, with its policies."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import (
    AllowedKubernetesNamespaces,
    ApiModel,
    ClusterName,
    ClusterNames,
    ObjectReference,
    PulsarName,
    immutable,
    validations,
)
from pulsar_operator.api.v1alpha1.confirmations import Confirmations, UsedConfirmations
from pulsar_operator.api.v1alpha1.entries import (
    PROPERTY_KEY,
    NamespacePrune,
    Permissions,
    Properties,
    SubscriptionPermissions,
)
from pulsar_operator.api.v1alpha1.logical import LogicalSpec, LogicalStatus
from pulsar_operator.api.v1alpha1.policies import NamespacePolicies

Boundary = Annotated[str, Field(pattern=r"^0x[0-9a-f]{8}$", max_length=10)]


class BundleSizing(StrEnum):
    """Who decides where a new namespace is cut."""

    AUTO = "Auto"


class Bundles(ApiModel):
    """How the namespace's hash space is cut at creation: exactly one of count, boundaries and sizing."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "[has(self.count), has(self.boundaries), has(self.sizing)].filter(given, given).size() == 1",
                "exactly one of bundles.count, bundles.boundaries and bundles.sizing must be set",
            ),
            (
                "!has(self.boundaries) || (self.boundaries[0] == '0x00000000' && "
                "self.boundaries[size(self.boundaries) - 1] == '0xffffffff')",
                "bundles.boundaries must start with 0x00000000 and end with 0xffffffff",
            ),
            (
                "!has(self.boundaries) || self.boundaries.isSorted()",
                "bundles.boundaries must be in ascending order",
            ),
        )
    )

    count: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of equal bundles."""
    boundaries: (
        Annotated[
            list[Boundary],
            Field(min_length=2, max_length=1025, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Ascending boundaries, from 0x00000000 to 0xffffffff."""
    sizing: BundleSizing | None = None
    """Auto: cut from the namespace's recorded traffic where the sizing service has seen it, else between the topics
    declared for it, else evenly by the number of brokers. Later changes are a PulsarRebalance's."""


class PulsarNamespaceSpec(LogicalSpec):
    """A namespace."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("name"),
            immutable("tenantRef"),
            immutable(
                "bundles",
                why="bundles of a live namespace change by splitting only",
                remedy="split them with pulsar-admin namespaces split-bundle, or create another namespace",
            ),
            PROPERTY_KEY,
            (
                "!has(self.allowedClusters) || !has(self.replicationClusters) || "
                "self.replicationClusters.all(name, name in self.allowedClusters)",
                "spec.allowedClusters must contain all of spec.replicationClusters: Pulsar replicates between clusters "
                "that may hold the namespace",
            ),
        )
    )

    tenant_ref: ObjectReference
    """The PulsarTenant the namespace belongs to."""
    name: PulsarName | None = None
    """Name inside the tenant; absent = metadata.name."""
    bundles: Bundles | None = None
    """Bundles at creation; absent = Pulsar's default."""
    replication_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that replicate the namespace to each other, by their Pulsar name. If unset, all clusters of the instance
    that the tenant may use when the namespace is created; it is created once Pulsar lets the tenant use them. A cluster
    that leaves the list keeps its data: it stays among those that may hold the namespace, see allowedClusters. If a
    name is no cluster of the instance, the whole list is refused and the last valid one stays."""
    allowed_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that may hold the namespace, all of replicationClusters among them; absent = not managed. When a cluster
    leaves the list, Pulsar deletes all of the namespace there: that takes an entry of confirmations. If a name is no
    cluster of the instance, the whole list is refused and the last valid one stays."""
    confirmations: Confirmations = Field(default_factory=list)
    """Confirmations that data may be lost, each used once, by its expiresTime at the latest."""
    policies: NamespacePolicies = Field(default=NamespacePolicies())
    """Policies; only fields that are set are managed, here or in spec.namespaceDefaults of the tenant. A field that is
    set here wins."""
    permissions: Permissions = Field(default_factory=list)
    """What roles may do in all topics of the namespace. A role that leaves the list loses it; roles others added stay,
    unless prune.permissions is set. They count where the brokers have authorization switched on."""
    subscription_permissions: SubscriptionPermissions = Field(default_factory=list)
    """Subscription names that are reserved for roles, in all topics of the namespace. One that leaves the list may be
    used by every role that may consume."""
    properties: Properties | None = None
    """Properties of the namespace, key to value. A key that leaves the map is removed; keys others added stay, unless
    prune.properties is set."""
    prune: NamespacePrune | None = None
    """Lists that are complete; absent = entries of others stay."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Kubernetes namespaces, besides its own, whose PulsarTopics may refer to this namespace; "*" = all."""


class NamespaceClusterStatus(ApiModel):
    """The namespace in one cluster."""

    name: str
    """Name of the cluster inside Pulsar."""
    exists: bool
    """Whether the cluster knows the namespace."""
    bundles: int | None = None
    """Number of bundles there."""


class ClusterLists(ApiModel):
    """The two lists of clusters of a namespace."""

    replication_clusters: ClusterNames = Field(default_factory=list)
    """Clusters that replicate the namespace to each other."""
    allowed_clusters: ClusterNames = Field(default_factory=list)
    """Clusters that may hold the namespace. If empty, those of replicationClusters may."""


class PulsarNamespaceStatus(LogicalStatus):
    """Observed state of a PulsarNamespace."""

    clusters: Annotated[
        list[NamespaceClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """The namespace in each cluster."""
    clusters_before_deletion: ClusterLists | None = None
    """Lists of clusters as they were before the deletion of the namespace left it in one cluster. The operator restores
    them if the namespace stays. Unset while nothing was taken out."""
    used_confirmations: UsedConfirmations = Field(default_factory=list)
    """Confirmations of the spec that no longer count."""
    applied_defaults: str | None = None
    """Digest of the namespaceDefaults of the tenant that were applied last; absent = there are none."""
    settled_defaults: str | None = None
    """Digest of the namespaceDefaults of the tenant under which no policy of the namespace waited for a confirmation.
    Unset if there are none. A confirmation of the PulsarTenant counts while its namespaceDefaults differ from these."""
    boundaries_match: bool | None = None
    """Whether its clusters have bundles with the same boundaries: each splits by itself, so that false is no fault;
    absent = fewer than two have it, or answer."""
    bundle_count: int | None = None
    """Bundles in the first cluster."""
