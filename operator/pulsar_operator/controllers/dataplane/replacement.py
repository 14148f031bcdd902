"""Outdated pods of a PulsarCluster or PulsarInstance are replaced one at a time.

Which is next is decided in domain/dataplane/rollout.py. A pod leaves by eviction, so that a roll and a node drain share
one PodDisruptionBudget; one that does no work is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import observe_children
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.rollout import FORWARDS, ComponentPods, RollOrder, RollPlan, plan_roll
from pulsar_operator.ports import PODS, Json


def roll_plan(
    live: Live,
    components: Sequence[Component],
    *,
    order: RollOrder = FORWARDS,
    first: str | None = None,
    leader: str | None = None,
) -> RollPlan:
    """The next step for those of the components, given in bring-up order, that exist; ``first`` names the pod to begin
    with, ``leader`` the one that goes last."""
    parts = [(component, live.stateful_set(component)) for component in order.sorted(components)]
    found = [ComponentPods(c, sts, live.pods(c), leader, first) for c, sts in parts if sts is not None]
    return plan_roll(found, order)


async def replace(
    actor: Actor, live: Live, plan: RollPlan, components: Sequence[Component], order: RollOrder = FORWARDS
) -> str | None:
    """Have the pod go that a plan for the components names, if any: its StatefulSet makes it again. What it waits for,
    in words, where it may not go now. Raises PortError.

    Pods are looked at again directly before: a pass may be minutes old, and another pod not ready any more.
    """
    if plan.replace is None:
        return None
    if actor.act:
        fresh = await observe_children(actor.deps, actor.owner)
        again = roll_plan(fresh, components, order=order, first=plan.replace.name)
        if again.replace is None or again.replace.uid != plan.replace.uid:
            return None
    pod = planned(live, plan)
    if plan.replace.budget:
        refused = await actor.evict(pod, plan.replace.reason, reason=Reason.POD_REPLACED)
        return f"pod {plan.replace.name} to be let go: {refused}" if refused is not None else None
    await actor.delete(PODS, pod, plan.replace.reason, reason=Reason.POD_REPLACED)
    return None


def planned(live: Live, plan: RollPlan) -> Json:
    """The pod that a plan would replace."""
    assert plan.component is not None and plan.replace is not None
    return next(p for p in live.pods(plan.component) if p["metadata"]["uid"] == plan.replace.uid)
