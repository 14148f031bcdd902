"""Replaces outdated pods of a PulsarCluster or PulsarInstance one at a time.

domain/dataplane/rollout decides which pod is next, and whether it may be replaced. A pod is evicted, so that a rollout
and a node drain share one PodDisruptionBudget; a pod that does no work is deleted. Neither happens while the API server
would refuse to create its successor (domain/dataplane/objects/pod_admission.py). A refusal concerns only its pod:
another pod that serves no client may still be replaced, and the rest of the pass continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.objects.children import observe_children
from pulsar_operator.controllers.dataplane.objects.pod_successors import ABOUT_ONE_POD, refused_successor
from pulsar_operator.controllers.dataplane.rollout.observe import component_states
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.absent_pods import short
from pulsar_operator.domain.dataplane.objects.budgets import describe_several, selecting
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.rollout.checks import CHECKS, Decision, blocker_of, decide, writes_pause
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts
from pulsar_operator.domain.dataplane.rollout.order import Candidate, next_pods
from pulsar_operator.ports import (
    PDBS,
    PODS,
    PVCS,
    ForbiddenError,
    Json,
    PortError,
)

Prepare = Callable[[RolloutFacts, Candidate], Awaitable[RolloutFacts]]
"""Prepares the replacement of a pod; returns the updated facts."""


async def roll_out(
    actor: Actor, live: Live, facts: RolloutFacts, prepare: Prepare | None = None
) -> tuple[RolloutFacts, Decision]:
    """Replaces the next pod if it may be replaced: its StatefulSet creates it again. Returns the updated facts, and the
    decision by them. Raises PortError."""
    for _ in next_pods(facts):
        decision = decide(facts)
        candidate = decision.candidate
        if candidate is None or decision.blocker is not None:
            break
        if prepare is not None:
            facts = await prepare(facts, candidate)
            if blocker_of(facts, candidate, CHECKS) is not None:
                continue
        facts, gone = await _replace(actor, live, facts, candidate)
        if gone:
            return facts, decision
    return facts, decide(facts)


async def _replace(actor: Actor, live: Live, facts: RolloutFacts, candidate: Candidate) -> tuple[RolloutFacts, bool]:
    """Replaces a pod that no check blocks. Returns the updated facts, and whether this pass is done.

    Pods are read again directly before: a pass may take minutes, in which another pod may become unready.
    """
    if actor.act:
        live = await observe_children(actor.deps, actor.owner)
        facts = facts.observed(component_states(live, [each.component for each in facts.components]))
        again = decide(facts)
        now = again.candidate
        if now is None or (now.uid, now.urgency) != (candidate.uid, candidate.urgency):
            return facts, True  # another pod is next: the next pass decides on it
        if again.blocker is not None:
            return facts, False
        candidate = now
    pod = next(each for each in live.pods(candidate.component) if each["metadata"]["uid"] == candidate.uid)
    facts = await _with_claims(actor, facts, pod)
    if blocker_of(facts, candidate, CHECKS) is not None:
        return facts, False
    there = live.stateful_set(candidate.component)
    refused = await refused_successor(actor, there, pod) if actor.act and there is not None else None
    refused = refused or await _leave(actor, pod, candidate)
    if refused is not None:
        return facts.refusing(candidate.uid, refused), False
    if (pause := writes_pause(facts, candidate)) is not None:
        # Once: as long as a budget keeps the pod nothing pauses.
        await actor.warn(Reason.TOO_FEW_BOOKIES, f"While pod {candidate.name} is replaced, {pause}")
    return facts, True


async def _leave(actor: Actor, pod: Json, candidate: Candidate) -> Blocker | None:
    """Evicts a pod, or deletes it; returns the blocker if the API server refuses."""
    try:
        if not candidate.budget:
            await actor.delete(PODS, pod, candidate.reason, reason=Reason.POD_REPLACED)
            return None
        words = await actor.evict(pod, candidate.reason, reason=Reason.POD_REPLACED)
    except ForbiddenError:
        raise
    except ABOUT_ONE_POD as error:
        return await _refused_eviction(actor, pod, error)
    if words is None:
        return None
    text = (
        f"Pod {candidate.name} cannot be evicted now: {short(words)}. The rollout continues once the "
        "PodDisruptionBudget allows the eviction"
    )
    return Blocker(Reason.DISRUPTION_BUDGET, text)


async def _refused_eviction(actor: Actor, pod: Json, error: PortError) -> Blocker:
    """Returns the blocker if the API server refused the eviction, or the deletion, of a pod; several budgets are
    named."""
    meta = pod["metadata"]
    try:
        found = selecting(await actor.deps.kube.list(PDBS, meta["namespace"]), pod)
    except PortError:
        found = []
    if len(found) > 1:
        text = describe_several(meta["name"], found, actor.owner["metadata"]["uid"])
        return Blocker(Reason.EVICTION_REFUSED, text)
    text = f"The API server refused the eviction of pod {meta['name']}: {short(str(error))}. Remove the cause"
    return Blocker(Reason.EVICTION_REFUSED, text)


async def _with_claims(actor: Actor, facts: RolloutFacts, pod: Json) -> RolloutFacts:
    """Adds a claim of a pod that is being deleted, which exists as long as the pod (finalizer
    kubernetes.io/pvc-protection), or that was removed by force. Raises PortError."""
    meta = pod["metadata"]
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        claim = await actor.deps.kube.get(PVCS, meta["namespace"], name) if name else None
        if claim is not None and "deletionTimestamp" in claim["metadata"]:
            return replace(facts, deleted_claims={**facts.deleted_claims, meta["uid"]: str(name)})
        # Users mount claims of their own; the StatefulSet controller creates those that are named after the pod.
        if name and claim is None and str(name).endswith(f"-{meta['name']}"):
            return replace(facts, missing_claims={**facts.missing_claims, meta["uid"]: str(name)})
    return facts
