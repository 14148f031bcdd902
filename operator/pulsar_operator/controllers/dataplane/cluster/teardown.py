"""Deletes a PulsarCluster: clients first, storage last, volumes only if the user asked for it.

In between, the cluster is removed from its instance (registration/deregistration.py).
"""

from __future__ import annotations

from http import HTTPStatus

from pulsar_operator.api.constants import Component, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import BalancerStatus, PulsarClusterStatus
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import (
    allows,
    instance_of,
    owner_text,
    published_endpoint,
    pulsar_name,
    referring,
)
from pulsar_operator.controllers.core.finalizers import release_finalizer
from pulsar_operator.controllers.core.objects import is_going, meta_of, resume
from pulsar_operator.controllers.dataplane.balancing.balancer_record import BalancerRecord
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS, restore_load_balancer
from pulsar_operator.controllers.dataplane.objects.children import delete_workloads, observe_children
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_name
from pulsar_operator.controllers.dataplane.objects.tear_down_record import record_tear_down, runs
from pulsar_operator.controllers.dataplane.objects.zookeeper_ensemble import delete_ours, delete_records, delete_volumes
from pulsar_operator.controllers.dataplane.registration.deregistration import Waiting, deregistration_of
from pulsar_operator.controllers.dataplane.registration.name_claims import registered_with
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.registration.metadata import DamagedRecordError, parse_record
from pulsar_operator.domain.render import ListenerPlan, Owner
from pulsar_operator.domain.render.child_names import is_labelled
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, AdminEndpoint, Deps, Json, PortError, RefusedError

STEPS: tuple[tuple[Component, ...], ...] = (
    (Component.PROXY,),
    (Component.BROKER, Component.STANDALONE),
    (Component.BOOKIE, Component.AUTORECOVERY),
    (Component.ZOOKEEPER,),
)
"""Components in the order in which they stop: brokers unload their bundles and close ledgers while bookies and
ZooKeeper still answer."""


async def tear_down(
    deps: Deps, owner: Owner, obj: Json, spec: PulsarClusterSpec, before: PulsarClusterStatus, actor: Actor
) -> Waiting | None:
    """Does one step of the deletion; returns what it waits for, or None once the finalizer is removed. Garbage
    collection deletes the other children.
    """
    if not actor.act:
        actor.pending.append(
            "Delete the pods of all components, proxies first, remove the cluster from the configuration store, "
            "and release the finalizer"
        )
        reason = Reason.PAUSED if meta_of(obj).paused else Reason.DRY_RUN
        return Waiting(
            "The deletion does not continue while the cluster is paused or in dry run. To continue, run: "
            f"{resume(obj)}",
            reason,
        )
    users = await _users_of_its_store(deps, obj)
    if users:
        names = ", ".join(users)
        text = (
            "Other clusters use the metadata store of this cluster as their configuration store. Delete these "
            f"clusters first: {names}"
        )
        return Waiting(text, Reason.DEPENDENTS_EXIST)
    try:
        waiting = await _stop_and_clean(deps, owner, obj, spec, before, actor)
    except RefusedError as error:
        forbidden = error.status == HTTPStatus.FORBIDDEN
        if not (forbidden and await is_going(deps, owner.namespace, refused=error)):
            raise
        # Deleting the Kubernetes namespace takes the operator's rights in it away first; everything there is being
        # deleted anyway, and holding the object would only hold the namespace.
        waiting = await _forget_at_once(deps, obj, actor)
        if waiting is None:
            await actor.warn(
                Reason.FINALIZER_RELEASED,
                f"The pods were not stopped in order, because the Kubernetes namespace is being deleted: {error}",
            )
    if waiting is None:
        await release_finalizer(deps, obj)
    return waiting


async def _users_of_its_store(deps: Deps, obj: Json) -> list[str]:
    """Returns other clusters of the instance, if this one's metadata store is the instance's configuration store.

    A cluster that the instance does not allow, or allowed before it was deleted, counts if it is registered there: any
    user may create a PulsarCluster that refers to any instance.
    """
    meta, key = obj["metadata"], instance_of(obj)
    if key is None:
        return []
    instance = await deps.kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name)
    store = ((instance or {}).get("spec") or {}).get("configurationStore") or {}
    named = key.namespace == meta["namespace"] and (store.get("cluster") or {}).get("name") == meta["name"]
    if instance is not None and not named:
        return []
    others = [
        each
        for each in referring(await deps.kube.list(CUSTOM[Kind.CLUSTER], None), key)
        if each["metadata"]["uid"] != meta["uid"]
    ]
    users = [each for each in others if instance is not None and allows(instance, each)]
    users += await registered_with(deps, obj, [each for each in others if each not in users])
    return sorted(owner_text(each) for each in users)


