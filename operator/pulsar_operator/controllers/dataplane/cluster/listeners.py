"""Creates the Services of external listeners, and writes the addresses of brokers before brokers are created, added or
changed, which wait for them at their start."""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.dataplane.bookkeeper.replication import local_store
from pulsar_operator.controllers.dataplane.objects.children import apply_children
from pulsar_operator.controllers.dataplane.observed.cluster_facts import addresses_in
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.dataplane.cluster.cluster_view import ListenersFact
from pulsar_operator.domain.dataplane.objects.pods import pods_of
from pulsar_operator.domain.dataplane.observed.advertised import (
    BROKERS_PATH,
    advertised_urls,
    declared_urls,
    outdated_address,
)
from pulsar_operator.domain.render.external_listeners import addresses_manifest, listener_services
from pulsar_operator.ports import PortError


async def listeners(ctx: PhaseContext) -> ListenersFact:
    """Applies the Services and the ConfigMap with the addresses. Raises PortError of Kubernetes alone."""
    facts = ctx.facts
    plan, brokers = facts.listeners, facts.brokers_listening
    if not plan.external:
        return ListenersFact()
    live = await apply_children(ctx.actor, ctx.live, listener_services(plan, facts.spec.platform, brokers))
    known = addresses_in(facts, live)
    await apply_children(ctx.actor, live, [addresses_manifest(plan, known)])
    return await _compared(ctx, ListenersFact(known))


async def _compared(ctx: PhaseContext, fact: ListenersFact) -> ListenersFact:
    """Adds the ready brokers that advertise other addresses than they have, or do not advertise a listener; unchanged
    if the metadata store does not answer."""
    metadata, there, plan = ctx.view.metadata, ctx.live.stateful_set(Component.BROKER), ctx.facts.listeners
    if metadata is None or not metadata.local_ready or there is None:
        return fact
    store, stale, lagging = local_store(ctx), {}, []
    pods = pods_of(there, ctx.live.pods(Component.BROKER))
    try:
        session = await ctx.actor.deps.zookeeper.session(store.servers, store.chroot)
        for pod in (each for each in pods if each.ready and not each.terminating):
            node = await session.get(f"{BROKERS_PATH}/{plan.broker_id(pod.ordinal)}")
            if node is None:
                continue
            urls, declared = advertised_urls(node.data), declared_urls(fact.known.entries.get(pod.name, ""))
            if not urls.keys() >= {each.name for each in plan.external}:
                lagging.append(pod.name)
            if (why := outdated_address(urls, declared)) is not None:
                stale[pod.uid] = why
    except PortError:
        return fact
    return replace(fact, stale=stale, lagging=tuple(lagging))
