"""The managed ZooKeeper ensemble of a cluster, and the one pod of mode Standalone."""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.dataplane.objects.children import apply_children, prune, prune_configurations
from pulsar_operator.controllers.dataplane.objects.zookeeper_ensemble import apply_ensemble, record_founding
from pulsar_operator.controllers.dataplane.observed.phase import Step
from pulsar_operator.controllers.dataplane.rollout.templates import dressed


async def shared(step: Step) -> None:
    """What all pods need; and our finalizer, before anything outside of the object is made."""
    hand = step.hand
    if hand.act:
        await ensure_finalizer(hand.deps, step.facts.obj)
    await apply_children(hand, step.facts.live, step.rendered.shared)


async def zookeeper(step: Step) -> None:
    """The ensemble, where it is ours."""
    owner = step.facts.owner
    store = step.facts.spec.metadata_store
    if store is None or store.managed is None:
        return
    manifests = await dressed(step, Component.ZOOKEEPER)
    live = await apply_ensemble(step.hand, owner, step.live, Component.ZOOKEEPER, manifests)
    await record_founding(step.hand, owner, live, Component.ZOOKEEPER, store.managed)


async def standalone(step: Step) -> None:
    """Everything in one pod."""
    await apply_children(step.hand, step.facts.live, step.rendered.of(Component.STANDALONE))


NEVER_PRUNED: Final = frozenset({Component.ZOOKEEPER, Component.BOOKIE, Component.STANDALONE})
"""Components that hold data: only a deleted PulsarCluster takes their pods away."""


async def leftovers(step: Step) -> None:
    """Delete the children that the specification does not ask for any more."""
    await prune(step.hand, step.live, step.rendered.all(), keep=NEVER_PRUNED)
    await prune_configurations(step.hand, step.live, step.rendered.all())
