"""PulsarTenant: a tenant of an instance."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import (
    MAX_CLUSTERS,
    AllowedKubernetesNamespaces,
    ClusterName,
    ObjectReference,
    PulsarName,
    immutable,
    validations,
)
from pulsar_operator.api.v1alpha1.entries import AdminRole, TenantPrune
from pulsar_operator.api.v1alpha1.logical import LogicalSpec, LogicalStatus
from pulsar_operator.api.v1alpha1.policies import NamespacePolicies


class PulsarTenantSpec(LogicalSpec):
    """A tenant of an instance."""

    model_config = ConfigDict(json_schema_extra=validations(immutable("name"), immutable("instanceRef")))

    instance_ref: ObjectReference
    """PulsarInstance that the tenant belongs to."""
    name: PulsarName | None = None
    """Name of the tenant in Pulsar. If unset, metadata.name is used."""
    admin_roles: Annotated[
        list[AdminRole],
        Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """Roles that administer the tenant. Roles that other writers added stay unless prune.adminRoles is true. If empty,
    no roles are added."""
    prune: TenantPrune | None = None
    """Lists that are complete: entries in Pulsar that are not declared are removed. If unset, entries of other writers
    stay."""
    allowed_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters that the tenant may use, by their names in Pulsar. If the list contains a name that is not a cluster of
    the instance, the whole list is refused and the last valid list stays. If unset, the tenant may use every cluster of
    the instance, including those that are added later."""
    namespace_defaults: NamespacePolicies | None = None
    """Policies of each PulsarNamespace of the tenant that does not set the field itself. Pulsar has no policies of a
    tenant, so the operator sets these policies on every namespace, and resets a policy on the namespaces when it is
    removed from this field. If Pulsar would then keep less data, each namespace waits for a confirmation. If unset,
    there are no defaults."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Other Kubernetes namespaces whose PulsarNamespaces may refer to this tenant. "*" allows all. If empty, only
    objects in the Kubernetes namespace of this object may refer to it."""


class PulsarTenantStatus(LogicalStatus):
    """Observed state of a PulsarTenant."""

    clusters: Annotated[list[str], Field(max_length=MAX_CLUSTERS)] | None = None
    """Clusters that the tenant may use, as Pulsar reports them."""
    cluster_names: str | None = None
    """Names of the clusters that the tenant may use, such as east, west."""
