"""The frame of a pass of the logical plane: read the object, do what its kind does, write one status, tell once.

Whatever a kind is, an object whose specification cannot be read changes nothing in Pulsar and says which field; one
that misses a parent or gets no answer says so and comes again; one that is being deleted and holds no finalizer of
ours is left alone.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic

from pulsar_operator.api.constants import FINALIZER, ConditionType, Reason
from pulsar_operator.controllers.core.finalizers import release_finalizer
from pulsar_operator.controllers.core.reconcile import ObjectReconciler
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.logical.deletion_results import keep, let_go_on
from pulsar_operator.controllers.logical.logical_pass import (
    KNOWN,
    LogicalPass,
    SpecT,
    StatusT,
    settled,
)
from pulsar_operator.controllers.logical.remedies import object_text
from pulsar_operator.controllers.logical.scope import (
    WAIT_SECONDS,
    AdminUnreachableError,
    MissingInPulsarError,
    ObstacleError,
    Scope,
    resolve_scope,
)
from pulsar_operator.ports import Json

_OF_THE_SPEC = frozenset(
    {Reason.REFERENCE_NOT_FOUND, Reason.REFERENCE_NOT_ALLOWED, Reason.DUPLICATE, Reason.INVALID_SPEC}
)
"""Obstacles that somebody's change of a specification takes away."""


