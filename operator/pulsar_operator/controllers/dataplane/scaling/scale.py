"""Adds and removes pods: the one place where the number of pods of a component changes."""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.balance.execution.drain import scale_in_name
from pulsar_operator.controllers.dataplane.balancing.broker_drains import BrokerDrains, drains_of
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import Returns
from pulsar_operator.controllers.dataplane.objects.children import apply_children
from pulsar_operator.controllers.dataplane.observed.outage import READERS
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext, not_ours
from pulsar_operator.controllers.dataplane.rollout.templates import rendered_with_record
from pulsar_operator.controllers.dataplane.scaling.bookie_count import raise_to, workload
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.cluster.cluster_view import DrainFact, ListenersFact, ScaleFact
from pulsar_operator.domain.dataplane.objects.pods import pods_of
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of
from pulsar_operator.ports import STATEFUL_SETS, Json

SCALED = (Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER, Component.PROXY)


async def scale(ctx: PhaseContext) -> ScaleFact:
    """Scales each component to the specification; surplus brokers are drained first."""
    found = ScaleFact()
    for component in SCALED:
        there, manifests = ctx.live.stateful_set(component), ctx.rendered.of(component)
        desired = next((replicas_of(m) for m in manifests if m["kind"] == STATEFUL_SETS.kind), None)
        if there is None or desired is None or replicas_of(there) == desired:
            continue
        if component in READERS and (unavailable := ctx.store_unavailable) is not None:
            text = f"The {component.value} pods are not scaled. {unavailable}"
            if all(each.reason is not Reason.CONFIGURATION_STORE_UNAVAILABLE for each in found.blockers):
                blocker = Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, text)
                found = replace(found, blockers=(*found.blockers, blocker))
            continue
        if component in READERS and (not ctx.facts.instance.store_known or not_ours(ctx)):
            continue
        if component is Component.BOOKIE:
            if replicas_of(there) < desired:
                bookies = await _bookies(ctx, there, desired)
                found = replace(found, blockers=_to_be_added(bookies.blocker), foreign=bookies.foreign)
            continue  # fewer: decommission/decommission.py
        listeners = ctx.view.listeners or ListenersFact(ctx.facts.addresses)
        pending = listeners.blocker or ctx.facts.unfit(component)
        if component is Component.BROKER and pending is not None and desired > replicas_of(there):
            blocker = replace(pending, message=f"The operator does not add brokers yet. {pending.message}")
            found = replace(found, blockers=(*found.blockers, blocker))
            continue
        if component is Component.BROKER and (drains := drains_of(ctx)) is not None:
            of_brokers = await _brokers(ctx, drains, there, desired)
            found = replace(found, drain=of_brokers.drain, asked=of_brokers.asked, drained=of_brokers.drained)
            if found.drain is not None:
                continue
        live = await apply_children(
            ctx.actor, ctx.live, workload(await rendered_with_record(ctx, component), there, manifests)
        )
        after = live.stateful_set(component)
        lowered = after is None or replicas_of(after) == desired or not ctx.actor.act
        if component is Component.BROKER and lowered:
            found = replace(found, drained=None)
    return found


async def _bookies(ctx: PhaseContext, there: Json, desired: int) -> Returns:
    """Adds bookies. None while the metadata store is not the cluster's, since their cookies would name it, or while a
    decommission is not complete whose ordinal they might get."""
    metadata, storage, leave = ctx.view.metadata, ctx.view.storage, ctx.view.decommission
    if metadata is None or not metadata.local_ready or storage is None or storage.facts is None:
        return Returns(0, Blocker(Reason.PENDING, "The metadata store does not answer, so no bookie is added"))
    if leave is None or leave.forgotten:
        return Returns(
            0, Blocker(Reason.PENDING, "No bookie is added until the decommission of another bookie is complete")
        )
    return await raise_to(ctx, there, desired, storage.facts.cookies)


def _to_be_added(blocker: Blocker | None) -> tuple[Blocker, ...]:
    """Returns the blocker of bookies in the words of the cluster's condition."""
    return (
        (replace(blocker, message=(f"Bookies are to be added, but this cannot begin yet. {blocker.message}")),)
        if blocker is not None
        else ()
    )


async def _brokers(ctx: PhaseContext, drains: BrokerDrains, there: Json, desired: int) -> ScaleFact:
    """Gives new brokers a share of the bundles; drains surplus ones before they are removed."""
    name, have, meta = there["metadata"]["name"], replicas_of(there), ctx.facts.meta
    if have >= 1 and desired > have:
        pods = [f"{name}-{ordinal}" for ordinal in range(have, desired)]
        # The specification, and so its generation, stays the same while autoscaling changes the number.
        scaled = ctx.facts.spec.broker is not None and ctx.facts.spec.broker.autoscaling is not None
        tag = f"{meta.generation}-{desired}" if scaled else str(meta.generation)
        await drains.fill(tag, pods, there=False)
    if not have > desired >= 1:
        return ScaleFact(asked=drains.asked)
    pods_there = pods_of(there, ctx.live.pods(Component.BROKER))
    # Unready ones too: a broker that comes and goes has bundles still; one that is gone is not registered.
    going = [pod.name for pod in pods_there if pod.ordinal >= desired]
    progress = await drains.drain(going, scale_in_name(meta.name, desired))
    if progress.status is None or progress.blocker is None:
        return ScaleFact(asked=drains.asked, drained=progress.status)
    return ScaleFact(DrainFact(progress.status, progress.blocker), drains.asked)
