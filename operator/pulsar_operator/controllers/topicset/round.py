"""A round over some topics of a set. Each is observed, planned, acted on and read back like a single PulsarTopic.

What a PulsarTopic would have in its status is kept in memory. The events of the topics are collected and recorded
together. Used by controller.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import NO_ANSWER, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec, PulsarTopicStatus
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec, PulsarTopicSetStatus
from pulsar_operator.controllers.core.objects import Meta
from pulsar_operator.controllers.core.parent_resolution import DeclaredLocation, ParentResolver, location_of
from pulsar_operator.controllers.logical.logical_pass import KNOWN, LogicalPass
from pulsar_operator.controllers.logical.ownership import RECORD_SECONDS
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.controllers.logical.topic import TopicController, TopicPass
from pulsar_operator.controllers.logical.topic_presence import Presence
from pulsar_operator.controllers.topicset.topic_schedule import ScheduledTopic, State, TopicSchedule
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.logical.owners import Owner
from pulsar_operator.domain.logical.plan import Memory, Plan
from pulsar_operator.domain.logical.pulsar_names import topic_name
from pulsar_operator.domain.logical.topic import TopicFacts
from pulsar_operator.domain.logical.topic_set import Selection, topic_spec
from pulsar_operator.ports import CUSTOM, ConflictError, Deps, Json, RefusedError

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Number of topics reconciled concurrently. The calls to one cluster have their own limit, see adapters/admin.py."""
ROUND_SECONDS = 30.0
"""Seconds after which no further topic is started, so that other objects are reconciled."""
MUTE_LIMIT = 3
"""Number of consecutive topics without an answer after which the round ends."""


STATES = {Reason.INVALID_SPEC: State.REFUSED, Reason.DUPLICATE: State.CONFLICTING}
"""State of a topic by the reason of an ObstacleError; pending for any other reason."""
NO_PARTITION = -1
"""Value in a list for a partitioned topic without a partition in any cluster."""


