"""A restart that somebody asked for: the reason, as an annotation of pod templates. Pure.

The value of the annotation on the PulsarCluster is the reason; a template that has it is another revision, so the pods
are replaced as after any other change. A template keeps the last reason when the request is taken off, and when another
one does not concern it: otherwise that would be a change too, and roll everything once more.
"""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_RESTART_REASON, LABEL_COMPONENT, Component

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
    """A copy of a StatefulSet's manifest whose pod template says why its pods were last asked to restart.

    ``reason`` is the annotation's value on the owner, None = there is none. ``applied_template`` is the pod template as
    applied last, None = there is no StatefulSet yet; its reason is kept where there is no new one. ``components`` are
    those that are asked to restart, None = all; which one a manifest is of, its label says.
    """
    out: Json = copy.deepcopy(dict(manifest))
    asked = components is None or (out["metadata"].get("labels") or {}).get(LABEL_COMPONENT) in components
    text = restart_text(reason) if reason is not None and asked else restart_reason(applied_template)
    if text is not None:
        metadata = out["spec"]["template"].setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_RESTART_REASON: text}
    return out


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
