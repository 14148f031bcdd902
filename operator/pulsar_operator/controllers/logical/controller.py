"""The pass that all logical kinds share: observe, plan, act, read back, and write the status once at the end.

A subclass implements the observation and the plan. This module enforces the rules:

* The parents must exist, allow the reference and be usable. The pass waits for a parent that is not, and does not count
  this as a failure.
* If several custom resources declare the same object of Pulsar, one manages it and the others report the conflict.
* Before the first write the finalizer (only where deletion must touch Pulsar) and the managed fields are stored.
* A write counts only after it was read back. If Pulsar refuses one field, the others are still written. A field
  refused because of another one (retention and backlog quota) is retried after the other was written.
* Drift of a field that recurs is repaired less and less often (drift.py).
* With the pause or dry-run annotation nothing is written, neither to Pulsar nor as a finalizer.
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
from pulsar_operator.controllers.logical.drift import Backoff
from pulsar_operator.controllers.logical.logical_pass import (
    MAX_FIELDS,
    REFUSED,
    UNSEEN,
    UNSEEN_SECONDS,
    LogicalPass,
    Refusals,
    RestartPassError,
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
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.conditions import UNKNOWN
from pulsar_operator.domain.logical.plan import EVENT_REASONS, Action, Memory, Plan, Verb
from pulsar_operator.ports import ConflictError, Json, Key, NotFoundError, RefusedError

log = logging.getLogger(__name__)

ROUNDS = 6
"""Maximum number of observe-plan-act rounds in a pass: for creation, for fields, and for fields refused because of
others."""


class LogicalController(
    Ownership[SpecT, StatusT, FactsT], LogicalDeletion[SpecT, StatusT], Generic[SpecT, StatusT, FactsT]
):
    """Reconciles one logical kind. Each object of the kind stands for one object of Pulsar."""

    # --------------------------------------------------------------------------------------- what a kind says

    @abstractmethod
    async def observe(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, memory: Memory) -> FactsT:
        """Returns all facts the plan depends on. Raises ObstacleError, AdminUnreachableError."""

    @abstractmethod
    def plan(self, ctx: LogicalPass[SpecT, StatusT], facts: FactsT, memory: Memory) -> Plan:
        """Returns the plan for the facts. Pure."""

    @abstractmethod
    async def status_fields(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, facts: FactsT) -> dict[str, Any]:
        """Returns the status fields of the kind."""

    async def counts(self, ctx: LogicalPass[SpecT, StatusT]) -> dict[str, Any]:
        """Returns the status fields that need no access to Pulsar: the number of dependents, which blocks the deletion
        of the object."""
        return {}

    def inherit(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Stores the settings that the parent provides in ctx.inherited, and whether they changed in ctx.renewed.
        Raises ObstacleError."""
        return None

    def unreachable(self, ctx: LogicalPass[SpecT, StatusT], facts: FactsT) -> tuple[str, ...]:
        """Returns the clusters that did not answer although the object must exist in each; Ready is then Unknown."""
        return ()

    def degraded(self, ctx: LogicalPass[SpecT, StatusT], facts: FactsT) -> tuple[Reason, str] | None:
        """Returns why an object that is in sync cannot be used; Ready is then False. None if it can be used."""
        return None

    async def check_before_write(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, action: Action) -> None:
        """Checks the live state before a call that cannot be undone. Raises ObstacleError."""
        return None

    def recheck_seconds(self, facts: FactsT, *, wrote: bool) -> float | None:
        """Returns the seconds until the next pass if nothing else triggers one; None if events and the resync
        suffice."""
        return None

    async def scheduled_tasks(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, facts: FactsT) -> float | None:
        """Runs scheduled tasks and returns the seconds until the next one. Called last in a pass, also while the object
        is paused or in dry run."""
        return None

    # ---------------------------------------------------------------------------------------------- the pass

    async def reconcile(self, key: Key) -> Outcome:
        """Runs one pass; see the module.

        After a start of the operator most objects are unchanged. Such an object is checked as it was listed, and read
        from the API server only if something must be written.
        """
        listed = reader_of(self.deps).listed(key)
        if listed is not None and settled(listed):
            ctx = self.begin(listed)
            ctx.from_list = True
            with contextlib.suppress(RestartPassError):
                return await self.finish(ctx)
        return await super().reconcile(key)

    async def converge(self, ctx: LogicalPass[SpecT, StatusT]) -> Outcome:
        """See ReconcilerBase."""
        ctx.fields.update(await self.counts(ctx))
        scope = await resolve_scope(self.deps, self.kind, ctx.obj, deleting=False)
        await self._refuse_duplicate(ctx, scope)
        return await self._converge(ctx, scope)

    async def _converge(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> Outcome:
        name = self.name_in_pulsar(ctx, scope)
        self.inherit(ctx, scope)
        backoff = Backoff.of(ctx)
        ctx.performed = backoff.note
        memory = replace(ctx.memory, backed_off=backoff.backed_off)
        facts = await self.observe(ctx, scope, memory)
        plan = self.plan(ctx, facts, memory)
        if ctx.from_list and plan.actions:
            raise RestartPassError
        if len(memory.managed | plan.declared) > MAX_FIELDS:
            raise ObstacleError(Reason.INVALID_SPEC, too_many_fields(memory.managed | plan.declared), known=True)
        with_record = self.made_with_record(ctx)
        if self.manages(ctx, facts) or (plan.actions and not with_record and not self.exists(facts)):
            await self.own(ctx, scope)
        if self.exists(facts) and not ctx.touched and ctx.pause_reason is None:
            await ctx.event(
                Reason.ADOPTED, f"{name} already exists in Pulsar. The operator manages the existing object from now on"
            )
        refused: Refusals = {}
        wrote: frozenset[str] = frozenset()
        if ctx.pause_reason is None:
            if ctx.spec.deletion_policy is not DeletionPolicy.RETAIN:
                ctx.stored(await ensure_finalizer(self.deps, ctx.obj))
            facts, plan, refused, wrote = await self._act(ctx, scope, memory, facts, plan)
            if ctx.created and with_record:
                ctx.fields["owner_recorded"] = True
                self.record_observed(ctx)
        elif not self.exists(facts):
            plan = replace(plan, waiting=())
        ctx.asks = plan.asks
        remaining = tuple(a for a in plan.actions if _places(a)[0] not in refused)
        result = Result(plan, self.exists(facts), by_field(refused), remaining, wrote)
        after = result.report(ctx, name)
        ctx.fields["managed_fields"] = result.managed(memory, paused=ctx.pause_reason is not None)
        unreachable = self.unreachable(ctx, facts)
        if unreachable:
            # A cluster that was not seen need not have this generation: what differs there later is no drift yet.
            ctx.fields.pop("applied_generation", None)
        ctx.fields.update(await self.status_fields(ctx, scope, facts))
        if unreachable and ctx.conditions.is_true(ConditionType.READY):
            why = "; ".join(f"{each}: {scope.admin.why(each)}" for each in unreachable)
            text = (
                f"{name} is in sync in the clusters that answer, and its state in the other clusters is unknown ({why})"
            )
            ctx.conditions.set(ConditionType.READY, UNKNOWN, scope.admin.reason(unreachable), text)
            after = WAIT_SECONDS
        degraded = self.degraded(ctx, facts)
        if degraded is not None and ctx.conditions.is_true(ConditionType.READY):
            ctx.conditions.set(ConditionType.READY, False, *degraded)
            after = WAIT_SECONDS
        recheck = self.recheck_seconds(facts, wrote=bool(wrote))
        waits = await backoff.finish(result, unreachable=bool(unreachable))
        task = await self.scheduled_tasks(ctx, scope, facts)
        after = min((each for each in (after, recheck, waits, task) if each is not None), default=None)
        refused_before = ctx.already_reported(ConditionType.ACCEPTED, REFUSED)
        if (remaining and ctx.already_reported(ConditionType.READY, UNSEEN)) or (wrote and refused and refused_before):
            return Outcome(backoff=True)  # written before and still not seen, or still refused: ever more rarely
        if ctx.contended and refused and not refused_before:
            after = UNSEEN_SECONDS if after is None else min(after, UNSEEN_SECONDS)
        return Outcome(requeue_after=after)

    async def _act(
        self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, memory: Memory, facts: FactsT, plan: Plan
    ) -> tuple[FactsT, Plan, Refusals, frozenset[str]]:
        """Performs the plan, reads back and plans again, until no action can be performed now.

        Returns the last facts and plan, the refusals, and the fields that were written in at least one cluster.
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
            await ctx.write_ahead(plan.declared, creating=creating)
            missing = False
            for action in todo:
                if missing and action.verb is not Verb.CREATE:
                    continue  # the object it is for was refused
                message = await self._perform(ctx, scope, action, memory)
                missing = missing or (message is not None and action.verb is Verb.CREATE)
                if message is None:
                    ctx.performed(action)
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
            facts = await self.observe(ctx, scope, memory)
            skip = frozenset(place[0] for place in refused if tried_at[place] == len(done))
            plan = self.plan(ctx, facts, replace(memory, skip=skip))
        await self._record_refusals(ctx, refused)
        return facts, plan, refused, frozenset(wrote)

    async def _perform(
        self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, action: Action, memory: Memory
    ) -> str | None:
        """Makes one call. Returns Pulsar's message if Pulsar refuses it; None if it succeeds. Raises ObstacleError."""
        await self.check_before_write(ctx, scope, action)
        level = logging.INFO if action.verb in EVENT_REASONS else logging.DEBUG
        log.log(level, "%s %s/%s: %s", self.kind.value, ctx.meta.namespace, ctx.meta.name, action.reason)
        try:
            if action.cluster is None:
                await scope.admin.anywhere(action.call)
            else:
                await scope.admin.at(action.cluster, action.call)
        except RefusedError as error:
            return explained(str(error), scope.chain)
        except ConflictError as error:
            # Another client was faster; reading back shows what is there now.
            ctx.contended = ctx.contended or action.verb is not Verb.CREATE
            if action.verb is Verb.CREATE and self.made_with_record(ctx):
                ctx.created = False
                if not self.manages(ctx, await self.observe(ctx, scope, memory)):
                    return str(error)  # it is of the other kind, or gone again: nothing there is this object's
                await self.own(ctx, scope)  # before anything else of what another client has made is changed
            return None if action.verb is Verb.CREATE else str(error)
        except NotFoundError as error:
            raise ObstacleError(
                Reason.PARENT_NOT_READY, f"The change is not applied, because Pulsar lacks an object for it: {error}"
            ) from error
        ctx.created = ctx.created if ctx.created is not None or action.verb is not Verb.CREATE else True
        lost = action.verb is Verb.CREATE and memory.established
        reason = Reason.REPAIRED if lost else EVENT_REASONS.get(action.verb)
        if reason is not None:
            # Another client deletes, or writes.
            await ctx.event(reason, action.reason, warning=reason in (Reason.REPAIRED, Reason.DRIFT_REPAIRED))
        return None

    async def _record_refusals(self, ctx: LogicalPass[SpecT, StatusT], refused: Refusals) -> None:
        for message in dict.fromkeys(refused.values()):
            if not ctx.already_reported(ConditionType.ACCEPTED, message[:200]):
                await ctx.event(Reason.REJECTED_BY_PULSAR, message, warning=True)

    # -------------------------------------------------------------------------------------------- duplicates

    async def _same(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, other: Json, *, doubt: bool = False) -> bool:
        """Whether another object of the kind declares the same object of Pulsar. Returns ``doubt`` if that cannot be
        determined."""
        try:
            other_scope = await resolve_scope(self.deps, self.kind, other, deleting=doubt)
        except ObstacleError:
            return doubt  # it manages nothing while it has no parent
        there, here = other_scope.chain[-1], scope.chain[-1]
        if there["metadata"]["uid"] != here["metadata"]["uid"] and not (self.shared and share_store(there, here)):
            return False
        try:
            spec: Any = MODELS[self.kind].spec.model_validate(other.get("spec") or {})
        except ValidationError:
            return doubt
        duplicate: LogicalPass[SpecT, StatusT] = LogicalPass(
            self.deps, other, meta_of(other), spec, ctx.before, ctx.conditions
        )
        return self.name_in_pulsar(duplicate, other_scope) == self.name_in_pulsar(ctx, scope)


def _call_id(action: Action) -> str:
    return repr((action.cluster, action.call))


def _places(action: Action) -> list[tuple[str, str]]:
    return [(name, action.cluster or "") for name in (action.field, *(each.field for each in action.also))]


__all__ = ["DUPLICATE_SECONDS", "WAIT_SECONDS", "Blocker", "LogicalController"]
