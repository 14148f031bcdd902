"""Deleting a PulsarCluster: clients first, storage last, volumes only where the user said so."""

from __future__ import annotations

from http import HTTPStatus

from pulsar_operator.api.constants import Component, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import instance_of, referring
from pulsar_operator.controllers.core.finalizers import release_finalizer
from pulsar_operator.controllers.core.kube_namespaces import is_going
from pulsar_operator.controllers.dataplane.bootstrap import record_name
from pulsar_operator.controllers.dataplane.children import delete_workloads, observe_children
from pulsar_operator.controllers.dataplane.ensemble import delete_records, delete_volumes
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Deps, Json, RefusedError

STEPS: tuple[tuple[Component, ...], ...] = (
    (Component.PROXY,),
    (Component.BROKER, Component.STANDALONE),
    (Component.BOOKIE, Component.AUTORECOVERY),
    (Component.ZOOKEEPER,),
)
"""Brokers hand over their bundles and close ledgers while bookies and ZooKeeper still answer."""


async def tear_down(deps: Deps, owner: Owner, obj: Json, spec: PulsarClusterSpec, actor: Actor) -> str | None:
    """One step of the deletion; what it waits for, or None when the finalizer is off.

    The other children go by garbage collection.
    """
    if not actor.act:
        actor.pending.append("Delete the pods of all components, proxies first, and release the finalizer")
        return "the object to be resumed"
    users = await _users_of_its_store(deps, obj)
    if users:
        return f"clusters that use its metadata store as configuration store to be deleted first: {', '.join(users)}"
    try:
        waiting = await _stop_and_clean(deps, owner, obj, spec, actor)
    except RefusedError as error:
        forbidden = error.status == HTTPStatus.FORBIDDEN
        if not (forbidden and await is_going(deps, owner.namespace, refused=error)):
            raise
        # Deleting the Kubernetes namespace takes the operator's rights in it away first; everything there is being
        # deleted anyway, and holding the object would only hold the namespace.
        await actor.warn(Reason.FINALIZER_RELEASED, f"The pods were not stopped in order: {error}")
        waiting = None
    if waiting is None:
        await release_finalizer(deps, obj)
    return waiting


async def _users_of_its_store(deps: Deps, obj: Json) -> list[str]:
    """Other clusters of the instance, where this one's metadata store is the instance's configuration store."""
    meta, key = obj["metadata"], instance_of(obj)
    if key is None:
        return []
    instance = await deps.kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name)
    store = ((instance or {}).get("spec") or {}).get("configurationStore") or {}
    if key.namespace != meta["namespace"] or (store.get("cluster") or {}).get("name") != meta["name"]:
        return []
    others = [
        each["metadata"]
        for each in referring(await deps.kube.list(CUSTOM[Kind.CLUSTER], None), key)
        if each["metadata"]["uid"] != meta["uid"]
    ]
    return sorted(f"{each['namespace']}/{each['name']}" for each in others)


async def _stop_and_clean(deps: Deps, owner: Owner, obj: Json, spec: PulsarClusterSpec, actor: Actor) -> str | None:
    live = await observe_children(deps, obj)
    for step in STEPS:
        if not await delete_workloads(actor, live, step, "the PulsarCluster is being deleted"):
            return f"the {' and '.join(component.value for component in step)} pods to stop"
    if spec.reclaim_policy is ReclaimPolicy.DELETE:
        await _delete_data(deps, owner, actor)
    return None


async def _delete_data(deps: Deps, owner: Owner, actor: Actor) -> None:
    """Volumes, and with them the record that they hold data and the ensemble's superuser."""
    await delete_volumes(actor, owner)
    record = await deps.kube.get(CONFIG_MAPS, owner.namespace, record_name(owner.name))
    if record is not None:
        await actor.delete(CONFIG_MAPS, record, "reclaimPolicy is Delete")
    await delete_records(actor, owner, Component.ZOOKEEPER)
