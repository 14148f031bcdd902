"""Lists managed entry by entry: declared entries are set, entries that are no longer declared are removed.

Entries of other clients are kept unless spec.prune declares the list as complete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.domain.logical.plan import (
    Action,
    Draft,
    Memory,
    Problem,
    Verb,
    action_text,
    change_verb,
    joined,
    printable,
)
from pulsar_operator.domain.logical.tenant import entry, items_of
from pulsar_operator.domain.policies import Unreadable, describe
from pulsar_operator.domain.policies.entry_rows import EntryRow

Live = Mapping[str | None, Mapping[str, Any] | Unreadable]
"""Live entries by cluster; entries that all clusters share have the key None."""


def concerned_entries(rows: Sequence[EntryRow], spec: BaseModel, managed: Collection[str]) -> list[EntryRow]:
    """Returns the lists that a plan must consider: declared, pruned, or with managed entries that may have to be
    removed."""
    return [row for row in rows if row.declared(spec) or row.prunes(spec) or items_of(managed, row.field)]


def declared_entries(rows: Iterable[EntryRow], spec: BaseModel) -> set[str]:
    """Returns all declared entries in the form of status.managedFields."""
    return {entry(row.field, key) for row in rows for key in row.declared(spec)}


def plan_entries(
    draft: Draft,
    row: EntryRow,
    spec: BaseModel,
    found: Live,
    *,
    base: tuple[str, ...],
    memory: Memory,
    repair: bool,
    unseen: bool = False,
) -> None:
    """Adds to the draft the actions that make one list match the spec.

    ``unseen`` means that a cluster with its own list is not in ``found``; entries that it may still have stay managed.
    """
    desired = row.declared(spec)
    gone = items_of(memory.managed, row.field) - set(desired)
    draft.declared |= {entry(row.field, key) for key in desired}
    if unseen:
        draft.kept |= {entry(row.field, key) for key in gone}
    left: list[DriftEntry] = []
    for cluster, live in sorted(found.items(), key=lambda item: item[0] or ""):
        if isinstance(live, Unreadable):
            text = f"spec.{row.field} cannot be read: {live.message}"
            draft.problems.append(Problem(row.field, Reason.REJECTED_BY_PULSAR, text))
            draft.kept |= {entry(row.field, key) for key in gone}
            continue
        there = _LiveList(row, live, cluster, base, memory, repair)
        draft.actions += there.set(desired)
        for key in sorted(gone & set(live)):
            draft.kept.add(entry(row.field, key))
            draft.actions += there.remove(key, Verb.RESET, "the entry was removed from the spec")
        if row.prunes(spec):
            draft.actions += there.remove_others(set(desired) | gone)
        left += there.left
    draft.drift += joined(left)


@dataclass
class _LiveList:
    """One list in one place: a cluster, or all clusters that share it."""

    row: EntryRow
    live: Mapping[str, Any]
    cluster: str | None
    base: tuple[str, ...]
    memory: Memory
    repair: bool
    left: list[DriftEntry] = field(default_factory=list)
    """Drift that is reported and not repaired."""

    def set(self, desired: Mapping[str, Any]) -> list[Action]:
        """Returns the actions that set the declared entries."""
        changes: dict[str, DriftEntry] = {}
        for key, value in sorted(desired.items()):
            if self.row.in_sync(value, self.live.get(key)):
                continue
            difference = self._difference(key, self.row.describe_value(value))
            if self.memory.leaves(difference.field, repair=self.repair):
                self.left.append(difference)
            else:
                changes[key] = difference
        actions = []
        for keys, call in self.row.set_calls(self.base, {key: desired[key] for key in changes}):
            verbs = [(change_verb(self.memory, changes[key].field), changes[key]) for key in keys]
            verb = Verb.REPAIR if all(each is Verb.REPAIR for each, _ in verbs) else Verb.SET
            reason = "; ".join(action_text(each, difference) for each, difference in verbs)
            first, *others = [difference for _, difference in verbs]
            actions.append(Action(verb, first.field, call, reason, first, self.cluster, tuple(others)))
        return actions

    def remove(self, key: str, verb: Verb, why: str) -> list[Action]:
        """Returns the actions that remove an entry."""
        difference = self._difference(key, describe(None))
        reason = f"Remove spec.{printable(difference.field)} (was {difference.actual}), because {why}"
        calls = self.row.remove_calls(self.base, key, self.live[key])
        return [Action(verb, difference.field, call, reason, difference, self.cluster) for call in calls]

    def remove_others(self, ours: Collection[str]) -> list[Action]:
        """Returns the actions that remove entries of other clients. If the complete list was applied before, an entry
        is drift."""
        why = f"the entry is not declared and spec.{self.row.prune} is true"
        actions: list[Action] = []
        for key in sorted(set(self.live) - set(ours)):
            if self.memory.applied and not self.memory.repairs(self.row.field, repair=self.repair):
                self.left.append(self._difference(key, describe(None)))
            else:
                actions += self.remove(key, Verb.REPAIR if self.memory.applied else Verb.RESET, why)
        return actions

    def _difference(self, key: str, desired: str) -> DriftEntry:
        where = f" in cluster {self.cluster}" if self.cluster is not None else ""
        found = f"{self.row.describe_value(self.live.get(key))}{where}"
        return DriftEntry(field=entry(self.row.field, key), desired=desired, actual=found)
