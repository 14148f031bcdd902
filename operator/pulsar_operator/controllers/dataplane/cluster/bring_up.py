"""Creates bookies, brokers and proxies as their gates open, then keeps them as rendered.

The number of pods is decided in scaling/scale.py: an existing workload keeps its replicas here.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_racks import not_written
from pulsar_operator.controllers.dataplane.bookkeeper.bookie_volumes import returns
from pulsar_operator.controllers.dataplane.objects.children import apply_children
from pulsar_operator.controllers.dataplane.observed.outage import READERS
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext, desired_pods, not_ours
from pulsar_operator.controllers.dataplane.rollout.templates import rendered_with_record
from pulsar_operator.domain.apply import why_apply
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.cluster.bring_up import bring_up_facts, gates
from pulsar_operator.domain.dataplane.cluster.cluster_view import ListenersFact, TierFact
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.template_record import parse_record, record_name
from pulsar_operator.domain.dataplane.scaling.replicas import replicas_of, with_replicas
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.ports import CONFIG_MAPS, STATEFUL_SETS, Json


async def bookies(ctx: PhaseContext) -> TierFact:
    """Creates bookies and auto-recovery."""
    return await _tier(ctx, Component.BOOKIE, Component.AUTORECOVERY)


async def brokers(ctx: PhaseContext) -> TierFact:
    """Creates brokers; without the configuration store's address they would all be rolled onto a wrong one."""
    return await _tier(ctx, Component.BROKER)


async def proxies(ctx: PhaseContext) -> TierFact:
    """Creates proxies, which also need the configuration store's address."""
    return await _tier(ctx, Component.PROXY)


async def _tier(ctx: PhaseContext, *components: Component) -> TierFact:
    instance, quorum = ctx.facts.instance, ctx.rendered.quorum
    ensemble = quorum.ensemble_size if quorum is not None else None
    found: dict[Component, Blocker | None] = {}
    for component in components:
        if component not in ctx.rendered.components:
            continue
        live = ctx.live
        there = {c: known for c in BRING_UP_ORDER if (known := live.facts(c)) is not None}
        facts = bring_up_facts(ensemble, instance.store, there, ctx.view.metadata, proven(ctx))
        gate = gates(facts)[component]
        found[component] = gate
        if gate is not None and component not in there:
            continue
        if component in READERS and (not instance.store_known or (component in there and not_ours(ctx))):
            continue
        most: int | None = None
        if component is Component.BOOKIE and component not in there and ctx.facts.bookie_volumes:
            found[component], most = await _by_volumes(ctx, desired_pods(ctx, component))
            if found[component] is not None:
                continue
        if component not in there and (gate := _by_facts(ctx, component)) is not None:
            found[component] = gate
            continue
        manifests = await rendered_with_record(ctx, component)
        if most is not None:
            manifests = [with_replicas(m, most) if m["kind"] == STATEFUL_SETS.kind else m for m in manifests]
        await apply_children(ctx.actor, ctx.live, _as_many(live, component, manifests))
    return TierFact(found)


def proven(ctx: PhaseContext) -> frozenset[Component]:
    """Returns the components whose template record says that every pod was ready once. The record outlives a deleted
    StatefulSet, and is deleted with the PulsarCluster."""
    owner = ctx.facts.owner.name
    records = {each: ctx.live.get(CONFIG_MAPS.kind, record_name(owner, each)) for each in BRING_UP_ORDER}
    return frozenset(each for each, found in records.items() if parse_record(found).good is not None)


def _by_facts(ctx: PhaseContext, component: Component) -> Blocker | None:
    """Returns why a component is not created yet: something that its pods need is not known or not good."""
    return _by_racks(ctx, component) or _by_addresses(ctx, component) or ctx.facts.uncertified(component)


def _by_racks(ctx: PhaseContext, component: Component) -> Blocker | None:
    """Returns why a component is not created yet: racks of bookies are unknown, or brokers could create no ledger with
    them."""
    if component is Component.BOOKIE:
        missing = not_written(ctx, range(desired_pods(ctx, component)))
        return Blocker(Reason.WAITING_FOR_METADATA, missing) if missing is not None else None
    if component is Component.BROKER and (few := ctx.facts.too_few_racks) is not None:
        return Blocker(Reason.TOO_FEW_RACKS, few)
    return None


def _by_addresses(ctx: PhaseContext, component: Component) -> Blocker | None:
    """Returns why brokers are not created yet: they would wait for the addresses of their external listeners."""
    if component is not Component.BROKER:
        return None
    return ListenersFact(ctx.facts.addresses).blocker if ctx.view.listeners is None else ctx.view.listeners.blocker


async def _by_volumes(ctx: PhaseContext, replicas: int) -> tuple[Blocker | None, int | None]:
    """Returns why bookies are not created on the existing volumes, and how many are created if not all may be: a volume
    on which no bookie starts does not keep another bookie down.

    Its pod is not created if it would be the last one (scaling/scale.py reports it); otherwise BookKeeper refuses to
    start on it (decommission/volume_record.py reports it). Raises PortError.
    """
    storage = ctx.view.storage
    if storage is None or storage.facts is None:
        text = (
            "The operator cannot read which bookies the metadata store knows, so it creates no bookies on existing "
            "volumes"
        )
        return Blocker(Reason.WAITING_FOR_METADATA, text), None
    found = await returns(ctx, range(replicas), storage.facts.cookies)
    if found.foreign is not None:
        gate = Blocker(Reason.FOREIGN_VOLUME, found.foreign)
        return (None, found.through) if found.through else (gate, None)
    return found.blocker, None


def _as_many(live: Live, component: Component, manifests: Sequence[Json]) -> list[Json]:
    """Returns the manifests of a component with its current number of pods; none for a workload that differs only in
    that."""
    there = live.stateful_set(component)
    if there is None:
        return list(manifests)
    out = []
    for each in manifests:
        if each["kind"] != STATEFUL_SETS.kind:
            out.append(each)
        elif why_apply(each, with_replicas(there, replicas_of(each))) is not None:
            out.append(with_replicas(each, replicas_of(there)))
    return out
