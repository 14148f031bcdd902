"""Outdated pods of a PulsarCluster or PulsarInstance are replaced one at a time.

Which is next is decided in domain/dataplane/rollout.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import observe_children
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.rollout import ComponentPods, RollPlan, plan_roll
from pulsar_operator.ports import PODS, Json


def roll_plan(live: Live, components: Sequence[Component], *, first: str | None = None) -> RollPlan:
    """The next step for those of the components that exist; ``first`` names the pod to begin with."""
    parts = [(component, live.stateful_set(component)) for component in components]
    return plan_roll([ComponentPods(c, sts, live.pods(c), first=first) for c, sts in parts if sts is not None])


async def replace(actor: Actor, live: Live, plan: RollPlan, components: Sequence[Component]) -> None:
    """Delete the pod that a plan for the components names, if any: its StatefulSet makes it again. Raises PortError.

    Pods are looked at again directly before: a pass may be minutes old, and another pod not ready any more.
    """
    if plan.delete is None:
        return
    if actor.act:
        again = roll_plan(await observe_children(actor.deps, actor.owner), components, first=plan.delete.name)
        if again.delete is None or again.delete.uid != plan.delete.uid:
            return
    await actor.delete(PODS, planned(live, plan), plan.delete.reason, reason=Reason.POD_REPLACED)


def planned(live: Live, plan: RollPlan) -> Json:
    """The pod that a plan would delete."""
    assert plan.component is not None and plan.delete is not None
    return next(p for p in live.pods(plan.component) if p["metadata"]["uid"] == plan.delete.uid)
