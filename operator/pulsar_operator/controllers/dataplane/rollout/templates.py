"""Applies pod templates in the rollout order, and records them before that
(domain/dataplane/objects/template_record.py, rollout/template_order.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.controllers.dataplane.objects.children import apply_children
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts
from pulsar_operator.controllers.dataplane.observed.outage import READERS, answers_since, stored_unavailability
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.controllers.dataplane.rollout.canary_comparison import compared
from pulsar_operator.controllers.dataplane.rollout.cluster_blockers import observe_blocker
from pulsar_operator.controllers.dataplane.rollout.observe import component_states
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.cluster.cluster_view import ListenersFact
from pulsar_operator.domain.dataplane.objects.absent_pods import Absence, absences
from pulsar_operator.domain.dataplane.objects.template_record import (
    Kept,
    TemplateRecord,
    applied_hash,
    parse_record,
    record_manifest,
    record_name,
    template_hash,
    with_template,
)
from pulsar_operator.domain.dataplane.rollout.canary import watch
from pulsar_operator.domain.dataplane.rollout.progress import (
    down,
    first_ready,
    grown,
    overcome,
    proved,
    stopped_by,
    unneeded,
    unplaced,
)
from pulsar_operator.domain.dataplane.rollout.template_order import TemplateOrder, Tier, template_order
from pulsar_operator.domain.render import BRING_UP_ORDER
from pulsar_operator.ports import CONFIG_MAPS, STATEFUL_SETS, Json


async def templates(ctx: PhaseContext) -> TemplateOrder:
    """Decides which component gets its template next, and records which template proved itself and which rollout
    failed."""
    now, spec = ctx.actor.deps.clock.now(), ctx.facts.spec
    absent = _absent(ctx, now)
    tiers = [replace(each, down=down(each, now, spec.progress_deadline_seconds, absent)) for each in _tiers(ctx, now)]
    canary = spec.upgrade.canary
    watched: dict[Component, Blocker] = {}
    minutes, canaries = canary.minutes if canary is not None else 0, []
    stored = {row.component: row for row in ctx.facts.before.canaries}
    crowded = {tier.component: blocker for tier in tiers if (blocker := unplaced(tier)) is not None}
    for index, tier in enumerate(tiers):
        comparison, row = await compared(ctx.actor.deps, tier, watch(tier, now, minutes), stored.get(tier.component))
        stop = stopped_by(tier, now, spec.progress_deadline_seconds, absent)
        stop = stop or (comparison.failed if comparison is not None else None)
        good, left, ran, ready = proved(tier, comparison), unneeded(tier), grown(tier), first_ready(tier)
        if comparison is not None and comparison.failed is None:
            watched[tier.component] = Blocker(Reason.CANARY_UNDER_OBSERVATION, comparison.message)
        if row is not None and stop is None:
            canaries.append(row)
        if stop is not None:
            record = replace(tier.record, stop=stop)
            await ctx.actor.warn(
                stop.reason, f"The rollout of the {tier.component.value} pods was stopped. {stop.message}"
            )
        elif good is not None:
            # What stopped before is over: something that came after it runs well.
            total = tier.state.total if tier.state is not None else None
            record = replace(tier.record, good=good, stop=None, ran=total).only([tier.newest, tier.applied])
        elif overcome(tier):
            record = replace(tier.record, stop=None).only([tier.newest, tier.applied])
        elif ran is not None:
            record = replace(tier.record, ran=ran)
        elif ready is not None:
            record = replace(tier.record, ready=ready)
        elif left:
            record = tier.record.only([tier.newest, tier.applied])
        else:
            continue
        await _write(ctx, tier.component, record)
        tiers[index] = replace(tier, record=record)
    asked = partial(
        template_order, tiers, order=ctx.facts.order, watched=watched, unplaced=crowded, fixed=_fixed(ctx.facts)
    )
    found = asked()
    if any(tier.state is not None and (tier.changed or tier.stop or tier.state.outdated) for tier in tiers):
        found = asked(blocker=await observe_blocker(ctx.facts, ctx.actor))
    return replace(found, canaries=canaries)


def _absent(ctx: PhaseContext, now: datetime) -> dict[str, Absence]:
    """Returns pods that do not exist, from the status of the last pass."""
    return absences(ctx.facts.before.missing_pods, ctx.live.refusals, now)


def _fixed(facts: ClusterFacts) -> dict[Component, Blocker]:
    """Returns components that keep their template: those whose certificate is bad, and those below."""
    uncertified = {each: found for each in BRING_UP_ORDER if (found := facts.uncertified(each)) is not None}
    return uncertified | _fixed_by_stores(facts)


def _fixed_by_stores(facts: ClusterFacts) -> dict[Component, Blocker]:
    """Returns components that keep their template: brokers, while the record of their quorums cannot be read, there are
    fewer racks than they would enforce, or an address is not known for which they would wait; components that read the
    configuration store, while it is unavailable."""
    if (unavailable := stored_unavailability(facts)) is not None:
        text = f"{unavailable}. The pod template is not applied until the configuration store answers"
        return dict.fromkeys(READERS, Blocker(Reason.CONFIGURATION_STORE_UNAVAILABLE, text))
    if facts.config_map is None or facts.record is not None:
        few, pending = facts.too_few_racks, ListenersFact(facts.addresses).blocker
        if few is not None:
            text = f"The new pod template is not applied, because {few}"
            return {Component.BROKER: Blocker(Reason.TOO_FEW_RACKS, text)}
        return {Component.BROKER: pending} if pending is not None else {}
    text = f"ConfigMap {facts.config_map['metadata']['name']} is damaged. See condition MetadataReady"
    return {Component.BROKER: Blocker(Reason.METADATA_CONFLICT, text)}


def _tiers(ctx: PhaseContext, now: datetime) -> list[Tier]:
    found = []
    states = {each.component: each for each in component_states(ctx.live, BRING_UP_ORDER)}
    for component in BRING_UP_ORDER:
        rendered = _workload(ctx.rendered.of(component))
        if rendered is None:
            continue
        live, state = ctx.live.stateful_set(component), states.get(component)
        since = answers_since(ctx.facts, component, now)
        tier = Tier(component, rendered, _record(ctx, component), live, state, answers_since=since)
        # The same object, where it may be: it knows the hash of its rendering by now.
        found.append(tier if _tested(ctx, tier) else replace(tier, may_go_back=False))
    return found


def _tested(ctx: PhaseContext, tier: Tier) -> bool:
    """Whether the last template that ran well may follow the newest one, since that may be a downgrade."""
    newest, good = tier.record.kept.get(tier.newest), tier.record.kept.get(tier.record.good or "")
    if newest is None or good is None or newest.version is None or good.version is None:
        return True
    return ctx.actor.deps.jumps.allows({newest.version}, good.version)


def _record(ctx: PhaseContext, component: Component) -> TemplateRecord:
    return parse_record(ctx.live.get(CONFIG_MAPS.kind, record_name(ctx.facts.owner.name, component)))


async def _write(ctx: PhaseContext, component: Component, record: TemplateRecord) -> None:
    await apply_children(ctx.actor, ctx.live, [record_manifest(ctx.facts.owner, component, record)])


async def rendered_with_record(ctx: PhaseContext, component: Component) -> list[Json]:
    """Returns the manifests of a component, its StatefulSet with the template that it gets now, which is recorded by
    then.

    Without the StatefulSet if its template must stay and is not recorded. Raises NameConflictError, PortError.
    """
    manifests = ctx.rendered.of(component)
    rendered, known = _workload(manifests), ctx.view.template_order
    turn = known.of.get(component) if known is not None else None
    if rendered is None or turn is None:
        return list(manifests)
    others = [each for each in manifests if each is not rendered]
    if turn.template is None:
        return others
    record = _record(ctx, component)
    kept = record.kept.get(turn.template)
    another = kept is not None and kept.version != ctx.facts.spec.version
    if kept is not None and another and turn.template == template_hash(rendered):
        # The same pods under another version: images were named one by one before the version was.
        kept = replace(kept, version=ctx.facts.spec.version)
        await _write(ctx, component, replace(record, kept={**record.kept, turn.template: kept}))
    if kept is None:
        kept = Kept(rendered["spec"]["template"], ctx.facts.spec.version)
        live = ctx.live.stateful_set(component)
        in_use = applied_hash(live) if live is not None else None
        await _write(ctx, component, record.having(turn.template, kept).only([turn.template, in_use]))
    return [*others, with_template(rendered, turn.template, kept.template)]


def _workload(manifests: Sequence[Json]) -> Json | None:
    return next((each for each in manifests if each["kind"] == STATEFUL_SETS.kind), None)
