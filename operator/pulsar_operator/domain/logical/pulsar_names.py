"""Names in Pulsar, and the REST paths built from them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pulsar_operator.api.v1alpha1.base import PULSAR_NAME
from pulsar_operator.api.v1alpha1.topic import PARTITION_SUFFIX, SYSTEM_SUFFIX, SYSTEM_TOPICS

_PARTITION = re.compile(PARTITION_SUFFIX)
_NAME = re.compile(PULSAR_NAME)
_NUMBERED = re.compile(r"(.+)-partition-(0|[1-9][0-9]*)", re.DOTALL)
_SYSTEM_NAMESPACE = ("pulsar", "system")
"""A namespace whose topics are all internal to the brokers (class NamespaceService, isSystemServiceNamespace)."""


def tenant_path(tenant: str) -> tuple[str, ...]:
    """Returns the path of a tenant."""
    return ("tenants", tenant)


def namespace_path(tenant: str, namespace: str) -> tuple[str, ...]:
    """Returns the path of a namespace."""
    return ("namespaces", tenant, namespace)


def policies_node(*names: str) -> str | None:
    """Returns the path in the configuration store of a tenant, or of a namespace's policies (class NamespaceResources);
    None for a name that Pulsar does not allow.

    Pulsar does not escape these names (class NamedEntity allows no character that a path would need escaped).
    """
    if not 1 <= len(names) <= 2 or not all(_NAME.fullmatch(name) for name in names):
        return None
    return "/".join(("/admin/policies", *names))


def domain_of(persistent: bool) -> str:
    """Returns Pulsar's topic domain."""
    return "persistent" if persistent else "non-persistent"


def topic_path(persistent: bool, tenant: str, namespace: str, topic: str) -> tuple[str, ...]:
    """Returns the path of a topic."""
    return (domain_of(persistent), tenant, namespace, topic)


def topic_name(persistent: bool, tenant: str, namespace: str, topic: str) -> str:
    """Returns the full name of a topic."""
    return f"{domain_of(persistent)}://{tenant}/{namespace}/{topic}"


def topic_name_problem(name: str) -> str | None:
    """Returns why a local topic name cannot be used, as a message. None if it can be used. ``name`` may come from
    metadata.name."""
    if _PARTITION.search(name):
        return (
            f"The topic name {name!r} ends with -partition-N, a suffix that Pulsar uses for the partitions of a "
            "topic. Set spec.name to another name"
        )
    if "/" in name:
        return (
            f"The topic name {name!r} contains a slash, which Pulsar reads as a separator. Set spec.name to another "
            "name"
        )
    if is_system_topic(name):
        return (
            f"{name!r} is the name of a system topic of Pulsar, in which Pulsar keeps policies or transactions of "
            "the namespace. The operator does not manage system topics. Delete this object, and declare a topic "
            "of another name"
        )
    return None


def is_system_namespace(tenant: str, namespace: str) -> bool:
    """Whether all topics of a namespace are internal to the brokers."""
    return (tenant, namespace) == _SYSTEM_NAMESPACE


def system_topic_problem(tenant: str, namespace: str, name: str) -> str | None:
    """Returns why a topic cannot be managed because it is internal to the brokers, as a message. None if it can be
    managed."""
    if is_system_namespace(tenant, namespace):
        return (
            f"All topics of namespace {tenant}/{namespace} are system topics of Pulsar, which the operator does "
            "not manage. Delete this object, and declare the topic in another namespace"
        )
    return topic_name_problem(name) if is_system_topic(name) else None


def split_partition(local: str) -> tuple[str, int] | None:
    """Returns the topic and the number of a local name in the form of a partition; None for any other local name (class
    TopicName)."""
    found = _NUMBERED.fullmatch(local)
    return (found[1], int(found[2])) if found is not None and len(found[2]) < 10 else None


def is_system_topic(local: str) -> bool:
    """Whether the topic, or the partition, with that local name is internal to the brokers."""
    found = split_partition(local)
    name = found[0] if found is not None else local
    return name in SYSTEM_TOPICS or name.endswith(SYSTEM_SUFFIX)


def is_partition_of(full_name: str, topic: str) -> bool:
    """Whether a full topic name is a partition of the topic with that full name. ``x-partition-01`` is not a
    partition."""
    found = split_partition(full_name)
    return found is not None and found[0] == topic


MOST_PARTITIONS = 100_000
"""Maximum number of partitions of a topic. A higher number, sent by mistake, is refused instead of being iterated
over."""


def partition_count(answer: object) -> int | None:
    """Returns the number of partitions in an answer of ``GET .../partitions``, 0 if the topic is not partitioned; None
    if the answer has no valid number."""
    found = (answer.get("partitions") or 0) if isinstance(answer, Mapping) else None
    known = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MOST_PARTITIONS
    return found if known else None


def resource_group_path(name: str) -> tuple[str, ...]:
    """Returns the path of a resource group."""
    return ("resourcegroups", name)


def isolation_path(cluster: str, name: str) -> tuple[str, ...]:
    """Returns the path of a namespace isolation policy."""
    return ("clusters", cluster, "namespaceIsolationPolicies", name)


def failure_domain_path(cluster: str, *name: str) -> tuple[str, ...]:
    """Returns the path of a failure domain, or of all failure domains of a cluster."""
    return ("clusters", cluster, "failureDomains", *name)
