"""Conditions of other objects, and the status of the own one: written only where it differs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.base import UNOBSERVED, Condition
from pulsar_operator.domain.conditions import ABNORMAL, abnormal
from pulsar_operator.ports import Deps, Json


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
    return bool(_normal(wire(status)) != _normal(_stored(obj)))


async def write_status(deps: Deps, obj: Json, status: BaseModel, *, version: str | None = None) -> Json | None:
    """Write the status when it differs from the stored one; returns the stored object where a write was made.

    ``version`` is the object's resourceVersion, for callers that know it to be the newest they wrote: spares a read.
    """
    return await _write(deps, obj, wire(status), version=version)


async def write_condition(deps: Deps, obj: Json, condition: Condition) -> Json | None:
    """Write one condition where it differs, and what follows from it, with the rest of the status as ``obj`` has it; as
    write_status.

    All of it is sent: server-side apply takes away what its manager leaves out. Raises PortError.
    """
    status, new = _stored(obj), wire(condition)
    stored = list(status.get("conditions") or ())
    others = [each for each in stored if each.get("type") not in ABNORMAL]
    at = next((n for n, each in enumerate(others) if each.get("type") == condition.type), None)
    conditions = [new, *others] if at is None else [*others[:at], new, *others[at + 1 :]]
    known = [Condition.model_validate(each) for each in conditions]
    follows = abnormal(known, {each.get("type"): each for each in stored}, deps.clock.now())
    conditions += [wire(each) for each in follows]
    return await _write(deps, obj, {**status, "conditions": conditions}, version=obj["metadata"]["resourceVersion"])


async def _write(deps: Deps, obj: Json, new: Json, *, version: str | None) -> Json | None:
    stored = _stored(obj)
    if new == stored or _normal(new) == _normal(stored):
        return None
    meta = {key: obj["metadata"][key] for key in ("name", "namespace", "uid")}
    if version is not None:
        meta["resourceVersion"] = version
    return await deps.kube.apply_status(
        {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta, "status": new}
    )


def _stored(obj: Json) -> Json:
    """The stored status without what the API server put there: that stays until the operator writes the field."""
    status = obj.get("status") or {}
    return {key: value for key, value in status.items() if (key, value) != ("observedGeneration", UNOBSERVED)}


def _normal(value: Any) -> Any:
    """Equality that ignores absent against empty, since the API server keeps what it is given, and the order of
    conditions, since it keeps that in which they came to be there."""
    if isinstance(value, dict):
        return {k: n for k, v in value.items() if (n := _normal(v)) not in (None, [], {})}
    if isinstance(value, list):
        found = [_normal(v) for v in value]
        keyed = all(isinstance(v, dict) and isinstance(v.get("type"), str) for v in found)
        return sorted(found, key=lambda v: str(v["type"])) if keyed else found
    return value
