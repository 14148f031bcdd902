"""One pass over a logical object: its facts, and the status that is written once at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pulsar_operator.api.constants import FINALIZER, ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import MAX_PENDING, DeletionPolicy, DriftPolicy
from pulsar_operator.api.v1alpha1.logical import DriftEntry, LogicalSpec, ManagedStatus
from pulsar_operator.controllers.core.objects import patch_spec, resume
from pulsar_operator.controllers.core.reconcile import Context
from pulsar_operator.controllers.core.status import differs, is_true, write_status
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, parse_time
from pulsar_operator.domain.logical.plan import Action, Memory, Plan, Verb, difference_text, is_among, joined, printable
from pulsar_operator.domain.texts import visible
from pulsar_operator.ports import Json

SpecT = TypeVar("SpecT", bound=LogicalSpec)
StatusT = TypeVar("StatusT", bound=ManagedStatus)

KNOWN = (ConditionType.READY, ConditionType.ACCEPTED, ConditionType.DRIFTED)
MAX_DRIFT = 200
MAX_FIELDS = 1000
"""Maximum number of entries of status.managedFields and of status.refusedFields."""
UNSEEN = "The operator wrote to Pulsar, but cannot read the result yet"
REFUSED = "Pulsar refused"
UNSEEN_SECONDS = 2.0
"""Seconds until a write that is not visible yet is checked again."""
REFUSED_LIMIT_SECONDS = 300.0
"""Maximum seconds until a refused write is retried; see LogicalPass.again."""
EMPTIED_SECONDS = 30.0
"""Seconds until an object that is kept because it is not empty is rechecked."""
UNTOLD = frozenset({Reason.NOT_EMPTY, Reason.WAITING_FOR_REPLICATION})
"""Reasons that only client activity resolves. The operator polls for them, since no event announces that."""

MAX_MESSAGE = 1000
"""Maximum length of the message of an event, in characters."""

Refusals = dict[tuple[str, str], str]
"""Pulsar's message by field and cluster. The cluster is "" if one cluster answers for all."""


class RestartPassError(Exception):
    """An object that was reconciled from a list needs a write, so the pass starts over with the object of the API
    server.

    Nothing was written yet.
    """