class PassFrame(ObjectReconciler[LogicalPass[SpecT, StatusT]], Generic[SpecT, StatusT]):
    """Reconciles one kind of the logical plane."""

    known: tuple[ConditionType, ...] = KNOWN
    context = LogicalPass

    @abstractmethod
    async def converge(self, p: LogicalPass[SpecT, StatusT], /) -> Outcome:
        """Make Pulsar like the specification says. Raises ObstacleError, AdminUnreachableError."""

    @abstractmethod
    def kept(self, p: LogicalPass[SpecT, StatusT]) -> str | None:
        """Why a deletion leaves Pulsar as it is, or None."""

    @abstractmethod
    def subject(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """What a deletion takes away in Pulsar, for messages."""

    @abstractmethod
    async def remove(self, p: LogicalPass[SpecT, StatusT], scope: Scope) -> Outcome | None:
        """One step of the deletion in Pulsar; None when the object was released. Raises ObstacleError,
        AdminUnreachableError."""

    def unrestored(self, p: LogicalPass[SpecT, StatusT]) -> str | None:
        """What the deletion has reduced in Pulsar and restores where the object stays, with the command for it."""
        return None

    def timed(self, p: LogicalPass[SpecT, StatusT]) -> bool:
        """Whether something of the object is done at its time, so that it must be looked at soon after an outage."""
        return False

    def problem_of_name(self, p: LogicalPass[SpecT, StatusT]) -> str | None:
        """Why the object's name cannot be used in Pulsar, or None."""
        return None

    def begin(self, obj: Json) -> LogicalPass[SpecT, StatusT]:
        """See ObjectReconciler. A name that Pulsar does not allow counts as a specification that cannot be used."""
        p = super().begin(obj)
        p.invalid = p.invalid or self.problem_of_name(p)
        return p

    async def finish(self, p: LogicalPass[SpecT, StatusT]) -> Outcome:
        """See ObjectReconciler; then the events of the pass are recorded."""
        try:
            return await super().finish(p)
        finally:
            await p.record_events()

    async def run(self, p: LogicalPass[SpecT, StatusT], /) -> Outcome | None:
        """See ObjectReconciler."""
        if p.meta.deleting and FINALIZER not in p.meta.finalizers:
            return None
        if p.invalid is not None and not p.meta.deleting:
            text = f"{p.invalid}. Correct the specification of {object_text({**p.obj, 'kind': self.kind.value})}"
            p.unknown(Reason.INVALID_SPEC, text, known=True)
            p.conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, text)
            return DONE
        try:
            if p.meta.deleting:
                return await (self.tear_down(p) if p.spec is not None else self._let_go_unread(p))
            return await self.converge(p)
        except ObstacleError as obstacle:
            away = obstacle.reason is Reason.CONFIGURATION_STORE_UNAVAILABLE
            if away and settled(p.obj):
                # Nothing of it waits, and what was seen last is all there is to say: an outage is told once.
                for kind in self.known:
                    p.conditions.carry(kind)
                return Outcome(requeue_after=WAIT_SECONDS) if self.timed(p) else DONE
            self._hindered(p, obstacle.reason, obstacle.message, known=obstacle.known)
            if obstacle.reason in _OF_THE_SPEC:
                p.conditions.set(ConditionType.ACCEPTED, False, obstacle.reason, obstacle.message)
            return Outcome(requeue_after=obstacle.requeue)
        except MissingInPulsarError as error:
            # Of a question whose 404 nobody expects; what it says of the object is nothing.
            self._hindered(p, Reason.PARENT_NOT_READY, f"Pulsar does not find what is needed: {error}")
            return Outcome(backoff=True)
        except AdminUnreachableError as error:
            text = f"Pulsar's admin REST gives no usable answer: {error}"
            self._hindered(p, Reason.ADMIN_UNREACHABLE, text, cluster=error.cluster)
            return Outcome(requeue_after=error.retry_after, backoff=True)

    def _hindered(
        self, p: LogicalPass[SpecT, StatusT], reason: Reason, message: str, *, known: bool = False, cluster: str = ""
    ) -> None:
        """The pass cannot go on. Of a deletion that is an obstacle, with what a person can do about it; a cluster that
        is being deleted too does not wait for it for ever."""
        if p.meta.deleting:
            waits = f"The deletion waits for cluster {cluster}" if cluster else "The deletion waits"
            message = self.with_unrestored(p, f"{waits}. {message}. {self._way_out(p)}")
            p.conditions.set(ConditionType.DELETION_BLOCKED, True, reason, message)
        p.unknown(reason, message, known=known)

    def _way_out(self, p: LogicalPass[SpecT, StatusT]) -> str:
        if p.held is not None:
            return f"To let the deletion go on: {let_go_on(self.kind, p.obj)}"
        return (
            "Bring back what it waits for, or let the object go and leave Pulsar as it is (deletionPolicy Retain): "
            f"{keep(self.kind, p.obj)}"
        )

    def with_unrestored(self, p: LogicalPass[SpecT, StatusT], message: str) -> str:
        """A message of a deletion that waits, and what it leaves reduced meanwhile."""
        text = self.unrestored(p)
        return f"{message}. {text}" if text is not None else message

    def deletion_held(self, p: LogicalPass[SpecT, StatusT], text: str) -> None:
        """The object is being deleted, and paused or in dry run, so that nothing is done."""
        held = p.held or Reason.PAUSED
        waits = f"{text}. Nothing is done while the object is paused or in dry run. {self._way_out(p)}"
        message = self.with_unrestored(p, waits)
        p.unknown(held, message)
        p.conditions.set(ConditionType.DELETION_BLOCKED, True, held, message)
        if p.meta.dry_run:
            p.fields["pending_actions"] = [text]

    async def _let_go_unread(self, p: LogicalPass[SpecT, StatusT]) -> Outcome | None:
        """Let an object go whose specification cannot be read; None when it was released."""
        text = f"the specification cannot be read ({p.invalid})"
        if p.held is not None:
            self.deletion_held(p, f"Let the object go and delete nothing in Pulsar: {text}")
            return DONE
        await self.release(p, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar: {text}")
        return None

    async def tear_down(self, p: LogicalPass[SpecT, StatusT]) -> Outcome | None:
        """One step of a deletion that the finalizer holds; None when it was released.

        Nothing is waited for that is not to come back: parents that are gone, clusters that are being deleted.
        """
        why = self.kept(p)
        if why is not None:
            await self.release(p, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar: {why}")
            return None
        try:
            scope = await resolve_scope(self.deps, self.kind, p.obj, deleting=True)
        except ObstacleError as obstacle:
            if obstacle.gone and p.held is None:
                await self.release(p, Reason.PARENT_DELETED, f"Nothing is deleted in Pulsar: {obstacle.message}")
                return None
            raise
        try:
            return await self.remove(p, scope)
        except AdminUnreachableError as error:
            if all(cluster.deleting for cluster in scope.clusters):
                why = f"all clusters of the instance are being deleted and none answers ({error})"
                await self.release(p, Reason.PARENT_DELETED, f"Not deleted in Pulsar, {self.subject(p, scope)}: {why}")
                return None
            raise

    async def release(self, p: LogicalPass[SpecT, StatusT], reason: Reason, message: str) -> None:
        """Say why and let the object go."""
        await p.event(reason, message, warning=reason is Reason.PARENT_DELETED)
        await release_finalizer(self.deps, p.obj)
