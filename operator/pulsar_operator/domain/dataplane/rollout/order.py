"""Which pods of OnDelete StatefulSets are next to be replaced, and in which order. Pure.

1. Repair: an outdated pod that has not been ready since its container started does no work, so it is replaced
   immediately, whatever else is unready, terminating or missing. Otherwise a broken revision could block its own
   correction. An outdated pod that was ready in an earlier container may recover without a repair. While the component
   is blocked, it is not repaired. While a pod of the newest revision is unready, being created or awaited, it is
   repaired only after it has been unready for half the progress deadline, and not at all while the newest revision
   fails to start: otherwise a version that does not start would replace each pod that restarts.
2. Otherwise one pod of each component that has an outdated one, in the order of the components: an unready one first,
   then a read-only bookie, a bookie of the rack whose replacement has begun, the emptiest broker, the highest ordinal;
   the leader of an ensemble last. While pods are to be repaired, only unready ones are replaced: pods that serve wait
   for the repair, and the repair may wait for them, as a broker does for the metadata store.

Whether it may be replaced now is decided in checks.py.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.bookkeeper.bookie_racks import begun_first
from pulsar_operator.domain.dataplane.objects.pods import PodFacts, unready_since
from pulsar_operator.domain.dataplane.rollout.facts import ComponentState, RolloutFacts
from pulsar_operator.domain.dataplane.rollout.pod_diff import replacement_reason
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import leader_of


class Urgency(IntEnum):
    """Urgency of a replacement, the least urgent first."""

    ROUTINE = 0
    """A regular replacement. The pod serves, or it restarted and may recover."""
    RESTARTED = 1
    """Repair of a pod that was ready in an earlier container, and counts as not recovering."""
    NEVER_READY = 2
    """Repair of a pod that was never ready."""


@dataclass(frozen=True)
class Candidate:
    """A pod that is next to be replaced, with its UID as precondition."""

    component: Component
    name: str
    uid: str
    reason: str
    """Why it is outdated, as a message for log, event and status."""
    urgency: Urgency = Urgency.ROUTINE
    unready: bool = False
    """Whether it serves no client."""
    budget: bool = True
    """Whether it is evicted, so that a PodDisruptionBudget applies. False for a pod that was never ready, for a single
    unready pod, and if sidecars of several are not ready: their budget would answer 429 without end (source: policy/v1,
    IfHealthyBudget)."""


def next_pods(facts: RolloutFacts) -> tuple[Candidate, ...]:
    """Returns the pods to replace, the next one first. If it is blocked, another one may be replaced as `checks.decide`
    decides."""
    observed = [state for state in facts.components if state.revision is not None]
    repairs = [
        _candidate(state, pod, Urgency.RESTARTED if pod.once_ready else Urgency.NEVER_READY)
        for state in observed
        for pod in sorted(state.outdated, key=lambda each: _rank(facts, state, each))
        if _repaired(facts, state, pod)
    ]
    begun = {each.component for each in repairs}
    others = [state for state in observed if state.outdated and state.component not in begun]
    routine = [_candidate(state, _first(facts, state), Urgency.ROUTINE) for state in others]
    return tuple([*repairs, *(each for each in routine if each.unready)] if repairs else routine)


def _repaired(facts: RolloutFacts, state: ComponentState, pod: PodFacts) -> bool:
    """Whether a pod is repaired without waiting. The template need not be why a pod is unready whose container
    restarted and was ready before: it waits with its component, and until the newest revision has proved itself."""
    if pod.serving_before or not pod.once_ready:
        return not pod.serving_before
    if facts.on_hold(state.component) or not state.unproven:
        return not facts.on_hold(state.component)
    given_up = facts.given_up.get(state.component)
    return not state.failing and given_up is not None and unready_since(pod, given_up) <= given_up


def _first(facts: RolloutFacts, state: ComponentState) -> PodFacts:
    # One whose sidecar alone is not ready serves like the others, and goes in their order.
    unready = [pod for pod in state.outdated if not pod.ready and not pod.serving]
    return min(unready or state.outdated, key=lambda each: _rank(facts, state, each))


def _rank(facts: RolloutFacts, state: ComponentState, pod: PodFacts) -> tuple[bool, bool, int]:
    leader = leader_of(facts.servers) if facts.servers is not None else None
    return pod.name == leader, pod.name not in _preferred(facts, state), -pod.ordinal


def _preferred(facts: RolloutFacts, state: ComponentState) -> Collection[str]:
    """Returns names of pods of a component that are replaced before the others."""
    outdated = {pod.name for pod in state.outdated}
    if state.component is Component.BROKER:
        return {each for each in outdated if each == facts.emptiest}
    bookies = facts.bookies
    if state.component is not Component.BOOKIE or bookies is None:
        return outdated
    # What is changed may be the cure of one that takes nothing new.
    readonly = {each.partition(".")[0] for each in bookies.ids if each in bookies.storage.readonly} & outdated
    return readonly or begun_first(bookies.racks, outdated, {pod.name for pod in state.pods} - outdated)


def _candidate(state: ComponentState, pod: PodFacts, urgency: Urgency) -> Candidate:
    alone = state.total == 1 and not pod.ready
    sidecars = not pod.ready and pod.serving and len(state.unready) > 1
    return Candidate(
        component=state.component,
        name=pod.name,
        uid=pod.uid,
        reason=replacement_reason(pod.raw, state.template)
        if pod.revision != state.revision
        else state.stale.get(pod.uid, ""),
        urgency=urgency,
        unready=not pod.ready and not pod.serving,
        budget=pod.serving_before and not alone and not sidecars,
    )
