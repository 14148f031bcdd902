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
    """A tenant."""

    model_config = ConfigDict(json_schema_extra=validations(immutable("name"), immutable("instanceRef")))

    instance_ref: ObjectReference
    """The PulsarInstance the tenant lives in."""
    name: PulsarName | None = None
    """Name inside Pulsar; absent = metadata.name."""
    admin_roles: Annotated[
        list[AdminRole],
        Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """Roles that administer the tenant. Roles added by others stay, unless prune.adminRoles is set."""
    prune: TenantPrune | None = None
    """Lists that are complete; absent = entries of others stay."""
    allowed_clusters: (
        Annotated[
            list[ClusterName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
        ]
        | None
    ) = None
    """Clusters the tenant may use, by their Pulsar name. If unset, every cluster of the instance, also later ones. If a
    name is no cluster of the instance, the whole list is refused and the last valid one stays."""
    namespace_defaults: NamespacePolicies | None = None
    """Policies that each PulsarNamespace of the tenant has unless it sets the field itself. Pulsar has no policies of a
    tenant: the operator sets them on every namespace, and resets them there when they are removed here. Where Pulsar
    would then keep less of what is stored, each namespace waits for a confirmation."""
    allowed_kubernetes_namespaces: AllowedKubernetesNamespaces = Field(default_factory=list)
    """Kubernetes namespaces, besides its own, whose PulsarNamespaces may refer to this tenant; "*" = all."""


class PulsarTenantStatus(LogicalStatus):
    """Observed state of a PulsarTenant."""

    clusters: Annotated[list[str], Field(max_length=MAX_CLUSTERS)] | None = None
    """Clusters the tenant may use, as Pulsar answers."""
    cluster_names: str | None = None
    """The same for the eye: east, west."""
