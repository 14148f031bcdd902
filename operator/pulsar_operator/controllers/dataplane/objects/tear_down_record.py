"""Whether the tear-down of a PulsarCluster or PulsarInstance has begun.

The operator writes an annotation on the object before it stops what other objects need. A missing StatefulSet proves
nothing: a person may have removed it, and dependents would lose it without being asked. Used by
cluster/cluster_controller.py, instance/instance_controller.py, cluster/teardown.py and observed/namespace_inventory.py.
"""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import ANNOTATION_TEAR_DOWN, TEAR_DOWN_MANAGER, Component, Kind
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.clusters import published_endpoint
from pulsar_operator.controllers.core.stores import configuration_store
from pulsar_operator.controllers.dataplane.objects.children import observe_children
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_name
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.registration.metadata import DamagedRecordError, parse_record
from pulsar_operator.ports import CONFIG_MAPS, NAMESPACES, Deps, Json

FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of a deletion that takes the children first (Kubernetes documentation, "Garbage Collection")."""


def has_begun(owner: Json) -> bool:
    """Whether the operator has begun to stop the pods of this object. The annotation of an object that was restored
    from a backup names the UID of the earlier object and does not count."""
    meta = owner["metadata"]
    return bool((meta.get("annotations") or {}).get(ANNOTATION_TEAR_DOWN) == meta["uid"])


async def record_tear_down(deps: Deps, owner: Json) -> bool:
    """Records that the tear-down has begun; returns whether it was written, after which the object is read again.

    It comes before the first step: without it the next pass may find a reason to keep the object. Raises PortError.
    """
    if has_begun(owner):
        return False
    meta = {name: owner["metadata"][name] for name in ("name", "namespace", "uid")}
    manifest = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "metadata": {**meta, "annotations": {ANNOTATION_TEAR_DOWN: meta["uid"]}},
    }
    await deps.kube.apply(manifest, manager=TEAR_DOWN_MANAGER)
    return True


async def can_be_kept(deps: Deps, owner: Json, *components: Component) -> bool:
    """Whether an object that is being deleted can keep serving its dependents: one of the components runs, or ran and
    can be started again. Raises PortError."""
    if is_foreground(owner):
        return False
    if runs(owner, await observe_children(deps, owner), *components):
        return True
    return not has_begun(owner) and await _has_served(deps, owner) and not await _namespace_goes(deps, owner)


def runs(owner: Json, live: Live, *components: Component) -> bool:
    """Whether the StatefulSet of one of the components exists and is not being deleted; ``live`` are the children."""
    found = [live.stateful_set(component) for component in components]
    there = any(sts is not None and "deletionTimestamp" not in sts["metadata"] for sts in found)
    return there and not is_foreground(owner)


def is_foreground(owner: Json) -> bool:
    """Whether Kubernetes deletes the children before the object."""
    return FOREGROUND in (owner["metadata"].get("finalizers") or ())


async def _has_served(deps: Deps, owner: Json) -> bool:
    """Whether other objects may have used it. No object needs a cluster that was never registered and never ran."""
    if owner["kind"] == Kind.INSTANCE.value:
        store = (owner.get("spec") or {}).get("configurationStore") or {}
        return store.get("managed") is not None and configuration_store(owner) is not None
    if (owner.get("spec") or {}).get("mode") == ClusterMode.STANDALONE:
        return published_endpoint(owner) is not None
    if not (owner.get("status") or {}).get("instanceId"):
        return False
    meta = owner["metadata"]
    record = await deps.kube.get(CONFIG_MAPS, meta["namespace"], record_name(meta["name"]))
    if record is None:
        return True
    try:
        return parse_record(record.get("data") or {}).registered
    except DamagedRecordError:
        return True


async def _namespace_goes(deps: Deps, owner: Json) -> bool:
    """Whether Kubernetes deletes the namespace, and with it all children, in any order."""
    found = await deps.kube.get(NAMESPACES, "", owner["metadata"]["namespace"])
    return found is not None and "deletionTimestamp" in found["metadata"]
