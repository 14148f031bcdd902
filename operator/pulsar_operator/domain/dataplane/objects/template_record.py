"""Pod templates as the operator rendered them, kept by hash in one ConfigMap for each workload. Pure.

A StatefulSet's pod that is made again is made of the newest template, whatever updateStrategy OnDelete says (source:
newVersionedStatefulSetPod in Kubernetes). So a new template is applied when its component's turn has come
(rollout/template_order.py) and not before, and until then the one that was applied last is kept as it was rendered; a
roll that stopped goes back to the last one that all pods ran well. Both are needed when the specification says
something else already: hence the record.

The StatefulSet says which template it has, by its hash in an annotation; the record is written before the StatefulSet.
A record that is gone or damaged costs this: nothing is put over a workload before its turn, and a stopped roll has
nothing to go back to.
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
"""Value of the label that tells a record from the ConfigMaps that pods mount."""
RECORD_SUFFIX: Final = "-templates"
"""Behind the name of the workload: name of its record."""
_GOOD, _STOPPED, _BECAUSE, _REASON, _RAN, _READY = "good", "stopped", "stoppedBecause", "stoppedReason", "ran", "ready"
_FILE: Final = ".json"


@dataclass(frozen=True)
class Kept:
    """A rendering."""

    template: Json
    version: str | None = None
    """Pulsar version it was rendered for; None = not known."""


@dataclass(frozen=True)
class Stop:
    """A roll that stopped."""

    template: str
    """Hash of the newest rendering, as long as which it stays stopped."""
    message: str
    """What the pod said that did not become ready, or ceased to be."""
    reason: Reason = Reason.ROLLOUT_FAILED


@dataclass(frozen=True)
class TemplateRecord:
    """What is kept of one workload."""

    kept: Mapping[str, Kept] = field(default_factory=dict)
    """By hash."""
    good: str | None = None
    """Hash of the last template that every pod ran, ready."""
    stop: Stop | None = None
    ran: int | None = None
    """How many pods that were; None = an earlier operator noted it."""
    ready: str | None = None
    """Hash of the last template with which a pod was ready, perhaps one alone."""

    def having(self, name: str, kept: Kept) -> TemplateRecord:
        """The same with a rendering."""
        return self if name in self.kept else replace(self, kept={**self.kept, name: kept})

    def only(self, names: Iterable[str | None]) -> TemplateRecord:
        """The same without renderings that nobody may need; the last good one stays."""
        desired = {*names, self.good}
        return replace(self, kept={name: each for name, each in self.kept.items() if name in desired})

    def stopped(self, newest: str) -> Stop | None:
        """Why the roll to the newest rendering is stopped; a stop of another rendering is over."""
        return self.stop if self.stop is not None and self.stop.template == newest else None

    def to_data(self) -> dict[str, str]:
        """``data`` of the ConfigMap."""
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
    """The record in a ConfigMap; what cannot be read, or is not what its hash says, is not in it."""
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
    """What a text holds, if it has that hash. One pass asks many times, and the next one mostly for the same texts."""
    try:
        found = json.loads(text)
        template, version = found["template"], found.get("version")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not isinstance(template, dict) or manifest_hash(template) != name:
        return None
    return Kept(template, version if isinstance(version, str) else None)


def record_name(owner: str, component: Component) -> str:
    """Name of the ConfigMap."""
    return f"{workload_name(owner, component)}{RECORD_SUFFIX}"


def is_record(obj: Mapping[str, Any]) -> bool:
    """Whether a ConfigMap is a record of templates."""
    return (obj["metadata"].get("labels") or {}).get(LABEL_PURPOSE) == PURPOSE


def record_manifest(owner: Owner, component: Component, record: TemplateRecord) -> Json:
    """The ConfigMap; it goes with the object that owns the workload."""
    meta = metadata(owner, record_name(owner.name, component), component)
    meta["labels"] = {**meta["labels"], LABEL_PURPOSE: PURPOSE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": record.to_data()}


def template_hash(stateful_set: Mapping[str, Any]) -> str:
    """Hash of a rendered StatefulSet's template."""
    return manifest_hash(stateful_set["spec"]["template"])


def applied_hash(stateful_set: Mapping[str, Any]) -> str | None:
    """Hash of the template that a live StatefulSet was given last; None = an earlier version of the operator did."""
    found = (stateful_set["metadata"].get("annotations") or {}).get(ANNOTATION_TEMPLATE)
    return None if found is None else str(found)


def with_template(stateful_set: Json, name: str, template: Json) -> Json:
    """A rendered StatefulSet with a template of the record, and the annotation that says which. Both stay."""
    meta = stateful_set["metadata"]
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_TEMPLATE: name}
    return {
        **stateful_set,
        "metadata": {**meta, "annotations": annotations},
        "spec": {**stateful_set["spec"], "template": template},
    }


def configurations(template: Mapping[str, Any]) -> frozenset[str]:
    """Names of the ConfigMaps that pods of a template mount."""
    volumes = (template.get("spec") or {}).get("volumes") or ()
    return frozenset(str(each["configMap"]["name"]) for each in volumes if "configMap" in each)


def with_annotation(manifest: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """A StatefulSet's manifest with an annotation in its pod template, which is another revision by it; what is given
    stays."""
    return _annotated(manifest, {**_annotations(manifest["spec"]["template"]), name: value})


def with_annotations_of(
    manifest: Mapping[str, Any], template: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    """A StatefulSet's manifest with those of the annotations in its pod template as another template has them, or has
    them not; what is given stays."""
    kept = {key: value for key, value in _annotations(manifest["spec"]["template"]).items() if key not in names}
    source = _annotations(template)
    return _annotated(manifest, kept | {name: source[name] for name in names if name in source})


def _annotations(template: Mapping[str, Any]) -> dict[str, Any]:
    return (template.get("metadata") or {}).get("annotations") or {}


def _annotated(manifest: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    spec, template = manifest["spec"], manifest["spec"]["template"]
    metadata = {**(template.get("metadata") or {}), "annotations": dict(annotations)}
    return {**manifest, "spec": {**spec, "template": {**template, "metadata": metadata}}}