@dataclass
class LogicalPass(Context[SpecT, StatusT]):
    """The state of one pass over an object of the logical plane."""

    observed: bool = False
    """Whether Pulsar was observed in this pass."""
    from_list: bool = False
    """Whether the object comes from a list, so that nothing may be written."""
    holders: tuple[str, ...] | None = None
    """Clusters that hold the namespace; None until they are known."""
    replicating: frozenset[str] = frozenset()
    """The namespace's replication_clusters as the brokers reported them at the last observation."""
    safe: frozenset[str] = frozenset()
    """Clusters of ``replicating`` that the namespace's allowed_clusters contain."""
    inherited: Any = None
    """Settings that the parent provides; None until they are known."""
    contended: bool = False
    """Whether a change conflicted with another writer (HTTP 409). The next attempt may succeed."""
    created: bool | None = None
    """Whether this pass created the object in Pulsar wherever it was missing; False if another client was faster."""
    renewed: bool = False
    """Whether the settings of the parent changed since they were applied. A difference is then not drift."""
    trusting: bool = False
    """Whether the last observation relied on the status, and left out what the next resync reads."""
    records: dict[str, str] = field(default_factory=dict)
    """Text of the owner record as the answers of this pass contain it, by place; empty if there is no record. A place
    that no answer contains is absent."""
    asks: frozenset[str] = frozenset()
    """Fields whose change waits for consent, by the last plan of the pass."""
    events: list[tuple[str, Reason, str]] = field(default_factory=list)
    """Events of this pass: type, reason, message."""
    performed: Callable[[Action], None] = lambda action: None
    """Callback for each action that Pulsar performed."""

    @property
    def memory(self) -> Memory:
        """Returns the state that earlier passes stored in the status."""
        return Memory(
            managed=frozenset(self.before.managed_fields),
            refused=frozenset(self.before.refused_fields),
            applied=self.before.applied_generation == self.meta.generation and not self.renewed,
            established=self.before.pulsar_name is not None,
        )

    @property
    def touched(self) -> bool:
        """Whether this object has, or may have, written to Pulsar."""
        return self.before.pulsar_name is not None or bool(self.before.managed_fields)

    async def event(self, reason: Reason, message: str, *, warning: bool = False) -> None:
        """Queues an event. It is recorded at the end of the pass."""
        self.events.append(("Warning" if warning else "Normal", reason, message[:MAX_MESSAGE]))

    async def record_events(self) -> None:
        """Records the events of the pass. Never raises."""
        events, self.events = self.events if not self.from_list else [], []
        for kind, reason, message in events:
            await self.deps.kube.event(self.obj, kind=kind, reason=reason.value, message=message)

    async def write_ahead(self, managed: frozenset[str], *, creating: bool) -> None:
        """Extends status.managedFields before the first write that needs it.

        With ``creating`` it also clears status.appliedGeneration: the missing settings of a lost object are then not
        drift, even if the pass ends between creating the object and setting them.
        """
        update: dict[str, Any] = {}
        # A field Pulsar refused at this very generation is tried again without a status write in every pass.
        again = frozenset(self.before.refused_fields) if self.memory.applied else frozenset()
        desired = frozenset(self.before.managed_fields) | {f for f in managed if not is_among(f, again)}
        if desired != frozenset(self.before.managed_fields):
            update["managed_fields"] = sorted(desired)
        if creating and self.before.applied_generation is not None:
            update["applied_generation"] = None
        if update:
            await self.store(update)

    async def store(self, update: Mapping[str, Any]) -> None:
        """Writes fields of the status now, in addition to those that were stored before."""
        self.before = self.before.model_copy(update=update)
        self.stored(await write_status(self.deps, self.obj, self.before, version=self.version))
        self.obj = {**self.obj, "status": self.before.model_dump(mode="json", by_alias=True, exclude_none=True)}

    async def write(self) -> None:
        """Writes the status; see Context. Raises RestartPassError if nothing may be written."""
        if not self.from_list:
            await super().write()
        elif differs(self.obj, self.new_status()):
            raise RestartPassError

    @property
    def version(self) -> str | None:
        """Returns the newest resource version that this pass wrote or read, which saves the next write a read."""
        version: str | None = self.obj["metadata"].get("resourceVersion")
        return version

    def stored(self, obj: Json | None) -> None:
        """Records the resource version after a write of this pass, so that the next write needs no read."""
        if obj is not None and obj["metadata"].get("uid") == self.meta.uid:
            version = obj["metadata"].get("resourceVersion")
            self.obj = {**self.obj, "metadata": {**self.obj["metadata"], "resourceVersion": version}}

    def unknown(self, reason: Reason, message: str, *, known: bool = False) -> None:
        """Sets all conditions that depend on missing facts to Unknown. With ``known`` the condition Ready is False."""
        for kind in KNOWN:
            status = FALSE if known and kind is ConditionType.READY else UNKNOWN
            self.conditions.set(kind, status, reason, message)

    @property
    def again(self) -> float:
        """Returns the seconds until a refused write is retried: as long as it has been refused so far, within limits.

        Pulsar may refuse it because of another object that does not exist yet or that only Pulsar knows, and no event
        announces a change of that.
        """
        found = self.before.condition(ConditionType.ACCEPTED)
        since = parse_time(found.last_transition_time) if found is not None and found.status is FALSE else None
        waited = (self.conditions.now - since).total_seconds() if since is not None else 0.0
        return min(max(waited, UNSEEN_SECONDS), REFUSED_LIMIT_SECONDS)

    def already_reported(self, kind: ConditionType, text: str) -> bool:
        """Whether the stored condition already contains this text."""
        condition = self.before.condition(kind)
        return condition is not None and text in condition.message


