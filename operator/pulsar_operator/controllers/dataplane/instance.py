"""PulsarInstance: the configuration store and the summary of its clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.api.v1alpha1.instance import (
    ManagedZooKeeper,
    OutageStatus,
    PulsarInstanceSpec,
    PulsarInstanceStatus,
)
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import members, pulsar_name
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.finalizers import ensure_finalizer, release_finalizer
from pulsar_operator.controllers.core.kube_namespaces import is_going
from pulsar_operator.controllers.core.objects import Meta, invalid_fields, meta_of, owner_of
from pulsar_operator.controllers.core.reconciler import DONE, GONE, Outcome
from pulsar_operator.controllers.core.status import condition_of, is_true, write_status
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.controllers.dataplane.children import (
    NameConflictError,
    delete_workloads,
    observe_children,
    prune_configurations,
)
from pulsar_operator.controllers.dataplane.cluster_rows import rows, unique
from pulsar_operator.controllers.dataplane.dependents import dependents_of_instance, explain, still_runs, waited_for
from pulsar_operator.controllers.dataplane.ensemble import (
    apply_ensemble,
    delete_records,
    delete_volumes,
    has_quorum,
    record_founding,
    super_digest_name,
)
from pulsar_operator.controllers.dataplane.geo_replication import observe_replication, replication_rows
from pulsar_operator.controllers.dataplane.replacement import replace, roll_plan
from pulsar_operator.controllers.dataplane.servers import servers_gate
from pulsar_operator.controllers.dataplane.sights import again, look
from pulsar_operator.controllers.dataplane.store_read import ask, ended_outages
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, ConditionSet
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.dataplane.pods import observe_component
from pulsar_operator.domain.dataplane.reach import Sight
from pulsar_operator.domain.render import (
    ImageTemplates,
    Owner,
    RenderedStore,
    render_configuration_store,
    store_problems,
)
from pulsar_operator.domain.stored import readable
from pulsar_operator.ports import CUSTOM, Deps, ForbiddenError, Json, Key, PortError, RefusedError

CONDITIONS = (
    ConditionType.READY,
    ConditionType.ACCEPTED,
    ConditionType.CONFIGURATION_STORE_READY,
    ConditionType.CLUSTERS_READY,
)
RETRY_SECONDS = 5.0
LOOK_SECONDS = 15.0
"""Between two looks at what tells nobody when it stops answering: the configuration store and the clusters. With their
deadlines an outage is told within 30 s."""


@dataclass
class InstancePass:
    """What one pass learned."""

    obj: Json
    meta: Meta
    spec: PulsarInstanceSpec
    conditions: ConditionSet
    actor: Actor
    owner: Owner
    servers: str | None = None
    chroot: str | None = None
    clusters: tuple[Json, ...] = ()
    others: tuple[Json, ...] = ()
    """Dependents that are no clusters."""
    seen: bool = False
    """Whether clusters and others are known: a list that failed says nothing."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """Whether clusters answer, by name inside Pulsar."""
    outages: Sequence[OutageStatus] | None = None
    """Of the store; None = it was not asked."""
    backoff: bool = False


class InstanceController:
    """Reconciles PulsarInstance."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def reconcile(self, key: Key) -> Outcome:
        """One pass; see Reconciler."""
        deps = self._deps
        obj = await deps.kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name)
        if obj is None:
            return GONE
        meta = meta_of(obj)
        conditions = ConditionSet(
            CONDITIONS, (obj.get("status") or {}).get("conditions") or [], meta.generation, deps.clock.now()
        )
        try:
            spec = PulsarInstanceSpec.model_validate(obj["spec"])
        except ValidationError as error:
            return await self._unreadable(obj, meta, conditions, invalid_fields(error))
        actor = Actor(deps, obj, act=not (meta.paused or meta.dry_run))
        state = InstancePass(obj, meta, spec, conditions, actor, owner_of(obj, part_of=meta.name))
        conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is valid")
        try:
            await self._observe_dependents(state)
            if meta.deleting:
                if await self._tear_down(state):
                    return DONE
            else:
                await self._configuration_store(state)
            await self._ask_store(state)
        except PortError as error:
            refused = isinstance(error, RefusedError) and not isinstance(error, ForbiddenError)
            reason, text = (Reason.INVALID_SPEC, str(error)) if refused else reason_of(error)
            conditions.set(ConditionType.CONFIGURATION_STORE_READY, FALSE if refused else UNKNOWN, reason, text)
            state.backoff = True
        if state.seen:
            state.sights = await look(actor, state.clusters, (obj.get("status") or {}).get("clusters") or ())
            await observe_replication(actor, obj, state.clusters, conditions)
        self._summarize(state)
        await write_status(deps, obj, self._status(state))
        if state.backoff:
            return Outcome(backoff=True)
        ready = conditions.is_true(ConditionType.READY)
        pause = LOOK_SECONDS if ready and not meta.deleting else RETRY_SECONDS
        return Outcome(requeue_after=min(pause, again(deps, state.clusters) or pause))

    async def _unreadable(self, obj: Json, meta: Meta, conditions: ConditionSet, problem: str) -> Outcome:
        """A specification that means nothing to this operator, as after a downgrade. Clusters go on with the store they
        know from here; it is stopped once nobody needs it, and its volumes stay."""
        deps, outcome = self._deps, DONE
        conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, problem)
        conditions.summarize(ConditionType.ACCEPTED, ready_message="")
        if meta.deleting and not (meta.paused or meta.dry_run):
            kept = await self._kept_for(
                obj, await self._clusters(obj), await dependents_of_instance(deps, obj, live=True)
            )
            if kept is None:
                live = await observe_children(deps, obj)
                why = "the PulsarInstance is being deleted"
                if not await delete_workloads(Actor(deps, obj), live, [Component.CONFIGURATION_STORE], why):
                    return Outcome(requeue_after=RETRY_SECONDS)
                await release_finalizer(deps, obj)
                return DONE
            conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.DEPENDENTS_EXIST, kept)
            outcome = Outcome(requeue_after=RETRY_SECONDS)
        known = PulsarInstanceStatus.model_validate(readable(PulsarInstanceStatus, obj.get("status")))
        update = {"observed_generation": meta.generation, "conditions": conditions.result()}
        await write_status(deps, obj, known.model_copy(update=update))
        return outcome

    async def _clusters(self, obj: Json) -> list[Json]:
        """Clusters of the instance, from every namespace it allows."""
        return members(await DirectReader(self._deps).every(Kind.CLUSTER, allowed_by=obj), obj)

    async def _kept_for(self, obj: Json, clusters: Iterable[Json], others: Iterable[Json]) -> str | None:
        """Why the configuration store of an instance that is being deleted keeps running; None = nobody needs it."""
        names = ", ".join(pulsar_name(each) for each in clusters)
        if names:
            return f"The configuration store keeps running because clusters still need it: {names}; delete them first"
        kept = waited_for(obj, others, self._deps.clock.now())
        if kept and await still_runs(self._deps, obj, Component.CONFIGURATION_STORE):
            return f"The configuration store keeps running: {explain(obj, kept)}"
        return None

    async def _observe_dependents(self, state: InstancePass) -> None:
        """Clusters, and the rest that refers to this instance, from every namespace it allows."""
        found = await self._clusters(state.obj)
        state.clusters = tuple(sorted(found, key=pulsar_name))
        state.others = tuple(await dependents_of_instance(self._deps, state.obj, live=state.meta.deleting))
        state.seen = True

    async def _configuration_store(self, state: InstancePass) -> None:
        store = state.spec.configuration_store
        if store.managed is None and state.actor.act and not state.meta.deleting:
            await ensure_finalizer(self._deps, state.obj)  # its clusters find the store by it, and each other
        if store.managed is not None:
            await self._managed_store(state)
        elif store.cluster is not None:
            self._cluster_store(state, store.cluster.name)
        elif store.external is not None:
            state.servers, state.chroot = store.external.servers, store.external.chroot
            state.conditions.set(
                ConditionType.CONFIGURATION_STORE_READY,
                True,
                Reason.READY,
                f"ZooKeeper answers at {store.external.servers}",
            )

    async def _ask_store(self, state: InstancePass) -> None:
        """Whatever else speaks for it, the store is ready only if it answers a read. Raises PortError."""
        kind = ConditionType.CONFIGURATION_STORE_READY
        ready = state.conditions.is_true(kind)
        if state.servers is None:
            return
        problem, state.outages = await ask(self._deps, state.obj, state.servers, state.chroot, ready=ready)
        if problem is not None:
            # Also where its pods say why: who is started meanwhile knows by the reason that it did answer.
            known = None if ready else state.conditions.explained(kind)
            text = f"{problem}. {known[2]}" if known is not None else problem
            state.conditions.set(kind, False, Reason.CONFIGURATION_STORE_AWAY, text)

    def _cluster_store(self, state: InstancePass, name: str) -> None:
        kind = ConditionType.CONFIGURATION_STORE_READY
        cluster = next((c for c in state.clusters if c["metadata"]["name"] == name), None)
        if cluster is None or cluster["metadata"]["namespace"] != state.meta.namespace:
            state.conditions.set(
                kind,
                False,
                Reason.REFERENCE_NOT_FOUND,
                f'PulsarCluster "{state.meta.namespace}/{name}" of spec.configurationStore.cluster.name does not exist '
                "or does not refer to this instance: create it with spec.instanceRef.name "
                f'"{state.meta.name}"',
            )
            return
        status = cluster.get("status") or {}
        state.servers, state.chroot = status.get("metadataStoreServers"), status.get("metadataStoreChroot")
        metadata = condition_of(cluster, ConditionType.METADATA_READY)
        ready = metadata is not None and metadata["status"] == "True"
        if ready:
            state.conditions.set(kind, True, Reason.READY, f"The metadata store of cluster {name} is ready")
        else:
            why = metadata["message"] if metadata else "its metadata store was not observed yet"
            silent = metadata is not None and metadata["reason"] == Reason.METADATA_UNREACHABLE
            reason = Reason.CONFIGURATION_STORE_AWAY if silent else Reason.WAITING_FOR_METADATA
            state.conditions.set(kind, False, reason, f"Cluster {name}: {why}")

    async def _managed_store(self, state: InstancePass) -> None:
        deps, obj, managed = self._deps, state.obj, state.spec.configuration_store.managed
        assert managed is not None
        live = await observe_children(deps, obj)
        leftovers = live.of_previous_owner()
        if leftovers:
            state.conditions.set(
                ConditionType.CONFIGURATION_STORE_READY,
                False,
                Reason.WAITING_FOR_GARBAGE_COLLECTION,
                f"Waiting until {leftovers[0]} of the deleted object of the same name is gone",
            )
            return
        component = Component.CONFIGURATION_STORE
        problems = store_problems(managed, component, "spec.configurationStore.managed", state.spec.preset)
        if problems:
            state.conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, "; ".join(problems[:5]))
        else:
            live = await self._apply_store(state, live)
        facts = observe_component(live.stateful_set(component), live.pods(component))
        reason, text = facts.summary("Configuration store")
        ready = await self._founded(state, live, managed)
        if not ready and has_quorum(facts, managed):
            reason, text = Reason.PENDING, f"{text}, but it is not on record that the ensemble was founded"
        elif not ready and reason in (Reason.PENDING, Reason.NOT_READY):
            reason = Reason.WAITING_FOR_ZOOKEEPER
        if (waiting := await self._roll(state, live, component)) is not None:
            text += f"; to be rolled it waits for {waiting}"
        state.conditions.set(ConditionType.CONFIGURATION_STORE_READY, ready, Reason.READY if ready else reason, text)

    async def _roll(self, state: InstancePass, live: Live, component: Component) -> str | None:
        """Replace one outdated server at most; what the next one waits for, in words."""
        plan, waiting = roll_plan(live, (component,)), None
        if plan.replace is not None:
            plan, waiting = await servers_gate(state.actor, live, plan, state.spec.cluster_domain, (component,))
        return waiting or await replace(state.actor, live, plan, (component,))

    async def _founded(self, state: InstancePass, live: Live, managed: ManagedZooKeeper) -> bool:
        """Whether others may write into the store."""
        try:
            return await record_founding(state.actor, state.owner, live, Component.CONFIGURATION_STORE, managed)
        except NameConflictError as error:
            state.conditions.set(ConditionType.ACCEPTED, False, Reason.NAME_CONFLICT, str(error))
            return False

    async def _apply_store(self, state: InstancePass, live: Live) -> Live:
        rendered = self._render(state)
        state.servers = rendered.address.servers
        if state.actor.act:
            await ensure_finalizer(self._deps, state.obj)
        try:
            live = await apply_ensemble(
                state.actor, state.owner, live, Component.CONFIGURATION_STORE, rendered.manifests
            )
            await prune_configurations(state.actor, live, rendered.manifests)
        except NameConflictError as error:
            state.conditions.set(ConditionType.ACCEPTED, False, Reason.NAME_CONFLICT, str(error))
        return live

    def _render(self, state: InstancePass) -> RenderedStore:
        managed, images = state.spec.configuration_store.managed, self._deps.images
        assert managed is not None
        templates = ImageTemplates(images.broker, images.bookie, images.proxy)
        return render_configuration_store(
            state.owner,
            managed,
            image=state.spec.image.zookeeper or templates.resolve(Component.CONFIGURATION_STORE, state.spec.version),
            images=state.spec.image,
            super_digest_secret=super_digest_name(state.owner.name, Component.CONFIGURATION_STORE),
            preset=state.spec.preset,
            cluster_domain=state.spec.cluster_domain,
            platform=state.spec.platform,
        )

    async def _tear_down(self, state: InstancePass) -> bool:
        """Remove a managed store once no cluster needs it; True when the finalizer is off."""
        kept = await self._kept_for(state.obj, state.clusters, state.others)
        if kept is not None:
            state.conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.DEPENDENTS_EXIST, kept)
            await self._configuration_store(state)
            return False
        if not state.actor.act:
            state.actor.pending.append("Remove the configuration store's pods and release the finalizer")
            return False
        if state.spec.configuration_store.managed is not None:
            try:
                if not await self._stop_store(state):
                    return False
            except RefusedError as error:
                forbidden = error.status == HTTPStatus.FORBIDDEN
                if not (forbidden and await is_going(self._deps, state.meta.namespace, refused=error)):
                    raise
                # As for a cluster: the namespace is being deleted, and with it our rights in it.
                await state.actor.warn(Reason.FINALIZER_RELEASED, f"The store was not stopped in order: {error}")
        await release_finalizer(self._deps, state.obj)
        return True

    async def _stop_store(self, state: InstancePass) -> bool:
        live = await observe_children(self._deps, state.obj)
        why = "the PulsarInstance is being deleted"
        if not await delete_workloads(state.actor, live, [Component.CONFIGURATION_STORE], why):
            return False
        if state.spec.reclaim_policy is ReclaimPolicy.DELETE:
            await delete_volumes(state.actor, state.owner)
            await delete_records(state.actor, state.owner, Component.CONFIGURATION_STORE)
        return True

    def _summarize(self, state: InstancePass) -> None:
        conditions, total = state.conditions, len(state.clusters)
        ready = sum(1 for c in state.clusters if is_true(c, ConditionType.READY))
        if not state.seen:
            text = "The clusters of this instance could not be listed"
            conditions.set(ConditionType.CLUSTERS_READY, UNKNOWN, Reason.INTERNAL_ERROR, text)
        elif total and ready == total:
            conditions.set(ConditionType.CLUSTERS_READY, True, Reason.READY, f"All {total} clusters are ready")
        else:
            waiting = [pulsar_name(c) for c in state.clusters if not is_true(c, ConditionType.READY)]
            text = (
                f"{ready} of {total} clusters are ready; not ready: {', '.join(waiting[:5])}"
                if total
                else ("No PulsarCluster refers to this instance yet")
            )
            conditions.set(ConditionType.CLUSTERS_READY, False, Reason.WAITING_FOR_CLUSTERS, text)
        conditions.summarize(
            ConditionType.ACCEPTED,
            ConditionType.CONFIGURATION_STORE_READY,
            ConditionType.CLUSTERS_READY,
            ready_message=f"{ready} of {total} clusters are ready",
        )
        if state.meta.deleting:
            conditions.set(ConditionType.READY, False, Reason.DELETING, "The instance is being deleted")

    def _status(self, state: InstancePass) -> PulsarInstanceStatus:
        clusters = rows(state.clusters, state.sights)
        ready = sum(1 for c in clusters if c.ready)
        old = state.obj.get("status") or {}
        counts: dict[str, Any] = {
            "clusters": unique(clusters),
            "cluster_count": len(clusters),
            "ready_clusters": f"{ready}/{len(clusters)}",
            "dependents": len(clusters) + len(state.others),
        }
        if not state.seen:
            # A count of 0 would open the guard against deletion.
            known = PulsarInstanceStatus.model_validate(readable(PulsarInstanceStatus, old))
            counts = {name: getattr(known, name) for name in counts}
        return PulsarInstanceStatus(
            observed_generation=state.meta.generation,
            conditions=state.conditions.result(),
            pending_actions=state.actor.pending or None,
            # What this pass could not see is carried over; the kind of store and the chroot are immutable.
            configuration_store_servers=state.servers or old.get("configurationStoreServers"),
            configuration_store_chroot=state.chroot or old.get("configurationStoreChroot"),
            configuration_store_outages=list(ended_outages(old) if state.outages is None else state.outages) or None,
            replication=replication_rows(self._deps, state.obj),
            **counts,
        )
