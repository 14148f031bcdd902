"""Deleting a PulsarCluster: clients first, storage last, volumes only where the user said so."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.actor import Actor
from pulsar_operator.controllers.base import release_finalizer
from pulsar_operator.controllers.bootstrap import record_name
from pulsar_operator.controllers.children import Children
from pulsar_operator.controllers.zookeeper import delete_volumes
from pulsar_operator.domain.render import cluster_labels, super_digest_secret
from pulsar_operator.ports import CONFIG_MAPS, SECRETS, Deps, Json

STEPS: tuple[tuple[Component, ...], ...] = (
    (Component.PROXY,),
    (Component.BROKER, Component.STANDALONE),
    (Component.BOOKIE, Component.AUTORECOVERY),
    (Component.ZOOKEEPER,),
)
"""Brokers hand over their bundles and close ledgers while bookies and ZooKeeper still answer."""


async def tear_down(deps: Deps, obj: Json, spec: PulsarClusterSpec, actor: Actor) -> str | None:
    """One step of the deletion; what it waits for, or None when the finalizer is off.

    The other children go by garbage collection.
    """
    why = "the PulsarCluster is being deleted"
    if not actor.act:
        actor.pending.append("Delete the pods of all components, proxies first, and release the finalizer")
        return "the object to be resumed"
    children = await Children.observe(deps, obj)
    for step in STEPS:
        if not await children.delete_workloads(actor, step, why):
            return f"the {' and '.join(component.value for component in step)} pods to stop"
    if spec.reclaim_policy is ReclaimPolicy.DELETE:
        await _delete_data(deps, obj, actor)
    await release_finalizer(deps, obj)
    return None


async def _delete_data(deps: Deps, obj: Json, actor: Actor) -> None:
    """Volumes, and with them the record that they hold data and the ensemble's superuser."""
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    await delete_volumes(actor, namespace, cluster_labels(name))
    for kind, child in ((CONFIG_MAPS, record_name(name)), (SECRETS, super_digest_secret(name))):
        found = await deps.kube.get(kind, namespace, child)
        if found is not None:
            await actor.delete(kind, found, "reclaimPolicy is Delete")
