"""What a pass over a tenant, namespace or topic decides: actions with reasons, drift, refusals. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.domain.policies import Call, PolicyRow, describe, too_old


class Verb(StrEnum):
    """What an action does to Pulsar."""

    CREATE = "Create"
    SET = "Set"
    REPAIR = "Repair"
    RESET = "Reset"


EVENT_REASONS: Mapping[Verb, Reason] = {
    Verb.CREATE: Reason.CREATED,
    Verb.SET: Reason.UPDATED,
    Verb.REPAIR: Reason.DRIFT_REPAIRED,
    Verb.RESET: Reason.UPDATED,
}


@dataclass(frozen=True)
class Action:
    """One admin call and why it is made."""

    verb: Verb
    field: str
    """Path in spec the action is about; empty for the object itself."""
    call: Call
    reason: str
    """A sentence for log, event and status.pendingActions."""
    difference: DriftEntry | None = None
    """The values before and after; None for creation."""
    cluster: str | None = None
    """The cluster it must be made at; None = any one cluster, since the shared configuration store takes it."""


@dataclass(frozen=True)
class Problem:
    """Something declared that is not done, and what to do about it."""

    field: str
    reason: Reason
    message: str


@dataclass(frozen=True)
class Memory:
    """What earlier passes left in status."""

    managed: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    """Declared fields Pulsar refused in the last pass."""
    applied: bool = False
    """Whether this generation of the spec was applied completely before: only then is a difference drift."""
    established: bool = False
    """Whether the object was seen in Pulsar before."""
    skip: frozenset[str] = frozenset()
    """Fields Pulsar refused in this pass."""

    def drifted(self, name: str) -> bool:
        """Whether a difference in this field was made by another writer, rather than by a change of the spec."""
        return self.applied and name in self.managed and name.split("[", 1)[0] not in self.refused


@dataclass(frozen=True)
class Plan:
    """The decision."""

    actions: tuple[Action, ...] = ()
    drift: tuple[DriftEntry, ...] = ()
    """Differences that are reported and not acted on."""
    fixed: tuple[DriftEntry, ...] = ()
    """Differences Pulsar cannot change back: bundles, partitions beyond the declared number."""
    problems: tuple[Problem, ...] = ()
    waiting: tuple[str, ...] = ()
    """What keeps the object from being complete and needs no person, in words."""
    declared: frozenset[str] = frozenset()
    """Fields of the spec this object manages; what status.managedFields must hold before the first write."""
    kept: frozenset[str] = frozenset()
    """Managed fields that left the spec and are still set in Pulsar."""


@dataclass
class Draft:
    """A plan being made."""

    actions: list[Action] = field(default_factory=list)
    drift: list[DriftEntry] = field(default_factory=list)
    fixed: list[DriftEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)

    def done(self) -> Plan:
        """The finished plan."""
        return Plan(
            tuple(self.actions),
            tuple(self.drift),
            tuple(self.fixed),
            tuple(self.problems),
            tuple(self.waiting),
            frozenset(self.declared),
            frozenset(self.kept),
        )


def change_verb(memory: Memory, name: str) -> Verb:
    """Whether changing a field repairs drift or applies the spec."""
    return Verb.REPAIR if memory.drifted(name) else Verb.SET


def plan_policies(
    draft: Draft,
    rows: tuple[PolicyRow, ...],
    wanted: Mapping[str, object],
    found: Mapping[str, object],
    *,
    base: tuple[str, ...],
    memory: Memory,
    repair: bool,
    version: str | None,
) -> None:
    """Add to the draft what makes the policies of an existing namespace or topic as declared.

    ``wanted`` holds the declared values and ``found`` the live ones, by field. A field that is neither declared nor in
    the managed set is not looked at.
    """
    for row in rows:
        value, live = wanted.get(row.field), found.get(row.field)
        if value is None:
            _plan_reset(draft, row, live, base=base, memory=memory)
            continue
        if too_old(row, version):
            draft.problems.append(
                Problem(
                    row.field,
                    Reason.REFUSED_BY_PULSAR,
                    f"spec.{row.field} needs Pulsar {row.since_version} or later, the cluster runs {version}: upgrade "
                    "it or remove the field",
                )
            )
            continue
        draft.declared.add(row.field)
        merged = row.merge(live, value)
        if merged.refusal is not None:
            draft.problems.append(Problem(row.field, Reason.IMMUTABLE_IN_PULSAR, merged.refusal))
        if row.in_sync(merged.value, live):
            continue
        difference = DriftEntry(field=row.field, wanted=describe(merged.value), found=describe(live))
        if memory.drifted(row.field) and not repair:
            draft.drift.append(difference)
            continue
        verb = change_verb(memory, row.field)
        draft.actions.append(
            Action(verb, row.field, row.set_call(base, merged.value), words(verb, difference), difference),
        )


def words(verb: Verb, difference: DriftEntry) -> str:
    """An action on a field as a sentence."""
    if verb is Verb.REPAIR:
        return (
            f"Repair spec.{difference.field}: another writer changed it to {difference.found}, "
            f"set it back to {difference.wanted}"
        )
    return f"Set spec.{difference.field} to {difference.wanted} (was {difference.found})"


def _plan_reset(draft: Draft, row: PolicyRow, live: object, *, base: tuple[str, ...], memory: Memory) -> None:
    call = row.remove_call(base)
    if row.field not in memory.managed or live is None or call is None:
        return
    draft.kept.add(row.field)
    draft.actions.append(
        Action(
            Verb.RESET,
            row.field,
            call,
            f"Reset spec.{row.field} to inherit (was {describe(live)}): it was removed from the spec",
            DriftEntry(field=row.field, wanted=describe(None), found=describe(live)),
        )
    )
