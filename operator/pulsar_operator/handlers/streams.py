"""What is watched, and where the objects go: custom resources and owned objects, to the engine.

The lists and watches themselves are adapters/reflector.py; lifecycle.py runs them. Called by runtime.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pulsar_operator.api.constants import LABEL_MANAGED_BY, LABEL_OWNER_KIND, LABEL_OWNER_NAME, MANAGED_BY, Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, PODS, STATEFUL_SETS, Json, Key, ResourceType

CHILDREN = (STATEFUL_SETS, PODS, CONFIG_MAPS)
"""Owned kinds that are watched; only objects with the managed-by label, filtered by the API server."""
CHILD_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY}"


class Sink(Protocol):
    """Where events go: the engine."""

    def observe(self, kind: Kind, obj: Json, *, deleted: bool = False) -> None:
        """An event of a custom resource."""

    def observe_child(self, obj: Json) -> None:
        """An event of an owned object."""

    def recheck(self, key: Key, delay: float = 0.0) -> None:
        """A list lacks a known custom resource: its pass asks the API server whether it is gone."""


@dataclass(frozen=True)
class CustomResources:
    """Passes on the objects of one kind of this API group."""

    kind: Kind
    sink: Sink

    def keep(self, obj: Json) -> None:
        """Nothing: namespace and name identify the object."""

    def observed(self, obj: Json, *, deleted: bool) -> None:
        """To the engine."""
        self.sink.observe(self.kind, obj, deleted=deleted)

    def missing(self, namespace: str, name: str, kept: None, delay: float) -> None:
        """Only an answer of the API server about that object shows that it is gone."""
        self.sink.recheck(Key(self.kind, namespace, name), delay)


@dataclass(frozen=True)
class Children:
    """Passes on owned objects: their owner runs."""

    sink: Sink

    def keep(self, obj: Json) -> Json:
        """The key of the owner."""
        labels = obj["metadata"].get("labels") or {}
        return {name: labels[name] for name in (LABEL_OWNER_KIND, LABEL_OWNER_NAME) if name in labels}

    def observed(self, obj: Json, *, deleted: bool) -> None:
        """To the engine, whatever happened to the object."""
        self.sink.observe_child(obj)

    def missing(self, namespace: str, name: str, kept: Json, delay: float) -> None:
        """The owner lists what it owns."""
        self.sink.observe_child({"metadata": {"namespace": namespace, "name": name, "labels": kept}})


@dataclass(frozen=True)
class Watched:
    """A kind that streams are kept for."""

    resource: ResourceType
    selector: str | None
    """Of labels; None if all objects."""
    receiver: CustomResources | Children


def watched() -> tuple[ResourceType, ...]:
    """Every kind a stream is kept for."""
    return (*CUSTOM.values(), *CHILDREN)


def streams(sink: Sink) -> list[Watched]:
    """Every kind a stream is kept for, with the way of its objects to the engine."""
    custom = [Watched(resource, None, CustomResources(kind, sink)) for kind, resource in CUSTOM.items()]
    return custom + [Watched(resource, CHILD_SELECTOR, Children(sink)) for resource in CHILDREN]
