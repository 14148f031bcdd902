"""PulsarInstance: the configuration store and the summary of its clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import MAX_CLUSTERS
from pulsar_operator.api.v1alpha1.instance import (
    InstanceClusterStatus,
    PulsarInstanceSpec,
    PulsarInstanceStatus,
)
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import members, pulsar_name
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.finalizers import release_finalizer
from pulsar_operator.controllers.core.objects import Meta, invalid_fields, is_going, meta_of, owner_of, resume
from pulsar_operator.controllers.core.reconciler import DONE, GONE, Outcome
from pulsar_operator.controllers.core.status import is_true, write_status
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.controllers.dataplane.children import (
    delete_workloads,
    observe_children,
)
from pulsar_operator.controllers.dataplane.configuration_store import ask_store, see_to_store, stop_store
from pulsar_operator.controllers.dataplane.dependents import (
    confirmed_deletion,
    dependents_of_instance,
    explain,
    remedy,
    waited_for,
)
from pulsar_operator.controllers.dataplane.geo_replication import observe_replication, replication_rows
from pulsar_operator.controllers.dataplane.instance_pass import InstancePass
from pulsar_operator.controllers.dataplane.namespaces_there import registered_still
from pulsar_operator.controllers.dataplane.sights import again, look
from pulsar_operator.controllers.dataplane.store_read import ended_outages
from pulsar_operator.controllers.dataplane.tear_down_record import can_be_kept, record_tear_down
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, ConditionSet
from pulsar_operator.domain.dataplane.reach import Sight
from pulsar_operator.domain.stored import readable
from pulsar_operator.domain.texts import quoted
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
                await see_to_store(state)
            await ask_store(state)
        except PortError as error:
            refused = isinstance(error, RefusedError) and not isinstance(error, ForbiddenError)
            reason, text = (Reason.INVALID_SPEC, quoted(str(error))) if refused else reason_of(error)
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
                if live.stateful_set(Component.CONFIGURATION_STORE) is not None:
                    await record_tear_down(deps, obj)
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
        if kept := waited_for(obj, others, self._deps.clock.now()):
            runs = await can_be_kept(self._deps, obj, Component.CONFIGURATION_STORE)
            return f"The configuration store keeps running: {explain(obj, kept)}" if runs else None
        if (obj["spec"].get("configurationStore") or {}).get("managed") is None or confirmed_deletion(obj):
            return None
        try:
            runs = await can_be_kept(self._deps, obj, Component.CONFIGURATION_STORE)
        except RefusedError:
            return None  # its Kubernetes namespace goes, and rights in it first: _tear_down looks at that
        users = await registered_still(self._deps, obj) if runs else None
        how = remedy(obj, "Delete them, or take entries that are left over out of it, first")
        return f"The configuration store keeps running: {users}. {how}" if users is not None else None

    async def _observe_dependents(self, state: InstancePass) -> None:
        """Clusters, and the rest that refers to this instance, from every namespace it allows."""
        found = await self._clusters(state.obj)
        state.clusters = tuple(sorted(found, key=pulsar_name))
        state.others = tuple(await dependents_of_instance(self._deps, state.obj, live=state.meta.deleting))
        state.seen = True

    async def _tear_down(self, state: InstancePass) -> bool:
        """Remove a managed store once no cluster needs it; True when the finalizer is off."""
        kept = await self._kept_for(state.obj, state.clusters, state.others)
        if kept is not None:
            state.conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.DEPENDENTS_EXIST, kept)
            await see_to_store(state)
            return False
        if not state.actor.act:
            state.actor.pending.append("Remove the configuration store's pods and release the finalizer")
            held = Reason.PAUSED if state.meta.paused else Reason.DRY_RUN
            text = f"The deletion waits for a person to end the pause or dry run: {resume(state.obj)}"
            state.conditions.set(ConditionType.DELETION_BLOCKED, True, held, text)
            return False
        if state.spec.configuration_store.managed is not None:
            try:
                if not await stop_store(state):
                    return False
            except RefusedError as error:
                forbidden = error.status == HTTPStatus.FORBIDDEN
                if not (forbidden and await is_going(self._deps, state.meta.namespace, refused=error)):
                    raise
                # As for a cluster: the namespace is being deleted, and with it our rights in it.
                text = f"The store was not stopped in order: {quoted(str(error))}"
                await state.actor.warn(Reason.FINALIZER_RELEASED, text)
        await release_finalizer(self._deps, state.obj)
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


def rows(clusters: Iterable[Json], sights: Mapping[str, Sight]) -> list[InstanceClusterStatus]:
    """A row for each PulsarCluster; ``sights`` say whether it answers, by name inside Pulsar."""
    return [_row(each, sights.get(pulsar_name(each), Sight())) for each in clusters]


def unique(found: list[InstanceClusterStatus]) -> list[InstanceClusterStatus]:
    """The list is a map by name: two objects that claim one Pulsar name (one of them is refused) show once."""
    return list({c.name: c for c in reversed(found)}.values())[::-1][:MAX_CLUSTERS]


def _row(cluster: Json, sight: Sight) -> InstanceClusterStatus:
    return InstanceClusterStatus(
        name=pulsar_name(cluster),
        object_name=cluster["metadata"]["name"],
        object_namespace=cluster["metadata"]["namespace"],
        ready=is_true(cluster, ConditionType.READY),
        version=(cluster.get("status") or {}).get("version"),
        reachable=sight.reachable,
        since=sight.since,
        last_seen=sight.last_seen,
    )
