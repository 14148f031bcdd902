"""What the cluster autoscaler is told of the pods' emptyDir volumes. Pure.

It takes no node away that has a pod with an emptyDir, unless an annotation of the pod names the volume as one that may
be lost (Cluster Autoscaler FAQ, "What types of pods can prevent CA from removing a node?"). Nothing in the emptyDirs of
our pods outlives a pod on purpose, so each is named.

The annotation asks nothing of the process in the pod. Hence a template that lacks it and is otherwise the newest stays
as it is: no pod is replaced for the annotation alone, and the pods get it with the next roll that has another reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_LOCAL_VOLUMES
from pulsar_operator.domain.apply import first_difference
from pulsar_operator.domain.dataplane.objects.template_record import (
    TemplateRecord,
    applied_hash,
    template_hash,
    with_annotation,
)

Json = dict[str, Any]


def with_local_volumes(manifest: Mapping[str, Any]) -> Json:
    """A StatefulSet's manifest whose pods name their emptyDirs; a user's own annotation stays as it is."""
    template = manifest["spec"]["template"]
    names = [each["name"] for each in template["spec"].get("volumes") or () if "emptyDir" in each]
    if not names or ANNOTATION_LOCAL_VOLUMES in ((template.get("metadata") or {}).get("annotations") or {}):
        return dict(manifest)
    return with_annotation(manifest, ANNOTATION_LOCAL_VOLUMES, ",".join(names))


def without_a_roll(
    annotated: Json, plain: Json, there: Mapping[str, Any] | None, record: TemplateRecord | None = None
) -> Json:
    """``annotated``, or ``plain`` where pods would be replaced for the annotation alone.

    ``there`` is the live StatefulSet, None = there is none; ``record`` has the roll that stopped: it stays stopped.
    """
    if there is None or _is_applied(annotated, there):
        return annotated
    stopped = record is not None and record.stopped(template_hash(plain)) is not None
    return plain if stopped or _is_applied(plain, there) else annotated


def _is_applied(manifest: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    applied = applied_hash(there)
    if applied is not None:
        return template_hash(manifest) == applied
    return first_difference(manifest["spec"]["template"], there["spec"]["template"]) is None
