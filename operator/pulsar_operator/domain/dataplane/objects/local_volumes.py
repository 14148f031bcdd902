"""The annotation that lets the cluster autoscaler remove nodes whose pods have emptyDir volumes. Pure.

The autoscaler removes no node that has a pod with an emptyDir, unless an annotation of the pod names the volume as
disposable (Cluster Autoscaler FAQ, "What types of pods can prevent CA from removing a node?"). No emptyDir of these
pods needs to outlive its pod, so each one is named. The annotation does not affect the process in the pod. So a
template that lacks only the annotation stays as it is: no pod is replaced for it, and pods get it with the next
rollout.
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
    """Returns a StatefulSet's manifest whose pods name their emptyDirs; an annotation of the user stays as it is."""
    template = manifest["spec"]["template"]
    names = [each["name"] for each in template["spec"].get("volumes") or () if "emptyDir" in each]
    if not names or ANNOTATION_LOCAL_VOLUMES in ((template.get("metadata") or {}).get("annotations") or {}):
        return dict(manifest)
    return with_annotation(manifest, ANNOTATION_LOCAL_VOLUMES, ",".join(names))


def without_a_roll(
    annotated: Json, plain: Json, live: Mapping[str, Any] | None, record: TemplateRecord | None = None
) -> Json:
    """Returns ``annotated``, or ``plain`` if adding the annotation would replace pods for no other reason. ``live`` is
    the live StatefulSet; None if it does not exist. ``record`` contains the failed rollout, which then stays failed."""
    if live is None or _is_applied(annotated, live):
        return annotated
    stopped = record is not None and record.stopped(template_hash(plain)) is not None
    return plain if stopped or _is_applied(plain, live) else annotated


def _is_applied(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    applied = applied_hash(live)
    if applied is not None:
        return template_hash(manifest) == applied
    return first_difference(manifest["spec"]["template"], live["spec"]["template"]) is None
