"""The watched kinds, and the way of their objects, custom resources and owned objects, to the engine.

adapters/reflector.py lists and watches; lifecycle.py runs it. Called by runtime.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pulsar_operator.api.constants import LABEL_MANAGED_BY, LABEL_OWNER_KIND, LABEL_OWNER_NAME, MANAGED_BY, Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, PODS, STATEFUL_SETS, Json, Key, ResourceType

CHILDREN = (STATEFUL_SETS, PODS, CONFIG_MAPS)
"""Owned kinds that are watched: only objects with the managed-by label, filtered by the API server."""
CHILD_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY}"


class Sink(Protocol):
    """Receives the events: the engine."""

    def observe(self, kind: Kind, obj: Json, *, deleted: bool = False) -> None:
        """Receives an event of a custom resource."""

    def observe_child(self, obj: Json) -> None:
        """Receives an event of an owned object."""

    def recheck(self, key: Key, delay: float = 0.0) -> None:
        """Handles a known custom resource that is missing in a list. The pass of the object asks the API server whether
        it still exists."""


@dataclass(frozen=True)
class CustomResources:
    """Passes on the objects of one kind of this API group."""

    kind: Kind
    sink: Sink

    def keep(self, obj: Json) -> None:
        """Keeps nothing, since namespace and name identify the object."""

    def observed(self, obj: Json, *, deleted: bool) -> None:
        """Passes the event on to the engine."""
        self.sink.observe(self.kind, obj, deleted=deleted)

    def missing(self, namespace: str, name: str, kept: None, delay: float) -> None:
        """Requests a recheck: only an answer of the API server about the object proves that it no longer exists."""
        self.sink.recheck(Key(self.kind, namespace, name), delay)


@dataclass(frozen=True)
class Children:
    """Passes on owned objects, whose owner is then reconciled."""

    sink: Sink

    def keep(self, obj: Json) -> Json:
        """Returns the labels that identify the owner."""
        labels = obj["metadata"].get("labels") or {}
        return {name: labels[name] for name in (LABEL_OWNER_KIND, LABEL_OWNER_NAME) if name in labels}

    def observed(self, obj: Json, *, deleted: bool) -> None:
        """Passes the event on to the engine, of whatever type it is."""
        self.sink.observe_child(obj)

    def missing(self, namespace: str, name: str, kept: Json, delay: float) -> None:
        """Passes the object on like an event, since the owner lists what it owns."""
        self.sink.observe_child({"metadata": {"namespace": namespace, "name": name, "labels": kept}})


@dataclass(frozen=True)
class Watched:
    """A kind with watch streams."""

    resource: ResourceType
    selector: str | None
    """Label selector; None for all objects."""
    receiver: CustomResources | Children


def watched() -> tuple[ResourceType, ...]:
    """Returns every kind with watch streams."""
    return (*CUSTOM.values(), *CHILDREN)


def streams(sink: Sink) -> list[Watched]:
    """Returns every kind with watch streams, with the receiver that passes its objects on to the engine."""
    custom = [Watched(resource, None, CustomResources(kind, sink)) for kind, resource in CUSTOM.items()]
    return custom + [Watched(resource, CHILD_SELECTOR, Children(sink)) for resource in CHILDREN]
