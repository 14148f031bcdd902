"""Decides how many brokers, proxies and bookies there are from the next pass on (balance/autoscaling).

It is the last phase: it knows whether pods are replaced, bundles moved, copies made, bookies emptied. Its decision is
in the status when the pass ends, and later passes render it (domain/dataplane/scaling/replicas.py); scale.py and
decommission/decommission.py add and remove the pods. So a pass that is killed has either decided nothing, or exactly
what the next one carries out.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, Broker, Proxy
from pulsar_operator.api.v1alpha1.scaling_status import ComponentScalingStatus
from pulsar_operator.balance.autoscaling import brokers, proxies
from pulsar_operator.balance.autoscaling.blocks import blocks
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.outlook import foreseen
from pulsar_operator.balance.autoscaling.policy import (
    Measured,
    broker_signals,
    policy_of,
    proxy_signals,
    traffic_growth,
)
from pulsar_operator.balance.autoscaling.values import Verdict, Workload
from pulsar_operator.balance.model.capacity import cpus_of
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.scaling.autoscale_bookies import STAYS, decide_bookies, decommissioning
from pulsar_operator.controllers.dataplane.scaling.scaling_inputs import (
    INTERVAL,
    Decided,
    Decision,
    refused_of,
    row_of,
    seconds,
    state_of,
    workload_of,
)
from pulsar_operator.domain.dataplane.cluster.cluster_view import ScalingFact
from pulsar_operator.domain.dataplane.scaling.replicas import (
    SCALED,
    Part,
    part_of,
    rows_of,
    unknown_of,
    workload_replicas,
)
from pulsar_operator.domain.dataplane.scaling.scaling_status import NOUNS, kept, unread_rows
from pulsar_operator.domain.render import BRING_UP_ORDER


async def autoscale(ctx: PhaseContext) -> ScalingFact:
    """Decides for each component that has autoscaling. If autoscaling was removed, the last number is kept."""
    facts, clock = ctx.facts, ctx.actor.deps.clock
    stored, lost = rows_of(facts.before), unknown_of(facts.before)
    unread = unread_rows(facts.declared, facts.spec, lost, facts.live, clock.now()) if lost else {}
    rows: dict[Component, ComponentScalingStatus] = {}
    again = False
    for component in SCALED:
        part, before = part_of(facts.declared, component), stored.get(component)
        if part is None:
            continue
        if component in lost:
            if component in unread:
                rows[component] = unread[component]
                await _report(ctx, component, part, unread[component])
        elif part.autoscaling is not None:
            rows[component] = await _decided(ctx, component, before)
            again = again or rows[component].desired != _number(ctx, component)
        elif before is not None:
            last = kept(before, part.replicas, workload_replicas(ctx.live, component), clock.now())
            if last is not None:
                rows[component] = last
    return ScalingFact(rows, again)


async def _report(ctx: PhaseContext, component: Component, part: Part, row: ComponentScalingStatus) -> None:
    """Reports a decision that could not be read."""
    meta, reason = ctx.facts.meta, Reason.STATUS_UNREADABLE
    if part.autoscaling is not None:
        ctx.actor.deps.metrics.scaling_decided(meta.namespace, meta.name, component.value, reason.value)
    await ctx.actor.warn(reason, f"{NOUNS[component].capitalize()}: {row.message}")


def _number(ctx: PhaseContext, component: Component) -> int:
    """Returns the replicas that this pass renders, which were decided before."""
    part = part_of(ctx.facts.spec, component)
    assert part is not None
    return part.replicas


async def _decided(
    ctx: PhaseContext, component: Component, before: ComponentScalingStatus | None
) -> ComponentScalingStatus:
    part, deps, actor = part_of(ctx.facts.declared, component), ctx.actor.deps, ctx.actor
    assert part is not None and part.autoscaling is not None
    number = _number(ctx, component)
    now, there = deps.clock.now(), workload_replicas(ctx.live, component)
    facts = ctx.live.facts(component)
    pods = facts.pods if facts is not None else ()
    if component is Component.BOOKIE:
        # One that leaves takes nothing new, and what it has is not its share.
        pods = tuple(pod for pod in pods if pod.ordinal < number)
    blocked, alike = blocks(component, _reasons(ctx, component, number)), component is not Component.BOOKIE
    workload = workload_of(number, pods, blocked, now, alike=alike)
    if isinstance(part, BookKeeper):
        decision = decide_bookies(ctx, part, workload, before)
    else:
        decision = _decide(ctx, part, workload, state_of(before, now))
    verdict, desired = decision.verdict, decision.verdict.desired
    deps.metrics.scaling_decided(ctx.facts.meta.namespace, ctx.facts.meta.name, component.value, verdict.reason.value)
    if desired != number:
        text = f"Scale {NOUNS[component]} from {number} to {desired}"
        if actor.act:
            say = actor.warn if verdict.reason in STAYS else actor.record_event
            await say(verdict.reason, f"{text}. {verdict.message}")
        else:
            # Without the figures, which differ from pass to pass.
            actor.pending.append(f"{text} (status.autoscaling has the reason)")
            words = f"The operator would scale from {number} to {desired}. {verdict.message}"
            dry = Verdict(number, Reason.DRY_RUN, words, None, verdict.inputs)
            decision, desired = Decision(dry, state_of(before, now), decision.samples, refused_of(before)), number
    current = number if there is None else there
    return row_of(Decided(number, current, part.replicas, decision, desired), before, now)


def _decide(ctx: PhaseContext, part: Broker | Proxy, workload: Workload, state: State) -> Decision:
    now = seconds(ctx.actor.deps.clock.now())
    assert part.autoscaling is not None
    policy = policy_of(part.autoscaling, INTERVAL)
    if isinstance(part, Broker):
        return Decision(*brokers.decide(_broker_facts(ctx, part, workload), policy, state, now))
    measured = ctx.facts.loads.get(Component.PROXY, {})
    signals = proxy_signals(part.autoscaling.targets, measured)
    return Decision(*proxies.decide(proxies.ProxyFacts(workload, signals), policy, state, now))


def _broker_facts(ctx: PhaseContext, part: Broker, workload: Workload) -> brokers.BrokerFacts:
    measured: Mapping[str, Measured] = ctx.facts.loads.get(Component.BROKER, {})
    pods = [pod for pod in ctx.live.pods(Component.BROKER) if pod["metadata"]["name"] in workload.ready]
    cpus = cpus_of(pods, ctx.facts.spec.load_balancing.capacities)
    limited = bool(pods) and all(_has_limit(pod) for pod in pods)
    limits = part.autoscaling
    assert limits is not None
    recorded = None
    if limits.forecast is not None and ctx.facts.recorded is not None:
        now = ctx.actor.deps.clock.now().timestamp()
        recorded = foreseen(ctx.facts.recorded, now, limits.forecast.sizing.max_age_seconds)
    signals = broker_signals(limits.targets, measured, cpus, limited=limited)
    return brokers.BrokerFacts(workload, signals, recorded, traffic_growth(measured))


def _has_limit(pod: Mapping[str, object]) -> bool:
    """Whether a broker's CPU limit keeps it from the usage at which pods are added."""
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    return any(
        each.get("name") == Component.BROKER.value and "cpu" in ((each.get("resources") or {}).get("limits") or {})
        for each in containers or ()
    )


