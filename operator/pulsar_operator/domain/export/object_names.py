"""Names of exported objects in Kubernetes, and which names in Pulsar are its own."""

from __future__ import annotations

import hashlib
import re

from pulsar_operator.api.v1alpha1.base import DNS_LABEL
from pulsar_operator.domain.logical.pulsar_names import domain_of

CHANGE_EVENTS = "__change_events"
"""Topic of each namespace in which Pulsar keeps the policies of its topics (class SystemTopicNames)."""
_SYSTEM_TENANTS = frozenset({"pulsar", "sla-monitor"})
"""Tenant pulsar has pulsar/system and the heartbeat namespaces pulsar/<broker> (class NamespaceService)."""
_FUNCTIONS = "public/functions"
_LABEL = re.compile(DNS_LABEL)
MAX_NAME = 200
"""Of 253: the name is also that of a file."""
SLUG = 48
HASH = 12


def object_name(*parts: str, persistent: bool = True) -> str:
    """metadata.name for a tenant, a namespace (tenant, namespace) or a topic (tenant, namespace, topic).

    It depends on the name in Pulsar alone, so that an export stays the same when other objects come and go. Parts that
    are DNS labels are joined with dots, which they cannot have; any other name gets a hash as one label more, so that
    no two names of a kind meet.
    """
    plain = ".".join(parts)
    if len(plain) <= MAX_NAME and all(_LABEL.fullmatch(part) for part in parts):
        return plain if persistent else f"{plain}.non-persistent"
    whole = "\0".join((domain_of(persistent), *parts)).encode("utf-8", "surrogatepass")
    return ".".join([*map(_slug, parts), hashlib.sha256(whole).hexdigest()[:HASH]])


def _slug(part: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", part[: 4 * SLUG].lower())
    return words.strip("-")[:SLUG].strip("-") or "x"


def is_system_tenant(tenant: str) -> bool:
    """Whether brokers made the tenant for themselves."""
    return tenant in _SYSTEM_TENANTS


def is_system_namespace(full: str) -> bool:
    """Whether brokers or function workers made a namespace (tenant/namespace) for themselves."""
    return is_system_tenant(full.split("/", 1)[0]) or full == _FUNCTIONS