@dataclass
class Result:
    """The result of converging one object."""

    plan: Plan
    exists: bool
    refused: dict[str, str] = field(default_factory=dict)
    """Pulsar's message by field. The empty field stands for the object itself."""
    remaining: tuple[Action, ...] = ()
    """Actions that are still needed: they are delayed, or written and not visible yet."""
    wrote: frozenset[str] = frozenset()
    """Fields that were written in this pass in at least one cluster."""

    def managed(self, memory: Memory, *, paused: bool) -> list[str]:
        """Returns the entries of status.managedFields after the pass."""
        if paused:
            return sorted(memory.managed)
        new = self.plan.declared - memory.managed - self.wrote
        never = {name for name in new if self._was_refused(name)}
        kept = {name for name in memory.managed if name in self.plan.declared or name in self.plan.kept}
        if self.exists:
            return sorted((self.plan.declared | kept) - never)
        # Extended in this pass and refused: nothing of this object is in Pulsar, so nothing is to be reset later. What
        # Pulsar accepted and does not show yet (a broker that is late) is there.
        return sorted(memory.managed | self.plan.declared) if self.wrote else sorted(memory.managed)

    def _was_refused(self, name: str) -> bool:
        return is_among(name, self.refused) or name in self.plan.postponed

    def drift(self) -> list[DriftEntry]:
        """Returns the differences to report."""
        repairs = [a for a in self.remaining if a.verb is Verb.REPAIR and a.difference is not None]
        left = [each for a in repairs for each in (a.difference, *a.also) if each is not None]
        return joined([*self.plan.drift, *self.plan.fixed, *left])

    def report(self, ctx: LogicalPass[Any, Any], name: str) -> float | None:
        """Sets the conditions and the shared status fields. Returns the seconds until the next check; None if none is
        needed."""
        self._accepted(ctx)
        self._drifted(ctx)
        done = not self.remaining
        # Two names that differ by a control character may read alike.
        shown = [each.model_copy(update={"field": printable(each.field)}) for each in self.drift()]
        ctx.fields["drift"] = joined(shown)[:MAX_DRIFT]
        ctx.fields["pending_actions"] = None
        if ctx.meta.dry_run:
            ctx.fields["pending_actions"] = [visible(a.reason)[:1000] for a in self.remaining][:MAX_PENDING]
        # What waited for a refused field is not applied either: making it later repairs no drift.
        refused = {f for f in self.refused if f} | self.plan.postponed
        if ctx.pause_reason is not None:  # nothing was tried: what Pulsar refused is no drift for that
            refused |= ctx.memory.refused & {
                name for a in self.remaining for name in (a.field, *(e.field for e in a.also))
            }
        ctx.fields["refused_fields"] = sorted(refused)[:MAX_FIELDS]
        if self.exists:
            ctx.fields["pulsar_name"] = name
        if done and (self.exists or self.refused or self.plan.problems):
            ctx.fields["applied_generation"] = ctx.meta.generation
        return self._ready(ctx, name)

    def _accepted(self, ctx: LogicalPass[Any, Any]) -> None:
        texts = [(problem.reason, problem.message) for problem in self.plan.problems]
        together: dict[str, list[str]] = {}
        for where, message in sorted(self.refused.items()):
            together.setdefault(message, []).append(where)
        for message, fields in together.items():
            named = ", ".join(f"spec.{printable(where)}" for where in fields if where)
            text = f"{REFUSED} {named}: {message}" if named else f"{REFUSED} the change: {message}"
            texts.append((Reason.REJECTED_BY_PULSAR, text))
        if texts:
            ctx.conditions.set(ConditionType.ACCEPTED, False, texts[0][0], ". ".join(text for _, text in texts))
        else:
            ctx.conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is accepted")

    def _drifted(self, ctx: LogicalPass[Any, Any]) -> None:
        entries = self.drift()
        if not self.exists and not entries:
            ctx.conditions.set(ConditionType.DRIFTED, UNKNOWN, Reason.PENDING, "Pulsar does not have the object yet")
            return
        if not entries:
            accepted = ctx.conditions.is_true(ConditionType.ACCEPTED)
            text = (
                "The state in Pulsar matches the spec"
                if accepted
                else ("The state in Pulsar matches the accepted part of the spec")
            )
            ctx.conditions.set(ConditionType.DRIFTED, False, Reason.IN_SYNC, text)
            return
        listed = "; ".join(map(difference_text, entries))
        if {d.field for d in entries} <= {d.field for d in self.plan.fixed}:
            note = (
                ". Pulsar cannot change this on an existing object, so the operator does nothing. Declare what "
                "Pulsar has, or declare another object. Deleting the object in Pulsar would delete its data"
            )
            ctx.conditions.set(ConditionType.DRIFTED, True, Reason.IMMUTABLE_IN_PULSAR, listed + note)
        else:
            remedy = (
                (
                    ". The operator does not repair the drift, because spec.driftPolicy is Report. Declare what Pulsar "
                    f"has, or let the operator repair it: {_repair(ctx)}"
                )
                if _reports(ctx)
                else ""
            )
            ctx.conditions.set(ConditionType.DRIFTED, True, Reason.DRIFT_DETECTED, f"{listed}{remedy}")

    def _ready(self, ctx: LogicalPass[Any, Any], name: str) -> float | None:
        ready = ConditionType.READY
        if not ctx.conditions.is_true(ConditionType.ACCEPTED):
            ctx.conditions.summarize(ConditionType.ACCEPTED, ready_message="")
            if any(problem.reason in UNTOLD for problem in self.plan.problems):
                return EMPTIED_SECONDS
            # Pulsar may have judged by what was there before the other writes of this pass: topic policies take a
            # moment to arrive.
            return UNSEEN_SECONDS if self.refused and self.wrote else ctx.again
        if self.remaining and ctx.pause_reason is not None:
            why = "paused" if ctx.pause_reason is Reason.PAUSED else "in dry run"
            first = self.remaining[0].reason
            text = (
                f"The object is {why}, and {len(self.remaining)} actions are pending. The first one is: {first}. To "
                f"continue, run: {resume(ctx.obj)}"
            )
            ctx.conditions.set(ready, False, ctx.pause_reason, text)
            return None
        if self.remaining:
            text = f"{UNSEEN}. The last action was: {self.remaining[0].reason}"
            ctx.conditions.set(ready, False, Reason.PENDING, text)
            return UNSEEN_SECONDS
        if self.plan.waiting:
            ctx.conditions.set(ready, False, Reason.WAITING_FOR_CLUSTERS, ". ".join(self.plan.waiting))
            return 15.0
        if not self.exists:
            ctx.conditions.set(ready, False, Reason.PENDING, f"{name} does not exist in Pulsar")
            return 15.0
        ctx.conditions.set(ready, True, Reason.READY, f"{name} is in sync")
        return None


