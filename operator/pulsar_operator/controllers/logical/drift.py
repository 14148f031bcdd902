"""Recurring drift during one pass: which repairs are delayed, which were made, and how status and events report
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.logical import DriftEntry, RepairRecord
from pulsar_operator.controllers.logical.logical_pass import UNSEEN, LogicalPass, Result
from pulsar_operator.domain.logical.drift_backoff import (
    backed_off_entries,
    backed_off_fields,
    counted,
    due,
    explain,
    known,
    settled,
)
from pulsar_operator.domain.logical.plan import Action, Verb, difference_text, field_of


@dataclass
class Backoff:
    """The recorded repairs of one object. See domain.logical.drift_backoff."""

    ctx: LogicalPass[Any, Any]
    now: datetime
    records: tuple[RepairRecord, ...]
    backed_off: frozenset[str]
    unseen: bool
    wrong: frozenset[str]
    """Fields that still differed after the last pass."""
    repaired: set[str] = field(default_factory=set)
    """Fields repaired in this pass."""

    @classmethod
    def of(cls, ctx: LogicalPass[Any, Any]) -> Backoff:
        """Returns the back-off at the beginning of a pass. The records are discarded if the spec or what the parent
        provides has changed."""
        now = ctx.deps.clock.now()
        records = known(ctx.before.repairs, now) if ctx.memory.applied else ()
        unseen = ctx.already_reported(ConditionType.READY, UNSEEN)
        # Who is paused or in dry run sees everything that would be done.
        backed_off = backed_off_fields(records, now, unseen=unseen) if ctx.pause_reason is None else frozenset()
        return cls(
            ctx, now, records, backed_off, unseen, frozenset(field_of(entry.field) for entry in ctx.before.drift)
        )

    def note(self, action: Action) -> None:
        """Records that an action was performed. The record is kept immediately, since the pass may end early."""
        if action.verb is not Verb.REPAIR:
            return
        repaired = {field_of(name) for name in (action.field, *(each.field for each in action.also))}
        # A field is counted once in a pass, however many calls and clusters it takes.
        new = repaired - self.repaired
        self.repaired |= new
        self.records = counted(self.records, new, self.now, unseen=self.unseen, wrong=self.wrong)
        self.ctx.fields["repairs"] = list(self.records)

    async def finish(self, result: Result, *, unreachable: bool) -> float | None:
        """Sets the status and the conditions, after Result.report. Returns the seconds until the next repair; None if
        no repair is delayed.

        ``unreachable`` means that some cluster did not answer, so that it is unknown whether a field stayed correct.
        """
        entries = backed_off_entries(result.plan.drift, self.backed_off)
        waiting = {field_of(entry.field) for entry in entries}
        wrong = {field_of(entry.field) for entry in result.drift()}
        if unreachable:
            wrong |= {record.field for record in self.records}
        reported = {r.field for r in self.records if r.backed_off_since is not None}
        self.records = settled(self.records, waiting, wrong, self.now)
        self.ctx.fields["repairs"] = list(self.records)
        if not entries:
            return None
        text = explain(entries, self.records)
        if waiting - reported:
            fresh = [entry for entry in entries if field_of(entry.field) not in reported]
            await self.ctx.event(Reason.CONFLICTING_WRITER, explain(fresh, self.records), warning=True)
        self._record(text, [entry for entry in result.drift() if field_of(entry.field) not in waiting])
        first = min(due(record) for record in self.records if record.field in waiting)
        return max(1.0, (first - self.now).total_seconds())

    def _record(self, text: str, others: list[DriftEntry]) -> None:
        conditions = self.ctx.conditions
        if others:
            shown = map(difference_text, others[:3])
            text += f". Further drift: {'; '.join(shown)}"
        conditions.set(ConditionType.DRIFTED, True, Reason.CONFLICTING_WRITER, text)
        if conditions.is_true(ConditionType.READY):
            conditions.set(ConditionType.READY, False, Reason.CONFLICTING_WRITER, text)
