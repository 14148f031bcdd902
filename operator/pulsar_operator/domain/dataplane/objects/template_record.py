"""Pod templates as the operator rendered them, stored by hash in one ConfigMap for each workload. Pure.

The StatefulSet controller creates a pod from the newest template even with updateStrategy OnDelete (source:
newVersionedStatefulSetPod in Kubernetes). So a new template is applied only when the rollout reaches its component
(rollout/template_order.py); until then the template that was applied last is rendered again. A failed rollout returns
to the last template that all pods ran well. Both are needed when the specification has changed already, hence the
record.

The StatefulSet names its template by a hash in an annotation; the record is written before the StatefulSet. If a record
is missing or damaged, no new template is applied to the workload before its turn in the rollout, and a failed rollout
cannot return to an earlier one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_TEMPLATE, LABEL_PURPOSE, Component, Reason
from pulsar_operator.domain.apply import manifest_hash
from pulsar_operator.domain.render.child_names import Owner, workload_name
from pulsar_operator.domain.render.common import metadata

Json = dict[str, Any]

PURPOSE: Final = "templates"
"""Value of the label that distinguishes a record from the ConfigMaps that pods mount."""
RECORD_SUFFIX: Final = "-templates"
"""Suffix of the workload's name in the name of its record."""
_GOOD, _STOPPED, _BECAUSE, _REASON, _RAN, _READY = "good", "stopped", "stoppedBecause", "stoppedReason", "ran", "ready"
_FILE: Final = ".json"


@dataclass(frozen=True)
class Kept:
    """A rendered template."""

    template: Json
    version: str | None = None
    """Pulsar version it was rendered for; None if not known."""


@dataclass(frozen=True)
class Stop:
    """A failed rollout."""

    template: str
    """Hash of the template that failed; the rollout stays failed while it is the newest rendering."""
    message: str
    """Message about the pod that did not become, or remain, ready."""
    reason: Reason = Reason.ROLLOUT_FAILED


@dataclass(frozen=True)
class TemplateRecord:
    """The record of one workload."""

    kept: Mapping[str, Kept] = field(default_factory=dict)
    """Renderings by hash."""
    good: str | None = None
    """Hash of the last template with which every pod was ready."""
    stop: Stop | None = None
    ran: int | None = None
    """Number of those pods; None if an earlier operator wrote the record."""
    ready: str | None = None
    """Hash of the last template with which any pod was ready."""

    def having(self, name: str, kept: Kept) -> TemplateRecord:
        """Returns a copy with the rendering."""
        return self if name in self.kept else replace(self, kept={**self.kept, name: kept})

    def only(self, names: Iterable[str | None]) -> TemplateRecord:
        """Returns a copy without renderings that are no longer needed; the last good one stays."""
        desired = {*names, self.good}
        return replace(self, kept={name: each for name, each in self.kept.items() if name in desired})

    def stopped(self, newest: str) -> Stop | None:
        """Returns why the rollout of the newest rendering failed; a failure of another rendering no longer counts."""
        return self.stop if self.stop is not None and self.stop.template == newest else None

    def to_data(self) -> dict[str, str]:
        """Returns ``data`` of the ConfigMap."""
        data = {
            f"{name}{_FILE}": json.dumps({"version": each.version, "template": each.template}, sort_keys=True)
            for name, each in sorted(self.kept.items())
        }
        if self.good is not None:
            data[_GOOD] = self.good
        if self.ran is not None:
            data[_RAN] = str(self.ran)
        if self.ready is not None:
            data[_READY] = self.ready
        if self.stop is not None:
            data |= {_STOPPED: self.stop.template, _BECAUSE: self.stop.message, _REASON: self.stop.reason.value}
        return data


