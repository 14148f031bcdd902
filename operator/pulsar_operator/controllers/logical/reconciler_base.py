"""Base of the reconcilers of the logical plane: reads the object, runs the steps of its kind, writes the status once.

For every kind, an object whose specification cannot be read changes nothing in Pulsar and names the invalid field. An
object without a parent, or without an answer from Pulsar, reports that and is retried. An object that is being deleted
and has no finalizer of the operator is left alone.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Generic

from pulsar_operator.api.constants import FINALIZER, ConditionType, Reason
from pulsar_operator.controllers.core.finalizers import release_finalizer
from pulsar_operator.controllers.core.reconcile import ObjectReconciler
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.logical.deletion_results import continue_deletion_command, keep
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
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import Json

log = logging.getLogger(__name__)

_OF_THE_SPEC = frozenset(
    {Reason.REFERENCE_NOT_FOUND, Reason.REFERENCE_NOT_ALLOWED, Reason.DUPLICATE, Reason.INVALID_SPEC}
)
"""Obstacles that are resolved by changing a specification."""


class ReconcilerBase(ObjectReconciler[LogicalPass[SpecT, StatusT]], Generic[SpecT, StatusT]):
    """Reconciles one kind of the logical plane."""

    known: tuple[ConditionType, ...] = KNOWN
    context = LogicalPass

    @abstractmethod
    async def converge(self, ctx: LogicalPass[SpecT, StatusT], /) -> Outcome:
        """Makes Pulsar match the specification. Raises ObstacleError, AdminUnreachableError."""

    @abstractmethod
    def kept(self, ctx: LogicalPass[SpecT, StatusT]) -> str | None:
        """Returns why a deletion leaves Pulsar unchanged, as a message. None if it does not."""

    @abstractmethod
    def subject(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """Returns the name of the object that a deletion removes in Pulsar, for messages."""

    @abstractmethod
    async def remove(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> Outcome | None:
        """Performs one step of the deletion in Pulsar. Returns None if the object was released. Raises ObstacleError,
        AdminUnreachableError."""

    def unrestored(self, ctx: LogicalPass[SpecT, StatusT]) -> str | None:
        """Returns a message about the state in Pulsar that the deletion has reduced and that is restored if the object
        is kept, with the command for it; None if nothing was reduced."""
        return None

    def timed(self, ctx: LogicalPass[SpecT, StatusT]) -> bool:
        """Whether the object has a scheduled task, so that it must be checked soon after an outage."""
        return False

    def problem_of_name(self, ctx: LogicalPass[SpecT, StatusT]) -> str | None:
        """Returns why the object's name cannot be used in Pulsar, as a message. None if it can be used."""
        return None

    def begin(self, obj: Json) -> LogicalPass[SpecT, StatusT]:
        """Returns the context of one pass; see ObjectReconciler. A name that Pulsar does not allow makes the
        specification invalid."""
        ctx = super().begin(obj)
        ctx.invalid = ctx.invalid or self.problem_of_name(ctx)
        return ctx

    async def finish(self, ctx: LogicalPass[SpecT, StatusT]) -> Outcome:
        """Finishes the pass, then records its events; see ObjectReconciler."""
        try:
            return await super().finish(ctx)
        finally:
            await ctx.record_events()

    async def run(self, ctx: LogicalPass[SpecT, StatusT], /) -> Outcome | None:
        """See ObjectReconciler."""
        if ctx.meta.deleting and FINALIZER not in ctx.meta.finalizers:
            return None
        if ctx.invalid is not None and not ctx.meta.deleting:
            text = f"{ctx.invalid}. Correct the specification of {object_text({**ctx.obj, 'kind': self.kind.value})}"
            ctx.unknown(Reason.INVALID_SPEC, text, known=True)
            ctx.conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, text)
            return DONE
        try:
            if ctx.meta.deleting:
                return await (self.tear_down(ctx) if ctx.spec is not None else self._release_unreadable(ctx))
            return await self.converge(ctx)
        except ObstacleError as obstacle:
            unavailable = obstacle.reason is Reason.CONFIGURATION_STORE_UNAVAILABLE
            if unavailable and settled(ctx.obj):
                # Nothing of it waits, and what was seen last is all there is to say: an outage is reported once.
                for kind in self.known:
                    ctx.conditions.carry(kind)
                return Outcome(requeue_after=WAIT_SECONDS) if self.timed(ctx) else DONE
            self._hindered(ctx, obstacle.reason, obstacle.message, known=obstacle.known)
            if obstacle.reason in _OF_THE_SPEC:
                ctx.conditions.set(ConditionType.ACCEPTED, False, obstacle.reason, obstacle.message)
            return Outcome(requeue_after=obstacle.requeue)
        except MissingInPulsarError as error:
            # Of a question without an expected 404; what it says of the object is nothing.
            self._hindered(
                ctx, Reason.PARENT_NOT_READY, f"Pulsar does not find an object that the operator requires: {error}"
            )
            return Outcome(backoff=True)
        except AdminUnreachableError as error:
            denied = error.reason is not Reason.ADMIN_UNREACHABLE
            text = str(error) if denied else f"The operator got no usable answer from Pulsar's admin REST: {error}"
            self._hindered(ctx, error.reason, text, cluster=error.cluster)
            return Outcome(requeue_after=error.retry_after, backoff=True)

    def _hindered(
        self, ctx: LogicalPass[SpecT, StatusT], reason: Reason, message: str, *, known: bool = False, cluster: str = ""
    ) -> None:
        """Reports that the pass cannot continue. For a deletion the message also contains the remedy."""
        if ctx.meta.deleting:
            waits = f"The deletion waits until cluster {cluster} answers" if cluster else "The deletion cannot continue"
            message = self.with_unrestored(ctx, f"{waits}. {sentence(message)}. {self._way_out(ctx)}")
            ctx.conditions.set(ConditionType.DELETION_BLOCKED, True, reason, message)
        ctx.unknown(reason, message, known=known)

    def _way_out(self, ctx: LogicalPass[SpecT, StatusT]) -> str:
        if ctx.pause_reason is not None:
            return f"To let the deletion continue, run: {continue_deletion_command(self.kind, ctx.obj)}"
        return (
            "Resolve this problem. To release the object and leave Pulsar unchanged instead (deletionPolicy "
            f"Retain), run: {keep(self.kind, ctx.obj)}"
        )

    def with_unrestored(self, ctx: LogicalPass[SpecT, StatusT], message: str) -> str:
        """Returns the message of a deletion that waits, with the state that it leaves reduced until then."""
        text = self.unrestored(ctx)
        return f"{message}. {text}" if text is not None else message

    def deletion_paused(self, ctx: LogicalPass[SpecT, StatusT], text: str) -> None:
        """Reports that a deletion makes no progress because the object is paused or in dry run."""
        reason = ctx.pause_reason or Reason.PAUSED
        waits = f"{text}. This is not done while the object is paused or in dry run. {self._way_out(ctx)}"
        message = self.with_unrestored(ctx, waits)
        ctx.unknown(reason, message)
        ctx.conditions.set(ConditionType.DELETION_BLOCKED, True, reason, message)
        if ctx.meta.dry_run:
            ctx.fields["pending_actions"] = [text]

    async def _release_unreadable(self, ctx: LogicalPass[SpecT, StatusT]) -> Outcome | None:
        """Releases an object whose specification cannot be read. Returns None if it was released."""
        text = f"the specification cannot be read ({ctx.invalid})"
        if ctx.pause_reason is not None:
            self.deletion_paused(ctx, f"Release the object without a deletion in Pulsar, because {text}")
            return DONE
        await self.release(ctx, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar, because {text}")
        return None

    async def tear_down(self, ctx: LogicalPass[SpecT, StatusT]) -> Outcome | None:
        """Performs one step of a deletion that the finalizer guards. Returns None if the object was released.

        The deletion does not wait for anything that is not expected to return: deleted parents, clusters that are being
        deleted.
        """
        why = self.kept(ctx)
        if why is not None:
            await self.release(ctx, Reason.FINALIZER_RELEASED, f"Nothing is deleted in Pulsar, because {why}")
            return None
        try:
            scope = await resolve_scope(self.deps, self.kind, ctx.obj, deleting=True)
        except ObstacleError as obstacle:
            if obstacle.gone and ctx.pause_reason is None:
                await self.release(
                    ctx, Reason.PARENT_DELETED, f"Nothing is deleted in Pulsar. {sentence(obstacle.message)}"
                )
                return None
            raise
        try:
            return await self.remove(ctx, scope)
        except AdminUnreachableError as error:
            if all(cluster.deleting for cluster in scope.clusters):
                why = f"all clusters of the instance are being deleted and none answers ({error})"
                await self.release(
                    ctx,
                    Reason.PARENT_DELETED,
                    f"Nothing is deleted in Pulsar for {self.subject(ctx, scope)}, because {why}",
                )
                return None
            raise

    async def release(self, ctx: LogicalPass[SpecT, StatusT], reason: Reason, message: str) -> None:
        """Records the reason as a log line and an event, and removes the finalizer from the object."""
        log.info("%s %s/%s: %s", self.kind.value, ctx.meta.namespace, ctx.meta.name, message)
        await ctx.event(reason, message, warning=reason is Reason.PARENT_DELETED)
        await release_finalizer(self.deps, ctx.obj)
