"""An API server in memory, as ports.KubePort. The contract tests run against this and the real one.

What tests use beside the port: ``put``, ``edit``, ``set_status`` and ``remove`` (other people's writes), ``writes`` and
``changes`` (what the operator wrote), ``before`` and ``after`` (faults), ``subscribe`` (watch), ``collect_garbage``,
``events``. Returned objects are copies; those of ``list`` and ``shown`` are the same at each look at the same state and
must not be changed, which is checked when another state comes: the operator shares what its watches delivered too. What
is stored is replaced by another object and never changed itself, so that stored objects may have parts in common, and
copies of a world too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pulsar_operator.adapters.kube_http import of_status, resource_of
from pulsar_operator.api.constants import FIELD_MANAGER, GROUP
from pulsar_operator.api.v1alpha1.base import UNOBSERVED
from pulsar_operator.ports import PODS, ConflictError, Json, NotFoundError, ResourceType
from tests.fakes import ssa
from tests.fakes.jsoncopy import deepcopy
from tests.fakes.kube_calls import Call, Faults, Hook, RecordedEvent
from tests.fakes.kube_evictions import refusal
from tests.fakes.kube_objects import (
    WITHOUT_GENERATION,
    check_uid,
    check_version,
    id_of,
    renewed,
    restore,
    skeleton,
    spec_of,
    without_status,
)
from tests.fakes.kube_stored import Id, Order, Owners, Shown, Stored
from tests.fakes.selectors import matches

STATUS_TIME = "2026-01-01T00:00:00Z"

Objects: TypeAlias = list[Json]
Entries: TypeAlias = list[tuple[Id, Json]]
Removed: TypeAlias = list[tuple[str, str]]
"""Kind and name. Aliases, since the class has a method ``list``."""


class FakeKube:
    """See the module's docstring. ``namespaces``: those that exist (None = any); ``watched``: of ``list(None)``."""

    def __init__(self, *, namespaces: set[str] | None = None, watched: tuple[str, ...] = ()) -> None:
        self.namespaces = namespaces
        self.watched = watched
        self.time: Callable[[], str] = lambda: STATUS_TIME
        """What the server's clock says, for creationTimestamp and deletionTimestamp."""
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.calls: list[Call] = []
        """Every call, in order, whether or not it succeeded."""
        self.writes: list[tuple[str, str, str]] = []
        """(verb, kind, name) of every write that took effect, also of one that changed nothing."""
        self.changes: list[tuple[str, str, str]] = []
        """(verb, kind, name) of the writes that changed the stored object."""
        self.events: list[RecordedEvent] = []
        self.admission: list[Callable[[Json], None]] = []
        """What admission plugins and webhooks say of an object that is to be created: each raises, or does nothing."""
        self.reported: dict[tuple[str, str], list[Json]] = {}
        """Warning events of other controllers, by UID of the object and reason."""
        self._objects = Stored()
        self._order = Order()
        """Where somebody asked since an object came or went."""
        self._managers = Owners()
        self._version = 0
        self._shown = Shown()
        self._watchers: list[Callable[[str, Json], None]] = []

    # ------------------------------------------------------------------------------------------------- the port

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """See ports.KubePort."""
        async with Faults(self, Call("get", kind.kind, namespace, name)):
            return deepcopy(self._objects.get(id_of(kind, namespace, name)))

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """See ports.KubePort."""
        async with Faults(self, Call("list", kind.kind, namespace, None)):
            scopes = {namespace} if namespace is not None else set(self.watched)
            return [
                self._seen(key, obj)
                for key, obj in self._of(kind)
                if (not scopes or key[2] in scopes) and matches(selector, obj["metadata"].get("labels") or {})
            ]

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """See ports.KubePort."""
        kind, meta = resource_of(manifest), manifest["metadata"]
        async with Faults(self, Call("apply", kind.kind, meta["namespace"], meta["name"])) as call:
            key = id_of(kind, meta["namespace"], meta["name"])
            live = self._objects.get(key)
            check_uid(live, meta.get("uid"), meta["name"], missing_is_conflict=True)
            if live is not None and "resourceVersion" in meta:
                check_version(live, meta)
            body = without_status(manifest, kind)
            managers = self._managers.setdefault(key, {}).setdefault("", {}) if live else {}
            if live is None:
                self._check_namespace(meta["namespace"])
                new = ssa.apply(skeleton(manifest), body, managers, manager or FIELD_MANAGER)
                stored = self._insert(key, new)
                self._managers[key] = {"": managers}
            else:
                new = ssa.apply(without_status(live, kind), body, managers, manager or FIELD_MANAGER)
                restore(new, live, kind)
                stored = self._store(key, live, new)
            self._record(call, changed=stored is not live)
            return deepcopy(stored)

    async def apply_status(self, manifest: Json) -> Json:
        """See ports.KubePort."""
        kind, meta = resource_of(manifest), manifest["metadata"]
        if not meta.get("uid"):
            raise ValueError("apply_status needs metadata.uid: a status belongs to one very object")
        async with Faults(self, Call("apply_status", kind.kind, meta["namespace"], meta["name"])) as call:
            key = id_of(kind, meta["namespace"], meta["name"])
            live = self._objects.get(key)
            if live is None:
                raise NotFoundError(f'{kind.plural} "{meta["name"]}" not found')
            check_uid(live, meta["uid"], meta["name"])
            managers = self._managers[key].setdefault("status", {})
            status = ssa.apply(
                {"status": live.get("status") or {}}, {"status": manifest.get("status") or {}}, managers, FIELD_MANAGER
            )
            stored = self._store(key, live, {**renewed(live), **status}, spec=False)
            self._record(call, changed=stored is not live)
            return deepcopy(stored)

    async def create(self, manifest: Json) -> Json:
        """See ports.KubePort."""
        kind, meta = resource_of(manifest), manifest["metadata"]
        async with Faults(self, Call("create", kind.kind, meta["namespace"], meta["name"])) as call:
            key = id_of(kind, meta["namespace"], meta["name"])
            self._check_namespace(meta["namespace"])
            if key in self._objects:
                raise ConflictError(f'{kind.plural} "{meta["name"]}" already exists')
            stored = self._insert(key, deepcopy(without_status(manifest, kind)))
            self._record(call, changed=True)
            return deepcopy(stored)

    async def dry_run_create(self, manifest: Json) -> None:
        """See ports.KubePort."""
        kind, meta = resource_of(manifest), manifest["metadata"]
        async with Faults(self, Call("dry_run_create", kind.kind, meta["namespace"], meta["name"])):
            self.admit(manifest)
            if id_of(kind, meta["namespace"], meta["name"]) in self._objects:
                raise ConflictError(f'{kind.plural} "{meta["name"]}" already exists')

    async def warnings(self, involved: Json, reason: str) -> Objects:
        """See ports.KubePort."""
        meta = involved["metadata"]
        async with Faults(self, Call("warnings", involved["kind"], meta["namespace"], meta["name"])):
            return deepcopy(self.reported.get((meta["uid"], reason), []))

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """See ports.KubePort."""
        async with Faults(self, Call("delete", kind.kind, namespace, name)) as call:
            key = id_of(kind, namespace, name)
            live = self._objects.get(key)
            if live is None:
                return
            check_uid(live, uid, name)
            self._record(call, changed=self._delete(key, live))

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """See ports.KubePort."""
        async with Faults(self, Call("evict", PODS.kind, namespace, name)) as call:
            key = id_of(PODS, namespace, name)
            live = self._objects.get(key)
            if live is None:
                return None
            refused = refusal(live, uid, self._objects.values())
            if refused is not None:
                return refused
            check_uid(live, uid, name)
            self._record(call, changed=self._delete(key, live))
            return None

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """See ports.KubePort."""
        kind, meta = resource_of(obj), obj["metadata"]
        async with Faults(self, Call("remove_entries", kind.kind, meta["namespace"], meta["name"])) as call:
            key = id_of(kind, meta["namespace"], meta["name"])
            live = self._objects.get(key)
            if live is None:
                raise NotFoundError(f'{kind.plural} "{meta["name"]}" not found')
            check_version(live, meta)
            new = deepcopy(live)
            for pointer in pointers:
                *parents, last = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
                place: Any = new
                for token in parents:
                    place = place[int(token)] if isinstance(place, list) else place[token]
                del place[int(last) if isinstance(place, list) else last]
            stored = self._store(key, live, new, spec=not of_status(pointers))
            self._record(call, changed=stored is not live)

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """See ports.KubePort."""
        kind, meta = resource_of(obj), obj["metadata"]
        async with Faults(self, Call("drop_finalizer", kind.kind, meta["namespace"], meta["name"])) as call:
            key = id_of(kind, meta["namespace"], meta["name"])
            live = self._objects.get(key)
            if live is None:
                return
            check_uid(live, meta["uid"], meta["name"])
            check_version(live, meta)
            new = renewed(live)
            new["metadata"]["finalizers"] = [f for f in live["metadata"].get("finalizers") or () if f != finalizer]
            stored = self._store(key, live, new)
            self._record(call, changed=stored is not live)

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """See ports.KubePort."""
        self.events.append(RecordedEvent(kind, reason, message, involved["kind"], involved["metadata"]["name"]))

    # -------------------------------------------------------------------------------------- what other people do

    def put(self, manifest: Json) -> Json:
        """A user creates the object or replaces its spec, labels and annotations; status is kept. Not recorded."""
        kind, meta = resource_of(manifest), manifest["metadata"]
        key = id_of(kind, meta["namespace"], meta["name"])
        live = self._objects.get(key)
        if live is None:
            stored = self._insert(key, deepcopy(manifest))
            self._managers[key].setdefault("", {})["user"] = ssa.owned(manifest)
            return deepcopy(stored)
        new = renewed(live)
        new.update({k: deepcopy(v) for k, v in manifest.items() if k not in ("metadata", "status")})
        for field in ("labels", "annotations"):
            if field in meta:
                new["metadata"][field] = deepcopy(meta[field])
        return deepcopy(self._store(key, live, new))

    def admit(self, manifest: Json) -> None:
        """Ask admission about an object that is to be created. Raises what it says."""
        for plugin in list(self.admission):
            plugin(manifest)

    def report(self, involved: Json, reason: str, message: str) -> None:
        """A controller reports a Warning event; the newest of a reason and message stays."""
        found = self.reported.setdefault((involved["metadata"]["uid"], reason), [])
        found[:] = [each for each in found if each["message"] != message]
        found.append({"type": "Warning", "reason": reason, "message": message, "lastTimestamp": self.time()})

    def edit(
        self, kind: ResourceType, namespace: str, name: str, change: Callable[[Json], None], *, counted: bool = True
    ) -> Json:
        """Somebody edits the object in place: ``change`` gets a copy to alter. Not recorded. If it is not ``counted``
        the generation stays, as when another version of the definition reads what is stored."""
        key = id_of(kind, namespace, name)
        live = self._objects[key]
        new = deepcopy(live)
        change(new)
        # Who changed it may still have it.
        return deepcopy(self._store(key, live, deepcopy(new), spec=counted))

    def set_status(self, kind: ResourceType, namespace: str, name: str, status: Json) -> Json:
        """A workload controller replaces the status. Not recorded."""
        key = id_of(kind, namespace, name)
        live = self._objects[key]
        return deepcopy(self._store(key, live, {**renewed(live), "status": deepcopy(status)}, spec=False))

    def remove(self, kind: ResourceType, namespace: str, name: str) -> None:
        """A user deletes the object; finalizers hold it as Terminating. Not recorded."""
        key = id_of(kind, namespace, name)
        self._delete(key, self._objects[key])

    def live(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """The object now, without a recorded call."""
        return deepcopy(self._objects.get(id_of(kind, namespace, name)))

    def all(self, kind: ResourceType | None = None) -> Objects:
        """All objects (of a kind) now, without a recorded call."""
        return [deepcopy(obj) for _, obj in self._of(kind)]

    def shown(self, kind: ResourceType) -> Objects:
        """All objects of a kind now, to be looked at only: who looks again at the same state gets the same copies."""
        return [self._seen(key, obj) for key, obj in self._of(kind)]

    def collect_garbage(self) -> Removed:
        """Delete what belonged to owners that are gone, until nothing more does; (kind, name) of what was deleted."""
        deleted: Removed = []
        while True:
            uids = {obj["metadata"]["uid"] for obj in self._objects.values()}
            orphans = [
                (key, obj)
                for key, obj in self._objects.items()
                if (owners := obj["metadata"].get("ownerReferences"))
                and all(owner["uid"] not in uids for owner in owners)
                and "deletionTimestamp" not in obj["metadata"]
            ]
            if not orphans:
                return deleted
            for key, obj in orphans:
                self._delete(key, obj)
                deleted.append((key[1], key[3]))

    def subscribe(self, watcher: Callable[[str, Json], None]) -> None:
        """Call ``watcher(type, object)`` after every change; type is ADDED, MODIFIED or DELETED."""
        self._watchers.append(watcher)

    # --------------------------------------------------------------------------------------------------- internal

    def _of(self, kind: ResourceType | None) -> Entries:
        """What is stored of a kind, or of all, in order."""
        if kind is None:
            return sorted(self._objects.items())
        group, name = kind.group, kind.kind
        if (group, name) not in self._order:
            self._order[group, name] = sorted(key for key in self._objects if key[1] == name and key[0] == group)
        return [(key, self._objects[key]) for key in self._order[group, name]]

    def _seen(self, key: Id, obj: Json) -> Json:
        """The copy of a stored object that everybody gets who looks."""
        found = self._shown.get(key)
        if found is None:
            found = self._shown[key] = obj, deepcopy(obj)
        return found[1]

    def _forget_seen(self, key: Id) -> None:
        """Another state comes. Raises AssertionError when somebody changed the copy of the one before."""
        found = self._shown.pop(key, None)
        if found is not None and found[0] != found[1]:
            raise AssertionError(f"{key[1]} {key[3]} was changed by who only looked at it")

    def _insert(self, key: Id, obj: Json) -> Json:
        meta = obj["metadata"]
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = self.time()
        if key[1] not in WITHOUT_GENERATION:
            meta["generation"] = 1
        if key[0] == GROUP:
            obj.setdefault("status", {"observedGeneration": UNOBSERVED})
        meta["resourceVersion"] = self._next()
        self._objects[key] = obj
        self._order.pop(key[:2], None)
        self._managers[key] = {}
        self._notify("ADDED", obj)
        return obj

    def _store(self, key: Id, live: Json, new: Json, *, spec: bool = True) -> Json:
        """Replace live by new; returns live itself when nothing changed."""
        if new == live:
            return live
        if spec and key[1] not in WITHOUT_GENERATION and spec_of(new) != spec_of(live):
            new["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        new["metadata"]["resourceVersion"] = self._next()
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self._drop(key, new)
            return new
        self._forget_seen(key)
        self._objects[key] = new
        self._notify("MODIFIED", new)
        return new

    def _delete(self, key: Id, live: Json) -> bool:
        if not live["metadata"].get("finalizers"):
            self._drop(key, {**live, "metadata": {**live["metadata"], "resourceVersion": self._next()}})
            return True
        if "deletionTimestamp" in live["metadata"]:
            return False
        new = renewed(live)
        new["metadata"]["deletionTimestamp"] = self.time()
        new["metadata"]["deletionGracePeriodSeconds"] = 0
        if "generation" in new["metadata"]:
            new["metadata"]["generation"] += 1
        new["metadata"]["resourceVersion"] = self._next()
        self._forget_seen(key)
        self._objects[key] = new
        self._notify("MODIFIED", new)
        return True

    def _drop(self, key: Id, last: Json) -> None:
        self._forget_seen(key)
        self._objects.pop(key, None)
        self._order.pop(key[:2], None)
        self._managers.pop(key, None)
        self._notify("DELETED", last)

    def _check_namespace(self, namespace: str) -> None:
        if self.namespaces is not None and namespace not in self.namespaces:
            raise NotFoundError(f'namespaces "{namespace}" not found')

    def _record(self, call: Call, *, changed: bool) -> None:
        entry = (call.verb, call.kind, call.name or "")
        self.writes.append(entry)
        if changed:
            self.changes.append(entry)

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _notify(self, kind: str, obj: Json) -> None:
        for watcher in list(self._watchers):
            watcher(kind, deepcopy(obj))
