"""Names, labels and addresses of child objects, defined in one place for all renderers.

A StatefulSet name must leave room for ``-<10 digits>`` in the label controller-revision-hash (63 characters, source:
Kubernetes ControllerRevisionName and label syntax), hence it has at most 52 characters. Longer or invalid owner names
are shortened and contain a hash of the whole name, so two owners never share a child.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pulsar_operator.api.constants import (
    LABEL_COMPONENT,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    LABEL_NAME,
    LABEL_OWNER_KIND,
    LABEL_OWNER_NAME,
    LABEL_PART_OF,
    MANAGED_BY,
    Component,
    Kind,
)

MAX_WORKLOAD_NAME = 52
MAX_LABEL = 63
CLAIM_TEMPLATES: Mapping[Component, str] = {
    Component.ZOOKEEPER: r"data",
    Component.CONFIGURATION_STORE: r"data",
    Component.STANDALONE: r"data",
    Component.BOOKIE: r"(?:journal|ledgers)-\d+",
}
"""Names of the volumeClaimTemplates of components (regular expressions), for any specification."""
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class Owner:
    """The custom resource that child objects belong to."""

    kind: Kind
    name: str
    namespace: str
    uid: str
    api_version: str
    """apiVersion in the owner reference."""
    part_of: str
    """metadata.name of the PulsarInstance; for a PulsarInstance its own name."""


def digest(text: str, length: int = 8) -> str:
    """Returns the first hexadecimal digits of the SHA-256 of a text. It is a fingerprint, not a protection."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@lru_cache(maxsize=4096)
def child_name(owner: str, suffix: str) -> str:
    """Returns ``<owner>-<suffix>``, with at most 52 characters and as a valid DNS-1035 label for any owner."""
    plain = f"{owner}-{suffix}"
    if len(plain) <= MAX_WORKLOAD_NAME and _DNS_1035.fullmatch(plain):
        return plain
    stem = re.sub(r"[^a-z0-9-]", "-", owner.lower())
    stem = stem if _DNS_1035.match(stem) else f"p{stem}"
    room = MAX_WORKLOAD_NAME - len(suffix) - 10
    return f"{stem[:room].rstrip('-')}-{digest(owner)}-{suffix}"


def workload_name(owner: str, component: Component) -> str:
    """Returns the name of a component's StatefulSet and client Service."""
    return child_name(owner, component.value)


def headless_name(workload: str) -> str:
    """Returns the name of the headless Service that gives each pod its own DNS name."""
    return f"{workload}-headless"


def config_map_name(workload: str, content: str) -> str:
    """Returns the name of the ConfigMap with overrides.conf and jvm.conf. ``content`` is the hash of its data.

    Different content has a different ConfigMap: a pod of an older revision keeps its configuration, even if its
    container restarts.
    """
    return f"{workload}-config-{content}"


def service_account_name(owner: Owner) -> str:
    """Returns the name of the ServiceAccount that all pods of an owner share. It has no permissions.

    An instance and a cluster may have the same name, so their suffixes differ.
    """
    return child_name(owner.name, "pulsar" if owner.kind is Kind.CLUSTER else Component.CONFIGURATION_STORE.value)


def label_value(name: str) -> str:
    """Returns an object name as a label value: unchanged if it has at most 63 characters, otherwise shortened with a
    hash."""
    if len(name) <= MAX_LABEL:
        return name
    return f"{name[: MAX_LABEL - 9].rstrip('-.')}-{digest(name)}"


def service_host(service: str, namespace: str, cluster_domain: str) -> str:
    """Returns the fully qualified name of a Service. Pods resolve with ndots:1, so names are always complete."""
    return f"{service}.{namespace}.svc.{cluster_domain}"


def pod_host(workload: str, ordinal: int, namespace: str, cluster_domain: str) -> str:
    """Returns the fully qualified, stable name of one pod."""
    return f"{workload}-{ordinal}.{service_host(headless_name(workload), namespace, cluster_domain)}"


def is_claim_of(owner: Owner, name: str) -> bool:
    """Whether a PersistentVolumeClaim of this name belongs to a pod of the owner. Kubernetes names them
    ``<template>-<StatefulSet>-<ordinal>`` (StatefulSet, "Stable Storage")."""
    return any(
        re.fullmatch(rf"{template}-{re.escape(workload_name(owner.name, component))}-\d+", name)
        for component, template in CLAIM_TEMPLATES.items()
    )


def is_claim_of_any(name: str) -> bool:
    """Whether a PersistentVolumeClaim of this name belongs, or would belong, to a pod of any cluster or instance, by
    the names of is_claim_of."""
    return any(
        re.fullmatch(rf"{template}-.+-{component.value}-\d+", name) for component, template in CLAIM_TEMPLATES.items()
    )


def is_labelled(owner: Owner, obj: Mapping[str, Any]) -> bool:
    """Whether an object has the labels of the owner's objects."""
    found = obj["metadata"].get("labels") or {}
    return owner_labels(owner.kind, owner.name).items() <= found.items()


def owner_labels(kind: Kind, name: str) -> dict[str, str]:
    """Returns the labels of everything that belongs to a custom resource, including volumes and Secrets."""
    return {LABEL_MANAGED_BY: MANAGED_BY, LABEL_OWNER_KIND: kind.value, LABEL_OWNER_NAME: label_value(name)}


def selector_labels(owner: Owner, component: Component) -> dict[str, str]:
    """Returns the labels that select a component's pods. They are immutable in a StatefulSet, so only constant values
    are used."""
    return {
        LABEL_COMPONENT: component.value,
        LABEL_OWNER_KIND: owner.kind.value,
        LABEL_OWNER_NAME: label_value(owner.name),
    }


def labels(owner: Owner, component: Component | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns all labels of a child object. The operator's own take precedence over ``extra``. The component is None if
    all share the object."""
    own = {
        LABEL_NAME: "pulsar",
        LABEL_INSTANCE: label_value(owner.name),
        LABEL_PART_OF: label_value(owner.part_of),
        **owner_labels(owner.kind, owner.name),
    }
    if component is not None:
        own[LABEL_COMPONENT] = component.value
    return {**(extra or {}), **own}


def selector_text(owner: Owner, component: Component | None = None) -> str:
    """Returns the label selector in the format of the API server and status.selector; for all of the owner's pods if
    the component is None."""
    chosen = owner_labels(owner.kind, owner.name) if component is None else selector_labels(owner, component)
    return ",".join(f"{key}={value}" for key, value in sorted(chosen.items()))
