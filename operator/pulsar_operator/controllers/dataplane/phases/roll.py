"""Outdated pods are replaced one at a time, in component order; a broker hands its bundles over first."""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.api.v1alpha1.cluster_status import RolloutStatus
from pulsar_operator.balance.execution.drain import drain_name
from pulsar_operator.controllers.dataplane.drain import BrokerDrains
from pulsar_operator.controllers.dataplane.holds import held_for
from pulsar_operator.controllers.dataplane.outage import READERS, stores_answer_since
from pulsar_operator.controllers.dataplane.phases.gates import gate
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.store_away import store_away
from pulsar_operator.controllers.dataplane.phases.tiers import replicas_of
from pulsar_operator.controllers.dataplane.replacement import planned, replace, roll_plan
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.cluster_view import DrainFact, RollFact
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.pods import PodFacts, pods_of, update_revision
from pulsar_operator.domain.dataplane.rollout import Blocker, PodToReplace, RepairRules, RollPlan
from pulsar_operator.domain.dataplane.turns import Held, Turns
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.ports import Json


async def roll(step: Step) -> RollFact:
    """Replace at most one outdated pod of the whole cluster."""
    live, drains, order = step.live, step.drains, step.facts.order
    turns = step.view.turns or Turns({}, await _unknown(step))
    on_hold = frozenset(c for c in BRING_UP_ORDER if _on_hold(turns, c))
    rules = _rules(step, live, on_hold)
    plan = roll_plan(live, BRING_UP_ORDER, order=order, rules=rules)
    if plan.component is None or not plan.rolling:
        rest = _pending(step, turns) or _ending(step, plan)
        blocker = _of_pods(live, plan) if rest is not None else None
        return RollFact(_timed(step, rest) if rest is not None else None, blocker=blocker)
    working = plan.replace is not None and not _repairs(plan.replace, on_hold=plan.component in on_hold)
    waiting_for, drain, confirmed, blocker = plan.waiting_for, None, None, None
    held, leave = turns.holds(plan.component), step.view.leave
    if working and leave is not None and leave.holds:
        waiting_for = f"bookie {leave.bookie} to have left"
    elif working and held is not None:
        waiting_for = held.waiting_for
    elif working and plan.component in turns.watched:
        waiting_for = turns.watched[plan.component]
    elif (_needs_stores(plan.replace) and (away := _stores_away(step, plan.component)) is not None) or (
        plan.component in READERS and (away := store_away(step)) is not None
    ):
        waiting_for = away
    elif plan.replace is None:
        waiting_for = turns.unplaced.get(plan.component, waiting_for)
    else:
        if working and drains is not None and plan.component is Component.BROKER:
            plan = await _emptiest_first(step, live, drains, plan, rules)
        # Also of what was never ready, and so is held by nothing: it may serve all the same.
        passed = await gate(step, plan)
        plan, waiting_for, confirmed = passed.plan, passed.waiting_for, passed.confirmed
    if plan.replace is not None and waiting_for is None:
        if plan.component is Component.BROKER and drains is not None:
            waiting_for, drain = await _handed_over(step, live, drains, planned(live, plan))
        if waiting_for is None:
            blocker = await replace(step.hand, live, plan, BRING_UP_ORDER, order, rules)
            waiting_for = blocker.message if blocker is not None else None
    elif plan.replace is None:
        blocker = _of_pods(live, plan)
    rollout = RolloutStatus(
        component=plan.component.value if plan.component is not None else "",
        reason=plan.reason or "",
        pods_done=plan.pods_done,
        pods_total=plan.pods_total,
        waiting_for=waiting_for,
        since=_since(step, turns),
    )
    rollout = _timed(step, rollout)
    asked = drains.asked if drains is not None else frozenset()
    return RollFact(rollout, drain, asked, confirmed, blocker=blocker)


def _on_hold(turns: Turns, component: Component) -> bool:
    """Whether pods that restarted keep their template. A bookie that leaves may wait for such a pod."""
    held = turns.holds(component)
    return component in turns.watched or (held is not None and held.reason is not Reason.BOOKIE_LEAVING)


def _rules(step: Step, live: Live, held: frozenset[Component]) -> RepairRules:
    """When pods that restarted are repaired. An outage of a store does not count."""
    answers = stores_answer_since(step.facts, live.at) if live.at is not None else {}
    return RepairRules(held, step.facts.spec.progress_deadline_seconds, answers)


def _needs_stores(pod: PodToReplace | None) -> bool:
    """Whether a pod waits for stores that are unavailable. One that was ready before may have ended for that reason,
    and comes back when they do."""
    return pod is not None and (not pod.repair or pod.once_ready)


def _repairs(pod: PodToReplace, *, on_hold: bool) -> bool:
    """Whether a pod does no work and goes whatever else is held."""
    return pod.repair and not (pod.once_ready and on_hold)


