"""Deleting an object of the logical plane in Pulsar: what is handed over, what blocks it, what is told.

In the order of the checks: another object declares the same and takes it over; something inside is declared or kept by
another object and a deletion by force would destroy it; Pulsar has content or refuses. Used by controller.py.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import DeletionPolicy
from pulsar_operator.controllers.core.duplicates import Namesakes
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.logical.declared_inside import CHILDREN, DeclaredInside
from pulsar_operator.controllers.logical.deletion_results import Blocker, NotOurs, Progress, Unfinished, keep
from pulsar_operator.controllers.logical.logical_pass import LogicalPass, SpecT, StatusT
from pulsar_operator.controllers.logical.reconciler_base import PassFrame
from pulsar_operator.controllers.logical.retained import RetainedContent
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.ports import CUSTOM, ConflictError, Deps, Json, Key, RefusedError

BLOCKED_SECONDS = 10.0
"""Until a blocked deletion is tried again."""


class LogicalDeletion(PassFrame[SpecT, StatusT], Generic[SpecT, StatusT]):
    """The part of a logical kind's controller that deletes."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._namesakes = Namesakes(deps)
        self._declared_inside = DeclaredInside(deps)
        self._retained = RetainedContent(deps)

    def forget(self, key: Key) -> None:
        """See PassFrame."""
        self._retained.forget(key)

    @abstractmethod
    def name_in_pulsar(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """Full name inside Pulsar."""

    @abstractmethod
    async def delete(self, p: LogicalPass[SpecT, StatusT], scope: Scope, *, force: bool) -> Unfinished | None:
        """One resumable step of the deletion in Pulsar; None when the object is gone there.

        Only a 404 to the deletion of the object itself, or to the question for it, may be taken for that."""

    @abstractmethod
    async def _same(self, p: LogicalPass[SpecT, StatusT], scope: Scope, other: Json, *, doubt: bool = False) -> bool:
        """Whether another object of the kind means the same object of Pulsar; ``doubt`` where that cannot be told."""

    def kept(self, p: LogicalPass[SpecT, StatusT]) -> str | None:
        """See PassFrame."""
        if p.spec.deletion_policy is DeletionPolicy.RETAIN:
            return "deletionPolicy is Retain"
        return None if p.touched else "it never managed anything there"

    def kept_there(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> str | None:
        """Why a deletion leaves Pulsar as it is, by where the object is; None = it does not."""
        return None

    async def disown(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Forget that this object manages what was deleted."""
        return None

    def subject(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """See PassFrame."""
        return self.name_in_pulsar(p, scope)

    async def remove(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> Outcome | None:
        """See PassFrame."""
        policy = p.spec.deletion_policy
        name = self.name_in_pulsar(p, scope)
        why = self.kept_there(p, scope)
        if why is not None:
            await self.release(p, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar: {why}")
            return None
        text = f"Delete {name} in Pulsar: the object is being deleted and deletionPolicy is {policy.value}"
        if p.held is not None:
            self.deletion_held(p, text)
            return DONE
        try:
            successor = await self._successor(p, scope)
            if successor is not None:
                await self.release(p, Reason.HANDED_OVER, f"{name} is handed over to {successor}, nothing is deleted")
                return None
            inside = await self._kept_inside(p, scope, name) if policy is DeletionPolicy.FORCE_DELETE else None
        except RefusedError as error:
            # Of the API server: who else declares it is not known, and unknown is not nobody.
            reason, why = reason_of(error)
            inside = Blocker(reason, f"The API server does not tell who else declares {name}: {why}")
        if isinstance(inside, Progress):
            searched = not p.said_before(ConditionType.READY, inside.message)
            p.unknown(Reason.DELETING, inside.message, known=True)
            return Outcome(requeue_after=0.0 if searched else BLOCKED_SECONDS)
        if inside is not None:
            return await self._blocked(p, name, inside)
        found = await self._delete_step(p, scope, force=policy is DeletionPolicy.FORCE_DELETE)
        if isinstance(found, NotOurs):
            await self.release(p, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar: {found.why}")
            return None
        if isinstance(found, Progress) and p.said_before(ConditionType.READY, found.message):
            found = found.nothing
        if isinstance(found, Progress):
            p.unknown(Reason.DELETING, found.message, known=True)
            return Outcome(requeue_after=0.0)
        if found is None:
            await self.disown(p, scope)
            await self.release(p, Reason.DELETED, f"{name} is deleted in Pulsar")
            return None
        return await self._blocked(p, name, found)

    async def _delete_step(self, p: LogicalPass[SpecT, StatusT], scope: Scope, *, force: bool) -> Unfinished | None:
        try:
            return await self.delete(p, scope, force=force)
        except ConflictError as error:
            return Blocker(Reason.NOT_EMPTY, str(error))
        except RefusedError as error:
            return Blocker(Reason.REJECTED_BY_PULSAR, str(error))

    async def _kept_inside(self, p: LogicalPass[SpecT, StatusT], scope: Scope, name: str) -> Blocker | Progress | None:
        """What keeps a deletion by force from being done. Raises ObstacleError, PortError."""
        blocker = await self._declared_inside.blocker(self.kind, p.obj, name, scope)
        if blocker is not None or self.kind not in CHILDREN:
            return blocker
        giving_up = await self._declared_inside.giving_up(p.obj)
        return await self._retained.blocker(self.kind, p.obj, name, scope, giving_up)

    async def _blocked(self, p: LogicalPass[SpecT, StatusT], name: str, blocker: Blocker) -> Outcome:
        command = keep(self.kind, p.obj)
        if command not in blocker.message:
            text = f"{blocker.message}. To let the object go and leave Pulsar as it is: {command}"
            blocker = Blocker(blocker.reason, text)
        blocker = Blocker(blocker.reason, self.with_unrestored(p, blocker.message))
        p.unknown(blocker.reason, blocker.message, known=True)
        p.conditions.set(ConditionType.DELETION_BLOCKED, True, blocker.reason, blocker.message)
        if not p.said_before(ConditionType.DELETION_BLOCKED, blocker.message[:200]):
            await p.event(blocker.reason, f"{name} cannot be deleted yet: {blocker.message}", warning=True)
        return Outcome(requeue_after=BLOCKED_SECONDS)

    async def _successor(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> str | None:
        """Who else declares the object of Pulsar, as the API server says now: it goes to them. Raises PortError."""
        for key in await self._namesakes.living(self.kind, p.obj):
            obj = await self.deps.kube.get(CUSTOM[self.kind], key.namespace, key.name)
            living = obj is not None and "deletionTimestamp" not in obj["metadata"]
            if obj is not None and living and await self._same(p, scope, obj, doubt=True):
                return f"{self.kind.value} {key.namespace}/{key.name}"
        return await self.declared_elsewhere(p, scope)

    async def declared_elsewhere(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> str | None:
        """An object of another kind that declares the same object of Pulsar too. Raises PortError."""
        return None
