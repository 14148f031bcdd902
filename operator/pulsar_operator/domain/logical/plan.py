"""The decisions of a pass over a logical object: actions with reasons, drift, problems. Pure values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.domain.logical.consent import Guard, consented, question
from pulsar_operator.domain.policies import Call, PolicyRow, Unreadable, describe, too_old
from pulsar_operator.domain.texts import visible


class Verb(StrEnum):
    """What an action does in Pulsar."""

    CREATE = "Create"
    SET = "Set"
    REPAIR = "Repair"
    RESET = "Reset"
    CHANGE = "Change"
    """Sets or resets a value that cannot be taken back: partitions are added, or Pulsar may delete stored messages."""
    DELETE = "Delete"
    """Deletes an object inside of Pulsar: a subscription, a failure domain, an isolation policy."""


EVENT_REASONS: Mapping[Verb, Reason] = {
    Verb.CREATE: Reason.CREATED,
    Verb.REPAIR: Reason.DRIFT_REPAIRED,
    Verb.CHANGE: Reason.CHANGED,
    Verb.DELETE: Reason.DELETED,
}
"""Verbs that are reported by an event and a log line at info. Other verbs write a declared value that can be changed
again, which only the debug log shows."""


@dataclass(frozen=True)
class Action:
    """One admin call and its reason."""

    verb: Verb
    field: str
    """Path in spec that the action applies to; empty for the object itself."""
    call: Call
    reason: str
    """Sentence for log, event and status.pendingActions."""
    difference: DriftEntry | None = None
    """The values before and after; None for creation."""
    cluster: str | None = None
    """The cluster that must be called; None if any cluster can be, since the configuration store is shared."""
    also: tuple[DriftEntry, ...] = ()
    """Further fields that the same call changes, with the values before and after."""


@dataclass(frozen=True)
class Problem:
    """A part of the spec that is not applied, with the remedy."""

    field: str
    reason: Reason
    message: str


def field_of(name: str) -> str:
    """Returns the field of the spec of a field, or of an entry of a list such as adminRoles[admin]."""
    return name.split("[", 1)[0]


def is_among(name: str, fields: Collection[str]) -> bool:
    """Whether ``fields`` contain a field, or for an entry of a list such as adminRoles[admin] the entry or its list."""
    return name in fields or field_of(name) in fields


@dataclass(frozen=True)
class Memory:
    """The state that earlier passes stored in the status."""

    managed: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    """Declared fields that Pulsar refused in the last pass, and those that waited for them."""
    applied: bool = False
    """Whether this generation of the spec was applied completely before. Only then is a difference drift."""
    established: bool = False
    """Whether the object was observed in Pulsar before."""
    skip: frozenset[str] = frozenset()
    """Fields Pulsar refused in this pass."""
    backed_off: frozenset[str] = frozenset()
    """Fields whose drift is not repaired yet, because it recurred; see drift_backoff.py."""

    def drifted(self, name: str) -> bool:
        """Whether a difference in this field was caused by another writer, not by a change of the spec."""
        return self.applied and name in self.managed and not is_among(name, self.refused)

    def repairs(self, name: str, *, repair: bool) -> bool:
        """Whether drift in this field, or entry of a list, is repaired now. ``repair`` is the declared drift policy."""
        return repair and field_of(name) not in self.backed_off

    def leaves(self, name: str, *, repair: bool) -> bool:
        """Whether a difference in this field is drift that is only reported for now."""
        return self.drifted(name) and not self.repairs(name, repair=repair)


@dataclass(frozen=True)
class Plan:
    """The decisions for one object."""

    actions: tuple[Action, ...] = ()
    drift: tuple[DriftEntry, ...] = ()
    """Differences that are reported without an action."""
    fixed: tuple[DriftEntry, ...] = ()
    """Differences that Pulsar cannot revert: bundles, partitions beyond the declared number."""
    problems: tuple[Problem, ...] = ()
    waiting: tuple[str, ...] = ()
    """Messages about what delays the object and resolves without a person."""
    declared: frozenset[str] = frozenset()
    """Fields of the spec that this object manages. status.managedFields must contain them before the first write."""
    kept: frozenset[str] = frozenset()
    """Managed fields that were removed from the spec and are still set in Pulsar."""
    postponed: frozenset[str] = frozenset()
    """Declared fields that can only be changed after another one."""
    asks: frozenset[str] = frozenset()
    """Fields whose change waits for consent."""


@dataclass
class Draft:
    """A plan under construction."""

    actions: list[Action] = field(default_factory=list)
    drift: list[DriftEntry] = field(default_factory=list)
    fixed: list[DriftEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    postponed: set[str] = field(default_factory=set)
    asks: set[str] = field(default_factory=set)

    def done(self) -> Plan:
        """Returns the finished plan."""
        return Plan(
            tuple(self.actions),
            tuple(self.drift),
            tuple(self.fixed),
            tuple(self.problems),
            tuple(self.waiting),
            frozenset(self.declared),
            frozenset(self.kept),
            frozenset(self.postponed),
            frozenset(self.asks),
        )


def change_verb(memory: Memory, name: str) -> Verb:
    """Returns whether the change of a field repairs drift or applies the spec."""
    return Verb.REPAIR if memory.drifted(name) else Verb.SET


def irrevocable(action: Action) -> Action:
    """Returns an action that sets or resets a value in the form in which it is reported by an event."""
    return replace(action, verb=Verb.CHANGE) if action.verb in (Verb.SET, Verb.RESET) else action


def concerned(rows: Sequence[PolicyRow], desired: Mapping[str, object], managed: Collection[str]) -> list[PolicyRow]:
    """Returns the policies that a plan must consider: those that are declared, and those that may have to be reset."""
    return [row for row in rows if desired.get(row.field) is not None or row.field in managed]


Found = Mapping[str, Mapping[str | None, object]]
"""Live values by field and cluster. A value that all clusters share has the key None. Fields that were not read are
absent."""


def plan_policies(
    draft: Draft,
    rows: Sequence[PolicyRow],
    desired: Mapping[str, object],
    found: Found,
    *,
    base: tuple[str, ...],
    memory: Memory,
    repair: bool,
    version: str | None,
    unreachable: Collection[str] = (),
    guard: Guard | None = None,
) -> None:
    """Adds to the draft the actions that make the policies of an existing namespace or topic match the spec.

    ``desired`` has the declared values by field. A field that is neither declared nor managed is not checked.
    ``unreachable`` are the clusters whose own values are not in ``found``; values that they may still have stay
    managed. With a ``guard`` a change that lets Pulsar delete stored messages waits for consent; other changes do not.
    """
    for row in concerned(rows, desired, memory.managed):
        value, live = desired.get(row.field), found.get(row.field, {})
        before = len(draft.actions)
        if value is None:
            _plan_reset(draft, row, live, base=base, memory=memory, unseen=row.per_cluster and bool(unreachable))
        elif row.unavailable is not None:
            # What Pulsar has of it from before stays managed: it is reset once the field is taken out.
            draft.kept |= {row.field} & memory.managed
            message = f"spec.{row.field} is not applied, because {row.unavailable}. Remove the field"
            draft.problems.append(Problem(row.field, Reason.NOT_SUPPORTED, message))
        elif too_old(row, version):
            draft.problems.append(
                Problem(
                    row.field,
                    Reason.REJECTED_BY_PULSAR,
                    f"spec.{row.field} is not applied, because it requires Pulsar {row.since_version} or later "
                    f"and the cluster runs {version}. Upgrade the cluster, or remove the field",
                )
            )
        else:
            draft.declared.add(row.field)
            _plan_value(draft, row, value, live, base=base, memory=memory, repair=repair)
        if row.keeps is not None and len(draft.actions) > before and (guard is not None or value is not None):
            known = guard or Guard((), frozenset({row.field}))
            _ask(draft, known, row, value, live, before=before, memory=memory)


def _ask(
    draft: Draft,
    guard: Guard,
    row: PolicyRow,
    value: object | None,
    found: Mapping[str | None, object],
    *,
    before: int,
    memory: Memory,
) -> None:
    """Removes the actions of a policy, those from ``before`` on, if its change needs consent and has none. With consent
    they are reported."""
    changed = {action.cluster for action in draft.actions[before:]}
    there = {cluster: live for cluster, live in found.items() if cluster in changed}
    text = question(guard, row, value, there)
    if text is None:
        if consented(guard, row, value, there, new=row.field not in memory.managed and memory.established):
            draft.actions[before:] = map(irrevocable, draft.actions[before:])
        return
    del draft.actions[before:]
    draft.asks.add(row.field)
    draft.problems.append(Problem(row.field, Reason.CONFIRMATION_REQUIRED, text))
    if value is not None:
        draft.postponed.add(row.field)  # not applied yet: done later it repairs no drift
        draft.declared -= {row.field} - memory.managed


def _plan_value(
    draft: Draft,
    row: PolicyRow,
    value: object,
    found: Mapping[str | None, object],
    *,
    base: tuple[str, ...],
    memory: Memory,
    repair: bool,
) -> None:
    left: list[DriftEntry] = []
    for cluster, live in sorted(found.items(), key=lambda item: item[0] or ""):
        if isinstance(live, Unreadable):
            draft.problems.append(_unreadable(row, live))
            continue
        desired = row.value_in(value, cluster)
        if row.in_sync(desired, live):
            continue
        text = describe(live) + (f" in cluster {cluster}" if cluster is not None else "")
        difference = DriftEntry(field=row.field, desired=describe(desired), actual=text)
        if memory.leaves(row.field, repair=repair):
            left.append(difference)
            continue
        verb = change_verb(memory, row.field)
        call = row.set_call(base, desired)
        draft.actions.append(Action(verb, row.field, call, action_text(verb, difference), difference, cluster))
    draft.drift += joined(left)


def _unreadable(row: PolicyRow, live: Unreadable) -> Problem:
    return Problem(row.field, Reason.REJECTED_BY_PULSAR, f"spec.{row.field} cannot be read: {live.message}")


def joined(entries: Iterable[DriftEntry]) -> list[DriftEntry]:
    """Returns one entry for each field, sorted by name, with the values found in all clusters."""
    out: dict[str, DriftEntry] = {}
    for entry in entries:
        known = out.get(entry.field)
        if known is None:
            out[entry.field] = entry
        elif entry.actual not in known.actual.split("; "):
            out[entry.field] = known.model_copy(update={"actual": f"{known.actual}; {entry.actual}"})
    return [out[name] for name in sorted(out)]


def printable(name: str) -> str:
    """Returns a field for messages. Control characters in the key of an entry are escaped, so that it cannot forge a
    log line."""
    return visible(name, keep="")


def difference_text(difference: DriftEntry) -> str:
    """Returns the sentence that describes drift of a field."""
    desired = "no value" if difference.desired == describe(None) else difference.desired
    actual = difference.actual.replace(describe(None), "no value", 1)
    return f"spec.{printable(difference.field)} declares {desired}, but Pulsar has {actual}"


def action_text(verb: Verb, difference: DriftEntry) -> str:
    """Returns the sentence that describes an action on a field."""
    name = printable(difference.field)
    if verb is Verb.REPAIR:
        return (
            f"Repair spec.{name}, which another writer changed: from {difference.actual} back to {difference.desired}"
        )
    return f"Set spec.{name} to {difference.desired} (was {difference.actual})"


def _plan_reset(
    draft: Draft,
    row: PolicyRow,
    found: Mapping[str | None, object],
    *,
    base: tuple[str, ...],
    memory: Memory,
    unseen: bool,
) -> None:
    call = row.remove_call(base)
    if call is None:
        return
    if unseen:
        draft.kept.add(row.field)
    for cluster, live in sorted(found.items(), key=lambda item: item[0] or ""):
        if isinstance(live, Unreadable):
            draft.kept.add(row.field)
            draft.problems.append(_unreadable(row, live))
            continue
        if not row.is_set(live):
            continue
        draft.kept.add(row.field)
        text = describe(live) + (f" in cluster {cluster}" if cluster is not None else "")
        draft.actions.append(
            Action(
                Verb.RESET,
                row.field,
                call,
                f"Reset spec.{row.field} to the inherited value (was {text}), because the field was removed from "
                "the spec",
                DriftEntry(field=row.field, desired=describe(None), actual=text),
                cluster,
            )
        )
