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
    """Method by which the bundles of a new namespace are sized."""

    AUTO = "Auto"


class Bundles(ApiModel):
    """Bundles of a namespace when it is created. Exactly one of count, boundaries and sizing must be set."""

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
    """Number of bundles of equal size that are created."""
    boundaries: (
        Annotated[
            list[Boundary],
            Field(min_length=2, max_length=1025, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Boundaries of the bundles, in ascending order. The first is 0x00000000, and the last is 0xffffffff."""
    sizing: BundleSizing | None = None
    """With Auto, the operator sizes the bundles by the recorded traffic of the namespace if the sizing service has any,
    else by the topics that are declared for it, else by the number of brokers. A PulsarRebalance makes later changes.
    """


class PulsarNamespaceSpec(LogicalSpec):
    """A namespace of a tenant, with its policies and permissions."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            immutable("name"),
            immutable("tenantRef"),
            immutable(
                "bundles",
                why="the bundles of an existing namespace can only be split",
                remedy="Split them with pulsar-admin namespaces split-bundle, or create another namespace",
            ),
            PROPERTY_KEY,
            (
                "!has(self.allowedClusters) || !has(self.replicationClusters) || "
                "self.replicationClusters.all(name, name in self.allowedClusters)",
                "spec.allowedClusters must contain all of spec.replicationClusters, because Pulsar replicates a "
                "namespace only between its allowed clusters",
            ),
        )
    )

    tenant_ref: ObjectReference
    """PulsarTenant that the namespace belongs to."""
    name: PulsarName | None = None
    """Name of the namespace in its tenant. If unset, metadata.name is used."""
    bundles: Bundles | None = None
    """Bundles of the namespace when it is created. If unset, Pulsar's default applies."""
    replication_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that replicate the namespace to each other, by their names in Pulsar. A cluster that is removed from the
    list keeps its data and stays among the clusters that may hold the namespace (allowedClusters). If the list contains
    a name that is not a cluster of the instance, the whole list is refused and the last valid list stays. If unset, the
    namespace is created with all clusters of the instance that the tenant may use, once Pulsar allows the tenant to use
    them."""
    allowed_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that may hold the namespace, including those of replicationClusters. If a cluster is removed from the
    list, Pulsar deletes the namespace with its data there, which requires an entry in confirmations. If the list
    contains a name that is not a cluster of the instance, the whole list is refused and the last valid list stays. If
    unset, the list is not managed."""
    confirmations: Confirmations = Field(default_factory=list)
    """Confirmations that data may be lost. Each is used once and expires at its expiresTime. If empty, such changes are
    blocked."""
    policies: NamespacePolicies = Field(default=NamespacePolicies())
    """Policies of the namespace. Only fields that are set here or in spec.namespaceDefaults of the tenant are managed,
    and those that are set here take precedence."""
    permissions: Permissions = Field(default_factory=list)
    """Permissions of roles on all topics of the namespace. A role that is removed from the list loses its permissions.
    Permissions that other writers granted stay unless prune.permissions is true. Permissions apply only if the brokers
    have authorization enabled. If empty, no permissions are granted."""
    subscription_permissions: SubscriptionPermissions = Field(default_factory=list)
    """Subscription names that are reserved for roles, in all topics of the namespace. A name that is removed from the
    list may be used by every role that may consume. If empty, no subscriptions are reserved."""
    properties: Properties | None = None
    """Properties of the namespace, as a map of keys to values. A key that is removed from the map is removed in Pulsar.
    Keys that other writers added stay unless prune.properties is true. If unset, no properties are set."""
    prune: NamespacePrune | None = None
    """Lists that are complete: entries in Pulsar that are not declared are removed. If unset, entries of other writers
    stay."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Other Kubernetes namespaces whose topics and topic sets may refer to this namespace. "*" allows all. If empty,
    only objects in the Kubernetes namespace of this object may refer to it."""


class NamespaceClusterStatus(ApiModel):
    """The namespace in one cluster."""

    name: str
    """Name of the cluster in Pulsar."""
    exists: bool
    """Whether the namespace exists in the cluster."""
    bundles: int | None = None
    """Number of bundles in the cluster."""


class ClusterLists(ApiModel):
    """Lists of clusters of a namespace."""

    replication_clusters: ClusterNames = Field(default_factory=list)
    """Clusters that replicate the namespace to each other."""
    allowed_clusters: ClusterNames = Field(default_factory=list)
    """Clusters that may hold the namespace. If empty, the clusters of replicationClusters may hold the namespace."""


class PulsarNamespaceStatus(LogicalStatus):
    """Observed state of a PulsarNamespace."""

    clusters: Annotated[
        list[NamespaceClusterStatus],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default_factory=list)
    """State of the namespace in each cluster."""
    clusters_before_deletion: ClusterLists | None = None
    """Lists of clusters before the deletion reduced the namespace to one cluster. The operator restores them if the
    namespace stays. Unset while no cluster was removed."""
    used_confirmations: UsedConfirmations = Field(default_factory=list)
    """Confirmations of the spec that no longer apply."""
    applied_defaults: str | None = None
    """Digest of the namespaceDefaults of the tenant that were last applied. Unset if there are none."""
    settled_defaults: str | None = None
    """Digest of the namespaceDefaults of the tenant under which no policy of the namespace waited for a confirmation. A
    confirmation of the PulsarTenant applies while its namespaceDefaults differ from these. Unset if there are none."""
    boundaries_match: bool | None = None
    """Whether the clusters have bundles with the same boundaries. False is not a fault, because each cluster splits its
    own bundles. Unset if fewer than two clusters have the namespace or answer."""
    bundle_count: int | None = None
    """Number of bundles in the first cluster."""
