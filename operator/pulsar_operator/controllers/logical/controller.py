"""The pass that tenants, namespaces and topics share: observe, plan, act, read back, status once at the end.

A subclass says what to observe and which plan to make; the rules are here:

* the parents must exist, consent and be fit; an unfit parent is waited for, without counting as a failure;
* of several custom resources for one object of Pulsar, one manages it and the others say so;
* before the first write the finalizer (only where deletion must touch Pulsar) and the managed fields are stored;
* what was written is read back, and believed only then; a refusal of one field does not stop the others. A field
  refused because of another one (retention and backlog quota) is tried again after the other was written;
* drift of a field that comes back again and again is repaired ever more rarely (drift.py);
* with the pause or dry-run annotation nothing is written, neither to Pulsar nor as a finalizer.
"""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Generic

from pydantic import ValidationError

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.controllers.core.objects import meta_of
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.core.stores import share_store
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.logical.deletion import LogicalDeletion
from pulsar_operator.controllers.logical.deletion_results import Blocker
from pulsar_operator.controllers.logical.drift import Backoff
from pulsar_operator.controllers.logical.logical_pass import (
    MAX_FIELDS,
    REFUSED,
    UNSEEN,
    UNSEEN_SECONDS,
    LogicalPass,
    LookAgainError,
    Refusals,
    Result,
    SpecT,
    StatusT,
    by_field,
    settled,
    too_many_fields,
)
from pulsar_operator.controllers.logical.ownership import DUPLICATE_SECONDS, FactsT, Ownership
from pulsar_operator.controllers.logical.remedies import explained
from pulsar_operator.controllers.logical.scope import (
    WAIT_SECONDS,
    ObstacleError,
    Scope,
    resolve_scope,
)
from pulsar_operator.domain.conditions import UNKNOWN
from pulsar_operator.domain.logical.plan import EVENT_REASONS, Action, Memory, Plan, Verb
from pulsar_operator.ports import ConflictError, Json, Key, NotFoundError, RefusedError

log = logging.getLogger(__name__)

ROUNDS = 6
"""Observe-plan-act rounds in a pass: creation, fields, and retries of fields refused because of others."""


