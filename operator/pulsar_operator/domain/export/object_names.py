"""Names of exported objects in Kubernetes, and names that are internal to Pulsar."""

from __future__ import annotations

import hashlib
import re

from pulsar_operator.api.v1alpha1.base import DNS_LABEL
from pulsar_operator.domain.logical.pulsar_names import domain_of

CHANGE_EVENTS = "__change_events"
"""Topic of each namespace in which Pulsar stores topic policies (class SystemTopicNames)."""
_SYSTEM_TENANTS = frozenset({"pulsar", "sla-monitor"})
"""Tenant pulsar has the namespaces pulsar/system and pulsar/<broker> for heartbeats (class NamespaceService)."""
_FUNCTIONS = "public/functions"
_LABEL = re.compile(DNS_LABEL)
MAX_NAME = 200
"""Maximum length, of the 253 that Kubernetes allows: the name is also that of a file."""
SLUG = 48
HASH = 12


def object_name(*parts: str, persistent: bool = True) -> str:
    """Returns metadata.name for a tenant, a namespace (tenant, namespace) or a topic (tenant, namespace, topic).

    It only depends on the name in Pulsar, so that an export does not change if other objects are added or deleted.
    Parts that are DNS labels are joined with dots, which they cannot contain. Any other name gets a hash as a further
    label, so that the names of a kind are unique.
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
    """Whether the tenant is internal to the brokers."""
    return tenant in _SYSTEM_TENANTS


def is_system_namespace(full: str) -> bool:
    """Whether a namespace (tenant/namespace) is internal to brokers or function workers."""
    return is_system_tenant(full.split("/", 1)[0]) or full == _FUNCTIONS
