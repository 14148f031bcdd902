"""Who moves bundles: Pulsar, or the operator, for a PulsarRebalance or all the time, as long as it can decide
(balancing_owner.py)."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.api.v1alpha1.load_balancing import BalancingDriver
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.dataplane.balancing.balancer_record import BalancerRecord
from pulsar_operator.controllers.dataplane.balancing.balancing_owner import Question, whose_turn
from pulsar_operator.controllers.dataplane.balancing.broker_drains import drains_of
from pulsar_operator.controllers.dataplane.balancing.load_balancer import standing_rebalance, without_standing
from pulsar_operator.controllers.dataplane.observed.phase import Step
from pulsar_operator.domain.dataplane.cluster.cluster_view import BalanceFact, RollFact, ScaleFact


async def balance(step: Step) -> BalanceFact:
    """Take Pulsar's balancer over, or give it back; and delete drains that are over.

    Nothing of it while the configuration store is away: no bundle can be moved, and whoever balances goes on after it.
    """
    if step.facts.instance.found and step.store_unavailable is not None:
        return BalanceFact(seen=False)
    facts, view, hand = step.facts, step.view, step.hand
    roll, scale, drains = view.roll or RollFact(), view.scale or ScaleFact(), drains_of(step)
    if drains is not None:
        await drains.clean(roll.asked | scale.asked, changing=view.drain is not None)
    drives = facts.spec.load_balancing.driver is BalancingDriver.OPERATOR
    await standing_rebalance(
        hand.deps, hand, facts.obj, facts.spec, drives=drives, held=facts.before.balancer is not None
    )
    brokers = step.live.facts(Component.BROKER)
    endpoint = facts.brokers(step.manifests)
    if brokers is None or not brokers.ready or endpoint is None:
        return BalanceFact(seen=False)
    held = view.turns.holds(Component.BROKER) if view.turns is not None else None
    rebalances = await reader_of(hand.deps).every(Kind.REBALANCE, allowed_by=facts.obj)
    if not drives:
        rebalances = await without_standing(hand, facts.obj, rebalances)
    question = Question(
        facts.obj,
        rebalances,
        facts.before,
        drives=drives,
        rolls=roll.of_brokers and held is None,
        drains=view.drain is not None,
    )
    return await whose_turn(hand, endpoint, BalancerRecord.of(hand, facts.owner, step.live), question)
