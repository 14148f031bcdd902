"""Deletes an object of the logical plane in Pulsar: hands it over, reports what blocks the deletion, or deletes it.

The checks run in this order. First, another object that declares the same takes it over. Second, a forced deletion is
blocked if another object declares or retains something inside. Third, Pulsar has content or refuses. Used by
controller.py.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.controllers.core.duplicates import DuplicateFinder
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.logical.declared_inside import CHILDREN, DeclaredInside
from pulsar_operator.controllers.logical.deletion_results import NotOurs, Progress, Unfinished, keep
from pulsar_operator.controllers.logical.logical_pass import LogicalPass, SpecT, StatusT
from pulsar_operator.controllers.logical.reconciler_base import ReconcilerBase
from pulsar_operator.controllers.logical.retained import RetainedContent
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import CUSTOM, ConflictError, Deps, Json, Key, RefusedError

BLOCKED_SECONDS = 10.0
"""Seconds until a blocked deletion is retried."""


class LogicalDeletion(ReconcilerBase[SpecT, StatusT], Generic[SpecT, StatusT]):
    """The deletion part of a logical kind's controller."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._duplicates = DuplicateFinder(deps)
        self._declared_inside = DeclaredInside(deps)
        self._retained = RetainedContent(deps)

    def forget(self, key: Key) -> None:
        """See ReconcilerBase."""
        self._retained.forget(key)

    @abstractmethod
    def name_in_pulsar(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """Returns the full name in Pulsar."""

    @abstractmethod
    async def delete(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, *, force: bool) -> Unfinished | None:
        """Performs one resumable step of the deletion in Pulsar. Returns None if the object no longer exists there.

        Only a 404 in response to the deletion of the object itself, or to a request for it, proves that.
        """

    @abstractmethod
    async def _same(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, other: Json, *, doubt: bool = False) -> bool:
        """Whether another object of the kind declares the same object of Pulsar. Returns ``doubt`` if that cannot be
        determined."""

    def kept(self, ctx: LogicalPass[SpecT, StatusT]) -> str | None:
        """See ReconcilerBase."""
        if ctx.spec.deletion_policy is DeletionPolicy.RETAIN:
            return "deletionPolicy is Retain"
        return None if ctx.touched else "the object never managed anything in Pulsar"

    def kept_there(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str | None:
        """Returns why a deletion leaves Pulsar unchanged, given the scope of the object, as a message. None if it does
        not."""
        return None

    async def disown(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Removes the record in Pulsar that this object manages what was deleted."""
        return None

    def subject(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """See ReconcilerBase."""
        return self.name_in_pulsar(ctx, scope)

    async def remove(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> Outcome | None:
        """See ReconcilerBase."""
        policy = ctx.spec.deletion_policy
        name = self.name_in_pulsar(ctx, scope)
        why = self.kept_there(ctx, scope)
        if why is not None:
            await self.release(ctx, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar, because {why}")
            return None
        text = f"Delete {name} in Pulsar, because the object is being deleted and deletionPolicy is {policy.value}"
        if ctx.pause_reason is not None:
            self.deletion_paused(ctx, text)
            return DONE
        try:
            successor = await self._successor(ctx, scope)
            if successor is not None:
                await self.release(
                    ctx,
                    Reason.HANDED_OVER,
                    f"{successor} declares {name} too and manages it from now on, so nothing is deleted in Pulsar",
                )
                return None
            inside = await self._kept_inside(ctx, scope, name) if policy is DeletionPolicy.FORCE_DELETE else None
        except RefusedError as error:
            # Of the API server: who else declares it is not known, and unknown is not none.
            reason, why = reason_of(error)
            inside = Blocker(reason, f"The operator cannot read which other objects declare {name}: {why}")
        if isinstance(inside, Progress):
            searched = not ctx.already_reported(ConditionType.READY, inside.message)
            ctx.unknown(Reason.DELETING, inside.message, known=True)
            return Outcome(requeue_after=0.0 if searched else BLOCKED_SECONDS)
        if inside is not None:
            return await self._blocked(ctx, name, inside)
        found = await self._delete_step(ctx, scope, force=policy is DeletionPolicy.FORCE_DELETE)
        if isinstance(found, NotOurs):
            await self.release(ctx, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar, because {found.why}")
            return None
        if isinstance(found, Progress) and ctx.already_reported(ConditionType.READY, found.message):
            found = found.nothing
        if isinstance(found, Progress):
            ctx.unknown(Reason.DELETING, found.message, known=True)
            return Outcome(requeue_after=0.0)
        if found is None:
            await self.disown(ctx, scope)
            await self.release(ctx, Reason.DELETED, f"{name} was deleted in Pulsar")
            return None
        return await self._blocked(ctx, name, found)

    async def _delete_step(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, *, force: bool) -> Unfinished | None:
        try:
            return await self.delete(ctx, scope, force=force)
        except ConflictError as error:
            return Blocker(Reason.NOT_EMPTY, str(error))
        except RefusedError as error:
            return Blocker(Reason.REJECTED_BY_PULSAR, str(error))

    async def _kept_inside(
        self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, name: str
    ) -> Blocker | Progress | None:
        """Returns what blocks a forced deletion, or the progress of the search for it; None if nothing blocks it.
        Raises ObstacleError, PortError."""
        blocker = await self._declared_inside.blocker(self.kind, ctx.obj, name, scope)
        if blocker is not None or self.kind not in CHILDREN:
            return blocker
        giving_up = await self._declared_inside.giving_up(ctx.obj)
        return await self._retained.blocker(self.kind, ctx.obj, name, scope, giving_up)

    async def _blocked(self, ctx: LogicalPass[SpecT, StatusT], name: str, blocker: Blocker) -> Outcome:
        command = keep(self.kind, ctx.obj)
        if command not in blocker.message:
            text = f"{blocker.message}. To release the object and leave Pulsar unchanged, run: {command}"
            blocker = Blocker(blocker.reason, text)
        blocker = Blocker(blocker.reason, self.with_unrestored(ctx, blocker.message))
        ctx.unknown(blocker.reason, blocker.message, known=True)
        ctx.conditions.set(ConditionType.DELETION_BLOCKED, True, blocker.reason, blocker.message)
        if not ctx.already_reported(ConditionType.DELETION_BLOCKED, blocker.message[:200]):
            await ctx.event(blocker.reason, f"{name} cannot be deleted yet. {sentence(blocker.message)}", warning=True)
        return Outcome(requeue_after=BLOCKED_SECONDS)

    async def _successor(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str | None:
        """Returns an object that declares the same object of Pulsar and takes it over; None if there is none. Raises
        PortError."""
        for key in await self._duplicates.living(self.kind, ctx.obj):
            obj = await self.deps.kube.get(CUSTOM[self.kind], key.namespace, key.name)
            living = obj is not None and "deletionTimestamp" not in obj["metadata"]
            if obj is not None and living and await self._same(ctx, scope, obj, doubt=True):
                return f"{self.kind.value} {key.namespace}/{key.name}"
        return await self.declared_elsewhere(ctx, scope)

    async def declared_elsewhere(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str | None:
        """Returns an object of another kind that declares the same object of Pulsar; None if there is none. Raises
        PortError."""
        return None
