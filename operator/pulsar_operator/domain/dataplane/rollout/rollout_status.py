"""The rollout in the status of a PulsarCluster. Pure."""

from __future__ import annotations

from pulsar_operator.api.v1alpha1.cluster_status import RolloutStatus
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.rollout.checks import Decision
from pulsar_operator.domain.dataplane.rollout.facts import ComponentState, RolloutFacts


def rollout_status(facts: RolloutFacts, decision: Decision, stored: RolloutStatus | None) -> RolloutStatus | None:
    """Returns the rollout in progress; None if there is none.

    It includes a rollout that has not begun, and one whose pods are all replaced but not all ready yet, or still under
    observation. ``stored`` is the rollout of the stored status; None if it has none.
    """
    states = {state.component: state for state in facts.components}
    candidate, pending = decision.candidate, facts.pending
    if candidate is not None:
        return _status(states[candidate.component], candidate.reason, decision.blocker)
    if pending is not None:
        state = states.get(pending.component)
        if state is None:
            return None
        return _status(state, pending.reason, pending.blocker).model_copy(update={"pods_done": 0})
    if stored is None or not stored.since:
        return None
    rest = next((state for state in states.values() if state.component.value == stored.component), None)
    if rest is None or (busy := rest.busy or facts.watched.get(rest.component)) is None:
        return None
    return _status(rest, stored.reason, facts.unplaced.get(rest.component) or busy)


def _status(state: ComponentState, reason: str, blocker: Blocker | None) -> RolloutStatus:
    return RolloutStatus(
        component=state.component.value,
        reason=reason,
        pods_done=state.done,
        pods_total=state.total,
        blocked_by=blocker.reason.value if blocker is not None else None,
        message=blocker.message if blocker is not None else None,
    )