@dataclass
class Listing:
    """The topics of the set that Pulsar has."""

    clusters: tuple[str, ...]
    """Clusters of the namespace that answered."""
    unreachable: tuple[str, ...]
    """Clusters of the namespace that did not answer."""
    topics: dict[str, dict[str, int]]
    """For each cluster that answered, the number of partitions by topic name; 0 if not partitioned, or NO_PARTITION."""
    at: float
    """When the list was read, in seconds since the epoch."""
    orphans: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Local names by cluster and topic of what only has to be deleted: partitions whose topic was deleted, because a
    deletion was interrupted, and topics in clusters in which the namespace is only allowed."""

    def exists(self, name: str) -> bool:
        """Whether every cluster that answered has the topic."""
        return all(name in self.topics[cluster] for cluster in self.clusters)

    def anywhere(self) -> frozenset[str]:
        """Returns the names of topics that some cluster has."""
        return frozenset(name for topics in self.topics.values() for name in topics)

    def partitions(self, name: str) -> int | None:
        """Returns the number of partitions in the first cluster that has the topic; None if no cluster has it."""
        return next((topics[name] for topics in self.topics.values() if name in topics), None)


@dataclass(frozen=True)
class TopicEvent:
    """An event of one topic."""

    topic: str
    reason: Reason
    message: str
    warning: bool


@dataclass
class TopicOfSet(LogicalPass[PulsarTopicSpec, PulsarTopicStatus]):
    """The pass over one topic of a set. It writes nothing to Kubernetes."""

    topic_events: list[TopicEvent] = field(default_factory=list)
    record_due: float = 0.0
    """When the owner record of the topic is read next, in seconds since the epoch."""

    async def event(self, reason: Reason, message: str, *, warning: bool = False) -> None:
        """Collects the event for the round."""
        self.topic_events.append(TopicEvent(self.obj["spec"]["name"], reason, message, warning))

    async def write_ahead(self, managed: frozenset[str], *, creating: bool) -> None:
        """Clears the applied generation if ``creating``. The set has stored its managed fields before the round."""
        if creating:
            self.before = self.before.model_copy(update={"applied_generation": None})


class SetTopics(TopicController):
    """Controller of single topics whose existence is known from a listing."""

    def __init__(
        self, deps: Deps, location: DeclaredLocation, listing: Listing, doubted: Collection[str], *, found_only: bool
    ) -> None:
        """Topics in ``doubted`` are requested on their own, since a list lacks partitioned topics without partitions.
        With ``found_only`` a topic is only read in clusters that have it, and never created."""
        super().__init__(deps)
        self._site = location
        self._listing = listing
        self._doubted = doubted
        self._found_only = found_only
        self._plans: dict[str, Plan] = {}
        """Plans without actions or reports, by the facts: most topics of a set have the same facts."""

    async def _counted(self, ctx: TopicPass, scope: Scope) -> Presence | None:
        first, ctx.observed = not ctx.observed, True
        ctx.holders = self._listing.clusters
        name = ctx.obj["spec"]["name"]
        if not first or name in self._doubted:
            return None
        found = {cluster: self._listing.topics[cluster].get(name) for cluster in self._listing.clusters}
        if any(count is not None and count != (ctx.spec.partitions or 0) for count in found.values()):
            return None
        return self._narrowed(Presence(found, ()))

    async def _asked(self, ctx: TopicPass, scope: Scope) -> Presence:
        return self._narrowed(await super()._asked(ctx, scope))

    def _narrowed(self, found: Presence) -> Presence:
        clusters = found.clusters
        if self._found_only:
            clusters = {cluster: count for cluster, count in clusters.items() if count is not None}
        return replace(found, clusters=clusters, unreachable=(*found.unreachable, *self._listing.unreachable))

    def plan(self, ctx: TopicPass, facts: TopicFacts, memory: Memory) -> Plan:
        """See domain.logical.topic."""
        if facts.absent:
            return super().plan(ctx, facts, memory)
        key = repr((replace(facts, name=""), memory, ctx.spec.partitions))
        known = self._plans.get(key)
        if known is not None:
            return known
        plan = super().plan(ctx, facts, memory)
        if not (plan.actions or plan.problems or plan.drift or plan.fixed or plan.waiting):
            self._plans[key] = plan
        return plan

    def _trusted(self, ctx: TopicPass, memory: Memory) -> bool:
        return False

    def record_due(self, ctx: TopicPass) -> float:
        """Returns when the record is read next. The controller lives for one round, so the set keeps the time. See
        Ownership."""
        return ctx.record_due if isinstance(ctx, TopicOfSet) else super().record_due(ctx)

    def record_observed(self, ctx: TopicPass) -> None:
        """See Ownership."""
        if isinstance(ctx, TopicOfSet):
            ctx.record_due = ctx.conditions.now.timestamp() + RECORD_SECONDS

    async def declares_too(self, ctx: TopicPass, scope: Scope, owner: Owner) -> bool:
        """See Ownership."""
        if owner.kind is not Kind.TOPIC_SET:
            return await super().declares_too(ctx, scope, owner)
        obj = await self.deps.kube.get(CUSTOM[owner.kind], owner.namespace, owner.name)
        if obj is None:
            return False
        try:
            selection = Selection(PulsarTopicSetSpec.model_validate(obj.get("spec") or {}))
        except ValidationError:
            return False
        same = ctx.obj["spec"]["name"] in selection
        return same and await ParentResolver(self.deps).may_be_same(self._site, location_of(Kind.TOPIC_SET, obj))

    def unreachable(self, ctx: TopicPass, facts: TopicFacts) -> tuple[str, ...]:
        """Returns the clusters that stopped answering during the round. The set reports those that did not answer
        before."""
        return tuple(each for each in super().unreachable(ctx, facts) if each not in self._listing.unreachable)


@dataclass
class Round:
    """The topics that are reconciled in one pass."""

    set_pass: LogicalPass[Any, PulsarTopicSetStatus]
    scope: Scope
    selection: Selection
    listing: Listing
    schedule: TopicSchedule
    place: tuple[str, str]
    """Tenant and namespace."""
    topic_events: list[TopicEvent] = field(default_factory=list)
    broken: bool = False
    """Whether the round ended because Pulsar stopped answering."""
    _specs: dict[int | None, PulsarTopicSpec] = field(default_factory=dict)

    async def run(self, names: Iterable[str]) -> None:
        """Reconciles the named topics and stores their state in the schedule."""
        names = list(names)
        pending = iter(names)
        doubted = {name for name in names if self.schedule.each[name].attempts}
        loop = asyncio.get_running_loop()
        end = loop.time() + ROUND_SECONDS
        topics = SetTopics(
            self.set_pass.deps,
            location_of(Kind.TOPIC_SET, self.set_pass.obj),
            self.listing,
            doubted,
            found_only=self.selection.by_pattern,
        )
        failures = 0

        async def work() -> None:
            nonlocal failures
            for name in pending:
                answered = await self._observe(topics, name)
                failures = 0 if answered else failures + 1
                self.broken = self.broken or failures >= MUTE_LIMIT
                if self.broken or loop.time() > end:
                    return

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def _observe(self, topics: SetTopics, name: str) -> bool:
        """Reconciles one topic. Returns whether Pulsar answered."""
        item = self.schedule.each[name]
        ctx = self._pass_of(name, item)
        now = self.set_pass.deps.clock.now().timestamp()
        try:
            await topics._converge(ctx, self.scope)
        except AdminUnreachableError as error:
            self._note(item, State.PENDING, error.reason, str(error), now)
            return False
        except ObstacleError as obstacle:
            state = STATES.get(obstacle.reason, State.PENDING)
            self._note(item, state, obstacle.reason, obstacle.message, now)
            return True
        except (ConflictError, RefusedError) as error:
            self._note(item, State.PENDING, Reason.PENDING, str(error), now)
            return True
        finally:
            self.topic_events += ctx.topic_events
        return self._judge(name, item, ctx, now)

    def _pass_of(self, name: str, item: ScheduledTopic) -> TopicOfSet:
        set_ctx = self.set_pass
        status = item.status or PulsarTopicStatus(refused_fields=set_ctx.before.refused_fields if item.observed else [])
        full = topic_name(self._spec(name).persistent, *self.place, name)
        before = status.model_copy(
            update={
                "managed_fields": list(set_ctx.before.managed_fields),
                "applied_generation": 1 if item.given else None,
                "pulsar_name": full if item.observed else None,
                "owner_recorded": item.recorded or None,
            }
        )
        obj: Json = {
            "kind": set_ctx.obj["kind"],
            "metadata": set_ctx.obj["metadata"],
            "spec": {"name": name},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        meta = Meta(set_ctx.meta.namespace, set_ctx.meta.name, set_ctx.meta.uid, 1, False, (), set_ctx.meta.annotations)
        conditions = ConditionSet(KNOWN, (), 1, set_ctx.deps.clock.now())
        ctx = TopicOfSet(set_ctx.deps, obj, meta, self._spec(name), before, conditions)
        ctx.record_due = item.record_due
        return ctx

    def _spec(self, name: str) -> PulsarTopicSpec:
        found = self.listing.partitions(name) or 0 if self.selection.by_pattern else None
        if found not in self._specs:
            self._specs[found] = topic_spec(self.selection.spec, found)
        return self._specs[found]

    def _judge(self, name: str, item: ScheduledTopic, ctx: TopicOfSet, now: float) -> bool:
        after = ctx.before.model_copy(update={**ctx.fields, "conditions": ctx.conditions.result()})
        ready, accepted, drifted = (
            next(c for c in after.conditions if c.type == kind.value)
            for kind in (ConditionType.READY, ConditionType.ACCEPTED, ConditionType.DRIFTED)
        )
        item.given = after.applied_generation == 1
        item.observed = item.observed or after.pulsar_name is not None
        item.recorded, item.record_due = bool(after.owner_recorded), ctx.record_due
        item.pending = tuple(after.pending_actions or ())
        for each in after.clusters:
            if each.exists and each.name in self.listing.topics:
                self.listing.topics[each.name][name] = each.partitions or 0
        muted = ready.status.value == "Unknown" and ready.reason in NO_ANSWER
        item.status = after
        if accepted.status.value == "False":
            self._note(item, State.REFUSED, Reason(accepted.reason), accepted.message, now, after)
        elif drifted.status.value == "True" and ready.reason != Reason.PENDING.value:
            reason = (
                Reason.CONFLICTING_WRITER if ready.reason == Reason.CONFLICTING_WRITER.value else Reason.DRIFT_DETECTED
            )
            self._note(item, State.DRIFTED, reason, drifted.message, now, after)
        elif ready.status.value == "True" and item.given:
            item.state = State.READY
            item.status = after if after.repairs else None
            self.schedule.settle(name, now)
        else:
            self._note(item, State.PENDING, Reason(ready.reason), ready.message, now, after)
        return not muted

    def _note(
        self,
        item: ScheduledTopic,
        state: State,
        reason: Reason,
        message: str,
        now: float,
        status: PulsarTopicStatus | None = None,
    ) -> None:
        item.state, item.reason, item.message = state, reason.value, message
        if status is not None:
            item.status = status
        item.failed(now)


def tally(topic_events: Iterable[TopicEvent]) -> Mapping[Reason, list[TopicEvent]]:
    """Returns the events by reason."""
    out: dict[Reason, list[TopicEvent]] = {}
    for each in topic_events:
        out.setdefault(each.reason, []).append(each)
    return out