def _reasons(ctx: PhaseContext, component: Component, number: int) -> set[Reason]:
    """Returns what keeps a number from changing, from the facts of the pass."""
    facts, view = ctx.facts, ctx.view
    found: set[Reason] = set()
    if facts.meta.paused:
        found.add(Reason.PAUSED)
    storage = view.storage.facts if view.storage is not None else None
    unread = view.metadata is None or not view.metadata.registered or storage is None
    if unread or ctx.store_unavailable is not None:
        found.add(Reason.CONFIGURATION_STORE_UNAVAILABLE)
    if _rolling(ctx, component):
        found.add(Reason.ROLLOUT_IN_PROGRESS)
    if component is Component.BOOKIE:
        found |= decommissioning(ctx, number)
    elif view.drain is not None or (view.balance is not None and view.balance.moving is not None):
        found.add(Reason.REBALANCING)
    if storage is not None and storage.under_replicated.count:
        found.add(Reason.UNDER_REPLICATED)
    return found


def _rolling(ctx: PhaseContext, component: Component) -> bool:
    """Whether pods are being replaced. A rollout that waits for its window with its first step changes no load, and
    neither does a waiting rollout of another component. But no bookie is decommissioned during a rollout, and brokers
    get no share of the bundles while theirs is in progress.
    """
    rollout = ctx.view.rollout.status if ctx.view.rollout is not None else None
    blocker = ctx.view.template_order.blocker if ctx.view.template_order is not None else None
    if rollout is None:
        return False
    if rollout.pods_done or blocker is None:
        return True
    if component is Component.BOOKIE or rollout.component == component.value:
        return blocker.reason is not Reason.MAINTENANCE_WINDOW
    return any(facts.up_to_date is not True for each in BRING_UP_ORDER if (facts := ctx.live.facts(each)) is not None)
