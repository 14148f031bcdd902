"""Who moves bundles: Pulsar, or the operator for a PulsarRebalance (load_balancer.py)."""

from __future__ import annotations

from pulsar_operator.api.constants import Component, Kind, Reason
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.load_balancing import BalancingDriver
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.dataplane.balancer_record import BalancerRecord
from pulsar_operator.controllers.dataplane.load_balancer import hold, holder, standing_rebalance
from pulsar_operator.controllers.dataplane.phases.phase import Step
from pulsar_operator.controllers.dataplane.phases.store_away import store_away
from pulsar_operator.domain.dataplane.cluster_view import BalanceFact, RollFact, ScaleFact
from pulsar_operator.domain.stored import readable
from pulsar_operator.ports import PortError


async def balance(step: Step) -> BalanceFact:
    """Take Pulsar's balancer over, or give it back; and delete drains that are over.

    Nothing of it while the configuration store is away: no bundle can be moved, and whoever balances goes on after it.
    """
    if step.facts.instance.found and store_away(step) is not None:
        return BalanceFact(seen=False)
    facts, view, hand = step.facts, step.view, step.hand
    roll, scale, drains = view.roll or RollFact(), view.scale or ScaleFact(), step.drains
    if drains is not None:
        await drains.clean(roll.asked | scale.asked, changing=view.drain is not None)
    # What it was cannot be read from a status of another version: then the record has it.
    old = readable(PulsarClusterStatus, facts.obj.get("status")).get("balancer")
    drives = facts.spec.load_balancing.driver is BalancingDriver.OPERATOR
    await standing_rebalance(hand.deps, hand, facts.obj, facts.spec, drives=drives)
    brokers = step.live.facts(Component.BROKER)
    endpoint = facts.brokers(step.manifests)
    if brokers is None or not brokers.ready or endpoint is None:
        return BalanceFact(seen=False)
    rebalances = await reader_of(hand.deps).every(Kind.REBALANCE, allowed_by=facts.obj)
    wanted = holder(facts.obj, rebalances, (old or {}).get("heldFor"))
    # Not given back between two brokers of a roll: it would undo what was just planned.
    keep = drives or view.drain is not None or (old is not None and roll.of_brokers)
    record = BalancerRecord.of(hand, facts.owner, step.live)
    try:
        found = await hold(hand.deps, hand, endpoint, old, wanted, drives=keep, record=record)
    except PortError as error:
        # Its pods are as they should be; the next look tries again.
        await hand.warn(Reason.ADMIN_UNREACHABLE, f"The settings of Pulsar's balancer: {error}")
        return BalanceFact(again=True, seen=False, moving=wanted)
    return BalanceFact(found.status, found.again, moving=wanted)
