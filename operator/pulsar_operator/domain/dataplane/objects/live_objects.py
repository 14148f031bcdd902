"""The children of a PulsarCluster or PulsarInstance as they were last read. Pure: a value, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pulsar_operator.api.constants import LABEL_COMPONENT, Component
from pulsar_operator.domain.dataplane.objects.pods import ComponentFacts, observe_component, update_revision
from pulsar_operator.domain.render import workload_name

Json = dict[str, Any]

POD = "Pod"
STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True)
class OwnerId:
    """Whose children they are."""

    kind: str
    name: str
    uid: str

    @classmethod
    def of(cls, owner: Mapping[str, Any]) -> OwnerId:
        """Of a custom resource."""
        return cls(str(owner["kind"]), str(owner["metadata"]["name"]), str(owner["metadata"]["uid"]))


@dataclass(frozen=True)
class Live:
    """Objects that carry the owner's labels, by kind and name. Labels can be copied: what is ours is said by the
    controller reference and by the name."""

    owner: OwnerId
    objects: Mapping[tuple[str, str], Json] = field(default_factory=lambda: MappingProxyType({}))
    at: datetime | None = None
    """Time at which they were read; None where no pod is missing, being deleted or both outdated and restarted, and
    nobody needs it."""
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Why Kubernetes does not create missing pods, by their names; it only explains."""

    @classmethod
    def of(cls, owner: Mapping[str, Any], objects: Iterable[Json], *, at: datetime | None = None) -> Live:
        """Of objects as read; each names its kind."""
        return cls(OwnerId.of(owner), _by_name(objects), at)

    def having(self, *objects: Json) -> Live:
        """The same, with these as they are by now."""
        return replace(self, objects=_by_name([*self.objects.values(), *objects])) if objects else self

    def get(self, kind: str, name: str) -> Json | None:
        """One object."""
        return self.objects.get((kind, name))

    def every(self, kind: str) -> list[Json]:
        """All of a kind, by name."""
        return list(self._every.get(kind, ()))

    @cached_property
    def _every(self) -> Mapping[str, list[Json]]:
        """All by kind, sorted once: a pass asks a hundred times."""
        found: dict[str, list[Json]] = {}
        for key in sorted(self.objects):
            found.setdefault(key[0], []).append(self.objects[key])
        return found

    def stateful_set(self, component: Component) -> Json | None:
        """The StatefulSet of a component."""
        found = self.get(STATEFUL_SET, workload_name(self.owner.name, component))
        return found if found is not None and controller_uid(found) == self.owner.uid else None

    def pods(self, component: Component) -> list[Json]:
        """The pods of a component, by name; those that lost their controller too."""
        if component not in self._pods:
            workload = workload_name(self.owner.name, component)
            self._pods[component] = [
                pod
                for pod in self.every(POD)
                if component_of(pod) == component.value and _made_by(pod, STATEFUL_SET, workload)
            ]
        return list(self._pods[component])

    @cached_property
    def _pods(self) -> dict[Component, list[Json]]:
        """Pods of the components that were asked for."""
        return {}

    def facts(self, component: Component) -> ComponentFacts | None:
        """What its StatefulSet and pods say; None where there is no StatefulSet."""
        if component not in self._facts:
            found = self.stateful_set(component)
            self._facts[component] = None if found is None else self._observe(component, found)
        return self._facts[component]

    @cached_property
    def _facts(self) -> dict[Component, ComponentFacts | None]:
        """Facts of the components that were asked for."""
        return {}

    def _observe(self, component: Component, stateful_set: Json) -> ComponentFacts:
        return observe_component(stateful_set, self.pods(component), refusals=self.refusals, now=self.at)

    def missing(self) -> list[str]:
        """Names of pods that StatefulSets of the owner want and that do not exist."""
        known = (self.facts(component) for component in Component)
        return sorted(name for facts in known if facts is not None for name in facts.missing)

    def restarted(self) -> bool:
        """Whether an outdated pod is unready that was ready in an earlier container."""
        known = [facts for component in Component if (facts := self.facts(component)) is not None]
        return any(
            pod.once_ready and not pod.serving_before and pod.revision != facts.revision
            for facts in known
            for pod in facts.pods
        )

    def configurations(self) -> frozenset[str]:
        """Names of the ConfigMaps that pods, or templates of pods to come, mount."""
        specs = [o["spec"] for o in self.every(POD)]
        specs += [o["spec"]["template"]["spec"] for o in self.every(STATEFUL_SET)]
        volumes = [volume for spec in specs for volume in spec.get("volumes") or ()]
        return frozenset(str(v["configMap"]["name"]) for v in volumes if "configMap" in v)

    def accounts(self) -> frozenset[str]:
        """Names of the ServiceAccounts of pods."""
        return frozenset(str((pod.get("spec") or {}).get("serviceAccountName")) for pod in self.every(POD))

    def settled(self) -> bool:
        """Whether the StatefulSet controller has seen every template: no pod is made of an older one any more."""
        owned = (o for o in self.every(STATEFUL_SET) if controller_uid(o) == self.owner.uid)
        return all(update_revision(o) is not None for o in owned)

    def of_previous_owner(self) -> list[str]:
        """Children that still belong to a deleted object of the same name; garbage collection is removing them.

        Pods follow their StatefulSet. What another controller made with our labels is not meant.
        """
        return sorted(
            f"{kind} {name}"
            for (kind, name), obj in self.objects.items()
            if (reference := _controller(obj)) is not None
            and (reference.get("kind"), reference.get("name")) == (self.owner.kind, self.owner.name)
            and reference.get("uid") != self.owner.uid
        )


def _by_name(objects: Iterable[Json]) -> Mapping[tuple[str, str], Json]:
    return MappingProxyType({(o["kind"], o["metadata"]["name"]): o for o in objects})


def component_of(obj: Mapping[str, Any]) -> str | None:
    """Component an object belongs to; None where it is shared by all."""
    found = (obj["metadata"].get("labels") or {}).get(LABEL_COMPONENT)
    return None if found is None else str(found)


def controller_uid(obj: Mapping[str, Any]) -> str | None:
    """UID of the object that controls this one."""
    reference = _controller(obj)
    return None if reference is None else str(reference["uid"])


def _controller(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((r for r in obj["metadata"].get("ownerReferences") or [] if r.get("controller")), None)


def _made_by(pod: Mapping[str, Any], kind: str, workload: str) -> bool:
    """Whether a workload made a pod: it controls it, or it did, as the pod's name tells (<workload>-<ordinal>)."""
    reference = _controller(pod)
    if reference is not None:
        return (reference.get("kind"), reference.get("name")) == (kind, workload)
    stem, _, ordinal = str(pod["metadata"]["name"]).rpartition("-")
    return stem == workload and ordinal.isdigit()
