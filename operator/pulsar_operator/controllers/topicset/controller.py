"""PulsarTopicSet: many topics of one namespace over one template, in rounds.

A pass lists what the namespace has in each cluster, looks at the topics whose turn it is (topic_schedule.py,
round.py), deletes some of those that left (removal.py) and writes one status, whose size does not
depend on the number of topics. What is known of single topics is in memory; a new process takes a set that its
predecessor left complete as it is, and reads it in the course of a period.

Order of writes, so that a kill between any two changes nothing: finalizer, managed fields and the record of owned
topics before the first topic is made; both are trimmed only when every topic was given the template, and everything
that left is gone, in every cluster.
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
from pulsar_operator.controllers.logical.reconciler_base import PassFrame
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
from pulsar_operator.controllers.topicset.topic_schedule import PERIOD_SECONDS, Met, State, Turns
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


class TopicSetController(PassFrame[Any, PulsarTopicSetStatus]):
    """Reconciles PulsarTopicSets."""

    kind = Kind.TOPIC_SET

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._known: dict[Key, Known] = {}

    # ---------------------------------------------------------------------------------------------- the pass

    def forget(self, key: Key) -> None:
        """See PassFrame."""
        self._known.pop(key, None)

    async def converge(self, p: SetPass) -> Outcome:
        """See PassFrame."""
        scope = await resolve_scope(self.deps, self.kind, p.obj, deleting=False)
        place = scope.place
        p.fields["pulsar_name"] = "/".join(place)
        known = self._recall(p)
        now = self._now()
        left = who_left(known.selection, p.before.owned)
        listing = await list_topics(p, scope, known, place, left, now)
        taken = await taken_by_others(p, scope, known, listing, left)
        self._take_stock(p, known, listing, taken, now)
        declared = declared_fields(p.spec, scope.version)
        batch = known.turns.take(now) if listing.clusters else []
        full = without_room(known.selection, p.before.owned)
        if full:
            batch = self._that_fit(p, known, batch, now)
        round_ = Round(p, scope, known.selection, listing, known.turns, place)
        if p.held is None:
            making = not known.selection.by_pattern and not all(listing.exists(name) for name in batch)
            await self._write_ahead(p, known, declared if batch else frozenset(), making=making, full=full)
        if batch:
            await round_.run(batch)
        known.broken = known.broken + 1 if round_.broken else 0
        if round_.broken:
            known.listing = None
        waits = await self._remove(p, scope, known, listing, left, taken)
        await record_events(p, round_.heard, known.removal)
        self._conclude(p, known, listing, declared)
        report = Report(p, known.turns, known.removal, left, waits_for_confirmation=waits)
        report.summarize(self._clusters(p, known, listing), self._now())
        if full:
            report.without_room()
        return self._next(p, known, waits_for_confirmation=waits)

    # ------------------------------------------------------------------------------------------- what is known

    def _now(self) -> float:
        return self.deps.clock.now().timestamp()

    def _recall(self, p: SetPass) -> Known:
        """What the process knows, from the status where it knows nothing."""
        key = Key(self.kind, p.meta.namespace, p.meta.name)
        known = self._known.get(key)
        if known is None or known.turns.uid != p.meta.uid:
            known = Known(Turns(p.meta.uid), Removal(owner_of(p.obj)), Selection(p.spec), p.meta.generation)
            for cluster in p.before.clusters:
                if cluster.applied_template:
                    known.applied[cluster.name] = cluster.applied_template
                if (since := parse_time(cluster.unreachable_since)) is not None:
                    known.outages[cluster.name] = Outage(since)
            self._known[key] = known
        elif known.generation != p.meta.generation:
            known.selection, known.generation, known.listing = Selection(p.spec), p.meta.generation, None
        if known.turns.cause != _cause(p):
            known.listing = None
        return known

    def _take_stock(self, p: SetPass, known: Known, listing: Listing, taken: Mapping[str, str], now: float) -> None:
        """Have a turn for each topic, and find whose state the list contradicts."""
        turns, selection = known.turns, known.selection
        template = template_hash(p.spec)
        names = selection.names
        if selection.by_pattern:
            names = sorted(listing.anywhere() | (set(turns.each) if listing.unreachable else set()))
        met: Met | None = None
        if not known.met:
            known.met = True
            turns.template, turns.read_at = template, now
            given = all(known.applied.get(cluster) == template for cluster in listing.clusters)
            recorded = given and bool(p.before.owner_recorded)
            met = Met({name for name in names if listing.exists(name)}, given, recorded, given and _complete(p))
            if p.before.drifted:
                turns.presumed_until = now + PERIOD_SECONDS
        turns.keep(names, met=met, now=now)
        turns.give(template, now)
        if turns.all_given and any(known.applied.get(cluster) != template for cluster in listing.clusters):
            turns.renew(now)  # a cluster was silent when the template changed, or is new
        cause = _cause(p)
        if turns.cause not in (None, cause):
            turns.wake(now)
        turns.cause = cause
        for example in p.before.examples if met is not None else ():
            if example.name in turns.each:
                turns.each[example.name].due = now
        partitions = p.spec.template.partitions
        for name, turn in turns.each.items():
            if name in taken:
                turn.state, turn.reason, turn.recorded = State.CONFLICTING, Reason.DUPLICATE.value, False
                turn.message = f"{taken[name]} manages it"
            elif turn.state is State.CONFLICTING:
                turn.state, turn.given, turn.due = State.PENDING, False, now
            elif (
                turn.state is State.READY and listing.at == now and not _as_listed(listing, name, selection, partitions)
            ):
                turn.due = now

    # ----------------------------------------------------------------------------------------------- what is done

    def _that_fit(self, p: SetPass, known: Known, batch: list[str], now: float) -> list[str]:
        """Topics that the record has already; the others come again when it may have room."""
        recorded = digests_of(p.before.owned)
        for name in batch:
            if not has_record(name, recorded):
                turn = known.turns.each[name]
                turn.reason, turn.message = Reason.NOT_EMPTY.value, "status.owned has no room for it"
                turn.failed(now)
        return [name for name in batch if has_record(name, recorded)]

    async def _write_ahead(
        self, p: SetPass, known: Known, declared: frozenset[str], *, making: bool, full: bool
    ) -> None:
        """Store what is managed and owned before the first call that needs it.

        With ``making`` also forget that all topics were given the template: what a new one lacks when the pass ends
        between making it and giving it its values is no drift.
        """
        if p.spec.deletion_policy is SetDeletionPolicy.DELETE:
            p.stored(await ensure_finalizer(self.deps, p.obj))
        update: dict[str, Any] = {}
        wanted = frozenset(p.before.managed_fields) | declared
        if wanted != frozenset(p.before.managed_fields):
            update["managed_fields"] = sorted(wanted)
        clusters = [cluster.model_copy(update={"applied_template": None}) for cluster in p.before.clusters]
        if making and clusters != p.before.clusters:
            update["clusters"] = clusters
        owned = owned_with(known.selection, p.before.owned) if not full else None
        if owned is not None and owned != p.before.owned:
            update["owned"] = owned
        if p.before.pulsar_name is None:
            update["pulsar_name"] = p.fields["pulsar_name"]
        if update:
            await p.store(update)

    async def _remove(
        self,
        p: SetPass,
        scope: Scope,
        known: Known,
        listing: Listing,
        left: Left,
        taken: Mapping[str, str],
    ) -> bool:
        """Delete some of the topics that left; whether that waits for a person's word."""
        removal, now = known.removal, self._now()
        if p.spec.deletion_policy is not SetDeletionPolicy.DELETE:
            left = Left(0, 0, lambda name: False)
        removal.look(listing, left, taken, now)
        if p.held is None and not listing.unreachable:
            await removal.restore(scope, scope.place)
        if not removal.turns or p.held is not None:
            return False
        if left.many and p.meta.annotations.get(ANNOTATION_CONFIRM_REMOVAL) != removal_answer(p.meta):
            return True
        await self._delete_due(p, scope, removal, listing, left, taken, now)
        return False

    async def _delete_due(
        self,
        p: SetPass,
        scope: Scope,
        removal: Removal,
        listing: Listing,
        left: Left,
        taken: Mapping[str, str],
        now: float,
    ) -> None:
        """Delete those whose turn it is, but for what others declare: that is asked for before each time."""
        if removal.next_due(now) == 0.0:
            removal.look(listing, left, {*taken, *await declared_by_others(p, listing, left)}, now)
        place = scope.place
        await removal.run(scope, place, listing, now)

    def _conclude(self, p: SetPass, known: Known, listing: Listing, declared: frozenset[str]) -> None:
        """What may be forgotten, now that everything is done everywhere."""
        p.fields["managed_fields"] = p.before.managed_fields
        p.fields["owned"] = p.before.owned if p.spec.deletion_policy is SetDeletionPolicy.DELETE else None
        if p.held is None and not listing.unreachable:
            there = known.removal.turns
            owned = p.before.owned
            p.fields["owned"] = owned_now(known.selection, owned, there) if owned is not None else None
        if p.held is None and known.turns.all_given and known.turns.each:
            for cluster in listing.clusters:
                known.applied[cluster] = known.turns.template
            if not listing.unreachable:
                kept = {
                    name
                    for turn in known.turns.each.values()
                    if turn.status is not None and turn.state is not State.READY
                    for name in turn.status.managed_fields
                }
                stay = (set(p.before.managed_fields) & kept) | declared
                p.fields["managed_fields"] = sorted(stay & set(p.before.managed_fields))

    def _clusters(self, p: SetPass, known: Known, listing: Listing) -> list[SetClusterStatus]:
        """The topics in each cluster, for the status; one that does not answer keeps what was last seen."""
        before = {cluster.name: cluster.topics for cluster in p.before.clusters}
        applied = dict(known.applied)
        if not known.turns.all_given:
            applied = {name: template for name, template in applied.items() if template != known.turns.template}
        out = []
        for cluster in sorted({*listing.clusters, *listing.unreachable}):
            outage = known.outages.get(cluster)
            answered = cluster in listing.clusters
            out.append(
                SetClusterStatus(
                    name=cluster,
                    topics=known.turns.among(listing.topics[cluster]) if answered else before.get(cluster, 0),
                    applied_template=applied.get(cluster),
                    unreachable_since=timestamp(outage.since) if outage is not None else None,
                )
            )
        return out

    def _next(self, p: SetPass, known: Known, *, waits_for_confirmation: bool) -> Outcome:
        """When to go on."""
        now = self._now()
        waits = [outage.until - now for outage in known.outages.values()]
        # While no cluster answers, or the set is being deleted, nobody's turn comes, however long it is due.
        idle = p.meta.deleting or (known.listing is not None and not known.listing.clusters)
        due = None if idle else known.turns.next_due(now)
        if known.broken:
            due = min(UNREACHABLE_SECONDS * 2.0 ** (known.broken - 1), UNREACHABLE_LIMIT_SECONDS)
        held = waits_for_confirmation or p.held is not None or known.listing is None or known.listing.unreachable
        removal = None if held else known.removal.next_due(now)
        found = [max(0.0, each) for each in (*waits, due, removal) if each is not None]
        return Outcome(requeue_after=min(found)) if found else DONE

    # -------------------------------------------------------------------------------------------------- deletion

    def kept(self, p: SetPass) -> str | None:
        """See PassFrame."""
        if p.spec.deletion_policy is SetDeletionPolicy.RETAIN:
            return "deletionPolicy is Retain"
        return None if p.before.owned is not None else "it never made anything there"

    def subject(self, p: SetPass, scope: Scope) -> str:
        """See PassFrame."""
        return "the topics of the set"

    def unrestored(self, p: SetPass) -> str | None:
        """See PassFrame."""
        known = self._known.get(Key(self.kind, p.meta.namespace, p.meta.name))
        lists = known.removal.lists if known is not None else {}
        if not lists:
            return None
        return (
            f"Until then {len(lists)} topics are not replicated from all of their clusters, such as {min(lists)}: "
            f"their deletion has ended that. To keep them and have the operator restore it: {keep(self.kind, p.obj)}"
        )

    async def release(self, p: SetPass, reason: Reason, message: str) -> None:
        """See PassFrame. Topics that stay get back what they still lack."""
        known = self._known.get(Key(self.kind, p.meta.namespace, p.meta.name))
        if known is not None and known.removal.lists and reason is not Reason.DELETED:
            known.removal.turns = {}
            with suppress(ObstacleError):
                scope = await resolve_scope(self.deps, self.kind, p.obj, deleting=True)
                await known.removal.restore(scope, scope.place)
        await super().release(p, reason, message)

    async def remove(self, p: SetPass, scope: Scope) -> Outcome | None:
        """Delete the recorded topics, in rounds; then let the object go."""
        place = scope.place
        known = self._recall(p)
        now = self._now()
        left = who_left(known.selection, p.before.owned, all_of_them=True)
        known.listing = None if not known.removal.turns else known.listing
        try:
            listing = await list_topics(p, scope, known, place, left, now)
        except ObstacleError:
            await self.release(p, Reason.DELETED, f"Namespace {'/'.join(place)} is gone, and the topics with it")
            return None
        taken = await taken_by_others(p, scope, known, listing, left)
        removal = known.removal
        removal.look(listing, left, taken, now)
        report = Report(p, known.turns, removal, left, waits_for_confirmation=False)
        if p.held is not None:
            number = len(removal.turns)
            text = f"Delete {number} topics in Pulsar: the object is being deleted and deletionPolicy is Delete"
            self.deletion_held(p, text)
            return DONE
        if not listing.unreachable:
            await removal.restore(scope, place)
        await self._delete_due(p, scope, removal, listing, left, taken, now)
        await record_events(p, [], removal)
        if not removal.turns and not listing.unreachable:
            # What the list did not show may have come since: only a new one says that nothing is left.
            if listing.at == now:
                await self.release(p, Reason.DELETED, "All topics of the set are deleted in Pulsar")
                return None
            known.listing = None
            return Outcome(requeue_after=0.0)
        report.deletion(listing.unreachable)
        return self._next(p, known, waits_for_confirmation=False)


def _complete(p: SetPass) -> bool:
    """Whether the process before left nothing to do: what differs was reported, what others declare left alone."""
    before = p.before
    busy = bool(before.pending or before.refused or before.pending_deletion) or p.held is not None
    done = (before.ready or 0) + (before.drifted or 0) + (before.conflicting or 0)
    return not busy and bool(before.desired) and before.desired == done


def _cause(p: SetPass) -> object:
    """What makes every topic worth a look when it changes: a person's annotations, what is done about drift."""
    marks = sorted((name, value) for name, value in p.meta.annotations.items() if name.startswith(f"{GROUP}/"))
    return marks, p.spec.drift_policy


def _as_listed(listing: Listing, name: str, selection: Selection, partitions: int | None) -> bool:
    if selection.by_pattern:
        return name in listing.anywhere() or bool(listing.unreachable)
    return all(listing.topics[cluster].get(name) == (partitions or 0) for cluster in listing.clusters)