async def _stop_and_clean(
    deps: Deps, owner: Owner, obj: Json, spec: PulsarClusterSpec, before: PulsarClusterStatus, actor: Actor
) -> Waiting | None:
    live, left = await observe_children(deps, obj), await deregistration_of(deps, obj, actor)
    if left is not None and runs(obj, live, Component.BROKER) and (waiting := await left.narrow()) is not None:
        return waiting
    for step in STEPS:
        if Component.BROKER in step:
            await _restore_balancer(deps, owner, obj, spec, before.balancer, actor, live)
        pods = f"The {' and '.join(component.value for component in step)} pods have not stopped yet"
        written = Component.BROKER in step and await record_tear_down(deps, obj)
        if not await delete_workloads(actor, live, step, "the PulsarCluster is being deleted") or written:
            return Waiting(pods)
        if Component.BROKER in step and left is not None and (waiting := await left.forget()) is not None:
            return waiting
    if left is not None and (waiting := await left.cursors_gone()) is not None:
        return waiting
    if spec.reclaim_policy is ReclaimPolicy.DELETE:
        await _delete_data(deps, owner, spec, actor)
    return None


async def _forget_at_once(deps: Deps, obj: Json, actor: Actor) -> Waiting | None:
    """Deregisters the cluster while its Kubernetes namespace is being deleted, which ends its pods. Waits for a while
    for a store that does not answer, and for nothing else."""
    try:
        left = await deregistration_of(deps, obj, actor)
        waiting = await left.forget(kept_record=False) if left is not None else None
    except PortError as error:
        waiting = Waiting(str(error))
    if waiting is None or waiting.reason is Reason.CONFIGURATION_STORE_UNAVAILABLE:
        return waiting
    text = (
        f"Cluster {pulsar_name(obj)} stays registered in the configuration store of its instance. "
        f"{sentence(waiting.text)}"
    )
    await actor.warn(Reason.NOT_DELETED, text)
    return None


async def _restore_balancer(
    deps: Deps,
    owner: Owner,
    obj: Json,
    spec: PulsarClusterSpec,
    before: BalancerStatus | None,
    actor: Actor,
    live: Live,
) -> None:
    """Restores the settings of Pulsar's own balancer while brokers still answer: they are in the metadata, and a
    cluster that is created again from it may be balanced by Pulsar. If brokers do not answer, the deletion continues
    and the record stays."""
    there, record = live.stateful_set(Component.BROKER), BalancerRecord.of(actor, owner, live)
    if there is None or "deletionTimestamp" in there["metadata"] or not (before or record.listed):
        return
    brokers = ListenerPlan(owner, Component.BROKER, spec.cluster_domain)
    endpoint = published_endpoint(obj) or AdminEndpoint(pulsar_name(obj), brokers.web_service_url)
    try:
        await restore_load_balancer(deps, actor, endpoint, before, record)
    except PortError as error:
        await actor.warn(
            Reason.LOAD_BALANCER_NOT_RESUMED,
            f"The settings of Pulsar's balancer could not be restored: {error}. If the metadata is used without "
            f"this operator, check {' and '.join(FLAGS)}",
        )


async def _delete_data(deps: Deps, owner: Owner, spec: PulsarClusterSpec, actor: Actor) -> None:
    """Deletes volumes, and with them the record that they hold data; of a managed store also the record of its
    founding."""
    await delete_volumes(actor, owner)
    record = await deps.kube.get(CONFIG_MAPS, owner.namespace, record_name(owner.name))
    if record is not None:
        await delete_ours(actor, CONFIG_MAPS, record, ours=is_labelled(owner, record) or _is_record(record))
    if spec.metadata_store is not None and spec.metadata_store.managed is not None:
        await delete_records(actor, owner, Component.ZOOKEEPER)
        # With the metadata the settings have gone, whether or not they were given back.
        await BalancerRecord(actor, owner, None).delete(FLAGS)


def _is_record(config_map: Json) -> bool:
    try:
        parse_record(config_map.get("data") or {})
    except DamagedRecordError:
        return False
    return True
