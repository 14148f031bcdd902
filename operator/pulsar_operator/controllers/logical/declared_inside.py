"""Finds objects that declare something inside a tenant or a namespace that is to be deleted by force. Used by
deletion.py.

Pulsar checks nothing when it deletes by force, so the operator checks first. An object that is not being deleted keeps
what it declares, regardless of who wrote it and in which Kubernetes namespace it is. Of the objects that are being
deleted as well, as by ``kubectl delete namespace``, only those with deletionPolicy ForceDelete release their content.

The operator asks the API server, as core/duplicates.py does. A list is reused for a few seconds, and only for a parent
that is already being deleted in that list, so that many simultaneous deletions need few lists. Children of that parent
that the watches have reported since are read one by one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from pulsar_operator.api.constants import FINALIZER, Kind, Reason
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.controllers.core.index import PARENT_FIELD, key_of
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.core.parent_resolution import DeclaredLocation, ParentResolver, location_of
from pulsar_operator.controllers.logical.deletion_results import continue_deletion_command, keep
from pulsar_operator.controllers.logical.retained import gives_up
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.ports import CUSTOM, Deps, Json, Key

KEEP_SECONDS = 5.0
"""Seconds for which lists are reused."""
SHOWN = 3
CHILDREN: dict[Kind, tuple[Kind, ...]] = {
    Kind.TENANT: (Kind.NAMESPACE, Kind.TOPIC, Kind.TOPIC_SET),
    Kind.NAMESPACE: (Kind.TOPIC, Kind.TOPIC_SET),
}
"""Kinds that may be inside a kind that can be deleted by force."""
_LISTED = (Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.TOPIC_SET, Kind.ISOLATION_POLICY)
"""Kinds in the order in which they are listed. Parents come first: their children are listed after their deletion was
observed."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An object whose content must not be deleted."""

    key: Key
    why: str
    """Why it must not be deleted, as the end of a sentence that begins with the object."""
    remedy: str
    """How the forced deletion can continue, as sentences without the last period."""

    @property
    def text(self) -> str:
        """Returns the kind, namespace and name of the object."""
        return _name(self.key)


def _name(key: Key) -> str:
    return f"{key.kind.value} {key.namespace}/{key.name}"


@dataclass
class _Lists:
    begun: datetime
    deleting: set[str] = field(default_factory=set)
    """UIDs of parents that are being deleted."""
    known: set[Key] = field(default_factory=set)
    giving_up: set[Key] = field(default_factory=set)
    """Objects that are being deleted together with their content."""
    at: defaultdict[tuple[Kind, DeclaredLocation], list[Obstacle]] = field(default_factory=lambda: defaultdict(list))
    """Obstacles by kind and location. Thousands of topics share few locations."""
    policies: list[tuple[DeclaredLocation, frozenset[str], Obstacle]] = field(default_factory=list)
    """Isolation policies with their expressions for namespaces."""


def obstacle_of(kind: Kind, obj: Json) -> Obstacle | None:
    """Returns why the content that a raw object declares must not be deleted; None if the object releases it."""
    key, meta = key_of(kind, obj), meta_of(obj)
    target = f"{kind.value.lower()}/{key.name}"
    if not meta.deleting:
        remedy = f"To continue, delete {_name(key)} first: kubectl -n {key.namespace} delete {target}"
        return Obstacle(key, "is not being deleted", remedy)
    if kind is Kind.ISOLATION_POLICY:
        return None  # it keeps no content
    if meta.paused or meta.dry_run:
        remedy = f"To let the deletion of {_name(key)} continue, run: {continue_deletion_command(kind, obj)}"
        return Obstacle(key, "is being deleted, but is paused or in dry run", remedy)
    policy = (obj.get("spec") or {}).get("deletionPolicy", DeletionPolicy.RETAIN.value)
    if policy == DeletionPolicy.FORCE_DELETE.value:
        return None
    if policy == DeletionPolicy.RETAIN.value:
        why = "is being deleted with deletionPolicy Retain, which keeps the declared content"
        remedy = f"If the content of {_name(key)} is no longer needed, delete it in Pulsar yourself"
        return Obstacle(key, why, remedy)
    if FINALIZER not in meta.finalizers:
        return None  # it has deleted what it declared, or never managed anything
    remedy = (
        f"Wait until {_name(key)} is deleted. To see what blocks its deletion, run: kubectl -n {key.namespace} get "
        f"{target} -o yaml"
    )
    return Obstacle(key, "is being deleted with deletionPolicy Delete, which deletes only empty content", remedy)


