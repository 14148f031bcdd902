"""Outdated pods of a PulsarCluster or PulsarInstance are replaced one at a time.

Which is next is decided in domain/dataplane/rollout.py. A pod leaves by eviction, so that a roll and a node drain share
one PodDisruptionBudget; one that does no work is deleted. Neither happens while the API server would refuse to create
its successor (domain/dataplane/pod_admission.py). What the API server answers about one pod is about that pod: it is
returned as a blocker, and the rest of the pass goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Component, Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import observe_children
from pulsar_operator.domain.dataplane.absent_pods import short
from pulsar_operator.domain.dataplane.budgets import describe_several, selecting
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.pod_admission import refuses, successor
from pulsar_operator.domain.dataplane.rollout import (
    FORWARDS,
    NO_RULES,
    Blocker,
    ComponentPods,
    RepairRules,
    RollOrder,
    RollPlan,
    plan_roll,
)
from pulsar_operator.ports import (
    PDBS,
    PODS,
    PVCS,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    Json,
    NotFoundError,
    NotServedError,
    PortError,
    RefusedError,
    ServerError,
)

_ABOUT_ONE_POD = (RefusedError, ServerError, DeadlineError, NotServedError)
"""Answers that say nothing about other requests, except a missing right."""


def roll_plan(
    live: Live,
    components: Sequence[Component],
    *,
    order: RollOrder = FORWARDS,
    first: str | None = None,
    leader: str | None = None,
    rules: RepairRules = NO_RULES,
) -> RollPlan:
    """The next step for those of the components, given in bring-up order, that exist; ``first`` names the pod to begin
    with, ``leader`` the one that goes last, ``rules`` says when pods that restarted are repaired."""
    parts = [(component, live.stateful_set(component)) for component in order.sorted(components)]
    found = [
        ComponentPods(c, sts, live.pods(c), leader, first, c in rules.held, rules.given_up(c, live.at))
        for c, sts in parts
        if sts is not None
    ]
    return plan_roll(found, order)


async def replace(
    actor: Actor,
    live: Live,
    plan: RollPlan,
    components: Sequence[Component],
    order: RollOrder = FORWARDS,
    rules: RepairRules = NO_RULES,
) -> Blocker | None:
    """Have the pod go that a plan for the components names, if any: its StatefulSet makes it again. What keeps it from
    going now, if anything. Raises PortError.

    Pods are looked at again directly before: a pass may be minutes old, and another pod not ready any more.
    """
    if plan.replace is None or plan.component is None:
        return None
    name, now = plan.replace.name, live
    if actor.act:
        now = await observe_children(actor.deps, actor.owner)
        again = roll_plan(now, components, order=order, first=name, rules=rules)
        if again.replace is None or again.replace.uid != plan.replace.uid:
            return None
    pod = planned(live, plan)
    if (claim := await _deleted_claim(actor, pod)) is not None:
        return Blocker(
            Reason.ROLLING,
            f"PersistentVolumeClaim {claim} not to be on its way out: somebody deleted it, and its volume goes with "
            f"pod {name}. Have a bookie's volume replaced (annotation {ANNOTATION_REPLACE_VOLUME} on its "
            "pod), or delete the pod if nobody needs what is on the volume",
        )
    there = now.stateful_set(plan.component)
    if actor.act and there is not None and (refused := await refused_successor(actor, there, pod)) is not None:
        return refused
    try:
        if not plan.replace.budget:
            await actor.delete(PODS, pod, plan.replace.reason, reason=Reason.POD_REPLACED)
            return None
        words = await actor.evict(pod, plan.replace.reason, reason=Reason.POD_REPLACED)
    except ForbiddenError:
        raise
    except _ABOUT_ONE_POD as error:
        return await _refused_eviction(actor, pod, error)
    return Blocker(Reason.ROLLING, f"pod {name} to be let go: {short(words)}") if words is not None else None


async def refused_successor(actor: Actor, stateful_set: Json, pod: Json) -> Blocker | None:
    """Why the API server would not create the pod again. None also where nobody knows: a missing right, a name that is
    taken, a namespace that is gone. Raises PortError."""
    name = str(pod["metadata"]["name"])
    try:
        await actor.deps.kube.dry_run_create(successor(stateful_set, name))
    except (ForbiddenError, ConflictError, NotFoundError, NotServedError):
        return None
    except _ABOUT_ONE_POD as error:
        if not refuses(str(error), pod):
            return None
        return Blocker(
            Reason.POD_REFUSED,
            f"Pod {name} is not replaced, because the API server would refuse to create it again: {short(str(error))}. "
            "Remove the cause, or change the specification",
        )
    return None


async def _refused_eviction(actor: Actor, pod: Json, error: PortError) -> Blocker:
    """What the API server says against the eviction, or the deletion, of one pod; several budgets by name."""
    meta = pod["metadata"]
    try:
        found = selecting(await actor.deps.kube.list(PDBS, meta["namespace"]), pod)
    except PortError:
        found = []
    if len(found) > 1:
        text = describe_several(meta["name"], found, actor.owner["metadata"]["uid"])
        return Blocker(Reason.EVICTION_REFUSED, text)
    text = f"The API server does not let pod {meta['name']} go: {short(str(error))}"
    return Blocker(Reason.EVICTION_REFUSED, text)


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
