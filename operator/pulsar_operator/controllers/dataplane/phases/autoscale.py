"""How many brokers and proxies there are to be from the next pass on (balance/autoscaling decides).

The last phase: it knows whether pods are replaced, bundles moved, copies made. What it decides is in the status when
the pass ends, and rendered by the passes that find it there (domain/dataplane/wanted.py); scale.py adds and removes the
pods. So a pass that is killed, wherever, has either decided nothing or what the next one acts on.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster import Broker, Proxy
from pulsar_operator.api.v1alpha1.scaling_status import ComponentScalingStatus
from pulsar_operator.balance.autoscaling import brokers, proxies
from pulsar_operator.balance.autoscaling.blocks import blocks
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.policy import Measured, broker_signals, policy_of, proxy_signals
from pulsar_operator.balance.autoscaling.values import Policy, Verdict, Workload
from pulsar_operator.balance.model.capacity import cpus_of
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.store_away import store_away
from pulsar_operator.controllers.dataplane.scaling import INTERVAL, Decided, row_of, seconds, state_of, workload_of
from pulsar_operator.domain.dataplane.cluster_view import ScalingFact
from pulsar_operator.domain.dataplane.scaling import NOUNS, kept
from pulsar_operator.domain.dataplane.wanted import SCALED, part_of, rows_of, workload_replicas


async def autoscale(step: Step) -> ScalingFact:
    """Decide for each component that has autoscaling; of one that has it no more the last number is remembered."""
    stored = rows_of(step.facts.obj.get("status"))
    rows: dict[Component, ComponentScalingStatus] = {}
    again = False
    for component in SCALED:
        part, before = part_of(step.facts.declared, component), stored.get(component)
        if part is None:
            continue
        if part.autoscaling is not None:
            rows[component] = await _decided(step, component, before)
            again = again or rows[component].desired != _number(step, component)
        elif before is not None:
            last = kept(before, part.replicas, workload_replicas(step.live, component))
            if last is not None:
                rows[component] = last
    return ScalingFact(rows, again)


def _number(step: Step, component: Component) -> int:
    """Replicas that this pass renders: what was decided before."""
    part = part_of(step.facts.spec, component)
    assert part is not None
    return part.replicas


async def _decided(step: Step, component: Component, before: ComponentScalingStatus | None) -> ComponentScalingStatus:
    part, deps, hand = part_of(step.facts.declared, component), step.hand.deps, step.hand
    assert part is not None and part.autoscaling is not None
    number = _number(step, component)
    now, there = deps.clock.now(), workload_replicas(step.live, component)
    facts = step.live.facts(component)
    workload = workload_of(number, facts.pods if facts is not None else (), blocks(_reasons(step)), now)
    policy = policy_of(part.autoscaling, INTERVAL)
    state = state_of(before, now)
    verdict, after = _verdict(step, part, workload, policy, state)
    deps.metrics.scaling_decided(step.facts.meta.namespace, step.facts.meta.name, component.value, verdict.reason.value)
    desired = verdict.desired
    if desired != number:
        text = f"Scale {NOUNS[component]} from {number} to {desired}"
        if hand.act:
            await hand.record_event(verdict.reason, f"{text}: {verdict.message}")
        else:
            # Without the figures, which differ from pass to pass.
            hand.pending.append(f"{text} (status.autoscaling says why)")
            words = f"Would scale from {number} to {desired}: {verdict.message}"
            verdict, after, desired = Verdict(number, Reason.DRY_RUN, words, None, verdict.inputs), state, number
    current = number if there is None else there
    return row_of(Decided(number, current, part.replicas, verdict, after, desired), before, now)


def _verdict(
    step: Step, part: Broker | Proxy, workload: Workload, policy: Policy, state: State
) -> tuple[Verdict, State]:
    now = seconds(step.hand.deps.clock.now())
    if isinstance(part, Broker):
        return brokers.decide(_broker_facts(step, part, workload), policy, state, now)
    measured = step.facts.loads.get(Component.PROXY, {})
    targets = part.autoscaling.targets if part.autoscaling is not None else None
    return proxies.decide(proxies.ProxyFacts(workload, proxy_signals(targets, measured)), policy, state, now)


def _broker_facts(step: Step, part: Broker, workload: Workload) -> brokers.BrokerFacts:
    measured: Mapping[str, Measured] = step.facts.loads.get(Component.BROKER, {})
    pods = [pod for pod in step.live.pods(Component.BROKER) if pod["metadata"]["name"] in workload.ready]
    cpus = cpus_of(pods, step.facts.spec.load_balancing.capacities)
    limited = bool(pods) and all(_has_limit(pod) for pod in pods)
    targets = part.autoscaling.targets if part.autoscaling is not None else None
    return brokers.BrokerFacts(workload, broker_signals(targets, measured, cpus, limited=limited))


def _has_limit(pod: Mapping[str, object]) -> bool:
    """Whether a broker cannot use more CPU than is judged by."""
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    return any(
        each.get("name") == Component.BROKER.value and "cpu" in ((each.get("resources") or {}).get("limits") or {})
        for each in containers or ()
    )


def _reasons(step: Step) -> set[Reason]:
    """What keeps every number as it is, of what the pass knows already."""
    facts, view = step.facts, step.view
    found: set[Reason] = set()
    if facts.meta.paused:
        found.add(Reason.PAUSED)
    storage = view.storage.facts if view.storage is not None else None
    unread = view.metadata is None or not view.metadata.registered or storage is None
    if unread or not facts.instance.store.ready or store_away(step) is not None:
        found.add(Reason.CONFIGURATION_STORE_AWAY)
    if _rolling(step):
        found.add(Reason.ROLLING)
    if view.drain is not None or (view.balance is not None and view.balance.moving is not None):
        found.add(Reason.REBALANCING)
    if storage is not None and storage.under_replicated.count:
        found.add(Reason.UNDER_REPLICATED)
    return found


def _rolling(step: Step) -> bool:
    """Whether pods are being replaced. A roll that waits for its window with its first step changes no load."""
    rollout = step.view.roll.rollout if step.view.roll is not None else None
    held = step.view.turns.held if step.view.turns is not None else None
    if rollout is None:
        return False
    return bool(rollout.pods_done) or held is None or held.reason is not Reason.MAINTENANCE_WINDOW
