"""The children of a PulsarCluster or PulsarInstance as they were last read. Pure: an immutable value."""

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
    """Identity of the owner of the children."""

    kind: str
    name: str
    uid: str

    @classmethod
    def of(cls, owner: Mapping[str, Any]) -> OwnerId:
        """Returns the identity of a custom resource."""
        return cls(str(owner["kind"]), str(owner["metadata"]["name"]), str(owner["metadata"]["uid"]))


@dataclass(frozen=True)
class Live:
    """Objects that carry the owner's labels, by kind and name. Labels can be copied, so ownership is decided by the
    controller reference and the name."""

    owner: OwnerId
    objects: Mapping[tuple[str, str], Json] = field(default_factory=lambda: MappingProxyType({}))
    at: datetime | None = None
    """Time at which they were read; None if no pod is missing, being deleted, or both outdated and restarted, so that
    no decision needs it."""
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Why Kubernetes does not create missing pods, by pod name; only for messages."""

    @classmethod
    def of(cls, owner: Mapping[str, Any], objects: Iterable[Json], *, at: datetime | None = None) -> Live:
        """Returns the children among objects as read; each names its kind."""
        return cls(OwnerId.of(owner), _by_name(objects), at)

    def having(self, *objects: Json) -> Live:
        """Returns a copy with newer states of these objects."""
        return replace(self, objects=_by_name([*self.objects.values(), *objects])) if objects else self

    def get(self, kind: str, name: str) -> Json | None:
        """Returns one object."""
        return self.objects.get((kind, name))

    def every(self, kind: str) -> list[Json]:
        """Returns all objects of a kind, by name."""
        return list(self._every.get(kind, ()))

    @cached_property
    def _every(self) -> Mapping[str, list[Json]]:
        """All objects by kind, sorted once, since a pass asks often."""
        found: dict[str, list[Json]] = {}
        for key in sorted(self.objects):
            found.setdefault(key[0], []).append(self.objects[key])
        return found

    def stateful_set(self, component: Component) -> Json | None:
        """Returns the StatefulSet of a component."""
        found = self.get(STATEFUL_SET, workload_name(self.owner.name, component))
        return found if found is not None and controller_uid(found) == self.owner.uid else None

    def pods(self, component: Component) -> list[Json]:
        """Returns the pods of a component, by name, also those that lost their controller."""
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
        """Cached pods of the components that were asked for."""
        return {}

    def facts(self, component: Component) -> ComponentFacts | None:
        """Returns the facts of a component's StatefulSet and pods; None if there is no StatefulSet."""
        if component not in self._facts:
            found = self.stateful_set(component)
            self._facts[component] = None if found is None else self._observe(component, found)
        return self._facts[component]

    @cached_property
    def _facts(self) -> dict[Component, ComponentFacts | None]:
        """Cached facts of the components that were asked for."""
        return {}

    def _observe(self, component: Component, stateful_set: Json) -> ComponentFacts:
        return observe_component(stateful_set, self.pods(component), refusals=self.refusals, now=self.at)

    def missing(self) -> list[str]:
        """Returns the names of pods that StatefulSets of the owner should have and that do not exist."""
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
        """Returns the names of the ConfigMaps that pods, or current pod templates, mount."""
        specs = [o["spec"] for o in self.every(POD)]
        specs += [o["spec"]["template"]["spec"] for o in self.every(STATEFUL_SET)]
        volumes = [volume for spec in specs for volume in spec.get("volumes") or ()]
        return frozenset(str(v["configMap"]["name"]) for v in volumes if "configMap" in v)

    def accounts(self) -> frozenset[str]:
        """Returns the names of the pods' ServiceAccounts."""
        return frozenset(str((pod.get("spec") or {}).get("serviceAccountName")) for pod in self.every(POD))

    def settled(self) -> bool:
        """Whether the StatefulSet controller has observed every template, so that no pod is created from an older
        one."""
        owned = (o for o in self.every(STATEFUL_SET) if controller_uid(o) == self.owner.uid)
        return all(update_revision(o) is not None for o in owned)

    def of_previous_owner(self) -> list[str]:
        """Children that still belong to a deleted object of the same name; garbage collection is removing them.

        Pods are deleted with their StatefulSet. Objects of another controller with the same labels are left out.
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
    """Returns the component of an object; None if it is shared by all."""
    found = (obj["metadata"].get("labels") or {}).get(LABEL_COMPONENT)
    return None if found is None else str(found)


def controller_uid(obj: Mapping[str, Any]) -> str | None:
    """Returns the UID of the controlling owner."""
    reference = _controller(obj)
    return None if reference is None else str(reference["uid"])


def _controller(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((r for r in obj["metadata"].get("ownerReferences") or [] if r.get("controller")), None)


def _made_by(pod: Mapping[str, Any], kind: str, workload: str) -> bool:
    """Whether a workload created a pod: it controls the pod, or the pod's name has the form <workload>-<ordinal>."""
    reference = _controller(pod)
    if reference is not None:
        return (reference.get("kind"), reference.get("name")) == (kind, workload)
    stem, _, ordinal = str(pod["metadata"]["name"]).rpartition("-")
    return stem == workload and ordinal.isdigit()
