"""Content that its object left in Pulsar by deletionPolicy Retain, inside a parent that is deleted by force.

An object without a finalizer is gone at once, and the parent's deletion would find nobody who declares the content. So
an object with Retain has our finalizer while a parent of it has ForceDelete, and is let go once each such parent has an
annotation that names it. Used by frame.py, controller.py, declared_inside.py and topicset/controller.py.
"""

from __future__ import annotations

from pulsar_operator.api.constants import ANNOTATION_RETAINED, RETAINED_MANAGER, Kind
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.controllers.core.index import references
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.ports import CUSTOM, ConflictError, Deps, Json

FORCIBLE = frozenset({Kind.TENANT, Kind.NAMESPACE})
"""Kinds whose forced deletion takes along what is inside them."""


def is_forced(obj: Json) -> bool:
    """Whether the deletion of a raw object takes along what is inside it."""
    policy = (obj.get("spec") or {}).get("deletionPolicy")
    return obj.get("kind") in FORCIBLE and policy == DeletionPolicy.FORCE_DELETE.value


def in_forced_parent(scope: Scope) -> bool:
    """Whether a parent of the object would be deleted by force."""
    return any(is_forced(parent) for parent in scope.chain)


async def record_retained(deps: Deps, kind: Kind, obj: Json) -> None:
    """Name an object, which is let go and keeps its content, on each parent that would be deleted by force.

    The parents are read from the API server. One that is gone deletes nothing any more. Raises PortError.
    """
    meta = obj["metadata"]
    text, above = f"{kind.value} {meta['namespace']}/{meta['name']}", references(kind, obj)
    while len(above) == 1:
        (key,) = above
        parent = await deps.kube.get(CUSTOM[key.kind], key.namespace, key.name) if key.kind in FORCIBLE else None
        if parent is None:
            return
        if is_forced(parent) and retained_in(parent) is None:
            await _annotate(deps, parent, text)
        above = references(key.kind, parent)


def retained_in(obj: Json) -> str | None:
    """The object whose content is retained inside a raw object, as its annotation says."""
    found = (obj["metadata"].get("annotations") or {}).get(ANNOTATION_RETAINED)
    return str(found) if found else None


async def _annotate(deps: Deps, parent: Json, text: str) -> None:
    meta = {name: parent["metadata"][name] for name in ("name", "namespace", "uid")}
    manifest = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "metadata": {**meta, "annotations": {ANNOTATION_RETAINED: text}},
    }
    try:
        await deps.kube.apply(manifest, manager=RETAINED_MANAGER)
    except ConflictError:
        return  # it is gone, or another object of its name, which deletes nothing of the old one's
