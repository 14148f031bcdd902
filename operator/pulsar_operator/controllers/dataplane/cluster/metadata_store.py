"""The managed ZooKeeper ensemble of a cluster, and the one pod of mode Standalone."""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.dataplane.objects.children import apply_children, prune, prune_configurations
from pulsar_operator.controllers.dataplane.objects.zookeeper_ensemble import apply_ensemble, record_founding
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.rollout.templates import rendered_with_record
from pulsar_operator.domain.render.external_listeners import addresses_manifest


async def shared(ctx: PhaseContext) -> None:
    """Applies what all pods need; and the operator's finalizer, before anything outside of the object is created."""
    actor = ctx.actor
    if actor.act:
        await ensure_finalizer(actor.deps, ctx.facts.obj)
    await apply_children(actor, ctx.facts.live, ctx.rendered.shared)


async def zookeeper(ctx: PhaseContext) -> None:
    """Applies the ensemble, if it is managed."""
    owner = ctx.facts.owner
    store = ctx.facts.spec.metadata_store
    if store is None or store.managed is None:
        return
    manifests = await rendered_with_record(ctx, Component.ZOOKEEPER)
    live = await apply_ensemble(ctx.actor, owner, ctx.live, Component.ZOOKEEPER, manifests)
    await record_founding(ctx.actor, owner, live, Component.ZOOKEEPER, store.managed)


async def standalone(ctx: PhaseContext) -> None:
    """Applies the one pod with all components. Without its instance it is not known whom it may serve."""
    if not ctx.facts.instance.found:
        return
    await apply_children(ctx.actor, ctx.facts.live, ctx.rendered.of(Component.STANDALONE))


NEVER_PRUNED: Final = frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.STANDALONE})
"""Components that hold data: their pods are removed only with the PulsarCluster."""


async def leftovers(ctx: PhaseContext) -> None:
    """Deletes the children that are no longer in the specification."""
    await prune(ctx.actor, ctx.live, ctx.rendered.all(), keep=NEVER_PRUNED)
    plan = ctx.facts.listeners
    addresses = [addresses_manifest(plan, ctx.facts.addresses)] if plan.external else []
    await prune_configurations(ctx.actor, ctx.live, [*ctx.rendered.all(), *addresses])
