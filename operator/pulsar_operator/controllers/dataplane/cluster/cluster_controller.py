"""PulsarCluster: metadata, ZooKeeper, bookies, brokers and proxies of one cluster.

A pass reads everything into one value (observed/cluster_facts.py), runs the phases (pipeline.py), and writes one status
from their results. Every step can be interrupted and repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from pulsar_operator.api.constants import (
    ANNOTATION_REMOTE_CLUSTERS,
    ANNOTATION_RESTART,
    ANNOTATION_STORE_UNAVAILABLE,
    Component,
    ConditionType,
    Kind,
    Reason,
)
from pulsar_operator.api.v1alpha1.base import ObjectReference
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.controllers.core.capacities import capacities_text
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.objects import is_going, owner_of
from pulsar_operator.controllers.core.reconcile import Context, ObjectReconciler
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.dataplane.cluster.pipeline import restore, restore_without_spec, run
from pulsar_operator.controllers.dataplane.cluster.teardown import tear_down
from pulsar_operator.controllers.dataplane.objects.children import observe_children
from pulsar_operator.controllers.dataplane.objects.dependents import (
    REMOVE_FROM_LISTS,
    confirmed_deletion,
    dependents_of_cluster,
    explain,
    remedy,
    waited_for,
)
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_name
from pulsar_operator.controllers.dataplane.objects.tear_down_record import can_be_kept
from pulsar_operator.controllers.dataplane.objects.zookeeper_ensemble import super_digest_name
from pulsar_operator.controllers.dataplane.observed.cluster_facts import ClusterFacts, observe
from pulsar_operator.controllers.dataplane.observed.forecasts import Forecasts
from pulsar_operator.controllers.dataplane.observed.meters import Meters
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import needed_by_namespaces
from pulsar_operator.domain.dataplane.cluster.applied_config import running_configs, without_a_roll_of
from pulsar_operator.domain.dataplane.cluster.bring_up import StoreFact
from pulsar_operator.domain.dataplane.cluster.cluster_status import CLUSTER_CONDITIONS, cluster_status, set_conditions
from pulsar_operator.domain.dataplane.cluster.cluster_view import ClusterView, InstanceFact
from pulsar_operator.domain.dataplane.cluster.findings import RETRY_SECONDS, findings_of, fold
from pulsar_operator.domain.dataplane.objects.local_volumes import with_local_volumes, without_a_roll
from pulsar_operator.domain.dataplane.objects.template_record import template_hash, with_annotations_of
from pulsar_operator.domain.dataplane.observed.remote_clusters import with_known_urls, with_remote_clusters
from pulsar_operator.domain.dataplane.observed.running_versions import record_of
from pulsar_operator.domain.dataplane.observed.store_sessions import session_of, with_store_unavailable
from pulsar_operator.domain.dataplane.rollout.restart import with_reason_kept, with_restart
from pulsar_operator.domain.dataplane.rollout.versions import VersionDecision, decide
from pulsar_operator.domain.dataplane.scaling.replicas import unknown_of, with_desired, with_quorum, with_unreadable
from pulsar_operator.domain.dataplane.scaling.scaling_status import unread_rows
from pulsar_operator.domain.render import (
    BRING_UP_ORDER,
    ClusterInputs,
    ImageTemplates,
    Owner,
    RenderedCluster,
    StoreAddress,
    render_cluster,
    spec_problems,
)
from pulsar_operator.domain.render.settings import sift, with_kept
from pulsar_operator.domain.stored import unreadable
from pulsar_operator.domain.texts import quoted
from pulsar_operator.ports import STATEFUL_SETS, Deps, Json, PortError, RefusedError

STORAGE_SECONDS = 60.0
COPIES_SECONDS = 15.0
"""Seconds between passes while copies are missing: no event announces that they are made."""


@dataclass
class ClusterPass(Context[PulsarClusterSpec, PulsarClusterStatus]):
    """The data of one pass over a PulsarCluster."""

    view: ClusterView = field(default_factory=ClusterView)

    @property
    def owner(self) -> Owner:
        """The cluster as owner of rendered children."""
        return owner_of(self.obj, part_of=self.spec.instance_ref.name if self.spec is not None else "")

    def new_status(self) -> PulsarClusterStatus:
        """See Context."""
        status = cluster_status(self.spec, self.view, self.conditions, self.before, self.owner)
        return status.model_copy(update={"pending_actions": self.actor.pending or None})


class ClusterController(ObjectReconciler[ClusterPass]):
    """Reconciles PulsarCluster."""

    kind = Kind.CLUSTER
    known = CLUSTER_CONDITIONS
    context = ClusterPass

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._meters = Meters(deps)
        self._forecasts = Forecasts(deps)

    def begin(self, obj: Json) -> ClusterPass:
        """See ObjectReconciler. A decision on replicas that cannot be read is unknown, and not absent: the number of
        pods of its component stays."""
        ctx = super().begin(obj)
        ctx.before = with_unreadable(ctx.before, unreadable(PulsarClusterStatus, obj.get("status")))
        return ctx

    async def refuse(self, ctx: ClusterPass, /) -> Outcome | None:
        """See ObjectReconciler. Restoring settings needs no specification. Neither does a deletion: an unreadable
        specification is not trusted about the data, so the data stays."""
        unread = PulsarClusterSpec.model_construct(instance_ref=ObjectReference.model_construct(name=""))
        if ctx.meta.deleting:
            ctx.spec = unread
            return await self.converge(ctx)
        outcome = await super().refuse(ctx)
        try:
            live = await observe_children(self.deps, ctx.obj)
            unknown_instance = InstanceFact(False, StoreFact(False))
            facts = ClusterFacts(ctx.obj, ctx.meta, unread, ctx.owner, unknown_instance, live, ctx.before)
            ctx.view = replace(await restore_without_spec(facts, ctx.actor), live=None)
        except PortError as error:
            ctx.view = ClusterView(error=quoted(str(error)))
        raised = ctx.view.storage is not None and ctx.view.storage.delay is not None
        return Outcome(requeue_after=STORAGE_SECONDS) if raised or ctx.view.error is not None else outcome

    async def converge(self, ctx: ClusterPass, /) -> Outcome | None:
        """Converges or tears down, then sets the conditions, whatever happened."""
        deps, meta, obj, spec, actor = self.deps, ctx.meta, ctx.obj, ctx.spec, ctx.actor
        sifted = sift(spec, deps.settings)
        view = ClusterView(config=sifted.problems, config_unchecked=sifted.unchecked)
        try:
            needed_by = await dependents_of_cluster(deps, obj, live=meta.deleting)
            view = replace(view, dependents=len(needed_by))
            text = await self._kept(obj, needed_by) if meta.deleting else None
            if text is not None:
                view = replace(await self._converge(ctx, view), stopped_for=text, kept_for=text)
            elif meta.deleting:
                waiting = await tear_down(deps, ctx.owner, obj, spec, ctx.before, actor)
                if waiting is None:
                    return None
                view = replace(view, stopped_for=waiting.text)
                if waiting.reason is not None:
                    view = replace(view, kept_for=waiting.text, kept_by=waiting.reason)
            else:
                view = await self._converge(ctx, view)
        except PortError as error:
            reason, text = reason_of(error)
            view = replace(view, error=text, error_reason=reason)
        declared, now, unread = spec, deps.clock.now(), {}
        if view.live is not None:
            spec = with_desired(spec, ctx.before, view.live, now)
            spec = with_quorum(spec, view.rendered.quorum if view.rendered is not None else None)
            unread = unread_rows(declared, spec, unknown_of(ctx.before), view.live, now)
        ctx.spec, ctx.view, acts = spec, view, actor.act
        set_conditions(ctx.conditions, spec, view, deleting=meta.deleting, paused=meta.paused, acts=acts, unread=unread)
        return self._next(ctx)

    def _next(self, ctx: ClusterPass) -> Outcome:
        """Returns when the next pass is needed."""
        view = ctx.view
        if view.error is not None:
            return Outcome(backoff=True)
        if (asked := fold(findings_of(view)).requeue) is not None:
            return Outcome(requeue_after=asked)
        settled = ctx.conditions.is_true(ConditionType.READY) and ctx.conditions.is_true(ConditionType.UP_TO_DATE)
        if settled and view.drain is None:
            # Nothing in Kubernetes tells when a bookie or a copy is lost.
            recheck = STORAGE_SECONDS if ctx.conditions.is_true(ConditionType.REPLICATED) else COPIES_SECONDS
            return Outcome(requeue_after=recheck) if ctx.spec.mode is ClusterMode.DISTRIBUTED else DONE
        return Outcome(requeue_after=RETRY_SECONDS)

    async def _kept(self, obj: Json, needed_by: Sequence[Json]) -> str | None:
        """Returns why a cluster that is being deleted keeps running, as a message. None if its deletion proceeds, or
        nothing is left to be kept."""
        if confirmed_deletion(obj):
            return None
        kept = waited_for(obj, needed_by, self.deps.clock.now())
        text = explain(obj, kept) if kept else None
        if text is None and (needed := await needed_by_namespaces(self.deps, obj)) is not None:
            text = f"{needed}. {remedy(obj, REMOVE_FROM_LISTS)}"
        return text if text is not None and await self._can_be_kept(obj) else None

    async def _can_be_kept(self, obj: Json) -> bool:
        """Whether there is anything to be kept. A Kubernetes namespace that is being deleted takes all objects with it,
        and first the operator's permissions there."""
        try:
            return await can_be_kept(self.deps, obj, Component.BROKER, Component.STANDALONE)
        except RefusedError as error:
            going = error.status == HTTPStatus.FORBIDDEN
            if going and await is_going(self.deps, obj["metadata"]["namespace"], refused=error):
                return False
            raise

    async def _converge(self, ctx: ClusterPass, view: ClusterView) -> ClusterView:
        """Reads the facts and runs the phases unless something forbids it. Raises PortError while nothing is known."""
        obj, meta, spec, actor = ctx.obj, ctx.meta, ctx.spec, ctx.actor
        facts = await observe(self.deps, obj, meta, sift(spec, self.deps.settings).spec, ctx.before, ctx.owner)
        view = replace(view, instance=facts.instance, live=facts.live)
        if not facts.instance.found and facts.secured:
            # Rendered without the instance, its brokers would serve everybody.
            why = facts.instance.store
            return await restore(facts, replace(view, refused=(why.message,), refusal=why.reason), actor)
        leftovers = facts.live.of_previous_owner()
        if leftovers:
            text = f"{leftovers[0]} of the deleted object of the same name still exists, so nothing is created yet"
            # Its pods are not ours.
            return replace(view, live=None, stopped_for=text)
        problems, refusal = spec_problems(facts.spec, facts.quorum), Reason.INVALID_SPEC
        if not problems:
            jump = decide(facts.running, spec.version, self.deps.jumps)
            problems, refusal = ([_why(jump, facts)] if jump.allowed is False else []), Reason.VERSION_REFUSED
        if problems:
            # What runs stays as it is: half of an unacceptable specification would be worse than the old one.
            return await restore(facts, replace(view, refused=tuple(problems), refusal=refusal), actor)
        loads, recorded = await asyncio.gather(
            self._meters.loads(meta.uid, spec, facts.live), self._forecasts.read(meta.uid, obj, spec)
        )
        facts = replace(facts, loads=loads, recorded=recorded)
        view = await run(facts, view, self._render(facts), actor)
        return replace(view, refused=tuple(actor.refused))

    def _render(self, facts: ClusterFacts) -> RenderedCluster:
        """Returns the rendered cluster. Keys of config that pods run with and that are not applied stay if removing
        them alone would replace the pods."""
        clean, running = self._rendered(facts), running_configs(facts.live, BRING_UP_ORDER)
        spec = with_kept(facts.spec, self.deps.settings, running)
        if spec is None:
            return clean
        kept = self._rendered(replace(facts, spec=spec)).components
        return replace(
            clean,
            components={
                component: without_a_roll_of(manifests, kept[component], facts.live, component)
                for component, manifests in clean.components.items()
            },
        )

    def _rendered(self, facts: ClusterFacts) -> RenderedCluster:
        store, images, owner = facts.instance.store, self.deps.images, facts.owner
        rendered = render_cluster(
            ClusterInputs(
                owner=owner,
                spec=facts.spec,
                images=ImageTemplates(images.broker, images.bookie, images.proxy),
                configuration_store=StoreAddress.of(store.servers, store.chroot) if store.servers else None,
                super_digest_secret=super_digest_name(owner.name, Component.ZOOKEEPER),
                capacities=capacities_text(facts.live, facts.spec),
                brokers=facts.brokers_listening if facts.spec.listeners else 0,
                quorum=facts.quorum,
                security=facts.instance.security,
                edge=facts.edge,
            )
        )
        asked = facts.meta.annotations.get(ANNOTATION_RESTART)
        own_store = rendered.configuration_store == rendered.metadata_store
        return replace(
            rendered,
            components={
                component: [
                    _annotated(each, asked, facts, component, own_store) if each["kind"] == STATEFUL_SETS.kind else each
                    for each in manifests
                ]
                for component, manifests in rendered.components.items()
            },
        )


