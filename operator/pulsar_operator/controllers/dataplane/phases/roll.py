"""Outdated pods are replaced one at a time, in component order; a broker hands its bundles over first."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster_status import RolloutStatus
from pulsar_operator.balance.execution.drain import drain_name
from pulsar_operator.controllers.dataplane.drain import BrokerDrains
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.tiers import replicas_of
from pulsar_operator.controllers.dataplane.replacement import planned, replace, roll_plan
from pulsar_operator.domain.dataplane.cluster_view import DrainFact, RollFact
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.pods import PodFacts, pods_of, update_revision
from pulsar_operator.domain.dataplane.rollout import RollPlan
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.ports import Json


async def roll(step: Step) -> RollFact:
    """Replace at most one outdated pod of the whole cluster."""
    live, drains = step.live, step.drains
    plan = roll_plan(live, BRING_UP_ORDER)
    if drains is not None and plan.component is Component.BROKER and plan.delete is not None:
        plan = await _emptiest_first(step, live, drains, plan)
    if plan.component is None or not plan.rolling:
        return RollFact()
    waiting_for, drain = plan.waiting_for, None
    if plan.delete is not None:
        if plan.component is Component.BROKER and drains is not None:
            waiting_for, drain = await _handed_over(step, live, drains, planned(live, plan))
        if waiting_for is None:
            await replace(step.hand, live, plan, BRING_UP_ORDER)
    rollout = RolloutStatus(
        component=plan.component.value,
        reason=plan.reason or "",
        pods_done=plan.pods_done,
        pods_total=plan.pods_total,
        waiting_for=waiting_for,
    )
    return RollFact(rollout, drain, drains.asked if drains is not None else frozenset())


def _serving(live: Live, *, outdated: bool) -> list[PodFacts]:
    """Ready brokers of an old revision, or of the newest one."""
    there = live.stateful_set(Component.BROKER)
    assert there is not None
    revision = update_revision(there)
    found = pods_of(there, live.pods(Component.BROKER))
    return [p for p in found if p.ready and not p.terminating and (p.revision != revision) is outdated]


async def _emptiest_first(step: Step, live: Live, drains: BrokerDrains, plan: RollPlan) -> RollPlan:
    """The plan with the broker that has the fewest bundles first; one that has begun to hand over stays the one."""
    outdated = [pod.name for pod in _serving(live, outdated=True)]
    if not drains.enabled or len(outdated) < 2:
        return plan
    begun = set(((step.facts.obj.get("status") or {}).get("drain") or {}).get("pods") or ())
    first = next((name for name in outdated if name in begun), None) or await drains.emptiest(outdated)
    return roll_plan(live, BRING_UP_ORDER, first=first) if first is not None else plan


async def _handed_over(step: Step, live: Live, drains: BrokerDrains, pod: Json) -> tuple[str | None, DrainFact | None]:
    """What a broker that is to be replaced waits for; None = nothing."""
    name, outdated = pod["metadata"]["name"], [each.name for each in _serving(live, outdated=True)]
    if name not in outdated or len(live.pods(Component.BROKER)) < 2:
        return None, None  # it serves nothing, or nobody else could
    there, broker = live.stateful_set(Component.BROKER), step.facts.spec.broker
    if drains.enabled and there is not None and broker is not None and replicas_of(there) > broker.replicas >= 1:
        return f"brokers that are too many to be removed first, down to {broker.replicas}", None
    # Bundles go to brokers that are done, so that no bundle moves more often than it must.
    done = _serving(live, outdated=False)
    leave = await drains.leave(
        [name], drain_name(step.facts.meta.name, pod), avoid=[e for e in outdated if e != name] if done else ()
    )
    if leave.go or leave.status is None:
        return None, None
    if outdated == [name]:
        # It comes back empty; what it gets then is asked for while it is clear that it is the last.
        await drains.fill(str(pod["metadata"]["uid"])[-5:], [name], there=True)
    return leave.waiting_for, DrainFact(leave.status, leave.waiting_for)
