"""Decides which of several custom resources manages one object of Pulsar. Used by controller.py.

The record beside the object decides (owner_records.py), then the status of the custom resources, then their age. The
operator reads the record if several custom resources declare the same object, or if a custom resource finds its object
in Pulsar and does not know yet what the record says. A new object of Pulsar is created with its record if it has
properties.

A record that another client removed is written again. If a pass reads the record as part of another answer
(LogicalPass.records), every pass compares it. Otherwise it is read once in RECORD_SECONDS, so that a pass without
changes makes no call for it.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import Any, Final, Generic, Protocol, TypeVar

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.core.stores import share_store
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.logical.logical_pass import LogicalPass, SpecT, StatusT
from pulsar_operator.controllers.logical.owner_records import NodeRecord
from pulsar_operator.controllers.logical.reconciler_base import ReconcilerBase
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.domain.logical.owners import Owner, claim_of, owner_node, owner_of, winner
from pulsar_operator.ports import CUSTOM, Deps, Json, Key

DUPLICATE_SECONDS = 60.0
RECORD_SECONDS: Final = 3600.0
"""Seconds between two reads of a record that no other answer contains."""
STALE_SECONDS: Final = 30.0
"""Seconds after a read or a write for which a broker may still return the earlier state."""

FactsT = TypeVar("FactsT")


class Record(Protocol):
    """Where the owner of one object of Pulsar is recorded."""

    whole: bool
    """Whether every place that stores the record had it at the last read."""

    async def read(self) -> Owner | None:
        """Returns the owner; None if there is no record. Raises ObstacleError, AdminUnreachableError."""

    async def write(self, owner: Owner) -> None:
        """Writes this owner. Raises ObstacleError, AdminUnreachableError."""


class Ownership(ReconcilerBase[SpecT, StatusT], Generic[SpecT, StatusT, FactsT]):
    """Decides whether a custom resource manages what it declares, and records it."""

    shared = True
    """Whether instances with the same configuration store share the objects of the kind."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._records_due: dict[Key, float] = {}

    def forget(self, key: Key) -> None:
        """Forgets a custom resource that no longer exists."""
        super().forget(key)
        self._records_due.pop(key, None)

    # --------------------------------------------------------------------------------------- what a kind says

    @abstractmethod
    def name_in_pulsar(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> str:
        """Returns the full name in Pulsar."""

    @abstractmethod
    def exists(self, facts: FactsT) -> bool:
        """Whether Pulsar has the object."""

    def manages(self, ctx: LogicalPass[SpecT, StatusT], facts: FactsT) -> bool:
        """Whether Pulsar has the object in a form that this custom resource can manage."""
        return self.exists(facts)

    async def record_of(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> Record:
        """Returns where the owner is recorded. Raises ObstacleError."""
        name = self.name_in_pulsar(ctx, scope)
        return NodeRecord(self.deps, scope, owner_node(self.kind.value, name), name)

    def made_with_record(self, ctx: LogicalPass[SpecT, StatusT]) -> bool:
        """Whether the call that creates the object in Pulsar contains the record."""
        return False

    def record_due(self, ctx: LogicalPass[SpecT, StatusT]) -> float:
        """Returns the time at which the record is read next, in seconds since the epoch; 0.0 for an object that this
        process has not read yet."""
        return self._records_due.get(Key(self.kind, ctx.meta.namespace, ctx.meta.name), 0.0)

    def record_observed(self, ctx: LogicalPass[SpecT, StatusT]) -> None:
        """Notes that the record was read or written now."""
        due = ctx.conditions.now.timestamp() + RECORD_SECONDS
        self._records_due[Key(self.kind, ctx.meta.namespace, ctx.meta.name)] = due

    async def declares_too(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, owner: Owner) -> bool:
        """Whether the owner that a record names exists and declares the same object. This custom resource then manages
        nothing."""
        if owner.kind is not self.kind:
            return False
        obj = await self.deps.kube.get(CUSTOM[owner.kind], owner.namespace, owner.name)
        return obj is not None and await self._same(ctx, scope, obj, doubt=True)

    @abstractmethod
    async def _same(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, other: Json, *, doubt: bool = False) -> bool:
        """Whether another object of the kind declares the same object of Pulsar. Returns ``doubt`` if that cannot be
        determined."""

    # ------------------------------------------------------------------------------------------------ decisions

    async def own(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Records that this object manages what it declares, unless the record names another one that exists.

        Raises ObstacleError if it does, or if the record cannot be read, since another object may manage it. Raises
        AdminUnreachableError.
        """
        if ctx.from_list:
            return
        if ctx.before.owner_recorded or ctx.fields.get("owner_recorded"):
            await self._keep_record(ctx, scope)
            return
        own_record = owner_of(ctx.obj)
        try:
            record = await self.record_of(ctx, scope)
            found = await record.read()
            if found is not None and found != own_record and await self.declares_too(ctx, scope, found):
                raise self._duplicate(ctx, scope, found.text)
            if ctx.pause_reason is not None:
                return
            if isinstance(record, NodeRecord) and not record.kept:
                return  # no status says where the store is yet, so nothing is recorded there
            if found != own_record:
                await record.write(own_record)
        except AdminUnreachableError:
            if ctx.memory.established:
                return  # it has been managed all along, and is recorded when all clusters answer
            raise
        ctx.fields["owner_recorded"] = True
        self.record_observed(ctx)

    async def _keep_record(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Writes a record again if it is missing. A record that cannot be read is unknown and is left unchanged.

        Raises ObstacleError if the record names another object that declares the same.
        """
        own_record, reported = owner_of(ctx.obj), set(ctx.records.values())
        if reported == {own_record.text}:
            self.record_observed(ctx)
            return
        due = self.record_due(ctx) - (RECORD_SECONDS - STALE_SECONDS if reported else 0.0)
        if ctx.pause_reason is not None or ctx.trusting or ctx.conditions.now.timestamp() < due:
            return
        self.record_observed(ctx)
        with contextlib.suppress(AdminUnreachableError):
            try:
                record = await self.record_of(ctx, scope)
                found = await record.read()
            except ObstacleError:
                return
            if (found == own_record and record.whole) or (isinstance(record, NodeRecord) and not record.kept):
                return
            if found is not None and found != own_record and await self.declares_too(ctx, scope, found):
                raise self._duplicate(ctx, scope, found.text)
            with contextlib.suppress(ObstacleError):
                await record.write(own_record)
                name = self.name_in_pulsar(ctx, scope)
                text = (
                    f"The record in Pulsar did not name {own_record.text} as the manager of {name}, so the operator "
                    "wrote it again"
                )
                await ctx.event(Reason.DRIFT_REPAIRED, text, warning=True)

    async def disown(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Removes the record of an object that was deleted in Pulsar, if it is stored apart from the object.

        A record that is left over is harmless, since it names a custom resource that does not exist.
        """
        with contextlib.suppress(ObstacleError, AdminUnreachableError):
            record = await self.record_of(ctx, scope)
            if isinstance(record, NodeRecord):
                await record.remove(owner_of(ctx.obj))

    async def _refuse_duplicate(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> None:
        """Raises ObstacleError if another custom resource manages the same object of Pulsar.

        A custom resource that already manages it checks this too: two that were created at the same moment may have
        missed each other.
        """
        own_record = claim_of(ctx.obj)
        duplicates = [own_record]
        for key in await self._declared_alike(ctx, scope):
            obj = await self.deps.kube.get(CUSTOM[self.kind], key.namespace, key.name)
            if obj is not None and await self._same(ctx, scope, obj):
                duplicates.append(claim_of(obj))
        if len(duplicates) == 1:
            return
        recorded = await (await self.record_of(ctx, scope)).read()
        first = winner(duplicates, recorded)
        if first != own_record:
            raise self._duplicate(ctx, scope, f"{self.kind.value} {first.text}")

    def _duplicate(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope, other: str) -> ObstacleError:
        ctx.fields["owner_recorded"] = None
        return ObstacleError(
            Reason.DUPLICATE,
            f"{other} already manages {self.name_in_pulsar(ctx, scope)}, so this object changes nothing in "
            "Pulsar. Delete one of the two objects",
            known=True,
            requeue=DUPLICATE_SECONDS,
        )

    async def _declared_alike(self, ctx: LogicalPass[SpecT, StatusT], scope: Scope) -> list[Key]:
        """Returns the objects that may declare the same, under the same parent or under instances with the same store.

        Objects inside a tenant need no check for the latter: one of two such tenants is a duplicate, and its content
        waits.
        """
        reader, instance = reader_of(self.deps), scope.chain[-1]
        found = list(await reader.duplicates_of(ctx.obj))
        if len(scope.chain) > 1 or not self.shared:
            return found
        for other in await reader.every(Kind.INSTANCE):
            meta = other["metadata"]
            if meta["uid"] != instance["metadata"]["uid"] and share_store(instance, other):
                spec: dict[str, Any] = {**ctx.obj["spec"]}
                spec["instanceRef"] = {"name": meta["name"], "namespace": meta["namespace"]}
                found += await reader.duplicates_of({**ctx.obj, "spec": spec})
        return found
