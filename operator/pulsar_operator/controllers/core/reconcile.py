"""The pass that controllers share: read the object once, parse it, observe and act, write the status once.

A kind implements what it observes, decides and does (``converge``), and how it handles an invalid specification
(``refuse``). It collects its report in its context. Nothing else writes the status, except that a logical kind stores
what it manages before the first write that needs it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.base import CommonStatus
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.objects import Meta, invalid_fields, meta_of
from pulsar_operator.controllers.core.reconciler import DONE, GONE, Outcome
from pulsar_operator.controllers.core.status import write_status
from pulsar_operator.domain.conditions import TRUE, ConditionSet
from pulsar_operator.domain.stored import parsed
from pulsar_operator.ports import CUSTOM, ConflictError, Deps, Json, Key, NotFoundError

log = logging.getLogger(__name__)

WAITS = (ConditionType.READY, ConditionType.PROGRESSING, ConditionType.DELETION_BLOCKED)
"""Conditions whose messages say what an object waits for."""

SpecT = TypeVar("SpecT", bound=BaseModel)
StatusT = TypeVar("StatusT", bound=CommonStatus)


@dataclass
class Context(Generic[SpecT, StatusT]):
    """The data of one pass over an object. Nothing of it outlives the pass."""

    deps: Deps
    obj: Json
    meta: Meta
    spec: SpecT
    """The specification. It is None at run time if ``invalid`` is set."""
    before: StatusT
    """The status as it was read, or as it was written during the pass."""
    conditions: ConditionSet
    invalid: str | None = None
    """Why the specification cannot be used; None if it can."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Status fields set in this pass. The others keep their value."""

    @property
    def pause_reason(self) -> Reason | None:
        """Returns why nothing may be changed; None if changes are allowed."""
        if self.meta.paused:
            return Reason.PAUSED
        return Reason.DRY_RUN if self.meta.dry_run else None

    @cached_property
    def actor(self) -> Actor:
        """Returns the actor, which performs actions on Kubernetes, or collects them if the object is paused or in dry
        run."""
        return Actor(self.deps, self.obj, act=self.pause_reason is None)

    @property
    def version(self) -> str | None:
        """Returns the resourceVersion that the status write requires; None if it overwrites any version."""
        return None

    def new_status(self) -> BaseModel:
        """Returns the status to write."""
        update = {"observed_generation": self.meta.generation, "conditions": self.conditions.result()}
        return self.before.model_copy(update={"pending_actions": self.actor.pending or None, **self.fields, **update})

    async def write(self) -> None:
        """Writes the status if it differs from the stored one. Raises PortError."""
        await write_status(self.deps, self.obj, self.new_status(), version=self.version)


ContextT = TypeVar("ContextT", bound=Context[Any, Any])


class ObjectReconciler(ABC, Generic[ContextT]):
    """Reconciles one kind of custom resources."""

    kind: ClassVar[Kind]
    known: Sequence[ConditionType]
    """Condition types of the kind. Each is always present."""
    context: ClassVar[type[Context[Any, Any]]] = Context

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    @abstractmethod
    async def converge(self, ctx: ContextT, /) -> Outcome | None:
        """Observes, decides and acts. Returns None if the object may no longer exist, so that no status is written."""

    async def refuse(self, ctx: ContextT, /) -> Outcome | None:
        """Reports an invalid specification, and performs no action. Returns None as ``converge`` does."""
        ctx.conditions.set(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, str(ctx.invalid))
        ctx.conditions.summarize(ConditionType.ACCEPTED, ready_message="")
        return DONE

    def forget(self, key: Key) -> None:
        """Forgets the in-memory state of an object that no longer exists."""
        return None

    async def reconcile(self, key: Key) -> Outcome:
        """Runs one pass; see Reconciler. Raises PortError if the object cannot be read."""
        obj = await self.deps.kube.get(CUSTOM[self.kind], key.namespace, key.name)
        if obj is None:
            self.forget(key)
            return GONE
        return await self.finish(self.begin(obj))

    def begin(self, obj: Json) -> ContextT:
        """Returns the context of a pass over the object."""
        models, meta, status = MODELS[self.kind], meta_of(obj), obj.get("status") or {}
        conditions = ConditionSet(self.known, status.get("conditions") or (), meta.generation, self.deps.clock.now())
        spec: Any = None
        invalid: str | None = None
        try:
            spec = models.spec.model_validate(obj.get("spec") or {})
        except ValidationError as error:
            invalid = invalid_fields(error)
        ctx: Any = self.context(self.deps, obj, meta, spec, parsed(models.status, status), conditions, invalid)
        return ctx  # type: ignore[no-any-return]

    async def run(self, ctx: ContextT, /) -> Outcome | None:
        """Runs the pass without the status write."""
        return await (self.converge(ctx) if ctx.invalid is None else self.refuse(ctx))

    async def finish(self, ctx: ContextT) -> Outcome:
        """Runs the pass, then writes the status. Returns the outcome of the pass."""
        try:
            outcome = await self.run(ctx)
            if outcome is None:
                return DONE
            self._log_waits(ctx)
            await ctx.write()
        except NotFoundError:
            if await self._exists(ctx):
                raise  # something else that the pass needed is missing
            return DONE  # the object was deleted during the pass
        except ConflictError:
            return Outcome(backoff=True)  # another object of the same name, or another writer was faster
        return outcome

    def _log_waits(self, ctx: ContextT) -> None:
        """Logs at debug what the object waits for, or what blocks it."""
        where = {"kind": self.kind.value, "namespace": ctx.meta.namespace, "object": ctx.meta.name}
        for kind in WAITS:
            status, reason, message = ctx.conditions.explained(kind) or (TRUE, Reason.READY, "")
            if reason is not Reason.READY:
                fields = {**where, "reason": reason.value}
                log.debug("%s %s: %s", kind.value, status.value, message, extra=fields)

    async def _exists(self, ctx: ContextT) -> bool:
        """Whether the API server still has the object of the pass, as opposed to another one of its name."""
        obj = await self.deps.kube.get(CUSTOM[self.kind], ctx.meta.namespace, ctx.meta.name)
        return obj is not None and obj["metadata"].get("uid") == ctx.meta.uid
