"""What every controller shares: the outcome of a pass, references with consent, status writing, finalizers.

Called by the engine (controllers/engine.py) through :class:`Reconciler`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, FINALIZER, FINALIZER_MANAGER, Kind
from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.base import ObjectReference
from pulsar_operator.controllers.reader import reader_of
from pulsar_operator.controllers.refindex import consents
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import Deps, Json, Key

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What the queue should do next with the key."""

    requeue_after: float | None = None
    """Seconds until the next pass; None = wait for events and the periodic resync."""
    backoff: bool = False
    """Whether the pass failed: the queue then chooses an exponentially growing delay itself."""


DONE = Outcome()


class Reconciler(Protocol):
    """Level-triggered reconciliation of one kind."""

    async def reconcile(self, key: Key) -> Outcome:
        """Bring the world one step closer to the object. Safe to stop at any await and to run again."""


@dataclass(frozen=True)
class Meta:
    """The parts of metadata controllers decide on."""

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: dict[str, str]

    @property
    def paused(self) -> bool:
        """Observe and report, act on nothing."""
        return self.annotations.get(ANNOTATION_PAUSE) == "true"

    @property
    def dry_run(self) -> bool:
        """Show pending actions, do none."""
        return self.annotations.get(ANNOTATION_DRY_RUN) == "true"


def meta_of(obj: Json) -> Meta:
    """Metadata of a raw object."""
    meta = obj["metadata"]
    return Meta(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        deleting="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers") or ()),
        annotations=dict(meta.get("annotations") or {}),
    )


def owner_of(obj: Json, *, part_of: str) -> Owner:
    """The object as owner of rendered children."""
    meta = obj["metadata"]
    return Owner(
        kind=Kind(obj["kind"]),
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        api_version=obj["apiVersion"],
        part_of=part_of,
    )


def invalid_fields(error: ValidationError) -> str:
    """Field, value and rule of each violation, in one sentence each; inputs are cut so that nothing long leaks."""
    parts = []
    for item in error.errors(include_url=False)[:5]:
        path = ".".join(str(p) for p in item["loc"])
        parts.append(f"spec.{path} = {str(item.get('input'))[:80]!r}: {item['msg']}")
    return "; ".join(parts)


@dataclass(frozen=True)
class Resolved:
    """Outcome of looking up a reference: the object, or why there is none."""

    obj: Json | None
    found: bool
    allowed: bool
    text: str
    """The reference in words, such as PulsarTenant "ns/name"."""


async def resolve(deps: Deps, kind: Kind, ref: ObjectReference, *, from_namespace: str) -> Resolved:
    """Look up a referenced object and check that it consents."""
    namespace = ref.namespace or from_namespace
    text = f'{kind.value} "{namespace}/{ref.name}"'
    obj = await reader_of(deps).get(kind, namespace, ref.name)
    if obj is None:
        return Resolved(None, False, False, text)
    if not consents(obj, target_namespace=namespace, from_namespace=from_namespace):
        return Resolved(None, True, False, text)
    return Resolved(obj, True, True, text)


def condition_of(obj: Json | None, kind: str) -> Json | None:
    """A condition of a raw object, or None."""
    if obj is None:
        return None
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind:
            return dict(condition)
    return None


def is_true(obj: Json | None, kind: str) -> bool:
    """Whether a raw object's condition is True."""
    condition = condition_of(obj, kind)
    return condition is not None and condition.get("status") == "True"


def differs(obj: Json, status: BaseModel) -> bool:
    """Whether a status is another than the stored one."""
    return bool(_normal(wire(status)) != _normal(obj.get("status") or {}))


async def write_status(deps: Deps, obj: Json, status: BaseModel, *, version: str | None = None) -> Json | None:
    """Write the status when it differs from the stored one; returns the stored object where a write was made.

    ``version`` is the object's resourceVersion, for callers that know it to be the newest they wrote: spares a read.
    """
    new = wire(status)
    if _normal(new) == _normal(obj.get("status") or {}):
        return None
    meta = {key: obj["metadata"][key] for key in ("name", "namespace", "uid")}
    if version is not None:
        meta["resourceVersion"] = version
    return await deps.kube.apply_status(
        {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta, "status": new}
    )


def _normal(value: Any) -> Any:
    """Equality that ignores absent against empty, since the API server keeps what it is given."""
    if isinstance(value, dict):
        return {k: n for k, v in value.items() if (n := _normal(v)) not in (None, [], {})}
    if isinstance(value, list):
        return [_normal(v) for v in value]
    return value


async def ensure_finalizer(deps: Deps, obj: Json) -> Json | None:
    """Put our finalizer on the object before the first external side effect; returns the stored object where a write
    was made."""
    if FINALIZER in (obj["metadata"].get("finalizers") or []):
        return None
    meta = obj["metadata"]
    manifest = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "finalizers": [FINALIZER],
        },
    }
    return await deps.kube.apply(manifest, manager=FINALIZER_MANAGER)


async def release_finalizer(deps: Deps, obj: Json) -> bool:
    """Take our finalizer off; returns whether a write was made. The object may be gone afterwards."""
    if FINALIZER not in (obj["metadata"].get("finalizers") or []):
        return False
    await deps.kube.drop_finalizer(obj, FINALIZER)
    return True