class LogicalController(
    Ownership[SpecT, StatusT, FactsT], LogicalDeletion[SpecT, StatusT], Generic[SpecT, StatusT, FactsT]
):
    """Reconciles one logical kind whose objects each stand for one object of Pulsar."""

    # --------------------------------------------------------------------------------------- what a kind says

    @abstractmethod
    async def observe(self, p: LogicalPass[SpecT, StatusT], scope: Scope, memory: Memory) -> FactsT:
        """Read everything the plan depends on. Raises ObstacleError, AdminUnreachableError."""

    @abstractmethod
    def plan(self, p: LogicalPass[SpecT, StatusT], facts: FactsT, memory: Memory) -> Plan:
        """The pure plan."""

    @abstractmethod
    async def status_fields(self, p: LogicalPass[SpecT, StatusT], scope: Scope, facts: FactsT) -> dict[str, Any]:
        """Status fields of the kind."""

    async def counts(self, p: LogicalPass[SpecT, StatusT]) -> dict[str, Any]:
        """Status fields that are known without Pulsar: what depends on the object, which guards its deletion."""
        return {}

    def inherit(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Take over what the parent gives, into p.inherited and p.renewed. Raises ObstacleError."""
        return None

    def unreachable(self, p: LogicalPass[SpecT, StatusT], facts: FactsT) -> tuple[str, ...]:
        """Clusters that gave no answer although the object has to be made in each; Ready is then Unknown."""
        return ()

    def degraded(self, p: LogicalPass[SpecT, StatusT], facts: FactsT) -> tuple[Reason, str] | None:
        """Why an object that is as declared is of no use; Ready is then False. None = it is fine."""
        return None

    async def look_before(self, p: LogicalPass[SpecT, StatusT], scope: Scope, action: Action) -> None:
        """Look at the real thing before a call that nobody can take back. Raises ObstacleError."""
        return None

    def look_again(self, facts: FactsT, *, wrote: bool) -> float | None:
        """Seconds until the next pass where nothing else asks for one; None = events and the resync are enough."""
        return None

    async def scheduled_tasks(self, p: LogicalPass[SpecT, StatusT], scope: Scope, facts: FactsT) -> float | None:
        """What is done at its time rather than kept as declared; seconds until the next one. Called last in a pass,
        also while the object is paused or in dry run."""
        return None

    # ---------------------------------------------------------------------------------------------- the pass

    async def reconcile(self, key: Key) -> Outcome:
        """One pass; see the module.

        After a start most objects are as they were left. Such a one is looked at as the list had it, and read only when
        there is something to write.
        """
        listed = reader_of(self.deps).listed(key)
        if listed is not None and settled(listed):
            p = self.begin(listed)
            p.look_only = True
            with contextlib.suppress(LookAgainError):
                return await self.finish(p)
        return await super().reconcile(key)

    async def converge(self, p: LogicalPass[SpecT, StatusT]) -> Outcome:
        """See PassFrame."""
        p.fields.update(await self.counts(p))
        scope = await resolve_scope(self.deps, self.kind, p.obj, deleting=False)
        await self._refuse_duplicate(p, scope)
        return await self._converge(p, scope)

    async def _converge(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> Outcome:
        name = self.name_in_pulsar(p, scope)
        self.inherit(p, scope)
        backoff = Backoff.of(p)
        p.performed = backoff.note
        memory = replace(p.memory, held=backoff.held)
        facts = await self.observe(p, scope, memory)
        plan = self.plan(p, facts, memory)
        if p.look_only and plan.actions:
            raise LookAgainError
        if len(memory.managed | plan.declared) > MAX_FIELDS:
            raise ObstacleError(Reason.INVALID_SPEC, too_many_fields(memory.managed | plan.declared), known=True)
        with_record = self.made_with_record(p)
        if self.manages(p, facts) or (plan.actions and not with_record and not self.exists(facts)):
            await self.own(p, scope)
        if self.exists(facts) and not p.touched and p.held is None:
            await p.event(Reason.ADOPTED, f"{name} exists in Pulsar already and is managed from now on")
        refused: Refusals = {}
        wrote: frozenset[str] = frozenset()
        if p.held is None:
            if p.spec.deletion_policy is not DeletionPolicy.RETAIN:
                p.stored(await ensure_finalizer(self.deps, p.obj))
            facts, plan, refused, wrote = await self._act(p, scope, memory, facts, plan)
            if p.created and with_record:
                p.fields["owner_recorded"] = True
                self.record_seen(p)
        elif not self.exists(facts):
            plan = replace(plan, waiting=())
        p.asks = plan.asks
        remaining = tuple(a for a in plan.actions if _places(a)[0] not in refused)
        result = Result(plan, self.exists(facts), by_field(refused), remaining, wrote)
        after = result.report(p, name)
        p.fields["managed_fields"] = result.managed(memory, held=p.held is not None)
        unreachable = self.unreachable(p, facts)
        if unreachable:
            # A cluster that was not seen need not have this generation: what differs there later is no drift yet.
            p.fields.pop("applied_generation", None)
        p.fields.update(await self.status_fields(p, scope, facts))
        if unreachable and p.conditions.is_true(ConditionType.READY):
            why = "; ".join(f"{each}: {scope.admin.why(each)}" for each in unreachable)
            text = f"{name} is in sync where clusters answer; no answer from {why}"
            p.conditions.set(ConditionType.READY, UNKNOWN, Reason.ADMIN_UNREACHABLE, text)
            after = WAIT_SECONDS
        degraded = self.degraded(p, facts)
        if degraded is not None and p.conditions.is_true(ConditionType.READY):
            p.conditions.set(ConditionType.READY, False, *degraded)
            after = WAIT_SECONDS
        look = self.look_again(facts, wrote=bool(wrote))
        waits = await backoff.finish(result, unreachable=bool(unreachable))
        task = await self.scheduled_tasks(p, scope, facts)
        after = min((each for each in (after, look, waits, task) if each is not None), default=None)
        refused_before = p.said_before(ConditionType.ACCEPTED, REFUSED)
        if (remaining and p.said_before(ConditionType.READY, UNSEEN)) or (wrote and refused and refused_before):
            return Outcome(backoff=True)  # written before and still not seen, or still refused: ever more rarely
        if p.contended and refused and not refused_before:
            after = UNSEEN_SECONDS if after is None else min(after, UNSEEN_SECONDS)
        return Outcome(requeue_after=after)

    async def _act(
        self, p: LogicalPass[SpecT, StatusT], scope: Scope, memory: Memory, facts: FactsT, plan: Plan
    ) -> tuple[FactsT, Plan, Refusals, frozenset[str]]:
        """Perform the plan, read back and plan again, until nothing is left that could be done now.

        Returns the last facts and plan, what was refused, and the fields that were written in at least one cluster.
        """
        refused: Refusals = {}
        wrote: set[str] = set()
        tried_at: dict[tuple[str, str], int] = {}
        done: set[str] = set()
        for _ in range(ROUNDS):
            todo = [a for a in plan.actions if _call_id(a) not in done and tried_at.get(_places(a)[0]) != len(done)]
            if not todo:
                break
            creating = any(a.verb is Verb.CREATE for a in todo)
            await p.write_ahead(plan.declared, creating=creating)
            missing = False
            for action in todo:
                if missing and action.verb is not Verb.CREATE:
                    continue  # the object it is for was refused
                message = await self._perform(p, scope, action, memory)
                missing = missing or (message is not None and action.verb is Verb.CREATE)
                if message is None:
                    p.performed(action)
                    done.add(_call_id(action))
                    for place in _places(action):
                        wrote.add(place[0])
                        refused.pop(place, None)
                    if action.verb is Verb.CREATE:
                        # Nothing of a new object can have drifted, and what it was made with is managed.
                        memory = replace(memory, managed=memory.managed | plan.declared, applied=False)
                else:
                    for place in _places(action):
                        refused[place] = message
                        tried_at[place] = len(done)
            facts = await self.observe(p, scope, memory)
            skip = frozenset(place[0] for place in refused if tried_at[place] == len(done))
            plan = self.plan(p, facts, replace(memory, skip=skip))
        await self._record_refusals(p, refused)
        return facts, plan, refused, frozenset(wrote)

    async def _perform(
        self, p: LogicalPass[SpecT, StatusT], scope: Scope, action: Action, memory: Memory
    ) -> str | None:
        """Make one call; returns Pulsar's words when it refuses."""
        await self.look_before(p, scope, action)
        log.info("%s %s/%s: %s", self.kind.value, p.meta.namespace, p.meta.name, action.reason)
        try:
            if action.cluster is None:
                await scope.admin.anywhere(action.call)
            else:
                await scope.admin.at(action.cluster, action.call)
        except RefusedError as error:
            return explained(str(error), scope.chain)
        except ConflictError as error:
            # Somebody else was faster; reading back tells what is there now.
            p.contended = p.contended or action.verb is not Verb.CREATE
            if action.verb is Verb.CREATE and self.made_with_record(p):
                p.created = False
                if not self.manages(p, await self.observe(p, scope, memory)):
                    return str(error)  # it is of the other kind, or gone again: nothing there is this object's
                await self.own(p, scope)  # before anything else of what somebody else has made is changed
            return None if action.verb is Verb.CREATE else str(error)
        except NotFoundError as error:
            raise ObstacleError(
                Reason.PARENT_NOT_READY, f"Pulsar does not find what the change needs: {error}"
            ) from error
        p.created = p.created if p.created is not None or action.verb is not Verb.CREATE else True
        lost = action.verb is Verb.CREATE and memory.established
        reason = Reason.REPAIRED if lost else EVENT_REASONS[action.verb]
        # Somebody else deletes, or writes.
        await p.event(reason, action.reason, warning=reason in (Reason.REPAIRED, Reason.DRIFT_REPAIRED))
        return None

    async def _record_refusals(self, p: LogicalPass[SpecT, StatusT], refused: Refusals) -> None:
        for message in dict.fromkeys(refused.values()):
            if not p.said_before(ConditionType.ACCEPTED, message[:200]):
                await p.event(Reason.REJECTED_BY_PULSAR, message, warning=True)

    # -------------------------------------------------------------------------------------------- duplicates

    async def _same(self, p: LogicalPass[SpecT, StatusT], scope: Scope, other: Json, *, doubt: bool = False) -> bool:
        """Whether another object of the kind means the same object of Pulsar; ``doubt`` where that cannot be told."""
        try:
            theirs = await resolve_scope(self.deps, self.kind, other, deleting=doubt)
        except ObstacleError:
            return doubt  # it manages nothing while it has no parent
        there, here = theirs.chain[-1], scope.chain[-1]
        if there["metadata"]["uid"] != here["metadata"]["uid"] and not (self.shared and share_store(there, here)):
            return False
        try:
            spec: Any = MODELS[self.kind].spec.model_validate(other.get("spec") or {})
        except ValidationError:
            return doubt
        duplicate: LogicalPass[SpecT, StatusT] = LogicalPass(
            self.deps, other, meta_of(other), spec, p.before, p.conditions
        )
        return self.name_in_pulsar(duplicate, theirs) == self.name_in_pulsar(p, scope)


def _call_id(action: Action) -> str:
    return repr((action.cluster, action.call))


def _places(action: Action) -> list[tuple[str, str]]:
    return [(name, action.cluster or "") for name in (action.field, *(each.field for each in action.also))]


__all__ = ["DUPLICATE_SECONDS", "WAIT_SECONDS", "Blocker", "LogicalController"]
