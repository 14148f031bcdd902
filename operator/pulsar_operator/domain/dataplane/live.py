"""The children of a PulsarCluster or PulsarInstance as they were last read. Pure: a value, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pulsar_operator.api.constants import LABEL_COMPONENT, Component
from pulsar_operator.domain.dataplane.pods import ComponentFacts, observe_component, update_revision

Json = dict[str, Any]

POD = "Pod"
STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True)
class Live:
    """Objects that carry the owner's labels, by kind and name."""

    objects: Mapping[tuple[str, str], Json] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, objects: Iterable[Json]) -> Live:
        """Of objects as read; each names its kind."""
        return cls(MappingProxyType({(o["kind"], o["metadata"]["name"]): o for o in objects}))

    def having(self, *objects: Json) -> Live:
        """The same, with these as they are by now."""
        return Live.of([*self.objects.values(), *objects]) if objects else self

    def get(self, kind: str, name: str) -> Json | None:
        """One object."""
        return self.objects.get((kind, name))

    def every(self, kind: str) -> list[Json]:
        """All of a kind, by name."""
        return [self.objects[key] for key in sorted(self.objects) if key[0] == kind]

    def stateful_set(self, component: Component) -> Json | None:
        """The StatefulSet of a component."""
        return next((o for o in self.every(STATEFUL_SET) if component_of(o) == component.value), None)

    def pods(self, component: Component) -> list[Json]:
        """The pods of a component, by name."""
        return [o for o in self.every(POD) if component_of(o) == component.value]

    def facts(self, component: Component) -> ComponentFacts | None:
        """What its StatefulSet and pods say; None where there is no StatefulSet."""
        found = self.stateful_set(component)
        return None if found is None else observe_component(found, self.pods(component))

    def configurations(self) -> frozenset[str]:
        """Names of the ConfigMaps that pods, or templates of pods to come, mount."""
        specs = [o["spec"] for o in self.every(POD)]
        specs += [o["spec"]["template"]["spec"] for o in self.every(STATEFUL_SET)]
        volumes = [volume for spec in specs for volume in spec.get("volumes") or ()]
        return frozenset(str(v["configMap"]["name"]) for v in volumes if "configMap" in v)

    def settled(self) -> bool:
        """Whether the StatefulSet controller has seen every template: no pod is made of an older one any more."""
        return all(update_revision(o) is not None for o in self.every(STATEFUL_SET))

    def of_previous_owner(self, uid: str) -> list[str]:
        """Children that still belong to a deleted object of the same name; garbage collection is removing them.

        Pods follow their StatefulSet.
        """
        return sorted(
            f"{kind} {name}"
            for (kind, name), obj in self.objects.items()
            if kind != POD and controller_uid(obj) not in (None, uid)
        )


def component_of(obj: Mapping[str, Any]) -> str | None:
    """Component an object belongs to; None where it is shared by all."""
    found = (obj["metadata"].get("labels") or {}).get(LABEL_COMPONENT)
    return None if found is None else str(found)


def controller_uid(obj: Mapping[str, Any]) -> str | None:
    """UID of the object that controls this one."""
    for reference in obj["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            return str(reference["uid"])
    return None
