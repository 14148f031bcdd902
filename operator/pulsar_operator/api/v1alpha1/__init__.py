"""Version v1alpha1 of the custom resources: one specification and one status model per kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec, PulsarClusterStatus
from pulsar_operator.api.v1alpha1.instance import PulsarInstanceSpec, PulsarInstanceStatus
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec, PulsarNamespaceStatus
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec, PulsarTenantStatus
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec, PulsarTopicStatus


@dataclass(frozen=True)
class KindModels:
    """Specification and status model of a kind."""

    spec: type[BaseModel]
    status: type[BaseModel]


MODELS: dict[Kind, KindModels] = {
    Kind.INSTANCE: KindModels(PulsarInstanceSpec, PulsarInstanceStatus),
    Kind.CLUSTER: KindModels(PulsarClusterSpec, PulsarClusterStatus),
    Kind.TENANT: KindModels(PulsarTenantSpec, PulsarTenantStatus),
    Kind.NAMESPACE: KindModels(PulsarNamespaceSpec, PulsarNamespaceStatus),
    Kind.TOPIC: KindModels(PulsarTopicSpec, PulsarTopicStatus),
}


def wire(model: BaseModel) -> dict[str, Any]:
    """The model as it is written to the API server: camelCase, plain JSON values, absent where None."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
