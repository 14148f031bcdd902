"""Which pods of OnDelete StatefulSets are next to be replaced, and in which order. Pure.

1. Repair: an outdated pod that has not been ready since its container started does no work, so it is replaced at once,
   whatever else is unready, terminating or missing. Otherwise a broken revision could block its own correction. An
   outdated pod that was ready in an earlier container may come back without that. While something holds the component,
   it is not repaired. While a pod of the newest revision is unready, being made or being awaited, it is repaired only
   after it has been unready for half the progress deadline, and not at all while the newest revision fails to
   start: otherwise a version that does not start would take each pod that restarts.
2. Otherwise one pod of each component that has an outdated one, in the order of the components: an unready one first,
   then a read-only bookie, a bookie of the rack that has begun, the emptiest broker, the highest ordinal; the leader of
   an ensemble last. While pods are to be repaired, only the unready ones: what serves waits for the repair, and the
   repair may wait for them, as a broker does for the metadata store.

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
    """Why a pod goes, from the least urgent."""

    ROUTINE = 0
    """Its turn has come. It serves, or restarted and may come back."""
    RESTARTED = 1
    """Repair of a pod that was ready in an earlier container, and is taken not to come back."""
    NEVER_READY = 2
    """Repair of a pod that was never ready."""


@dataclass(frozen=True)
class Candidate:
    """A pod that is next to be replaced, with its UID as precondition."""

    component: Component
    name: str
    uid: str
    reason: str
    """Why it is outdated, in words; for log, event and status."""
    urgency: Urgency = Urgency.ROUTINE
    unready: bool = False
    """Whether it serves nobody."""
    budget: bool = True
    """Whether it leaves by eviction, so that a PodDisruptionBudget has a say. Not where the pod was never ready, nor an
    unready pod that is alone, nor where sidecars of several are not ready: their budget answers 429 for ever (source:
    policy/v1, IfHealthyBudget)."""


def next_pods(facts: RolloutFacts) -> tuple[Candidate, ...]:
    """The pods to replace, the next one first. Where it is blocked, another one may go as `checks.decide` says."""
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
    """Whether a pod is replaced at once. The template of one whose container restarted, and was ready before, need not
    be why: it waits with its component, and for the newest revision to prove itself."""
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
    """Names of pods of a component that go before the others."""
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
        reason=replacement_reason(pod.raw, state.template),
        urgency=urgency,
        unready=not pod.ready and not pod.serving,
        budget=pod.serving_before and not alone and not sidecars,
    )