def _why(jump: VersionDecision, facts: ClusterFacts) -> str:
    """Returns why a version is refused, with the source if no pod runs it any more."""
    where = f"{facts.meta.namespace}/{record_name(facts.meta.name)}"
    origin = f" (according to ConfigMap {where}, this version last used the volumes)" if facts.remembered else ""
    return f"{jump.message}{origin}"


ANNOTATIONS = (ANNOTATION_REMOTE_CLUSTERS, ANNOTATION_STORE_UNAVAILABLE)
"""Annotations of brokers' pods whose changes reach brokers only by a restart; the operator writes them."""


def _annotated(manifest: Json, asked: str | None, facts: ClusterFacts, component: Component, own_store: bool) -> Json:
    """Returns a StatefulSet's manifest with everything that does not come from the specification alone."""
    annotated, plain = (
        _marked(each, asked, facts, component, own_store) for each in (with_local_volumes(manifest), manifest)
    )
    there = facts.live.stateful_set(component)
    return without_a_roll(annotated, plain, there, record_of(facts.live, component))


def _marked(manifest: Json, asked: str | None, facts: ClusterFacts, component: Component, own_store: bool) -> Json:
    """Returns a StatefulSet's manifest with the reason of the last requested restart, and brokers' annotations.
    ``own_store``: whether the configuration store is their metadata store."""
    if component is not Component.BROKER:
        return _restarted(manifest, asked, facts, component)
    there, broker, store = facts.live.stateful_set(component), facts.spec.broker, facts.instance.store
    applied = there["spec"]["template"] if there is not None else None
    annotated = with_remote_clusters(with_known_urls(manifest, facts.before, there), facts.before, applied)
    session = session_of(broker.config if broker is not None else None, store.session)
    annotated = with_store_unavailable(annotated, () if own_store else store.outages, there, session)
    newest, record = _restarted(annotated, asked, facts, component), record_of(facts.live, component)
    stopped = record.kept.get(record.stop.template) if record.stop is not None else None
    if stopped is None:
        return newest
    # A roll that stopped is tried again when somebody changes what is declared, not when there is something to tell.
    tried = _restarted(with_annotations_of(annotated, stopped.template, ANNOTATIONS), asked, facts, component)
    return tried if record.stopped(template_hash(tried)) is not None else newest


def _restarted(manifest: Json, asked: str | None, facts: ClusterFacts, component: Component) -> Json:
    there = facts.live.stateful_set(component)
    applied = there["spec"]["template"] if there is not None else None
    if asked is None:
        return with_reason_kept(manifest, applied, record_of(facts.live, component))
    return with_restart(manifest, asked, applied)
