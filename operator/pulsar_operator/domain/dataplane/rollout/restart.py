"""A restart that a user requests: its reason, as an annotation of pod templates. Pure.

The value of the annotation on the PulsarCluster is the reason. It makes the template another revision, so pods are
replaced as after any other change. A template keeps the last reason when the request is withdrawn, and when another
request does not concern it: otherwise that would be a change too, and would roll everything once more. If a rollout
failed and the earlier template is back, withdrawing the request ends a restart that was the only change, and does not
retry other changes that failed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_RESTART_REASON, LABEL_COMPONENT, Component
from pulsar_operator.domain.dataplane.objects.template_record import TemplateRecord, template_hash, with_annotation

Json = dict[str, Any]

MAX_REASON: Final = 200
"""Maximum length of a stored reason, which events, status and logs repeat."""
NO_REASON: Final = "no reason given"
"""Stands for an empty value, which requests a restart like any other."""


def with_restart(
    manifest: Mapping[str, Any],
    reason: str | None,
    applied_template: Mapping[str, Any] | None,
    components: Collection[Component] | None = None,
) -> Json:
    """Returns a StatefulSet's manifest with the reason of the last requested restart in its pod template.

    ``reason`` is the annotation's value on the owner, None if there is none. ``applied_template`` is the pod template
    applied last, None if there is no StatefulSet yet; its reason is kept if there is no new one. ``components`` are
    those to restart, None for all; the label of a manifest names its component.
    """
    asked = components is None or (manifest["metadata"].get("labels") or {}).get(LABEL_COMPONENT) in components
    text = restart_text(reason) if reason is not None and asked else restart_reason(applied_template)
    if text is None:
        return dict(manifest)
    return with_annotation(manifest, ANNOTATION_RESTART_REASON, text)


def with_reason_kept(
    manifest: Mapping[str, Any], applied_template: Mapping[str, Any] | None, record: TemplateRecord
) -> Json:
    """Returns the manifest if no restart is requested. ``record`` has the templates of the workload, and the failed
    rollout."""
    kept = with_restart(manifest, None, applied_template)
    stopped = record.kept.get(record.stop.template) if record.stop is not None else None
    if stopped is None or template_hash(kept) in record.kept:
        return kept  # such as it is, or was
    tried = with_restart(manifest, None, stopped.template)
    return tried if record.stopped(template_hash(tried)) is not None else kept


def restart_reason(template: Mapping[str, Any] | None) -> str | None:
    """Returns the reason in a pod template; None if no restart was ever requested."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    found = annotations.get(ANNOTATION_RESTART_REASON)
    return None if found is None else str(found)


def restart_text(value: str) -> str:
    """Returns the annotation's value as it is stored: on one line, at most MAX_REASON characters, never empty."""
    shown = "".join(" " if unicodedata.category(char) in _CONTROL else char for char in value)
    return shown.strip()[:MAX_REASON].rstrip() or NO_REASON


_CONTROL = frozenset({"Cc", "Zl", "Zp"})
"""Unicode's control characters and its two line separators."""
