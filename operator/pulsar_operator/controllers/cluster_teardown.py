"""Deleting a PulsarCluster: clients first, storage last, volumes only where the user said so."""

from __future__ import annotations

from http import HTTPStatus

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.actor import Actor
from pulsar_operator.controllers.base import release_finalizer
from pulsar_operator.controllers.bootstrap import record_name
from pulsar_operator.controllers.children import Children
from pulsar_operator.controllers.zookeeper import delete_volumes, super_digest_name
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import CONFIG_MAPS, SECRETS, Deps, Json, RefusedError

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
    try:
        waiting = await _stop_and_clean(deps, owner, obj, spec, actor)
    except RefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        # Deleting the Kubernetes namespace takes the operator's rights in it away first; everything there is being
        # deleted anyway, and holding the object would only hold the namespace.
        await actor.warn(Reason.FINALIZER_RELEASED, f"The pods were not stopped in order: {error}")
        waiting = None
    if waiting is None:
        await release_finalizer(deps, obj)
    return waiting


async def _stop_and_clean(deps: Deps, owner: Owner, obj: Json, spec: PulsarClusterSpec, actor: Actor) -> str | None:
    children = await Children.observe(deps, obj)
    for step in STEPS:
        if not await children.delete_workloads(actor, step, "the PulsarCluster is being deleted"):
            return f"the {' and '.join(component.value for component in step)} pods to stop"
    if spec.reclaim_policy is ReclaimPolicy.DELETE:
        await _delete_data(deps, owner, actor)
    return None


async def _delete_data(deps: Deps, owner: Owner, actor: Actor) -> None:
    """Volumes, and with them the record that they hold data and the ensemble's superuser."""
    await delete_volumes(actor, owner)
    secret = super_digest_name(owner.name, Component.ZOOKEEPER)
    for kind, name in ((CONFIG_MAPS, record_name(owner.name)), (SECRETS, secret)):
        found = await deps.kube.get(kind, owner.namespace, name)
        if found is not None:
            await actor.delete(kind, found, "reclaimPolicy is Delete")
