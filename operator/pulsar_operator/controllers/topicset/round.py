"""A round over some topics of a set: each is observed, planned, acted on and read back like a single PulsarTopic.

What a PulsarTopic would have in its status is kept in memory; its events are collected, and told together. Used by
controller.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec, PulsarTopicStatus
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec, PulsarTopicSetStatus
from pulsar_operator.controllers.core.objects import Meta
from pulsar_operator.controllers.core.parent_resolution import Site, Whereabouts, site_of
from pulsar_operator.controllers.logical.logical_pass import KNOWN, LogicalPass
from pulsar_operator.controllers.logical.ownership import RECORD_SECONDS
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.controllers.logical.topic import TopicController, TopicPass
from pulsar_operator.controllers.logical.topic_presence import Presence
from pulsar_operator.controllers.topicset.topic_schedule import State, Turn, Turns
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.logical.owners import Owner
from pulsar_operator.domain.logical.plan import Memory, Plan
from pulsar_operator.domain.logical.pulsar_names import topic_name
from pulsar_operator.domain.logical.topic import TopicFacts
from pulsar_operator.domain.logical.topic_set import Selection, topic_spec
from pulsar_operator.ports import CUSTOM, ConflictError, Deps, Json, RefusedError

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Topics looked at at the same time; the calls to one cluster have a limit of their own, see adapters/admin.py."""
ROUND_SECONDS = 30.0
"""No topic is begun after this time: the pass ends and others have their turn."""
MUTE_LIMIT = 3
"""Topics in a row without an answer, after which the round ends."""


STATES = {Reason.INVALID_SPEC: State.REFUSED, Reason.DUPLICATE: State.CONFLICTING}
"""State of a topic by what keeps its pass from going on; otherwise it is pending."""
NO_PARTITION = -1
"""In a list: a partitioned topic of which no partition exists anywhere."""


