"""References between custom resources, which the referenced object must allow."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.base import ObjectReference
from pulsar_operator.controllers.core.index import allows_references
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.ports import Deps, Json


@dataclass(frozen=True)
class Resolved:
    """Result of resolving a reference: the object, or why there is none."""

    obj: Json | None
    found: bool
    allowed: bool
    text: str
    """The reference as text, such as PulsarTenant "ns/name"."""


async def resolve(deps: Deps, kind: Kind, ref: ObjectReference, *, from_namespace: str) -> Resolved:
    """Looks up a referenced object and checks that it allows the reference. Raises PortError."""
    namespace = ref.namespace or from_namespace
    text = f'{kind.value} "{namespace}/{ref.name}"'
    obj = await reader_of(deps).get(kind, namespace, ref.name)
    if obj is None:
        return Resolved(None, False, False, text)
    if not allows_references(obj, target_namespace=namespace, from_namespace=from_namespace):
        return Resolved(None, True, False, text)
    return Resolved(obj, True, True, text)
