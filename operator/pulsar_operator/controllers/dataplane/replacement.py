"""Outdated pods of a PulsarCluster or PulsarInstance are replaced one at a time.

Which is next is decided in domain/dataplane/rollout.py. A pod leaves by eviction, so that a roll and a node drain share
one PodDisruptionBudget; one that does no work is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import observe_children
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.rollout import FORWARDS, ComponentPods, RollOrder, RollPlan, plan_roll
from pulsar_operator.ports import PODS, PVCS, Json


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
    if (claim := await _deleted_claim(actor, pod)) is not None:
        return (
            f"PersistentVolumeClaim {claim} not to be on its way out: somebody deleted it, and its volume goes with "
            f"pod {plan.replace.name}. Have a bookie's volume replaced (annotation {ANNOTATION_REPLACE_VOLUME} on its "
            "pod), or delete the pod if nobody needs what is on the volume"
        )
    if plan.replace.budget:
        refused = await actor.evict(pod, plan.replace.reason, reason=Reason.POD_REPLACED)
        return f"pod {plan.replace.name} to be let go: {refused}" if refused is not None else None
    await actor.delete(PODS, pod, plan.replace.reason, reason=Reason.POD_REPLACED)
    return None


async def _deleted_claim(actor: Actor, pod: Json) -> str | None:
    """A claim of a pod that is being deleted, by name: it is there as long as the pod (finalizer
    kubernetes.io/pvc-protection). Raises PortError."""
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        claim = await actor.deps.kube.get(PVCS, pod["metadata"]["namespace"], name) if name else None
        if claim is not None and "deletionTimestamp" in claim["metadata"]:
            return str(name)
    return None


def planned(live: Live, plan: RollPlan) -> Json:
    """The pod that a plan would replace."""
    assert plan.component is not None and plan.replace is not None
    return next(p for p in live.pods(plan.component) if p["metadata"]["uid"] == plan.replace.uid)
