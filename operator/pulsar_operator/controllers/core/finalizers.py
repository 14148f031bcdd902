"""The operator's finalizer: added before the first external side effect, removed once nothing is left to do."""

from __future__ import annotations

from pulsar_operator.api.constants import FINALIZER, FINALIZER_MANAGER
from pulsar_operator.ports import Deps, Json


async def ensure_finalizer(deps: Deps, obj: Json) -> Json | None:
    """Adds the operator's finalizer to the object if it is missing. Returns the stored object if a write was made."""
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
    """Removes the operator's finalizer. Returns whether a write was made. The object may no longer exist afterwards."""
    if FINALIZER not in (obj["metadata"].get("finalizers") or []):
        return False
    await deps.kube.drop_finalizer(obj, FINALIZER)
    return True
