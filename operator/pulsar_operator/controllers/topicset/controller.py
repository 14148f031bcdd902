"""PulsarTopicSet: many topics of one namespace with one template, reconciled in rounds.

A pass lists the topics of the namespace in each cluster, reconciles the topics that are due (topic_schedule.py,
round.py), deletes some of those that left the set (removal.py) and writes the status once. The size of the status does
not depend on the number of topics. The state of single topics is in memory. A new process assumes that a set which its
predecessor left complete is unchanged, and reads its topics in the course of a period.

The order of writes makes a crash between any two of them harmless. The finalizer, the managed fields and the record of
owned topics are written before the first topic is created. The latter two are trimmed only when every topic was given
the template, and every topic that left is deleted, in every cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_REMOVAL, GROUP, Kind, Reason
from pulsar_operator.api.v1alpha1.topic_set import (
    PulsarTopicSetStatus,
    SetClusterStatus,
    SetDeletionPolicy,
)
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.logical.deletion_results import keep
from pulsar_operator.controllers.logical.reconciler_base import ReconcilerBase
from pulsar_operator.controllers.logical.scope import ObstacleError, Scope, resolve_scope
from pulsar_operator.controllers.topicset.listing import (
    UNREACHABLE_LIMIT_SECONDS,
    UNREACHABLE_SECONDS,
    Known,
    Outage,
    SetPass,
    declared_by_others,
    list_topics,
    taken_by_others,
)
from pulsar_operator.controllers.topicset.removal import Removal
from pulsar_operator.controllers.topicset.report import Report, record_events, removal_answer
from pulsar_operator.controllers.topicset.round import Listing, Round
from pulsar_operator.controllers.topicset.topic_schedule import PERIOD_SECONDS, PredecessorState, State, TopicSchedule
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.logical.owners import owner_of
from pulsar_operator.domain.logical.topic_set import (
    Left,
    Selection,
    declared_fields,
    digests_of,
    has_record,
    owned_now,
    owned_with,
    template_hash,
    who_left,
    without_room,
)
from pulsar_operator.ports import Deps, Key


class TopicSetController(ReconcilerBase[Any, PulsarTopicSetStatus]):
    """Reconciles PulsarTopicSets."""

    kind = Kind.TOPIC_SET

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._known: dict[Key, Known] = {}

    # ---------------------------------------------------------------------------------------------- the pass

    def forget(self, key: Key) -> None:
        """See ReconcilerBase."""
        self._known.pop(key, None)

    async def converge(self, ctx: SetPass) -> Outcome:
        """See ReconcilerBase."""
        scope = await resolve_scope(self.deps, self.kind, ctx.obj, deleting=False)
        place = scope.place
        ctx.fields["pulsar_name"] = "/".join(place)
        known = self._recall(ctx)
        now = self._now()
        left = who_left(known.selection, ctx.before.owned)
        listing = await list_topics(ctx, scope, known, place, left, now)
        taken = await taken_by_others(ctx, scope, known, listing, left)
        self._take_stock(ctx, known, listing, taken, now)
        declared = declared_fields(ctx.spec, scope.version)
        batch = known.schedule.take(now) if listing.clusters else []
        full = without_room(known.selection, ctx.before.owned)
        if full:
            batch = self._that_fit(ctx, known, batch, now)
        round_ = Round(ctx, scope, known.selection, listing, known.schedule, place)
        if ctx.pause_reason is None:
            making = not known.selection.by_pattern and not all(listing.exists(name) for name in batch)
            await self._write_ahead(ctx, known, declared if batch else frozenset(), making=making, full=full)
        if batch:
            await round_.run(batch)
        known.broken = known.broken + 1 if round_.broken else 0
        if round_.broken:
            known.listing = None
        waits = await self._remove(ctx, scope, known, listing, left, taken)
        await record_events(ctx, round_.topic_events, known.removal)
        self._conclude(ctx, known, listing, declared)
        report = Report(ctx, known.schedule, known.removal, left, waits_for_confirmation=waits)
        report.summarize(self._clusters(ctx, known, listing), self._now())
        if full:
            report.without_room()
        return self._next(ctx, known, waits_for_confirmation=waits)

    # ------------------------------------------------------------------------------------------- what is known

    def _now(self) -> float:
        return self.deps.clock.now().timestamp()

    def _recall(self, ctx: SetPass) -> Known:
        """Returns the in-memory state of the set. A new one is initialized from the status."""
        key = Key(self.kind, ctx.meta.namespace, ctx.meta.name)
        known = self._known.get(key)
        if known is None or known.schedule.uid != ctx.meta.uid:
            known = Known(
                TopicSchedule(ctx.meta.uid), Removal(owner_of(ctx.obj)), Selection(ctx.spec), ctx.meta.generation
            )
            for cluster in ctx.before.clusters:
                if cluster.applied_template:
                    known.applied[cluster.name] = cluster.applied_template
                if (since := parse_time(cluster.unreachable_since)) is not None:
                    known.outages[cluster.name] = Outage(since)
            self._known[key] = known
        elif known.generation != ctx.meta.generation:
            known.selection, known.generation, known.listing = Selection(ctx.spec), ctx.meta.generation, None
        if known.schedule.cause != _cause(ctx):
            known.listing = None
        return known

    def _take_stock(self, ctx: SetPass, known: Known, listing: Listing, taken: Mapping[str, str], now: float) -> None:
        """Schedules each topic, and marks topics as due if the list contradicts their state."""
        schedule, selection = known.schedule, known.selection
        template = template_hash(ctx.spec)
        names = selection.names
        if selection.by_pattern:
            names = sorted(listing.anywhere() | (set(schedule.each) if listing.unreachable else set()))
        predecessor: PredecessorState | None = None
        if not known.counted:
            known.counted = True
            schedule.template, schedule.read_at = template, now
            given = all(known.applied.get(cluster) == template for cluster in listing.clusters)
            recorded = given and bool(ctx.before.owner_recorded)
            predecessor = PredecessorState(
                {name for name in names if listing.exists(name)}, given, recorded, given and _complete(ctx)
            )
            if ctx.before.drifted:
                schedule.presumed_until = now + PERIOD_SECONDS
        schedule.keep(names, predecessor=predecessor, now=now)
        schedule.give(template, now)
        if schedule.all_given and any(known.applied.get(cluster) != template for cluster in listing.clusters):
            schedule.renew(now)  # a cluster was silent when the template changed, or is new
        cause = _cause(ctx)
        if schedule.cause not in (None, cause):
            schedule.wake(now)
        schedule.cause = cause
        for example in ctx.before.examples if predecessor is not None else ():
            if example.name in schedule.each:
                schedule.each[example.name].due = now
        partitions = ctx.spec.template.partitions
        for name, item in schedule.each.items():
            if name in taken:
                item.state, item.reason, item.recorded = State.CONFLICTING, Reason.DUPLICATE.value, False
                item.message = f"{taken[name]} manages the topic"
            elif item.state is State.CONFLICTING:
                item.state, item.given, item.due = State.PENDING, False, now
            elif (
                item.state is State.READY and listing.at == now and not _as_listed(listing, name, selection, partitions)
            ):
                item.due = now

    # ----------------------------------------------------------------------------------------------- what is done

    def _that_fit(self, ctx: SetPass, known: Known, batch: list[str], now: float) -> list[str]:
        """Returns the topics that status.owned already covers. The others are retried when it may have room."""
        recorded = digests_of(ctx.before.owned)
        for name in batch:
            if not has_record(name, recorded):
                item = known.schedule.each[name]
                item.reason, item.message = Reason.NOT_EMPTY.value, "status.owned has no room for the name of the topic"
                item.failed(now)
        return [name for name in batch if has_record(name, recorded)]

    async def _write_ahead(
        self, ctx: SetPass, known: Known, declared: frozenset[str], *, making: bool, full: bool
    ) -> None:
        """Stores the managed fields and owned topics before the first call that needs them.

        With ``making`` it also clears the applied template: missing settings of a new topic are then not drift, even if
        the pass ends between creating the topic and setting them.
        """
        if ctx.spec.deletion_policy is SetDeletionPolicy.DELETE:
            ctx.stored(await ensure_finalizer(self.deps, ctx.obj))
        update: dict[str, Any] = {}
        desired = frozenset(ctx.before.managed_fields) | declared
        if desired != frozenset(ctx.before.managed_fields):
            update["managed_fields"] = sorted(desired)
        clusters = [cluster.model_copy(update={"applied_template": None}) for cluster in ctx.before.clusters]
        if making and clusters != ctx.before.clusters:
            update["clusters"] = clusters
        owned = owned_with(known.selection, ctx.before.owned) if not full else None
        if owned is not None and owned != ctx.before.owned:
            update["owned"] = owned
        if ctx.before.pulsar_name is None:
            update["pulsar_name"] = ctx.fields["pulsar_name"]
        if update:
            await ctx.store(update)

    async def _remove(
        self,
        ctx: SetPass,
        scope: Scope,
        known: Known,
        listing: Listing,
        left: Left,
        taken: Mapping[str, str],
    ) -> bool:
        """Deletes some of the topics that left the set. Returns whether the deletion waits for a confirmation."""
        removal, now = known.removal, self._now()
        if ctx.spec.deletion_policy is not SetDeletionPolicy.DELETE:
            left = Left(0, 0, lambda name: False)
        removal.observe(listing, left, taken, now)
        if ctx.pause_reason is None and not listing.unreachable:
            await removal.restore(scope, scope.place)
        if not removal.schedule or ctx.pause_reason is not None:
            return False
        if left.many and ctx.meta.annotations.get(ANNOTATION_CONFIRM_REMOVAL) != removal_answer(ctx.meta):
            return True
        await self._delete_due(ctx, scope, removal, listing, left, taken, now)
        return False

    async def _delete_due(
        self,
        ctx: SetPass,
        scope: Scope,
        removal: Removal,
        listing: Listing,
        left: Left,
        taken: Mapping[str, str],
        now: float,
    ) -> None:
        """Deletes the topics that are due, except those that other objects declare, which are read before each
        deletion."""
        if removal.next_due(now) == 0.0:
            removal.observe(listing, left, {*taken, *await declared_by_others(ctx, listing, left)}, now)
        place = scope.place
        await removal.run(scope, place, listing, now)

    def _conclude(self, ctx: SetPass, known: Known, listing: Listing, declared: frozenset[str]) -> None:
        """Trims the managed fields and the record of owned topics once they are no longer needed in any cluster."""
        ctx.fields["managed_fields"] = ctx.before.managed_fields
        ctx.fields["owned"] = ctx.before.owned if ctx.spec.deletion_policy is SetDeletionPolicy.DELETE else None
        if ctx.pause_reason is None and not listing.unreachable:
            there = known.removal.schedule
            owned = ctx.before.owned
            ctx.fields["owned"] = owned_now(known.selection, owned, there) if owned is not None else None
        if ctx.pause_reason is None and known.schedule.all_given and known.schedule.each:
            for cluster in listing.clusters:
                known.applied[cluster] = known.schedule.template
            if not listing.unreachable:
                kept = {
                    name
                    for item in known.schedule.each.values()
                    if item.status is not None and item.state is not State.READY
                    for name in item.status.managed_fields
                }
                stay = (set(ctx.before.managed_fields) & kept) | declared
                ctx.fields["managed_fields"] = sorted(stay & set(ctx.before.managed_fields))

    def _clusters(self, ctx: SetPass, known: Known, listing: Listing) -> list[SetClusterStatus]:
        """Returns the topics in each cluster, for the status. A cluster that does not answer keeps its last observed
        value."""
        before = {cluster.name: cluster.topics for cluster in ctx.before.clusters}
        applied = dict(known.applied)
        if not known.schedule.all_given:
            applied = {name: template for name, template in applied.items() if template != known.schedule.template}
        out = []
        for cluster in sorted({*listing.clusters, *listing.unreachable}):
            outage = known.outages.get(cluster)
            answered = cluster in listing.clusters
            out.append(
                SetClusterStatus(
                    name=cluster,
                    topics=known.schedule.among(listing.topics[cluster]) if answered else before.get(cluster, 0),
                    applied_template=applied.get(cluster),
                    unreachable_since=timestamp(outage.since) if outage is not None else None,
                )
            )
        return out

    def _next(self, ctx: SetPass, known: Known, *, waits_for_confirmation: bool) -> Outcome:
        """Returns the outcome with the seconds until the next pass."""
        now = self._now()
        waits = [outage.until - now for outage in known.outages.values()]
        # While no cluster answers, or the set is being deleted, no topic is reconciled, however long it is due.
        idle = ctx.meta.deleting or (known.listing is not None and not known.listing.clusters)
        due = None if idle else known.schedule.next_due(now)
        if known.broken:
            due = min(UNREACHABLE_SECONDS * 2.0 ** (known.broken - 1), UNREACHABLE_LIMIT_SECONDS)
        postponed = (
            waits_for_confirmation or ctx.pause_reason is not None or known.listing is None or known.listing.unreachable
        )
        removal = None if postponed else known.removal.next_due(now)
        found = [max(0.0, each) for each in (*waits, due, removal) if each is not None]
        return Outcome(requeue_after=min(found)) if found else DONE

    # -------------------------------------------------------------------------------------------------- deletion

    def kept(self, ctx: SetPass) -> str | None:
        """See ReconcilerBase."""
        if ctx.spec.deletion_policy is SetDeletionPolicy.RETAIN:
            return "deletionPolicy is Retain"
        return None if ctx.before.owned is not None else "the set never created a topic"

    def subject(self, ctx: SetPass, scope: Scope) -> str:
        """Returns the text for messages. See ReconcilerBase."""
        return "the topics of the set"

    def unrestored(self, ctx: SetPass) -> str | None:
        """See ReconcilerBase."""
        known = self._known.get(Key(self.kind, ctx.meta.namespace, ctx.meta.name))
        lists = known.removal.lists if known is not None else {}
        if not lists:
            return None
        return (
            f"While the deletion is pending, {len(lists)} topics, such as {min(lists)}, are not replicated to some of "
            "their clusters. To keep the topics and have the operator restore the replication, run: "
            f"{keep(self.kind, ctx.obj)}"
        )

    async def release(self, ctx: SetPass, reason: Reason, message: str) -> None:
        """Releases the set; see ReconcilerBase. The replication of topics that are kept is restored first."""
        known = self._known.get(Key(self.kind, ctx.meta.namespace, ctx.meta.name))
        if known is not None and known.removal.lists and reason is not Reason.DELETED:
            known.removal.schedule = {}
            with suppress(ObstacleError):
                scope = await resolve_scope(self.deps, self.kind, ctx.obj, deleting=True)
                await known.removal.restore(scope, scope.place)
        await super().release(ctx, reason, message)

    async def remove(self, ctx: SetPass, scope: Scope) -> Outcome | None:
        """Deletes the recorded topics in rounds, then releases the object."""
        place = scope.place
        known = self._recall(ctx)
        now = self._now()
        left = who_left(known.selection, ctx.before.owned, all_of_them=True)
        known.listing = None if not known.removal.schedule else known.listing
        try:
            listing = await list_topics(ctx, scope, known, place, left, now)
        except ObstacleError:
            await self.release(ctx, Reason.DELETED, f"Namespace {'/'.join(place)} and the topics in it no longer exist")
            return None
        taken = await taken_by_others(ctx, scope, known, listing, left)
        removal = known.removal
        removal.observe(listing, left, taken, now)
        report = Report(ctx, known.schedule, removal, left, waits_for_confirmation=False)
        if ctx.pause_reason is not None:
            number = len(removal.schedule)
            text = f"Delete {number} topics in Pulsar, because the object is being deleted and deletionPolicy is Delete"
            self.deletion_paused(ctx, text)
            return DONE
        if not listing.unreachable:
            await removal.restore(scope, place)
        await self._delete_due(ctx, scope, removal, listing, left, taken, now)
        await record_events(ctx, [], removal)
        if not removal.schedule and not listing.unreachable:
            # What the list did not show may have come since: only a new one says that nothing is left.
            if listing.at == now:
                await self.release(ctx, Reason.DELETED, "All topics of the set are deleted in Pulsar")
                return None
            known.listing = None
            return Outcome(requeue_after=0.0)
        report.deletion(listing.unreachable)
        return self._next(ctx, known, waits_for_confirmation=False)


def _complete(ctx: SetPass) -> bool:
    """Whether the previous process left no work: drift was only reported, and topics of other objects left alone."""
    before = ctx.before
    busy = bool(before.pending or before.refused or before.pending_deletion) or ctx.pause_reason is not None
    done = (before.ready or 0) + (before.drifted or 0) + (before.conflicting or 0)
    return not busy and bool(before.desired) and before.desired == done


def _cause(ctx: SetPass) -> object:
    """Returns a value whose change makes every topic due: the annotations of the operator's API group, and the drift
    policy."""
    marks = sorted((name, value) for name, value in ctx.meta.annotations.items() if name.startswith(f"{GROUP}/"))
    return marks, ctx.spec.drift_policy


def _as_listed(listing: Listing, name: str, selection: Selection, partitions: int | None) -> bool:
    if selection.by_pattern:
        return name in listing.anywhere() or bool(listing.unreachable)
    return all(listing.topics[cluster].get(name) == (partitions or 0) for cluster in listing.clusters)