def parse_record(config_map: Mapping[str, Any] | None) -> TemplateRecord:
    """Parses the record in a ConfigMap. An entry that cannot be read, or does not match its hash, is left out."""
    data = dict((config_map or {}).get("data") or {})
    kept: dict[str, Kept] = {}
    for key, text in data.items():
        name = key.removesuffix(_FILE)
        found = _rendering(name, text) if name != key and isinstance(text, str) else None
        if found is not None:
            kept[name] = found
    good = data.get(_GOOD)
    failed = data.get(_REASON) == Reason.CANARY_FAILED
    reason = Reason.CANARY_FAILED if failed else Reason.ROLLOUT_FAILED
    stop = Stop(data[_STOPPED], data.get(_BECAUSE, ""), reason) if data.get(_STOPPED) else None
    ran = data.get(_RAN, "")
    pods = int(ran) if re.fullmatch("[0-9]{1,9}", ran) else None
    return TemplateRecord(kept, good if good in kept else None, stop, pods, data.get(_READY))


@lru_cache(maxsize=256)
def _rendering(name: str, text: str) -> Kept | None:
    """Returns the rendering in a text if it has that hash. Cached, since each pass parses mostly the same texts."""
    try:
        found = json.loads(text)
        template, version = found["template"], found.get("version")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not isinstance(template, dict) or manifest_hash(template) != name:
        return None
    return Kept(template, version if isinstance(version, str) else None)


def record_name(owner: str, component: Component) -> str:
    """Returns the name of the ConfigMap."""
    return f"{workload_name(owner, component)}{RECORD_SUFFIX}"


def is_record(obj: Mapping[str, Any]) -> bool:
    """Whether a ConfigMap is a record of templates."""
    return (obj["metadata"].get("labels") or {}).get(LABEL_PURPOSE) == PURPOSE


def record_manifest(owner: Owner, component: Component, record: TemplateRecord) -> Json:
    """Returns the ConfigMap; it is deleted with the owner of the workload."""
    meta = metadata(owner, record_name(owner.name, component), component)
    meta["labels"] = {**meta["labels"], LABEL_PURPOSE: PURPOSE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": record.to_data()}


def template_hash(stateful_set: Mapping[str, Any]) -> str:
    """Returns the hash of a rendered StatefulSet's template."""
    return manifest_hash(stateful_set["spec"]["template"])


def applied_hash(stateful_set: Mapping[str, Any]) -> str | None:
    """Returns the hash of the template that was last applied to a live StatefulSet; None if an earlier version of the
    operator applied it."""
    found = (stateful_set["metadata"].get("annotations") or {}).get(ANNOTATION_TEMPLATE)
    return None if found is None else str(found)


def with_template(stateful_set: Json, name: str, template: Json) -> Json:
    """Returns a copy of a rendered StatefulSet with a template of the record and the annotation that names it."""
    meta = stateful_set["metadata"]
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_TEMPLATE: name}
    return {
        **stateful_set,
        "metadata": {**meta, "annotations": annotations},
        "spec": {**stateful_set["spec"], "template": template},
    }


def configurations(template: Mapping[str, Any]) -> frozenset[str]:
    """Returns the names of the ConfigMaps that pods of a template mount."""
    volumes = (template.get("spec") or {}).get("volumes") or ()
    return frozenset(str(each["configMap"]["name"]) for each in volumes if "configMap" in each)


def with_annotation(manifest: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """Returns a copy of a StatefulSet's manifest with an annotation in its pod template, which makes it another
    revision."""
    return _annotated(manifest, {**_annotations(manifest["spec"]["template"]), name: value})


def with_annotations_of(
    manifest: Mapping[str, Any], template: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    """Returns a copy of a StatefulSet's manifest whose pod template has these annotations exactly as another template
    has them."""
    kept = {key: value for key, value in _annotations(manifest["spec"]["template"]).items() if key not in names}
    source = _annotations(template)
    return _annotated(manifest, kept | {name: source[name] for name in names if name in source})


def _annotations(template: Mapping[str, Any]) -> dict[str, Any]:
    return (template.get("metadata") or {}).get("annotations") or {}


def _annotated(manifest: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    spec, template = manifest["spec"], manifest["spec"]["template"]
    metadata = {**(template.get("metadata") or {}), "annotations": dict(annotations)}
    return {**manifest, "spec": {**spec, "template": {**template, "metadata": metadata}}}
