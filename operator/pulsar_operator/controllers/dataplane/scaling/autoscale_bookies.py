"""The facts for the decision on bookies (balance/autoscaling/bookies.py), from a pass; and the outcome of the last
decision."""

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
"""Maximum length of a stored refusal."""
STAYS = frozenset({Reason.DECOMMISSION_REFUSED, Reason.DECOMMISSION_STUCK})
"""Reasons why a bookie cannot be decommissioned that waiting does not change."""


def decide_bookies(
    ctx: PhaseContext, part: BookKeeper, workload: Workload, before: ComponentScalingStatus | None
) -> Decision:
    """Returns the new number of bookies. If the decommission is refused, it is the current number, as a user would set
    replicas back."""
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
    """Returns the policy with a minimum of the recorded quorums, whatever the limits are: with fewer bookies no ledger
    could be created."""
    policy, quorum = policy_of(limits, INTERVAL), ctx.rendered.quorum
    size = quorum.ensemble_size if quorum is not None else 1
    return replace(policy, least=max(policy.least, size), most=max(policy.most, size))


def _largest_ensemble(ctx: PhaseContext) -> int:
    """Returns the ensemble size of ledgers. Namespaces with larger ones are checked if a bookie is read-only
    (bookkeeper/read_only_bookies.py), and before a decommission."""
    quorum, read_only = ctx.rendered.quorum, ctx.view.read_only_bookies
    widest = read_only.widest if read_only is not None else None
    return max(quorum.ensemble_size if quorum is not None else 1, widest.size if widest is not None else 1)


def decommissioning(ctx: PhaseContext, number: int) -> set[Reason]:
    """Whether a bookie is being, or must be, decommissioned; True also if not known."""
    leave, there = ctx.view.decommission, workload_replicas(ctx.live, Component.BOOKIE)
    if leave is None or (there is not None and there > number):
        return {Reason.DECOMMISSIONING_BOOKIE}
    return {leave.doing} if leave.step is not None else set()


def _refused(ctx: PhaseContext, number: int) -> Refused | None:
    """Returns why the decommission is refused, found in this pass; None if it is not, or there is none."""
    leave, there = ctx.view.decommission, workload_replicas(ctx.live, Component.BOOKIE)
    if leave is None or there is None or not there > number or ctx.facts.meta.paused:
        return None
    if not _of_one_too_many(leave, number, there) or leave.reason is None:
        return None
    now, generation = seconds(ctx.actor.deps.clock.now()), ctx.facts.meta.generation
    return Refused(leave.reason, leave.message[:WORDS], generation, now)


def _of_one_too_many(leave: DecommissionFact, number: int, there: int) -> bool:
    """Whether the report explains why a surplus bookie with a pod is not decommissioned."""
    is_counted = leave.ordinal is not None and number <= leave.ordinal < there
    return is_counted and leave.reason in STAYS and leave.doing is Reason.DECOMMISSIONING_BOOKIE


def _facts(
    ctx: PhaseContext, part: BookKeeper, workload: Workload, before: ComponentScalingStatus | None
) -> BookieFacts:
    """Returns the measurements of this pass. A bookie that is ready and not registered, or does not report its disk
    usage, is left out, so that nothing is decided."""
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
    """Returns the stored data, hour by hour. While a bookie is missing, added, removed or copied the amount changes
    each minute, so nothing is learned."""
    now = seconds(ctx.actor.deps.clock.now())
    samples, workload = samples_of(before, now), facts.workload
    whole = len(workload.ready) == workload.replicas and workload.ready <= facts.disks.keys()
    if not whole or workload.blocks:
        return samples
    return trend.sampled(samples, now, sum(facts.disks[pod].used for pod in workload.ready))
