"""A restart that somebody asked for: the reason, as an annotation of pod templates. Pure.

The value of the annotation on the PulsarCluster is the reason; a template that has it is another revision, so the pods
are replaced as after any other change. A template keeps the last reason when the request is taken off, and when another
one does not concern it: otherwise that would be a change too, and roll everything once more. Where a roll stopped and
the template before it is back, taking the request off settles a restart that was all there was to do, and does not try
again what else was asked for and failed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_RESTART_REASON, LABEL_COMPONENT, Component
from pulsar_operator.domain.dataplane.objects.template_record import TemplateRecord, template_hash, with_annotation

Json = dict[str, Any]

MAX_REASON: Final = 200
"""Characters of a reason that are kept: it is repeated in events, status and logs."""
NO_REASON: Final = "no reason given"
"""Stands for an empty value, which asks for a restart like any other."""


def with_restart(
    manifest: Mapping[str, Any],
    reason: str | None,
    applied_template: Mapping[str, Any] | None,
    components: Collection[Component] | None = None,
) -> Json:
    """A StatefulSet's manifest whose pod template says why its pods were last asked to restart; what is given stays.

    ``reason`` is the annotation's value on the owner, None = there is none. ``applied_template`` is the pod template as
    applied last, None = there is no StatefulSet yet; its reason is kept where there is no new one. ``components`` are
    those that are asked to restart, None = all; which one a manifest is of, its label says.
    """
    asked = components is None or (manifest["metadata"].get("labels") or {}).get(LABEL_COMPONENT) in components
    text = restart_text(reason) if reason is not None and asked else restart_reason(applied_template)
    if text is None:
        return dict(manifest)
    return with_annotation(manifest, ANNOTATION_RESTART_REASON, text)


def with_reason_kept(
    manifest: Mapping[str, Any], applied_template: Mapping[str, Any] | None, record: TemplateRecord
) -> Json:
    """The same where nobody asks any more. ``record`` has the templates of the workload, and the roll that stopped."""
    kept = with_restart(manifest, None, applied_template)
    stopped = record.kept.get(record.stop.template) if record.stop is not None else None
    if stopped is None or template_hash(kept) in record.kept:
        return kept  # such as it is, or was
    tried = with_restart(manifest, None, stopped.template)
    return tried if record.stopped(template_hash(tried)) is not None else kept


def restart_reason(template: Mapping[str, Any] | None) -> str | None:
    """The reason in a pod template; None = no restart was ever asked for."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    found = annotations.get(ANNOTATION_RESTART_REASON)
    return None if found is None else str(found)


def restart_text(value: str) -> str:
    """The annotation's value as it is kept: on one line, at most MAX_REASON characters, never empty."""
    shown = "".join(" " if unicodedata.category(char) in _CONTROL else char for char in value)
    return shown.strip()[:MAX_REASON].rstrip() or NO_REASON


_CONTROL = frozenset({"Cc", "Zl", "Zp"})
"""Unicode's control characters and its two line separators."""