def too_many_fields(managed: Collection[str]) -> str:
    """Returns the message that the limit of managed fields is reached."""
    return (
        f"Nothing is changed, because the object would manage {len(managed)} fields and list entries and "
        f"status.managedFields has room for {MAX_FIELDS}. Entries that were removed from the spec count until "
        "Pulsar has removed them. Remove in Pulsar whatever still uses these entries, or declare fewer"
    )


def _reports(ctx: LogicalPass[Any, Any]) -> bool:
    return ctx.pause_reason is None and ctx.spec.drift_policy is DriftPolicy.REPORT


def _repair(ctx: LogicalPass[Any, Any]) -> str:
    return patch_spec(ctx.obj, {"driftPolicy": DriftPolicy.REPAIR.value})


def by_field(refused: Refusals) -> dict[str, str]:
    """Returns Pulsar's messages by field. The messages of several clusters are joined."""
    out: dict[str, str] = {}
    for (name, _), message in sorted(refused.items()):
        out[name] = f"{out[name]}; {message}" if name in out else message
    return out


def settled(obj: Json) -> bool:
    """Whether an object is Ready at its generation, so that a pass will most likely write nothing."""
    meta, status = obj["metadata"], obj.get("status") or {}
    same = status.get("appliedGeneration") == meta.get("generation")
    kept = (obj.get("spec") or {}).get("deletionPolicy", DeletionPolicy.RETAIN) == DeletionPolicy.RETAIN
    guarded = kept or FINALIZER in (meta.get("finalizers") or ())
    return same and guarded and "deletionTimestamp" not in meta and is_true(obj, ConditionType.READY.value)
