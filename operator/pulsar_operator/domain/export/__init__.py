"""Converts the live JSON of Pulsar into manifests that declare the same. Pure; pulsar_operator/export reads.

The policy table alone defines the policies, so a new row is exported without further changes.
"""

from __future__ import annotations

from pulsar_operator.domain.export.manifests import (
    MAX_BUNDLES,
    Entry,
    NamespaceAnswers,
    Settings,
    TopicAnswers,
    export_namespace,
    export_tenant,
    export_topic,
    not_exported,
)
from pulsar_operator.domain.export.object_names import (
    CHANGE_EVENTS,
    is_system_namespace,
    is_system_tenant,
    object_name,
)
from pulsar_operator.domain.export.parts import durable_subscriptions, rated_subscriptions
from pulsar_operator.domain.export.policies import Note, may_hold_policies
from pulsar_operator.domain.export.sets import with_sets
from pulsar_operator.domain.export.shared import export_domains, export_group, export_isolation
from pulsar_operator.domain.export.text import Source, render, sentence, shown

__all__ = [
    "CHANGE_EVENTS",
    "MAX_BUNDLES",
    "Entry",
    "NamespaceAnswers",
    "Note",
    "Settings",
    "Source",
    "TopicAnswers",
    "durable_subscriptions",
    "export_domains",
    "export_group",
    "export_isolation",
    "export_namespace",
    "export_tenant",
    "export_topic",
    "is_system_namespace",
    "is_system_tenant",
    "may_hold_policies",
    "not_exported",
    "object_name",
    "rated_subscriptions",
    "render",
    "sentence",
    "shown",
    "with_sets",
]
