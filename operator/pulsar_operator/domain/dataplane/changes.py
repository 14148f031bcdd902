"""What a change of pods consists of, so that the changes of two clusters can be compared. Pure.

A part is a field of a pod template, a key of the configuration that it mounts, or the version of Pulsar, with the value
that it gets. Values may name the cluster itself and the Kubernetes namespace that it is in. So each part counts as it
is, with the cluster's own names taken out, and with the words taken out that are names or namespaces of either cluster
(a namespace called pulsar is in much that does not mean it): two clusters have a part in common where any of the three
is equal. That errs on the side of "in common".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH, Component
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.rollout import ComponentPods, State, evaluate
from pulsar_operator.domain.dataplane.running import record_of
from pulsar_operator.domain.dataplane.templates import Kept, applied_hash
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.domain.render.names import digest

Json = Mapping[str, Any]
Part = tuple[str, str]
"""Path and value; the value of what is taken away is empty."""

_CONFIG = "config"
"""Name of the volume, and begin of the path of what is in it."""
_OWN = "{own}"


@dataclass(frozen=True)
class Change:
    """Parts of a change."""

    parts: frozenset[Part] = frozenset()
    names: frozenset[str] = frozenset()
    """The cluster's own."""
    namespaces: frozenset[str] = frozenset()
    """Where it is in Kubernetes."""

    def __or__(self, other: Change) -> Change:
        """Both."""
        return Change(self.parts | other.parts, self.names | other.names, self.namespaces | other.namespaces)

    def common(self, other: Change) -> list[str]:
        """Paths of the parts that another change has too, in order."""
        found = (self.parts & other.parts) | (self._neutral() & other._neutral())
        words = _pattern(self.names | other.names | self.namespaces | other.namespaces)
        found |= self._without(words) & other._without(words)
        return sorted({path for path, _ in found})

    def _neutral(self) -> frozenset[Part]:
        """Without the cluster's own names."""
        return frozenset((_without(path, self.names), _without(value, self.names)) for path, value in self.parts)

    def _without(self, words: re.Pattern[str]) -> frozenset[Part]:
        return frozenset((words.sub(_OWN, path), words.sub(_OWN, value)) for path, value in self.parts)


def change(old: Mapping[str, str], new: Mapping[str, str], names: Collection[str], namespace: str) -> Change:
    """From one to another rendering, as `parts` has them; ``names`` are those of the cluster, ``namespace`` where it is
    in Kubernetes."""
    found = {(path, value) for path, value in new.items() if old.get(path) != value}
    found |= {(path, "") for path in old if path not in new}
    return Change(frozenset(found), frozenset(names), frozenset({namespace} - {""}))


def parts(template: Json, files: Mapping[str, str] | None, version: str | None) -> dict[str, str] | None:
    """Values by path of a template, of the configuration that it mounts and of the version that it was rendered for;
    None where the configuration is not there. Paths may be told, values not: users write what they like there."""
    if files is None:
        return None
    # Clusters may get one version from different registries.
    out: dict[str, str] = {} if version is None else {"version": version}
    _flatten(template, "", out)
    for name, text in files.items():
        for line in text.splitlines():
            key, sign, value = line.partition("=")
            out[f"{_CONFIG}.{name}.{key}" if sign else f"{_CONFIG}.{name}[{digest(line)}]"] = value
    return out


def mounted(template: Json) -> str | None:
    """Name of the ConfigMap with the operator's own configuration; None where there is none."""
    volumes = (template.get("spec") or {}).get("volumes") or ()
    found = (each["configMap"]["name"] for each in volumes if each.get("name") == _CONFIG and "configMap" in each)
    return next(found, None)


def files_of(live: Live, template: Json) -> dict[str, str] | None:
    """Content of the configuration that a template mounts; None where it is not there."""
    name = mounted(template)
    if name is None:
        return {}
    found = live.get("ConfigMap", name)
    return None if found is None else dict(found.get("data") or {})


def unfinished(live: Live) -> list[Component]:
    """Components whose roll is under way, or stopped: not all pods of the newest revision and ready, or a stop is on
    record."""
    states = ((component, _state(live, component)) for component in BRING_UP_ORDER)
    return [
        component
        for component, state in states
        if state is not None and (not state.quiet or record_of(live, component).stop is not None)
    ]


def tried(live: Live, names: Collection[str], namespace: str) -> Change | None:
    """What a cluster tries, or tried when its roll stopped, and has not proved yet; None = not known.

    Components that wait for their turn have tried nothing.
    """
    found = Change()
    for component in unfinished(live):
        record, there = record_of(live, component), live.stateful_set(component)
        stopped = record.stop.template if record.stop is not None else None
        newest = stopped if stopped in record.kept else applied_hash(there or {"metadata": {}})
        if newest is not None and newest == record.good:
            continue  # its pods ran it well: what is wrong now is not the change
        good, new = record.kept.get(record.good or ""), record.kept.get(newest or "")
        if good is None or new is None:
            return None
        old_parts, new_parts = (_parts(live, each) for each in (good, new))
        if old_parts is None or new_parts is None:
            return None
        found |= change(old_parts, new_parts, names, namespace)
    return found


def wanted(
    live: Live, rendered: Mapping[Component, Iterable[Json]], version: str, names: Collection[str], namespace: str
) -> Change | None:
    """What a cluster would change in the pods it has; None = not known. ``rendered`` are manifests by component, of a
    version of Pulsar."""
    found = Change()
    for component, manifests in rendered.items():
        if live.stateful_set(component) is None:
            continue
        of = {(str(each["kind"]), str(each["metadata"]["name"])): each for each in manifests}
        workload = next((each for (kind, _), each in of.items() if kind == "StatefulSet"), None)
        if workload is None:
            continue
        template = workload["spec"]["template"]
        record = record_of(live, component)
        good, new = record.kept.get(record.good or ""), of.get(("ConfigMap", mounted(template) or ""))
        if good is None:
            return None
        files = dict(new["data"]) if new is not None else files_of(live, template)
        old_parts, new_parts = _parts(live, good), parts(template, files, version)
        if old_parts is None or new_parts is None:
            return None
        found |= change(old_parts, new_parts, names, namespace)
    return found


def _parts(live: Live, kept: Kept) -> dict[str, str] | None:
    return parts(kept.template, files_of(live, kept.template), kept.version)


def _state(live: Live, component: Component) -> State | None:
    there = live.stateful_set(component)
    return None if there is None else evaluate(ComponentPods(component, there, live.pods(component)))


def _flatten(value: Any, path: str, out: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        for key, each in value.items():
            # Both follow from the content of the configuration, which is compared itself.
            if key == ANNOTATION_CONFIG_HASH or (path.endswith(f"[{_CONFIG}]") and key == "configMap"):
                continue
            _flatten(each, f"{path}.{key}" if path else str(key), out)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            # The operator's own container is called as its component, and is the same in all of them.
            main = path == "spec.containers" and index == 0
            name = each.get("name") if isinstance(each, Mapping) and not main else None
            _flatten(each, f"{path}[{name if name is not None else index}]", out)
    else:
        out[path] = str(value)


def _without(text: str, names: Collection[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, _OWN)
    return text


def _pattern(words: Collection[str]) -> re.Pattern[str]:
    """Any of the words, the longest first, where no letter or digit is next to it; without words, nothing."""
    each = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(f"(?<![A-Za-z0-9])(?:{each})(?![A-Za-z0-9])" if each else "(?!)")