class DeclaredInside:
    """Finds declared content for many deletions at the same time."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._lists: _Lists | None = None
        self._lock = asyncio.Lock()

    async def blocker(self, kind: Kind, obj: Json, name: str, scope: Scope) -> Blocker | None:
        """Returns what blocks the forced deletion of a raw object, which is called ``name`` in Pulsar; None if nothing
        does. Raises PortError."""
        found = await self._inside(kind, obj, name, scope) if kind in CHILDREN else []
        if not found:
            return None
        first, more = found[0], len(found) - 1
        block = "1 other object also blocks" if more == 1 else f"{more} other objects also block"
        others = f" {block} the deletion: {_some(found[1:])}." if more else ""
        text = (
            f"The forced deletion of {name} would destroy content that {first.text} declares, and {first.text} "
            f"{first.why}. {first.remedy}.{others} To keep {name} with all of its content, run: {keep(kind, obj)}"
        )
        return Blocker(Reason.DEPENDENTS_EXIST, text)

    async def giving_up(self, obj: Json) -> AbstractSet[Key]:
        """Returns the objects that are being deleted by force themselves, as listed for the deletion of ``obj``. The
        list may be some seconds old. Raises PortError."""
        return (await self._listed(obj)).giving_up

    async def _inside(self, kind: Kind, obj: Json, name: str, scope: Scope) -> list[Obstacle]:
        lists, resolver = await self._listed(obj), ParentResolver(self._deps)
        target = DeclaredLocation(frozenset({key_of(kind, obj)}), name)
        found: list[Obstacle] = []
        for (child, location), obstacles in lists.at.items():
            if child in CHILDREN[kind] and await _is_inside(resolver, child, location, kind, target):
                found += obstacles
        instance = scope.chain[-1]
        here = DeclaredLocation(frozenset({key_of(Kind.INSTANCE, instance)}), None)
        for location, expressions, obstacle in lists.policies:
            if _names(kind, name, expressions) and await resolver.may_be_same(here, location):
                found.append(obstacle)
        found += await self._heard_of_since(kind, obj, lists)
        return sorted(found, key=lambda each: str(each.key))

    async def _heard_of_since(self, kind: Kind, obj: Json, lists: _Lists) -> list[Obstacle]:
        reader, found = self._deps.reader, list[Obstacle]()
        for child in CHILDREN[kind] if reader is not None else ():
            if reader is None or PARENT_FIELD[child][1] is not kind:
                continue
            for key in (await reader.named(obj, child)).values():
                late = None
                if key not in lists.known:
                    late = await self._deps.kube.get(CUSTOM[child], key.namespace, key.name)
                obstacle = obstacle_of(child, late) if late is not None else None
                found += [obstacle] if obstacle is not None else []
        return found

    async def _listed(self, obj: Json) -> _Lists:
        async with self._lock:
            now, lists = self._deps.clock.now(), self._lists
            old = lists is None or seconds_since(lists.begun, now) > KEEP_SECONDS
            if lists is None or old or str(obj["metadata"]["uid"]) not in lists.deleting:
                lists = _Lists(now)
                for kind in _LISTED:
                    _take(lists, kind, await self._deps.kube.list(CUSTOM[kind], None))
                self._lists = lists
            return lists


def _take(lists: _Lists, kind: Kind, objects: Iterable[Json]) -> None:
    for obj in objects:
        if "deletionTimestamp" in obj["metadata"] and kind in CHILDREN:
            lists.deleting.add(str(obj["metadata"]["uid"]))
        lists.known.add(key_of(kind, obj))
        if gives_up(obj):
            lists.giving_up.add(key_of(kind, obj))
        obstacle = obstacle_of(kind, obj)
        if obstacle is None:
            continue
        if kind is Kind.ISOLATION_POLICY:
            listed = (obj.get("spec") or {}).get("namespaces")
            names = frozenset(str(each) for each in listed) if isinstance(listed, list) else frozenset[str]()
            lists.policies.append((location_of(kind, obj), names, obstacle))
        elif kind is not Kind.TENANT:
            lists.at[kind, location_of(kind, obj)].append(obstacle)


def _names(kind: Kind, name: str, expressions: Iterable[str]) -> bool:
    """Whether an isolation policy names the namespace literally, or has an expression that begins with the tenant. An
    expression that also covers other tenants or namespaces declares nothing inside this one."""
    if kind is Kind.NAMESPACE:
        return name in expressions
    return any(each.startswith(f"{name}/") for each in expressions)


async def _is_inside(
    resolver: ParentResolver, child: Kind, location: DeclaredLocation, kind: Kind, target: DeclaredLocation
) -> bool:
    """Whether an object at a location is, or may be, inside the target. Raises PortError."""
    if PARENT_FIELD[child][1] is kind:
        return await resolver.may_be_same(target, location)
    if len(location.parents) == 1:
        (key,) = location.parents
        parent = await resolver.parent(key)
        if parent is not None:
            return await resolver.may_be_same(target, location_of(key.kind, parent))
    return location.reported_parent is None or location.reported_parent.partition("/")[0] == target.reported_parent


def _some(found: list[Obstacle]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(each.text for each in found[:SHOWN]) + more
