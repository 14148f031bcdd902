"""Pods of a PulsarCluster are replaced one at a time, and brokers are added and removed; bundles go first.

Which pod is next: domain/dataplane/rollout.py. What becomes of a broker's bundles: drain.py.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import RolloutStatus
from pulsar_operator.balance.execution.drain import drain_name, scale_in_name
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.children import Children
from pulsar_operator.controllers.dataplane.cluster_pass import ClusterPass
from pulsar_operator.controllers.dataplane.drain import BrokerDrains
from pulsar_operator.domain.dataplane.pods import PodFacts, pods_of, update_revision
from pulsar_operator.domain.dataplane.rollout import ComponentPods, RollPlan, plan_roll
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.ports import PODS, STATEFUL_SETS, Json


async def resized(
    state: ClusterPass, children: Children, drains: BrokerDrains, manifests: Sequence[Json]
) -> list[Json]:
    """The brokers' manifests, the number of replicas held while brokers that are too many hand over their bundles."""
    live, spec = children.stateful_set(Component.BROKER), state.spec.broker
    if live is None or spec is None:
        return list(manifests)
    name, have, wanted = live["metadata"]["name"], int(live["spec"].get("replicas", 1)), spec.replicas
    if have >= 1 and wanted > have:
        pods = [f"{name}-{ordinal}" for ordinal in range(have, wanted)]
        await drains.fill(str(state.meta.generation), pods, there=False)
    if not have > wanted >= 1:
        return list(manifests)
    going = [p.name for p in pods_of(live, children.pods(Component.BROKER)) if p.ordinal >= wanted and p.ready]
    leave = await drains.leave(going, scale_in_name(state.meta.name, wanted))
    if leave.go:
        return list(manifests)
    state.view.drain, state.view.waiting_for = leave.status, state.view.waiting_for or leave.waiting_for
    return [_with_replicas(each, have) if each["kind"] == STATEFUL_SETS.kind else each for each in manifests]


def _with_replicas(manifest: Json, replicas: int) -> Json:
    held = copy.deepcopy(manifest)
    held["spec"]["replicas"] = replicas
    return held


async def roll(state: ClusterPass, children: Children, drains: BrokerDrains | None) -> None:
    """Replace at most one outdated pod of the whole cluster, in component order. Raises PortError."""
    plan = roll_plan(children, BRING_UP_ORDER)
    if drains is not None and plan.component is Component.BROKER and plan.delete is not None:
        plan = await _emptiest_first(state, children, drains, plan)
    if plan.component is None or not plan.rolling:
        return
    state.view.rollout = RolloutStatus(
        component=plan.component.value,
        reason=plan.reason or "",
        pods_done=plan.pods_done,
        pods_total=plan.pods_total,
        waiting_for=plan.waiting_for,
    )
    if plan.delete is None:
        return
    pod = _planned(children, plan)
    if drains is not None and plan.component is Component.BROKER:
        waiting_for = await _handed_over(state, children, drains, pod)
        if waiting_for is not None:
            state.view.rollout = state.view.rollout.model_copy(update={"waiting_for": waiting_for})
            return
    await replace(state.actor, children, plan, BRING_UP_ORDER)


def roll_plan(children: Children, components: Sequence[Component], *, first: str | None = None) -> RollPlan:
    """The next step for those of the components that exist; ``first`` names the pod to begin with."""
    parts = [(component, children.stateful_set(component)) for component in components]
    return plan_roll([ComponentPods(c, sts, children.pods(c), first=first) for c, sts in parts if sts is not None])


async def replace(actor: Actor, children: Children, plan: RollPlan, components: Sequence[Component]) -> None:
    """Delete the pod that a plan for the components names, if any: its StatefulSet makes it again. Raises PortError.

    Pods are looked at again directly before: a pass may be minutes old, and another pod not ready any more.
    """
    if plan.delete is None:
        return
    if actor.act:
        fresh = await Children.observe(actor.deps, children.owner)
        again = roll_plan(fresh, components, first=plan.delete.name)
        if again.delete is None or again.delete.uid != plan.delete.uid:
            return
    await actor.delete(PODS, _planned(children, plan), plan.delete.reason, reason=Reason.POD_REPLACED)


def _planned(children: Children, plan: RollPlan) -> Json:
    assert plan.component is not None and plan.delete is not None
    return next(p for p in children.pods(plan.component) if p["metadata"]["uid"] == plan.delete.uid)


def _serving(children: Children, *, outdated: bool) -> list[PodFacts]:
    """Ready brokers of an old revision, or of the newest one."""
    sts = children.stateful_set(Component.BROKER)
    assert sts is not None
    revision = update_revision(sts)
    found = pods_of(sts, children.pods(Component.BROKER))
    return [p for p in found if p.ready and not p.terminating and (p.revision != revision) is outdated]


async def _emptiest_first(state: ClusterPass, children: Children, drains: BrokerDrains, plan: RollPlan) -> RollPlan:
    """The plan with the broker that has the fewest bundles first; one that has begun to hand over stays the one."""
    outdated = [pod.name for pod in _serving(children, outdated=True)]
    if not drains.enabled or len(outdated) < 2:
        return plan
    begun = set(((state.obj.get("status") or {}).get("drain") or {}).get("pods") or ())
    first = next((name for name in outdated if name in begun), None) or await drains.emptiest(outdated)
    return roll_plan(children, BRING_UP_ORDER, first=first) if first is not None else plan


async def _handed_over(state: ClusterPass, children: Children, drains: BrokerDrains, pod: Json) -> str | None:
    """What a broker that is to be replaced waits for; None = nothing."""
    name, outdated = pod["metadata"]["name"], [each.name for each in _serving(children, outdated=True)]
    if name not in outdated or len(children.pods(Component.BROKER)) < 2:
        return None  # it serves nothing, or nobody else could
    if state.view.drain is not None:
        return state.view.waiting_for  # brokers are removed first
    # Bundles go to brokers that are done, so that no bundle moves more often than it must.
    done = _serving(children, outdated=False)
    leave = await drains.leave(
        [name], drain_name(state.meta.name, pod), avoid=[each for each in outdated if each != name] if done else ()
    )
    if leave.go:
        return None
    state.view.drain = leave.status
    if outdated == [name]:
        # It comes back empty; what it gets then is asked for while it is clear that it is the last.
        await drains.fill(str(pod["metadata"]["uid"])[-5:], [name], there=True)
    return leave.waiting_for
