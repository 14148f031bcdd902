"""What the decision on bookies takes (balance/autoscaling/bookies.py), of what a pass knows; and what became of the
last one."""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.autoscaling import BookieAutoscaling
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.api.v1alpha1.scaling_status import ComponentScalingStatus
from pulsar_operator.balance.autoscaling import bookies, trend
from pulsar_operator.balance.autoscaling.bookies import BookieFacts, Disk, Refused
from pulsar_operator.balance.autoscaling.policy import LATENCY, Measured, bookie_targets, policy_of
from pulsar_operator.balance.autoscaling.values import Policy, Workload
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import own_bookies
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.scaling.scaling_inputs import (
    INTERVAL,
    Decision,
    refused_of,
    samples_of,
    seconds,
    state_of,
)
from pulsar_operator.domain.dataplane.cluster.cluster_view import DecommissionFact
from pulsar_operator.domain.dataplane.scaling.replicas import workload_replicas

WORDS = 1000
"""Characters of a refusal that are remembered."""
STAYS = frozenset({Reason.DECOMMISSION_REFUSED, Reason.DECOMMISSION_STUCK})
"""Why a bookie that was to leave does not, and will not by waiting."""


def decide_bookies(
    ctx: PhaseContext, part: BookKeeper, workload: Workload, before: ComponentScalingStatus | None
) -> Decision:
    """The number from now on. Where the bookie that is to leave stays, as many as are there: a user who reads that sets
    replicas back likewise."""
    assert part.autoscaling is not None
    clock, number = ctx.actor.deps.clock.now(), workload.replicas
    facts = _facts(ctx, part, workload, before)
    policy, samples = _policy(ctx, part.autoscaling), _sampled(ctx, facts, before)
    stays, there = _refused(ctx, number), workload_replicas(ctx.live, Component.BOOKIE)
    if stays is not None and there is not None:
        return Decision(*bookies.taken_back(stays, there, number, policy), samples, stays)
    verdict, state = bookies.decide(facts, policy, state_of(before, clock), seconds(clock))
    return Decision(verdict, state, samples, facts.refused)


def _policy(ctx: PhaseContext, limits: BookieAutoscaling) -> Policy:
    """Never fewer than the quorums on record take, whatever the limits are: no ledger could be made."""
    policy, quorum = policy_of(limits, INTERVAL), ctx.rendered.quorum
    size = quorum.ensemble_size if quorum is not None else 1
    return replace(policy, least=max(policy.least, size), most=max(policy.most, size))


def _largest_ensemble(ctx: PhaseContext) -> int:
    """Bookies that ledgers take. Namespaces that take more are checked where a bookie takes no writes
    (bookkeeper/read_only_bookies.py), and before one leaves."""
    quorum, read_only = ctx.rendered.quorum, ctx.view.read_only_bookies
    widest = read_only.widest if read_only is not None else None
    return max(quorum.ensemble_size if quorum is not None else 1, widest.size if widest is not None else 1)


def decommissioning(ctx: PhaseContext, number: int) -> set[Reason]:
    """Whether a bookie is being decommissioned, or is still to go; also where that is not known."""
    leave, there = ctx.view.decommission, workload_replicas(ctx.live, Component.BOOKIE)
    if leave is None or (there is not None and there > number):
        return {Reason.DECOMMISSIONING_BOOKIE}
    return {leave.doing} if leave.step is not None else set()


def _refused(ctx: PhaseContext, number: int) -> Refused | None:
    """Why the bookie that is to leave stays, found in this pass; None if it does not, or none is to."""
    leave, there = ctx.view.decommission, workload_replicas(ctx.live, Component.BOOKIE)
    if leave is None or there is None or not there > number or ctx.facts.meta.paused:
        return None
    if not _of_one_too_many(leave, number, there) or leave.reason is None:
        return None
    now, generation = seconds(ctx.actor.deps.clock.now()), ctx.facts.meta.generation
    return Refused(leave.reason, leave.message[:WORDS], generation, now)


def _of_one_too_many(leave: DecommissionFact, number: int, there: int) -> bool:
    """Whether what is said of a bookie is why one that has its pod does not leave."""
    is_counted = leave.ordinal is not None and number <= leave.ordinal < there
    return is_counted and leave.reason in STAYS and leave.doing is Reason.DECOMMISSIONING_BOOKIE


def _facts(
    ctx: PhaseContext, part: BookKeeper, workload: Workload, before: ComponentScalingStatus | None
) -> BookieFacts:
    """What was measured in this pass. A bookie that is ready and not registered, or does not say how full it is, is not
    in it, so that nothing is decided."""
    assert part.autoscaling is not None
    storage, clock = ctx.view.storage, ctx.actor.deps.clock.now()
    now, targets = seconds(clock), part.autoscaling.targets
    slow = ctx.facts.loads.get(Component.BOOKIE, {}).get(LATENCY, Measured({}, 0.0))
    timed = targets.write_latency_milliseconds is not None
    disks: dict[str, Disk] = {}
    own, live = own_bookies(ctx), ctx.live.facts(Component.BOOKIE)
    for pod in live.pods if live is not None else ():
        bookie = own.id(pod.ordinal)
        if storage is None or storage.facts is None or bookie not in storage.facts.registered:
            continue
        space, writable = storage.disks.get(bookie), bookie in storage.facts.writable
        if space is not None:
            took = slow.values.get(pod.name)
            disks[pod.name] = Disk(space.used, space.total, writable, None if took is None else took / 1000)
    asked = storage.disks_at if storage is not None else None
    age = (clock - asked).total_seconds() if asked is not None else 0.0
    last = refused_of(before)
    return BookieFacts(
        workload,
        disks,
        max(age, slow.age if timed else 0.0),
        trend.trend(samples_of(before, now)),
        bookie_targets(targets, _largest_ensemble(ctx)),
        last if last is not None and last.applies(ctx.facts.meta.generation, now) else None,
    )


def _sampled(ctx: PhaseContext, facts: BookieFacts, before: ComponentScalingStatus | None) -> trend.Samples:
    """What was stored, hour by hour. While one is away, comes, goes or is copied it is another amount each minute: of
    that nothing is learnt."""
    now = seconds(ctx.actor.deps.clock.now())
    samples, workload = samples_of(before, now), facts.workload
    whole = len(workload.ready) == workload.replicas and workload.ready <= facts.disks.keys()
    if not whole or workload.blocks:
        return samples
    return trend.sampled(samples, now, sum(facts.disks[pod].used for pod in workload.ready))
