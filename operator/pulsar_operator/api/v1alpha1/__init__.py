"""Version v1alpha1 of the custom resources: one specification and one status model per kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import CLUSTER_RULES, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.instance import INSTANCE_RULES, PulsarInstanceSpec, PulsarInstanceStatus
from pulsar_operator.api.v1alpha1.isolation_policy import (
    ISOLATION_RULES,
    PulsarIsolationPolicySpec,
    PulsarIsolationPolicyStatus,
)
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec, PulsarNamespaceStatus
from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceSpec, PulsarRebalanceStatus
from pulsar_operator.api.v1alpha1.resource_group import PulsarResourceGroupSpec, PulsarResourceGroupStatus
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec, PulsarTenantStatus
from pulsar_operator.api.v1alpha1.topic import TOPIC_RULES, PulsarTopicSpec, PulsarTopicStatus
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec, PulsarTopicSetStatus


@dataclass(frozen=True)
class KindModels:
    """Specification and status model of a kind."""

    spec: type[BaseModel]
    status: type[BaseModel]
    rules: tuple[tuple[str, str], ...] = ()
    """CEL rules over the whole object, as (rule, message); only there can metadata.name be seen."""


MODELS: dict[Kind, KindModels] = {
    Kind.INSTANCE: KindModels(PulsarInstanceSpec, PulsarInstanceStatus, INSTANCE_RULES),
    Kind.CLUSTER: KindModels(PulsarClusterSpec, PulsarClusterStatus, CLUSTER_RULES),
    Kind.TENANT: KindModels(PulsarTenantSpec, PulsarTenantStatus),
    Kind.NAMESPACE: KindModels(PulsarNamespaceSpec, PulsarNamespaceStatus),
    Kind.TOPIC: KindModels(PulsarTopicSpec, PulsarTopicStatus, TOPIC_RULES),
    Kind.RESOURCE_GROUP: KindModels(PulsarResourceGroupSpec, PulsarResourceGroupStatus),
    Kind.ISOLATION_POLICY: KindModels(PulsarIsolationPolicySpec, PulsarIsolationPolicyStatus, ISOLATION_RULES),
    Kind.REBALANCE: KindModels(PulsarRebalanceSpec, PulsarRebalanceStatus),
    Kind.TOPIC_SET: KindModels(PulsarTopicSetSpec, PulsarTopicSetStatus),
}


def wire(model: BaseModel) -> dict[str, Any]:
    """The model as it is written to the API server: camelCase, plain JSON values, absent where None."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
