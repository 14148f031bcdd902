"""Decides who moves bundles: Pulsar, or the operator, for one PulsarRebalance or continuously (balancing_owner.py)."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.api.v1alpha1.load_balancing import BalancingDriver
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.dataplane.balancing.balancer_record import BalancerRecord
from pulsar_operator.controllers.dataplane.balancing.balancing_owner import Question, whose_turn
from pulsar_operator.controllers.dataplane.balancing.broker_drains import drains_of
from pulsar_operator.controllers.dataplane.balancing.load_balancer import standing_rebalance, without_standing
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.dataplane.cluster.cluster_view import BalanceFact, RolloutFact, ScaleFact


async def balance(ctx: PhaseContext) -> BalanceFact:
    """Takes Pulsar's balancer over, or restores it, and deletes completed drains.

    Does nothing while the configuration store is unavailable: no bundle can be moved, and the owner stays the same.
    """
    if ctx.facts.instance.found and ctx.store_unavailable is not None:
        return BalanceFact(observed=False)
    facts, view, actor = ctx.facts, ctx.view, ctx.actor
    rollout, scale, drains = view.rollout or RolloutFact(), view.scale or ScaleFact(), drains_of(ctx)
    if drains is not None:
        await drains.clean(rollout.asked | scale.asked, changing=view.drain is not None)
    drives = facts.spec.load_balancing.driver is BalancingDriver.OPERATOR
    await standing_rebalance(
        actor.deps, actor, facts.obj, facts.spec, drives=drives, disabled=facts.before.balancer is not None
    )
    brokers = ctx.live.facts(Component.BROKER)
    endpoint = facts.brokers(ctx.manifests)
    if brokers is None or not brokers.ready or endpoint is None:
        return BalanceFact(observed=False)
    blocker = view.template_order.blocker_of(Component.BROKER) if view.template_order is not None else None
    rebalances = await reader_of(actor.deps).every(Kind.REBALANCE, allowed_by=facts.obj)
    if not drives:
        rebalances = await without_standing(actor, facts.obj, rebalances)
    question = Question(
        facts.obj,
        rebalances,
        facts.before,
        drives=drives,
        rolls=rollout.of_brokers and blocker is None,
        drains=view.drain is not None,
    )
    return await whose_turn(actor, endpoint, BalancerRecord.of(actor, facts.owner, ctx.live), question)
