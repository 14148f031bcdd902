"""PulsarInstance: the configuration store and the summary of its clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import MAX_CLUSTERS
from pulsar_operator.api.v1alpha1.instance import InstanceClusterStatus
from pulsar_operator.controllers.core.clusters import members, pulsar_name
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.finalizers import release_finalizer
from pulsar_operator.controllers.core.objects import is_going, resume
from pulsar_operator.controllers.core.reconcile import ObjectReconciler
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.controllers.dataplane.instance.configuration_store import ask_store, see_to_store, stop_store
from pulsar_operator.controllers.dataplane.instance.geo_replication import observe_replication, replication_rows
from pulsar_operator.controllers.dataplane.instance.instance_pass import InstancePass
from pulsar_operator.controllers.dataplane.instance.reachability import again, observe_reachability
from pulsar_operator.controllers.dataplane.objects.children import (
    delete_workloads,
    observe_children,
)
from pulsar_operator.controllers.dataplane.objects.dependents import (
    confirmed_deletion,
    dependents_of_instance,
    explain,
    remedy,
    waited_for,
)
from pulsar_operator.controllers.dataplane.objects.tear_down_record import can_be_kept, record_tear_down
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import registered_still
from pulsar_operator.domain.conditions import FALSE, UNKNOWN
from pulsar_operator.domain.dataplane.instance.reachability import ReachabilityFact
from pulsar_operator.domain.texts import quoted
from pulsar_operator.ports import ForbiddenError, Json, PortError, RefusedError

CONDITIONS = (
    ConditionType.READY,
    ConditionType.ACCEPTED,
    ConditionType.CONFIGURATION_STORE_READY,
    ConditionType.CLUSTERS_READY,
)
RETRY_SECONDS = 5.0
RECHECK_SECONDS = 15.0
"""Seconds between checks of the configuration store and the clusters, whose outages no event announces. With their
deadlines an outage is reported within 30 s."""


class InstanceController(ObjectReconciler[InstancePass]):
    """Reconciles PulsarInstance."""

    kind = Kind.INSTANCE
    known = CONDITIONS
    context = InstancePass

    async def converge(self, state: InstancePass, /) -> Outcome | None:
        """See ObjectReconciler."""
        conditions = state.conditions
        conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is valid")
        try:
            await self._observe_dependents(state)
            if state.meta.deleting:
                if await self._tear_down(state):
                    return None
            else:
                await see_to_store(state)
            await ask_store(state)
        except PortError as error:
            refused = isinstance(error, RefusedError) and not isinstance(error, ForbiddenError)
            reason, text = (Reason.INVALID_SPEC, quoted(str(error))) if refused else reason_of(error)
            conditions.set(ConditionType.CONFIGURATION_STORE_READY, FALSE if refused else UNKNOWN, reason, text)
            state.backoff = True
        if state.observed:
            state.reachability = await observe_reachability(state.actor, state.clusters, state.before.clusters)
            await observe_replication(state.actor, state.obj, state.clusters, conditions)
        self._summarize(state)
        self._report(state)
        if state.backoff:
            return Outcome(backoff=True)
        ready = conditions.is_true(ConditionType.READY)
        pause = RECHECK_SECONDS if ready and not state.meta.deleting else RETRY_SECONDS
        return Outcome(requeue_after=min(pause, again(self.deps, state.clusters) or pause))

    async def refuse(self, state: InstancePass, /) -> Outcome | None:
        """Reports a specification that this operator cannot read, as after a downgrade. Clusters keep the store in the
        status; the store is stopped once no object needs it, and its volumes stay."""
        outcome, obj = await super().refuse(state), state.obj
        if not state.meta.deleting or state.pause_reason is not None:
            return outcome
        deps = self.deps
        others = await dependents_of_instance(deps, obj, live=True)
        kept = await self._kept_for(obj, await self._clusters(obj), others)
        if kept is None:
            live = await observe_children(deps, obj)
            if live.stateful_set(Component.CONFIGURATION_STORE) is not None:
                await record_tear_down(deps, obj)
            why = "the PulsarInstance is being deleted"
            if not await delete_workloads(state.actor, live, [Component.CONFIGURATION_STORE], why):
                return Outcome(requeue_after=RETRY_SECONDS)
            await release_finalizer(deps, obj)
            return None
        state.conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.DEPENDENTS_EXIST, kept)
        return Outcome(requeue_after=RETRY_SECONDS)

    async def _clusters(self, obj: Json) -> list[Json]:
        """Returns the clusters of the instance, from every namespace that it allows."""
        return members(await DirectReader(self.deps).every(Kind.CLUSTER, allowed_by=obj), obj)

    async def _kept_for(self, obj: Json, clusters: Iterable[Json], others: Iterable[Json]) -> str | None:
        """Returns why the configuration store of an instance that is being deleted keeps running, as a message. None if
        no object needs it."""
        names = ", ".join(pulsar_name(each) for each in clusters)
        if names:
            return (
                f"The configuration store keeps running, because these clusters still need it: {names}. Delete the "
                "clusters first"
            )
        if kept := waited_for(obj, others, self.deps.clock.now()):
            runs = await can_be_kept(self.deps, obj, Component.CONFIGURATION_STORE)
            return f"The configuration store keeps running. {explain(obj, kept)}" if runs else None
        if (obj["spec"].get("configurationStore") or {}).get("managed") is None or confirmed_deletion(obj):
            return None
        try:
            runs = await can_be_kept(self.deps, obj, Component.CONFIGURATION_STORE)
        except RefusedError:
            return None  # its Kubernetes namespace goes, and rights in it first: _tear_down looks at that
        users = await registered_still(self.deps, obj) if runs else None
        how = remedy(obj, "Delete these clusters, or remove their outdated entries from the configuration store")
        return f"The configuration store keeps running. {users}. {how}" if users is not None else None

    async def _observe_dependents(self, state: InstancePass) -> None:
        """Reads the clusters and other objects that refer to this instance, from every namespace that it allows."""
        found = await self._clusters(state.obj)
        state.clusters = tuple(sorted(found, key=pulsar_name))
        state.others = tuple(await dependents_of_instance(self.deps, state.obj, live=state.meta.deleting))
        state.observed = True

    async def _tear_down(self, state: InstancePass) -> bool:
        """Removes a managed store once no cluster needs it; True once the finalizer is removed."""
        kept = await self._kept_for(state.obj, state.clusters, state.others)
        if kept is not None:
            state.conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.DEPENDENTS_EXIST, kept)
            await see_to_store(state)
            return False
        if not state.actor.act:
            state.actor.pending.append("Remove the configuration store's pods and release the finalizer")
            reason = Reason.PAUSED if state.meta.paused else Reason.DRY_RUN
            text = (
                "The deletion does not continue while the instance is paused or in dry run. To continue, run: "
                f"{resume(state.obj)}"
            )
            state.conditions.set(ConditionType.DELETION_BLOCKED, True, reason, text)
            return False
        if state.spec.configuration_store.managed is not None:
            try:
                if not await stop_store(state):
                    return False
            except RefusedError as error:
                forbidden = error.status == HTTPStatus.FORBIDDEN
                if not (forbidden and await is_going(self.deps, state.meta.namespace, refused=error)):
                    raise
                # As for a cluster: the namespace is being deleted, and with it our rights in it.
                text = (
                    "The configuration store was not stopped in order, because the Kubernetes namespace is being "
                    f"deleted: {quoted(str(error))}"
                )
                await state.actor.warn(Reason.FINALIZER_RELEASED, text)
        await release_finalizer(self.deps, state.obj)
        return True

    def _summarize(self, state: InstancePass) -> None:
        conditions, total = state.conditions, len(state.clusters)
        ready = sum(1 for c in state.clusters if is_true(c, ConditionType.READY))
        if not state.observed:
            text = "The clusters of this instance could not be listed"
            conditions.set(ConditionType.CLUSTERS_READY, UNKNOWN, Reason.INTERNAL_ERROR, text)
        elif total and ready == total:
            conditions.set(ConditionType.CLUSTERS_READY, True, Reason.READY, f"All {total} clusters are ready")
        else:
            waiting = [pulsar_name(c) for c in state.clusters if not is_true(c, ConditionType.READY)]
            text = (
                f"{ready} of {total} clusters are ready. These clusters are not ready: {', '.join(waiting[:5])}"
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

    def _report(self, state: InstancePass) -> None:
        """Sets status fields. A fact that this pass could not read keeps its value; the kind of store and the chroot
        are immutable, and a count of 0 would remove the protection against deletion."""
        if state.observed:
            clusters = rows(state.clusters, state.reachability)
            state.fields |= {
                "clusters": unique(clusters),
                "cluster_count": len(clusters),
                "ready_clusters": f"{sum(1 for c in clusters if c.ready)}/{len(clusters)}",
                "dependents": len(clusters) + len(state.others),
            }
        if state.servers:
            state.fields["configuration_store_servers"] = state.servers
        if state.chroot:
            state.fields["configuration_store_chroot"] = state.chroot
        if state.outages is not None:
            state.fields["configuration_store_outages"] = list(state.outages) or None
        state.fields["replication"] = replication_rows(self.deps, state.meta.uid, state.before.replication or ())


def rows(clusters: Iterable[Json], reachability: Mapping[str, ReachabilityFact]) -> list[InstanceClusterStatus]:
    """Returns a row for each PulsarCluster; ``reachability`` has whether it answers, by name inside Pulsar."""
    return [_row(each, reachability.get(pulsar_name(each), ReachabilityFact())) for each in clusters]


def unique(found: list[InstanceClusterStatus]) -> list[InstanceClusterStatus]:
    """Returns the rows with unique names: two objects that claim one Pulsar name (one of them is refused) appear
    once."""
    return list({c.name: c for c in reversed(found)}.values())[::-1][:MAX_CLUSTERS]


def _row(cluster: Json, fact: ReachabilityFact) -> InstanceClusterStatus:
    return InstanceClusterStatus(
        name=pulsar_name(cluster),
        object_name=cluster["metadata"]["name"],
        object_namespace=cluster["metadata"]["namespace"],
        ready=is_true(cluster, ConditionType.READY),
        version=(cluster.get("status") or {}).get("version"),
        reachable=fact.reachable,
        since=fact.since,
        last_response_time=fact.last_response_time,
    )