_ABSENT: Final = frozenset({Reason.POD_REFUSED, Reason.NODE_UNREACHABLE})


def _of_pods(live: Live, plan: RollPlan) -> Blocker | None:
    """Why a pod that the roll waits for is absent: nobody creates it, or its node is lost."""
    facts = live.facts(plan.component) if plan.component is not None and plan.replace is None else None
    problem = next((each for each in facts.problems if each.reason in _ABSENT), None) if facts is not None else None
    return Blocker(problem.reason, f"{problem.message[:1].upper()}{problem.message[1:]}") if problem else None


def _stores_away(step: Step, component: Component) -> str | None:
    """Why a pod that was replaced now could not come up: it reads both stores first, and this pass could not. The pods
    of a configuration store that stands still may be ready all the same."""
    if component is Component.ZOOKEEPER or step.facts.spec.mode is ClusterMode.STANDALONE:
        return None
    found = step.view.metadata
    if found is None:
        return "ZooKeeper to have a quorum"
    return None if found.registered else f"the metadata store and the configuration store to answer: {found.message}"


def _pending(step: Step, turns: Turns) -> RolloutStatus | None:
    """A roll that has not begun: nobody has the newest template of a component yet."""
    component = turns.pending
    if component is None:
        return None
    turn, there = turns.of[component], step.live.stateful_set(component)
    return RolloutStatus(
        component=component.value,
        reason=turn.reason,
        pods_total=replicas_of(there) if there is not None else 0,
        waiting_for=turn.waiting_for or (turns.held.waiting_for if turns.held is not None else None),
        since=_since(step, turns),
    )


def _ending(step: Step, plan: RollPlan) -> RolloutStatus | None:
    """The rest of a roll whose pods are all replaced and not all ready yet: other clusters wait for that too."""
    stored = (step.facts.obj.get("status") or {}).get("rollout") or {}
    if plan.component is None or stored.get("component") != plan.component.value or not stored.get("since"):
        return None
    return RolloutStatus(
        component=plan.component.value,
        reason=str(stored.get("reason") or ""),
        pods_done=plan.pods_done,
        pods_total=plan.pods_total,
        waiting_for=plan.waiting_for,
        since=str(stored["since"]),
    )


def _timed(step: Step, rollout: RolloutStatus) -> RolloutStatus:
    """With the time at which it was as far as it is."""
    stored = (step.facts.obj.get("status") or {}).get("rollout") or {}
    as_far = (stored.get("component"), stored.get("podsDone") or 0, stored.get("podsTotal") or 0)
    same = as_far == (rollout.component, rollout.pods_done, rollout.pods_total) and stored.get("progressed")
    time = str(stored["progressed"]) if same else timestamp(step.hand.deps.clock.now())
    return rollout.model_copy(update={"progressed": time})


async def _unknown(step: Step) -> Held | None:
    """What holds a cluster whose templates were not looked at: in mode Standalone none are kept."""
    if step.facts.spec.mode is ClusterMode.STANDALONE:
        return await held_for(step.facts, step.hand, step.live, step.rendered)
    return Held(Reason.PENDING, "the pod templates to be applied")


_GOES_ON = (Reason.WAITING_FOR_CLUSTERS, Reason.ROLL_STOPPED, Reason.CANARY_FAILED)
"""Holds in which a cluster keeps its place before the others: what stopped here would stop there too."""


def _since(step: Step, turns: Turns) -> str | None:
    """Since when it is this cluster's turn, or would be but for other clusters."""
    if turns.held is not None and turns.held.reason not in _GOES_ON:
        return None
    stored = ((step.facts.obj.get("status") or {}).get("rollout") or {}).get("since")
    return str(stored) if stored else timestamp(step.hand.deps.clock.now())


def _serving(live: Live, *, outdated: bool) -> list[PodFacts]:
    """Ready brokers of an old revision, or of the newest one."""
    there = live.stateful_set(Component.BROKER)
    assert there is not None
    revision = update_revision(there)
    found = pods_of(there, live.pods(Component.BROKER))
    return [p for p in found if p.ready and not p.terminating and (p.revision != revision) is outdated]


async def _emptiest_first(step: Step, live: Live, drains: BrokerDrains, plan: RollPlan, rules: RepairRules) -> RollPlan:
    """The plan with the broker that has the fewest bundles first; one that has begun to hand over stays the one."""
    outdated = [pod.name for pod in _serving(live, outdated=True)]
    if not drains.enabled or len(outdated) < 2:
        return plan
    begun = set(((step.facts.obj.get("status") or {}).get("drain") or {}).get("pods") or ())
    first = next((name for name in outdated if name in begun), None) or await drains.emptiest(outdated)
    if first is None:
        return plan
    return roll_plan(live, BRING_UP_ORDER, order=step.facts.order, first=first, rules=rules)


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
