"""Small valid custom resources for tests."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.constants import API_VERSION, Kind

Json = dict[str, Any]


def custom(kind: Kind, namespace: str, name: str, spec: Json, **meta: Any) -> Json:
    """A custom resource."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind.value,
        "metadata": {"namespace": namespace, "name": name, **meta},
        "spec": spec,
    }


def instance(namespace: str, name: str = "i", **meta: Any) -> Json:
    """An instance whose store is its cluster "c"'s."""
    return custom(Kind.INSTANCE, namespace, name, {"configurationStore": {"cluster": {"name": "c"}}}, **meta)


def tenant(namespace: str, name: str = "t", *, parent: str = "i", **meta: Any) -> Json:
    """A tenant of an instance."""
    return custom(Kind.TENANT, namespace, name, {"instanceRef": {"name": parent}}, **meta)


def pulsar_namespace(namespace: str, name: str = "n", *, parent: str = "t", **meta: Any) -> Json:
    """A Pulsar namespace of a tenant."""
    return custom(Kind.NAMESPACE, namespace, name, {"tenantRef": {"name": parent}}, **meta)


def topic(namespace: str, name: str = "x", *, parent: str = "n", **meta: Any) -> Json:
    """A topic of a Pulsar namespace."""
    return custom(Kind.TOPIC, namespace, name, {"namespaceRef": {"name": parent}}, **meta)


def config_map(namespace: str, name: str, data: dict[str, str], **meta: Any) -> Json:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, **meta},
        "data": data,
    }
