"""Reads conditions of other objects, and writes the status of the own object if it differs."""

from __future__ import annotations

from pydantic import BaseModel

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.base import UNOBSERVED, Condition
from pulsar_operator.domain.apply import left_over, normal
from pulsar_operator.domain.conditions import ABNORMAL, abnormal
from pulsar_operator.ports import ConflictError, Deps, Json, RefusedError


def condition_of(obj: Json | None, kind: str) -> Json | None:
    """Returns a condition of a raw object; None if there is none."""
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
    """Whether a status differs from the stored one."""
    return bool(normal(wire(status)) != normal(_stored(obj)))


async def write_status(deps: Deps, obj: Json, status: BaseModel, *, version: str | None = None) -> Json | None:
    """Writes the status if it differs from the stored one. Returns the stored object if a write was made. Raises
    PortError.

    ``version`` is the object's resourceVersion if the caller knows it to be the newest; this saves a read.
    """
    return await _write(deps, obj, wire(status), version=version)


async def write_condition(deps: Deps, obj: Json, condition: Condition) -> Json | None:
    """Writes one condition if it differs, and the conditions derived from it. Returns the stored object if a write was
    made.

    The rest of the status is sent as ``obj`` has it, since server-side apply removes what its manager omits. Raises
    PortError.
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
    if new == stored or normal(new) == normal(stored):
        return None
    meta = {key: obj["metadata"][key] for key in ("name", "namespace", "uid")}
    if version is not None:
        meta["resourceVersion"] = version
    manifest = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta, "status": new}
    result = await deps.kube.apply_status(manifest)
    strange = left_over(new, _stored(result), "/status")
    if not strange:
        return result
    # Server-side apply leaves what another manager wrote, as who puts a backup back: it would count without end, and
    # have the status written at each pass.
    try:
        await deps.kube.remove_entries(result, strange)
    except (ConflictError, RefusedError):
        return result  # it changed since, or what is left would not be valid: the next pass tries again
    meta.pop("resourceVersion", None)
    return await deps.kube.apply_status(manifest)


def _stored(obj: Json) -> Json:
    """Returns the stored status without the default of the API server, which stays until the operator writes the
    field."""
    status = obj.get("status") or {}
    return {key: value for key, value in status.items() if (key, value) != ("observedGeneration", UNOBSERVED)}
