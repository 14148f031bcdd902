"""Rules of an API server about one object: what a write may change of it, and when it is refused."""

from __future__ import annotations

from pulsar_operator.ports import ConflictError, Json, ResourceType
from tests.fakes.kube_stored import Id

WITHOUT_GENERATION = frozenset({"ConfigMap", "Secret", "ServiceAccount", "Service", "PersistentVolumeClaim", "Event"})


def id_of(kind: ResourceType, namespace: str, name: str) -> Id:
    """Where it is stored."""
    return (kind.group, kind.kind, namespace, name)


def has_status(kind: ResourceType) -> bool:
    """Whether the type has a status subresource, which a write on the main resource leaves alone."""
    return kind.kind not in WITHOUT_GENERATION


def renewed(live: Json) -> Json:
    """A stored object whose metadata may be given other values; all else is shared."""
    return {**live, "metadata": dict(live["metadata"])}


def without_status(obj: Json, kind: ResourceType) -> Json:
    """What a write on the main resource brings, of a type that has the subresource."""
    return {key: value for key, value in obj.items() if key != "status" or not has_status(kind)}


def skeleton(manifest: Json) -> Json:
    """An object that an apply is to make: its name, and nothing of what is applied."""
    meta = manifest["metadata"]
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
    }


def check_uid(live: Json | None, uid: str | None, name: str, *, missing_is_conflict: bool = False) -> None:
    """Raises ConflictError where the UID asked for is another one."""
    if uid is None:
        return
    if live is None and missing_is_conflict:
        raise ConflictError(f'Operation cannot be fulfilled on "{name}": uid mismatch: no existing object was found')
    if live is not None and live["metadata"]["uid"] != uid:
        raise ConflictError(f'Operation cannot be fulfilled on "{name}": the UID in the precondition does not match')


def check_version(live: Json, meta: Json) -> None:
    """Raises ConflictError where it changed since it was read."""
    if live["metadata"]["resourceVersion"] != meta["resourceVersion"]:
        raise ConflictError(f'Operation cannot be fulfilled on "{meta["name"]}": the object has been modified')


def restore(new: Json, live: Json, kind: ResourceType) -> None:
    """Put back what an apply on the main resource cannot touch."""
    if has_status(kind) and "status" in live:
        new["status"] = live["status"]
    for field in ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
                  "deletionGracePeriodSeconds"):  # fmt: skip
        if field in live["metadata"]:
            new["metadata"][field] = live["metadata"][field]


def spec_of(obj: Json) -> Json:
    """What the generation counts."""
    return {k: v for k, v in obj.items() if k not in ("metadata", "status")}
