"""The managed ZooKeeper ensemble of a cluster, and the one pod of mode Standalone."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.dataplane.children import apply_children
from pulsar_operator.controllers.dataplane.ensemble import apply_ensemble
from pulsar_operator.controllers.dataplane.phases.phase import Step


async def shared(step: Step) -> None:
    """What all pods need; and our finalizer, before anything outside of the object is made."""
    hand = step.hand
    if hand.act:
        await ensure_finalizer(hand.deps, step.facts.obj)
    await apply_children(hand, step.facts.live, step.rendered.shared)


async def zookeeper(step: Step) -> None:
    """The ensemble, where it is ours."""
    manifests = step.rendered.of(Component.ZOOKEEPER)
    if manifests:
        await apply_ensemble(step.hand, step.facts.owner, step.facts.live, Component.ZOOKEEPER, manifests)


async def standalone(step: Step) -> None:
    """Everything in one pod."""
    await apply_children(step.hand, step.facts.live, step.rendered.of(Component.STANDALONE))