@dataclass
class Listing:
    """Which topics of the set Pulsar has."""

    clusters: tuple[str, ...]
    """Clusters of the namespace that answered."""
    unreachable: tuple[str, ...]
    """Clusters of the namespace that did not."""
    topics: dict[str, dict[str, int]]
    """By cluster that answered: name to number of partitions, 0 = not partitioned, NO_PARTITION."""
    at: float
    """When it was made, seconds since the epoch."""
    orphans: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By cluster and name what only has to be deleted, as local names of what is there: partitions whose topic is gone,
    because a deletion was interrupted, and topics in clusters the namespace is only allowed in."""

    def exists(self, name: str) -> bool:
        """Whether every cluster that answered has it."""
        return all(name in self.topics[cluster] for cluster in self.clusters)

    def anywhere(self) -> frozenset[str]:
        """Names that some cluster has."""
        return frozenset(name for topics in self.topics.values() for name in topics)

    def partitions(self, name: str) -> int | None:
        """Number of partitions in the first cluster that has it."""
        return next((topics[name] for topics in self.topics.values() if name in topics), None)


@dataclass(frozen=True)
class Heard:
    """An event of one topic."""

    topic: str
    reason: Reason
    message: str
    warning: bool


@dataclass
class TopicOfSet(LogicalPass[PulsarTopicSpec, PulsarTopicStatus]):
    """The pass over one topic: writes nothing to Kubernetes."""

    heard: list[Heard] = field(default_factory=list)
    record_due: float = 0.0
    """When the record of the set is read next, seconds since the epoch."""

    async def event(self, reason: Reason, message: str, *, warning: bool = False) -> None:
        """Keep it for the round."""
        self.heard.append(Heard(self.obj["spec"]["name"], reason, message, warning))

    async def write_ahead(self, managed: frozenset[str], *, creating: bool) -> None:
        """The set has stored its managed fields before the round."""
        if creating:
            self.before = self.before.model_copy(update={"applied_generation": None})


class SetTopics(TopicController):
    """Single topics whose existence a listing tells."""

    def __init__(self, deps: Deps, site: Site, listing: Listing, doubted: Collection[str], *, found_only: bool) -> None:
        """Topics that are ``doubted`` are asked for, whatever the list says: it has no partitioned topics without
        partitions. With ``found_only`` a topic is only looked at in clusters that have it, and never made."""
        super().__init__(deps)
        self._site = site
        self._listing = listing
        self._doubted = doubted
        self._found_only = found_only
        self._plans: dict[str, Plan] = {}
        """Plans without anything to do or to tell, by the facts: most topics of a set are like the one before."""

    async def _counted(self, p: TopicPass, scope: Scope) -> Presence | None:
        first, p.looked = not p.looked, True
        p.holders = self._listing.clusters
        name = p.obj["spec"]["name"]
        if not first or name in self._doubted:
            return None
        found = {cluster: self._listing.topics[cluster].get(name) for cluster in self._listing.clusters}
        if any(count is not None and count != (p.spec.partitions or 0) for count in found.values()):
            return None
        return self._narrowed(Presence(found, ()))

    async def _asked(self, p: TopicPass, scope: Scope) -> Presence:
        return self._narrowed(await super()._asked(p, scope))

    def _narrowed(self, found: Presence) -> Presence:
        clusters = found.clusters
        if self._found_only:
            clusters = {cluster: count for cluster, count in clusters.items() if count is not None}
        return replace(found, clusters=clusters, unreachable=(*found.unreachable, *self._listing.unreachable))

    def plan(self, p: TopicPass, facts: TopicFacts, memory: Memory) -> Plan:
        """See domain.logical.topic."""
        if facts.absent:
            return super().plan(p, facts, memory)
        key = repr((replace(facts, name=""), memory, p.spec.partitions))
        known = self._plans.get(key)
        if known is not None:
            return known
        plan = super().plan(p, facts, memory)
        if not (plan.actions or plan.problems or plan.drift or plan.fixed or plan.waiting):
            self._plans[key] = plan
        return plan

    def _trusted(self, p: TopicPass, memory: Memory) -> bool:
        return False

    def record_due(self, p: TopicPass) -> float:
        """See Ownership. The controller lives for a round, and the set knows."""
        return p.record_due if isinstance(p, TopicOfSet) else super().record_due(p)

    def record_seen(self, p: TopicPass) -> None:
        """See Ownership."""
        if isinstance(p, TopicOfSet):
            p.record_due = p.conditions.now.timestamp() + RECORD_SECONDS

    async def declares_too(self, p: TopicPass, scope: Scope, owner: Owner) -> bool:
        """See Ownership."""
        if owner.kind is not Kind.TOPIC_SET:
            return await super().declares_too(p, scope, owner)
        obj = await self.deps.kube.get(CUSTOM[owner.kind], owner.namespace, owner.name)
        if obj is None:
            return False
        try:
            selection = Selection(PulsarTopicSetSpec.model_validate(obj.get("spec") or {}))
        except ValidationError:
            return False
        same = p.obj["spec"]["name"] in selection
        return same and await Whereabouts(self.deps).may_be_same(self._site, site_of(Kind.TOPIC_SET, obj))

    def unreachable(self, p: TopicPass, facts: TopicFacts) -> tuple[str, ...]:
        """Clusters that fell silent during the round; those the set knows of are told by the set."""
        return tuple(each for each in super().unreachable(p, facts) if each not in self._listing.unreachable)


@dataclass
class Round:
    """The topics that are looked at in one pass."""

    set_pass: LogicalPass[Any, PulsarTopicSetStatus]
    scope: Scope
    selection: Selection
    listing: Listing
    turns: Turns
    place: tuple[str, str]
    """Tenant and namespace."""
    heard: list[Heard] = field(default_factory=list)
    broken: bool = False
    """Whether the round was ended because Pulsar stopped answering."""
    _specs: dict[int | None, PulsarTopicSpec] = field(default_factory=dict)

    async def run(self, names: Iterable[str]) -> None:
        """Look at them; the turns say afterwards how they are."""
        names = list(names)
        pending = iter(names)
        doubted = {name for name in names if self.turns.each[name].attempts}
        loop = asyncio.get_running_loop()
        end = loop.time() + ROUND_SECONDS
        topics = SetTopics(
            self.set_pass.deps,
            site_of(Kind.TOPIC_SET, self.set_pass.obj),
            self.listing,
            doubted,
            found_only=self.selection.by_pattern,
        )
        failures = 0

        async def work() -> None:
            nonlocal failures
            for name in pending:
                answered = await self._look(topics, name)
                failures = 0 if answered else failures + 1
                self.broken = self.broken or failures >= MUTE_LIMIT
                if self.broken or loop.time() > end:
                    return

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def _look(self, topics: SetTopics, name: str) -> bool:
        """One topic; whether Pulsar answered."""
        turn = self.turns.each[name]
        p = self._pass_of(name, turn)
        now = self.set_pass.deps.clock.now().timestamp()
        try:
            await topics._converge(p, self.scope)
        except AdminUnreachableError as error:
            self._note(turn, State.PENDING, Reason.ADMIN_UNREACHABLE, str(error), now)
            return False
        except ObstacleError as obstacle:
            state = STATES.get(obstacle.reason, State.PENDING)
            self._note(turn, state, obstacle.reason, obstacle.message, now)
            return True
        except (ConflictError, RefusedError) as error:
            self._note(turn, State.PENDING, Reason.PENDING, str(error), now)
            return True
        finally:
            self.heard += p.heard
        return self._judge(name, turn, p, now)

    def _pass_of(self, name: str, turn: Turn) -> TopicOfSet:
        mine = self.set_pass
        status = turn.status or PulsarTopicStatus(refused_fields=mine.before.refused_fields if turn.seen else [])
        full = topic_name(self._spec(name).persistent, *self.place, name)
        before = status.model_copy(
            update={
                "managed_fields": list(mine.before.managed_fields),
                "applied_generation": 1 if turn.given else None,
                "pulsar_name": full if turn.seen else None,
                "owner_recorded": turn.recorded or None,
            }
        )
        obj: Json = {
            "kind": mine.obj["kind"],
            "metadata": mine.obj["metadata"],
            "spec": {"name": name},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        meta = Meta(mine.meta.namespace, mine.meta.name, mine.meta.uid, 1, False, (), mine.meta.annotations)
        conditions = ConditionSet(KNOWN, (), 1, mine.deps.clock.now())
        p = TopicOfSet(mine.deps, obj, meta, self._spec(name), before, conditions)
        p.record_due = turn.record_due
        return p

    def _spec(self, name: str) -> PulsarTopicSpec:
        found = self.listing.partitions(name) or 0 if self.selection.by_pattern else None
        if found not in self._specs:
            self._specs[found] = topic_spec(self.selection.spec, found)
        return self._specs[found]

    def _judge(self, name: str, turn: Turn, p: TopicOfSet, now: float) -> bool:
        after = p.before.model_copy(update={**p.fields, "conditions": p.conditions.result()})
        ready, accepted, drifted = (
            next(c for c in after.conditions if c.type == kind.value)
            for kind in (ConditionType.READY, ConditionType.ACCEPTED, ConditionType.DRIFTED)
        )
        turn.given = after.applied_generation == 1
        turn.seen = turn.seen or after.pulsar_name is not None
        turn.recorded, turn.record_due = bool(after.owner_recorded), p.record_due
        turn.pending = tuple(after.pending_actions or ())
        for each in after.clusters:
            if each.exists and each.name in self.listing.topics:
                self.listing.topics[each.name][name] = each.partitions or 0
        muted = ready.status.value == "Unknown" and ready.reason == Reason.ADMIN_UNREACHABLE.value
        turn.status = after
        if accepted.status.value == "False":
            self._note(turn, State.REFUSED, Reason(accepted.reason), accepted.message, now, after)
        elif drifted.status.value == "True" and ready.reason != Reason.PENDING.value:
            reason = (
                Reason.CONFLICTING_WRITER if ready.reason == Reason.CONFLICTING_WRITER.value else Reason.DRIFT_DETECTED
            )
            self._note(turn, State.DRIFTED, reason, drifted.message, now, after)
        elif ready.status.value == "True" and turn.given:
            turn.state = State.READY
            turn.status = after if after.repairs else None
            self.turns.settle(name, now)
        else:
            self._note(turn, State.PENDING, Reason(ready.reason), ready.message, now, after)
        return not muted

    def _note(
        self,
        turn: Turn,
        state: State,
        reason: Reason,
        message: str,
        now: float,
        status: PulsarTopicStatus | None = None,
    ) -> None:
        turn.state, turn.reason, turn.message = state, reason.value, message
        if status is not None:
            turn.status = status
        turn.failed(now)


def tally(heard: Iterable[Heard]) -> Mapping[Reason, list[Heard]]:
    """Events by reason."""
    out: dict[Reason, list[Heard]] = {}
    for each in heard:
        out.setdefault(each.reason, []).append(each)
    return out
