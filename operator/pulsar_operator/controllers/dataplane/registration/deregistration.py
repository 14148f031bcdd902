"""Removes a deleted cluster from its instance: its entries in a configuration store that outlives it.

Called by cluster/teardown.py, which stops pods in between. Each pass reads the current state and continues from there,
so that it can end anywhere. The claim, which proves that the entry is this cluster's, is deleted last, and before it
the record in Kubernetes is updated to not registered, so that the same cluster can register again. Domain:
domain/dataplane/registration/deregistration.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ReclaimPolicy
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import allows, instance_of, owner_text, pulsar_name
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.stores import Store, configuration_store, metadata_store
from pulsar_operator.controllers.dataplane.objects.dependents import REMOVE_FROM_LISTS, confirmed_deletion, remedy
from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_manifest, record_name, write_record
from pulsar_operator.controllers.dataplane.objects.tear_down_record import can_be_kept
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import (
    Others,
    has_own_store,
    left_behind,
    named,
    namespace_policies,
    naming,
    needed_by_namespaces,
    other_clusters,
    with_cursor,
)
from pulsar_operator.controllers.dataplane.registration.name_claims import claimant_there
from pulsar_operator.controllers.dataplane.registration.store_answers import (
    SilentError,
    answer_of,
    stored_at,
    stored_below,
)
from pulsar_operator.domain.conditions import parse_time, seconds_since
from pulsar_operator.domain.dataplane.registration.deregistration import (
    OWN_TENANT,
    DeregistrationFacts,
    DeregistrationPlan,
    Removal,
    list_text,
    paths_of_lists,
    plan_deregistration,
)
from pulsar_operator.domain.dataplane.registration.metadata import (
    DamagedRecordError,
    Record,
    Refusal,
    Write,
    parse_record,
)
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH, Stored, claim_path, cluster_path
from pulsar_operator.domain.logical.replication_backlog import REPLICATOR
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    NAMESPACES,
    ConflictError,
    Deps,
    Json,
    NotFoundError,
    PortError,
    RefusedError,
    ZooKeeperSession,
)

ROUNDS: Final = 6
"""Reads of the store in one pass: another writer may restore what was removed, and the next pass continues."""
CURSOR_SECONDS: Final = 30.0
"""How long to wait for cursors of the other clusters: brokers delete them within two seconds for loaded topics
(measured on 4.0.8), and for others not before those are used."""
STORE_SECONDS: Final = 120.0
"""How long a Kubernetes namespace that is being deleted is kept for a configuration store that is elsewhere and does
not answer: leftover entries hinder the users of that store."""
RECHECK_SECONDS: Final = 30.0
"""Seconds for all topics of all other clusters together."""


@dataclass(frozen=True)
class Waiting:
    """What a deletion waits for."""

    text: str
    reason: Reason | None = None
    """Why it is blocked; None if it continues automatically."""


async def deregistration_of(deps: Deps, obj: Json, actor: Actor) -> Deregistration | None:
    """Returns the entries that a cluster must remove; None if the shared data of its instance is in the cluster's own
    metadata store, which is deleted or kept with its volumes, or if no other store is known. Raises PortError."""
    key = instance_of(obj)
    instance = await deps.kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name) if key is not None else None
    if instance is None or has_own_store(instance, obj):
        return None
    return Deregistration(
        deps, obj, actor, instance, configuration_store(instance), await other_clusters(deps, instance, obj)
    )


class Deregistration:
    """One pass over a cluster's entries in the configuration store."""

    def __init__(
        self, deps: Deps, obj: Json, actor: Actor, instance: Json, store: Store | None, others: Others
    ) -> None:
        """``store`` is None if no status has its address."""
        self._deps, self._obj, self._actor = deps, obj, actor
        self._instance, self._store, self._others = instance, store, others
        self._name = pulsar_name(obj)
        self._config_map: Json | None = None
        self._known: Record | None = None
        self._kept_record = True
        self._last = True
        self._left = False
        """Whether neither entry nor claim was found."""

    async def narrow(self) -> Waiting | None:
        """Narrows lists while its brokers run, so that no further namespace can be given to it; its namespaces are
        listed again after that. Lists of tenants stay narrowed even if a namespace keeps the cluster, since it is to be
        deleted anyway.
        """
        done = await self._until_done(brokers_run=True)
        if isinstance(done, Waiting):
            return done
        if not done or confirmed_deletion(self._obj):
            return None
        needed = await needed_by_namespaces(self._deps, self._obj)
        if needed is None:
            return None
        text = f"{needed}. {remedy(self._obj, REMOVE_FROM_LISTS)}"
        return Waiting(text, Reason.DEPENDENTS_EXIST)

    async def forget(self, *, kept_record: bool = True) -> Waiting | None:
        """Removes the rest once its brokers are gone, the claim last. Without ``kept_record`` its record is not read:
        it is deleted with its Kubernetes namespace, and so is the permission to read it."""
        self._kept_record = kept_record
        done = await self._until_done(brokers_run=False)
        return done if isinstance(done, Waiting) else None

    async def cursors_gone(self) -> Waiting | None:
        """Waits briefly until other clusters dropped their cursors for it, which keep messages. Cursors of unused
        topics stay, with an event."""
        if not self._left:
            return None
        cursor = f"{REPLICATOR}{self._name}"
        try:
            async with asyncio.timeout(RECHECK_SECONDS):
                found = [text for each in self._others.staying if (text := await self._with_cursor(each, cursor))]
        except TimeoutError:
            found = [f"not all topics of the other clusters were checked within {RECHECK_SECONDS:g} s"]
        if not found:
            return None
        text = f"cursors {cursor}: {'; '.join(found)}"
        if not confirmed_deletion(self._obj) and not self._waited_for_cursors():
            return Waiting(f"The other clusters still have {text}", Reason.WAITING_FOR_REPLICATION)
        await self._actor.warn(
            Reason.NOT_DELETED,
            f"The other clusters still have {text}. These cursors keep messages for {self._name} until the topic "
            f"is loaded while neither the topic nor its namespace names {self._name}",
        )
        return None

    async def _with_cursor(self, cluster: Json, cursor: str) -> str | None:
        store, name = metadata_store(cluster), pulsar_name(cluster)
        if store is None:
            return None
        try:
            topics = await with_cursor(await self._deps.zookeeper.session(*store), cursor)
        except PortError as error:
            return f"the cursors of {name} are not known ({error})"
        return f"{len(topics)} topics of {name} have such a cursor: {named(topics)}" if topics else None

    def _waited_for_cursors(self) -> bool:
        condition = condition_of(self._obj, ConditionType.DELETION_BLOCKED)
        if condition is None or condition.get("reason") != Reason.WAITING_FOR_REPLICATION:
            return False
        since = parse_time(str(condition["lastTransitionTime"]))
        return since is not None and seconds_since(since, self._deps.clock.now()) >= CURSOR_SECONDS

    # ------------------------------------------------------------------------------------------------------ the store

    async def _until_done(self, *, brokers_run: bool) -> bool | Waiting:
        """Reads and writes until nothing is left to do; returns whether anything was written."""
        if self._store is None:
            return await self._store_not_known()
        silent, wrote, disturbed = 0, False, ""
        for _ in range(ROUNDS):
            try:
                plan = await self._plan(brokers_run=brokers_run)
                if isinstance(plan, Refusal):
                    return await self._blocked(plan.reason, plan.message) or wrote
                self._left = plan.left
                if not await self._carry_out(plan):
                    await self._report(plan.notes if not brokers_run else ())
                    return wrote
                silent, wrote = 0, True
            except SilentError as error:
                silent, wrote = silent + 1, True  # what was not answered may have been done
                if silent > 1:  # a server that went takes an answer with it, not the store
                    text = f"The configuration store cannot be used to remove cluster {self._name}: {error}"
                    return await self._blocked(Reason.CONFIGURATION_STORE_UNAVAILABLE, text) or wrote
            except (ConflictError, NotFoundError) as error:
                disturbed = str(error)
                wrote = True
            else:
                disturbed = "the writer adds clusters to the lists again"
        return Waiting(f"Another writer keeps changing {self._store}: {disturbed}")

    async def _store_not_known(self) -> bool | Waiting:
        """Handles a store without address: the status of the instance was lost, and returns with its next pass; or
        there never was a store."""
        record = await self._record()
        if record is None or not record.registered:
            return False
        meta = self._instance["metadata"]
        why = (
            f"The status of PulsarInstance {meta['namespace']}/{meta['name']} does not have the address of its "
            "configuration store"
        )
        return await self._blocked(Reason.CONFIGURATION_STORE_UNAVAILABLE, why) or False

    async def _blocked(self, reason: Reason, why: str) -> Waiting | None:
        """Returns what the deregistration waits for; None if the user confirmed the deletion, or the store is
        deleted too. The entry stays in the store then, and a Warning event says so."""
        store = f"configuration store {self._store}" if self._store else "configuration store"
        stays = f"{cluster_path(self._name)} and {claim_path(self._name)} are not deleted from the {store}"
        if confirmed_deletion(self._obj):
            await self._actor.warn(Reason.NOT_DELETED, f"{stays}, as was confirmed. {sentence(why)}")
        elif await self._goes_too(reason):
            await self._actor.warn(
                Reason.FINALIZER_RELEASED, f"{stays}, because the store is being deleted too. {sentence(why)}"
            )
        else:
            return Waiting(
                f"{sentence(why)}. "
                f"{remedy(self._obj, 'Resolve this problem', 'delete the cluster and leave its entries in the store')}",
                reason,
            )
        return None

    async def _goes_too(self, reason: Reason) -> bool:
        """Whether the store will not return: its pods are deleted with its instance, or everything is with a Kubernetes
        namespace. A store outside of that namespace may return soon, so it is waited for a while."""
        instance, namespace = self._instance, self._obj["metadata"]["namespace"]
        store = (instance.get("spec") or {}).get("configurationStore") or {}
        goes = store.get("managed") is not None and "deletionTimestamp" in instance["metadata"]
        if goes and not await can_be_kept(self._deps, instance, Component.CONFIGURATION_STORE):
            return True
        try:
            found = await self._deps.kube.get(NAMESPACES, "", namespace)
        except RefusedError:
            return False
        since = parse_time(found["metadata"].get("deletionTimestamp")) if found is not None else None
        if since is None:
            return False
        elsewhere = store.get("external") is not None or instance["metadata"]["namespace"] != namespace
        waits = reason is Reason.CONFIGURATION_STORE_UNAVAILABLE and elsewhere
        return not waits or seconds_since(since, self._deps.clock.now()) >= STORE_SECONDS

    async def _plan(self, *, brokers_run: bool) -> DeregistrationPlan | Refusal:
        record = self._known = await self._record()
        session = await self._session()
        claim, entry = claim_path(self._name), cluster_path(self._name)
        nodes = await stored_at(session, [claim, entry])
        apart = await answer_of(self._others.apart(session, self._name))
        last = not (self._others.staying or apart)
        self._last, below = last, dict[str, Stored]()
        if nodes[claim] is not None and not last:
            tenants = await answer_of(session.children(POLICIES_PATH)) or []
            of_pulsar = await answer_of(session.children(f"{POLICIES_PATH}/{OWN_TENANT}")) or []
            nodes |= await stored_at(session, paths_of_lists(tenants, of_pulsar))
        if nodes[claim] is not None and not brokers_run:
            below = await stored_below(session, entry)
        instance_id = record.instance_id if record is not None else (self._obj.get("status") or {}).get("instanceId")
        data, owner = node.data if (node := nodes[claim]) is not None else None, owner_text(self._obj)
        return plan_deregistration(
            DeregistrationFacts(
                cluster_name=self._name,
                instance_id=instance_id,
                registered=record is not None and record.registered,
                store=str(self._store),
                owner=owner,
                last=last,
                brokers_run=brokers_run,
                nodes=nodes,
                below=below,
                allowed=allows(self._instance, self._obj),
                claimant_there=await claimant_there(self._deps, data, instance_id, owner),
            )
        )

    async def _session(self) -> ZooKeeperSession:
        assert self._store is not None
        return await answer_of(self._deps.zookeeper.session(self._store.servers, self._store.chroot))

    async def _record(self) -> Record | None:
        meta = self._obj["metadata"]
        if not self._kept_record:
            return None
        self._config_map = await self._deps.kube.get(CONFIG_MAPS, meta["namespace"], record_name(meta["name"]))
        try:
            return None if self._config_map is None else parse_record(self._config_map.get("data") or {})
        except DamagedRecordError:
            return None

    async def _carry_out(self, plan: DeregistrationPlan) -> bool:
        """Carries out the next part of a plan; returns whether there was any."""
        session = await self._session()
        await self._narrow(session, plan.narrowing)
        for removal in plan.removals[:-1]:
            await answer_of(session.delete(removal.path, version=removal.version))
            self._actor.record_write(f"Deleted {removal.path} in {self._store}, because {removal.why}")
        for removal in plan.removals[-1:]:
            below = len(plan.removals) - 1
            await self._remove(session, removal, f" with {below} nodes below it" if below else "")
        if plan.narrowing or plan.removals:
            await self._report(plan.notes)
            return True
        if plan.claim is None:
            return False
        await self._report(plan.notes)
        await self._report_lists(session)
        await self._report_left_behind()
        await self._unregistered()
        await self._remove(session, plan.claim)
        return True

    async def _narrow(self, session: ZooKeeperSession, narrowing: Sequence[Write]) -> None:
        """Writes narrowed lists. What was written is one event for each list, also if a write fails."""
        done: dict[str, list[str]] = {}
        try:
            for write in narrowing:
                assert write.version is not None, "the lists of clusters have not changed"
                await answer_of(session.set(write.path, write.data, version=write.version))
                self._actor.record_write(f"Updated {write.path} in {self._store}, because {write.why}")
                done.setdefault(list_text(write), []).append(write.path.removeprefix(f"{POLICIES_PATH}/"))
        finally:
            for text, names in done.items():
                taken = f"Removed cluster {self._name} from {text} in {self._store} ({len(names)}): {named(names)}"
                await self._actor.record_event(Reason.CHANGED, taken)

    async def _remove(self, session: ZooKeeperSession, removal: Removal, more: str = "") -> None:
        await answer_of(session.delete(removal.path, version=removal.version))
        await self._actor.record_event(
            Reason.DELETED, f"Deleted {removal.path}{more} in {self._store}, because {removal.why}"
        )

    async def _report(self, notes: Sequence[str]) -> None:
        for note in notes:
            await self._actor.warn(Reason.NOT_DELETED, note)

    async def _unregistered(self) -> None:
        """Updates the record before the claim is deleted: without either, nothing shows who was registered in a
        store."""
        found, record = self._config_map, self._known
        if found is None or record is None or not record.registered:
            return
        meta, changed = found["metadata"], replace(record, registered=False)
        manifest = record_manifest(self._obj["metadata"]["name"], meta["namespace"], meta.get("labels") or {}, changed)
        await write_record(self._deps, manifest, found)

    async def _report_lists(self, session: ZooKeeperSession) -> None:
        """Reports namespaces that still name the cluster: by consent, or created after they were listed the last time.
        Nothing is reported to a cluster that may not refer to the instance."""
        if self._last or not allows(self._instance, self._obj):
            return
        found = naming(await answer_of(namespace_policies(session)), self._name)
        if found:
            await self._actor.warn(
                Reason.NOT_DELETED,
                f"{len(found)} namespaces of users still have {self._name} in their lists of clusters, so the "
                f"other clusters keep messages for it: {named(found)}. Remove {self._name} from the lists, or "
                "delete the namespaces",
            )

    async def _report_left_behind(self) -> None:
        """Reports topics left in its own store: their namespaces were removed from the cluster while its brokers were
        down, or they were abandoned. Whether they are needed is not known, so they are named and not deleted."""
        if self._last:
            return
        store = metadata_store(self._obj)
        if store is None:
            return
        try:
            found = await left_behind(await self._deps.zookeeper.session(*store))
        except PortError as error:
            found = [""]
            text = f"The operator cannot read which topics {self._name} leaves in its metadata store ({error})"
        else:
            text = f"{self._name} leaves topics of {len(found)} namespaces in its metadata store: {named(found)}"
        if found:
            delete = (self._obj.get("spec") or {}).get("reclaimPolicy") == ReclaimPolicy.DELETE.value
            rule = "is deleted with its volumes" if delete else "stays on its volumes"
            await self._actor.warn(Reason.NOT_DELETED, f"{text}. No broker deleted these topics, and their data {rule}")
