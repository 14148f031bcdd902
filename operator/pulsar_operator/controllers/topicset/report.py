"""What a set says of its topics: counts, conditions, a few examples; nothing grows with their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_REMOVAL, ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import MAX_PENDING, DriftPolicy
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.api.v1alpha1.topic_set import (
    PulsarTopicSetStatus,
    SetClusterStatus,
    SetDeletionPolicy,
    TopicExample,
)
from pulsar_operator.controllers.core.objects import Meta
from pulsar_operator.controllers.logical.deletion_results import keep
from pulsar_operator.controllers.logical.logical_pass import MAX_DRIFT, MAX_FIELDS, LogicalPass
from pulsar_operator.controllers.topicset.removal import Removal
from pulsar_operator.controllers.topicset.round import Heard, tally
from pulsar_operator.controllers.topicset.topic_schedule import State, Turn, Turns
from pulsar_operator.domain.conditions import UNKNOWN
from pulsar_operator.domain.logical.topic_set import MAX_OWNED, Left, some

EXAMPLES = 10
TEXT = 1000
QUIET_EVENTS = frozenset({Reason.ADOPTED, Reason.REJECTED_BY_PULSAR})
"""Reasons of events of single topics that the conditions tell better."""


async def record_events(p: LogicalPass[Any, PulsarTopicSetStatus], heard: Iterable[Heard], removal: Removal) -> None:
    """One event for each reason, however many topics it is about."""
    for reason, events in tally(heard).items():
        if reason in QUIET_EVENTS:
            continue
        topics = list(dict.fromkeys(each.topic for each in events))
        first = events[0]
        if len(topics) == 1:
            text = f"{topics[0]}: {_of_template(first.message)}"
        else:
            text = f"{len(topics)} topics ({some(topics)}), such as {first.topic}: {_of_template(first.message)}"
        await p.event(reason, text, warning=any(each.warning for each in events))
    if removal.released:
        text = (
            f"{len(removal.released)} topics left the set and stay in Pulsar ({some(removal.released)}): their "
            f"property {OWNER_PROPERTY} does not name this set. If nobody needs them, delete them with pulsar-admin"
        )
        await p.event(Reason.HANDED_OVER, text)
    if removal.deleted:
        text = f"{len(removal.deleted)} topics that left the set are deleted: {some(removal.deleted)}"
        await p.event(Reason.DELETED, text)


def removal_answer(meta: Meta) -> str:
    """Value of annotation confirm-removal by which many topics may be deleted: for this specification of this very
    object, and for none that is applied after it under the same name."""
    return f"{meta.generation}-{meta.uid[:8]}"


@dataclass
class Report:
    """The status of one pass."""

    p: LogicalPass[Any, PulsarTopicSetStatus]
    turns: Turns
    removal: Removal
    left: Left
    waits_for_confirmation: bool

    def summarize(self, clusters: list[SetClusterStatus], now: float) -> None:
        """Set the conditions and the fields of the status."""
        counts = self.turns.tally()
        fields = self.p.fields
        removing = self.p.spec.deletion_policy is SetDeletionPolicy.DELETE
        fields.update(
            desired=len(self.turns.each),
            ready=counts[State.READY],
            pending=counts[State.PENDING],
            refused=counts[State.REFUSED],
            drifted=counts[State.DRIFTED],
            conflicting=counts[State.CONFLICTING],
            pending_deletion=len(self.removal.turns) if removing else 0,
            template_hash=self.turns.template,
            clusters=clusters,
            examples=self._examples(),
            drift=self._drift(),
            refused_fields=self._refused_fields(),
            owner_recorded=(self.turns.all_recorded and bool(self.turns.each)) or None,
        )
        if self.turns.all_given and not any(each.unreachable_since for each in clusters):
            fields["applied_generation"] = self.p.meta.generation
        self._pending_actions()
        before = self.p.before
        if before.drifted and counts[State.DRIFTED] < before.drifted and now < self.turns.presumed_until:
            # The process before found them, and this one has not come round to them yet.
            fields.update(drifted=before.drifted, drift=before.drift, examples=before.examples)
            fields["ready"] = max(0, counts[State.READY] - before.drifted + counts[State.DRIFTED])
        fields["summary"] = f"{fields['ready']}/{fields['desired']}"
        self._accepted(counts[State.REFUSED], counts[State.CONFLICTING])
        self._drifted(fields["drifted"])
        self._ready([each for each in clusters if each.unreachable_since is not None])

    # ------------------------------------------------------------------------------------------------- examples

    def _of(self, state: State) -> list[tuple[str, Turn]]:
        return [(name, turn) for name, turn in self.turns.each.items() if turn.state is state]

    def _examples(self) -> list[TopicExample]:
        """The worst first; of topics that are only waiting none, unless something is the matter."""
        out: dict[str, TopicExample] = {}
        blocked = [(name, self.removal.turns[name]) for name in self.removal.blocked]
        told = [*self._of(State.REFUSED), *self._of(State.CONFLICTING), *self._of(State.DRIFTED), *blocked]
        told += [(name, turn) for name, turn in self._of(State.PENDING) if turn.attempts and self.p.held is None]
        for name, turn in told[:EXAMPLES]:
            drift = turn.status.drift[0] if turn.status is not None and turn.status.drift else None
            out[name] = TopicExample(
                name=name,
                reason=turn.reason,
                field=f"template.{drift.field}" if drift is not None else None,
                desired=drift.desired if drift is not None else None,
                actual=drift.actual if drift is not None else None,
                message=None if drift is not None else _of_template(turn.message)[:TEXT],
            )
        return list(out.values())

    def _drift(self) -> list[DriftEntry]:
        """One entry for each field, with the first topic where it differs and how many more there are."""
        found: dict[str, tuple[str, DriftEntry, int]] = {}
        for name, turn in self._of(State.DRIFTED):
            for entry in turn.status.drift if turn.status is not None else ():
                first = found.get(entry.field)
                found[entry.field] = (name, entry, 1) if first is None else (first[0], first[1], first[2] + 1)
        out = []
        for field, (name, entry, number) in sorted(found.items()):
            more = f" and differing in {number - 1} more topics" if number > 1 else ""
            text = f"{entry.actual} (topic {name}){more}"
            out.append(DriftEntry(field=f"template.{field}", desired=entry.desired, actual=text))
        return out[:MAX_DRIFT]

    def _refused_fields(self) -> list[str]:
        refused = {f for _, turn in self._of(State.REFUSED) if turn.status for f in turn.status.refused_fields}
        return sorted(refused)[:MAX_FIELDS]

    def _pending_actions(self) -> None:
        if not self.p.meta.dry_run:
            return
        lines = [f"{name}: {text}"[:TEXT] for name, turn in self.turns.each.items() for text in turn.pending]
        if self.removal.turns:
            names = list(self.removal.turns)
            lines.insert(0, f"Delete {len(names)} topics that left the set: {some(names)}")
        if len(lines) > MAX_PENDING:
            lines = [*lines[: MAX_PENDING - 1], f"and {len(lines) - MAX_PENDING + 1} more"]
        self.p.fields["pending_actions"] = lines

    # ----------------------------------------------------------------------------------------------- conditions

    def _accepted(self, refused: int, conflicting: int) -> None:
        texts: list[tuple[Reason, str]] = []
        if refused:
            name, turn = self._of(State.REFUSED)[0]
            held = self.turns.held_back()
            rest = f"; the template was refused for all it was tried on, {held} more topics wait" if held else ""
            text = f"{refused} topics, such as {name}: {_of_template(turn.message)[:TEXT]}{rest}"
            texts.append((Reason(turn.reason), text))
        if conflicting:
            name, turn = self._of(State.CONFLICTING)[0]
            text = (
                f"{conflicting} topics are left alone, such as {name}: {turn.message}. Declare each topic once: take "
                "it out of this set, or delete the other object"
            )
            texts.append((Reason.DUPLICATE, text))
        if texts:
            self.p.conditions.set(ConditionType.ACCEPTED, False, texts[0][0], "; ".join(text for _, text in texts))
        else:
            self.p.conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is accepted")

    def _drifted(self, number: int) -> None:
        kind = ConditionType.DRIFTED
        if number:
            listed = "; ".join(
                f"spec.{e.field}: declared {e.desired}, found {e.actual}" for e in self.p.fields["drift"][:3]
            )
            self.p.conditions.set(kind, True, Reason.DRIFT_DETECTED, f"{number} topics differ: {listed}")
        elif self.p.fields["desired"] and not self.p.fields["ready"]:
            self.p.conditions.set(kind, UNKNOWN, Reason.PENDING, "No topic was compared yet")
        else:
            self.p.conditions.set(kind, False, Reason.IN_SYNC, "Live state matches spec")

    def _ready(self, unreachable: list[SetClusterStatus]) -> None:
        ready, fields, p = ConditionType.READY, self.p.fields, self.p
        total, done, pending = fields["desired"], fields["ready"], fields["pending"]
        repairs = fields["drifted"] if p.spec.drift_policy is DriftPolicy.REPAIR else 0
        if p.held is not None and (pending or fields["pending_deletion"] or repairs):
            text = (
                f"The object is {'paused' if p.held is Reason.PAUSED else 'in dry run'}; "
                f"{pending + repairs} topics are pending"
            )
            p.conditions.set(ready, False, p.held, text)
        elif unreachable:
            who = ", ".join(f"{each.name} (since {each.unreachable_since})" for each in unreachable)
            text = f"No answer from cluster {who}; {done} of {total} topics are in sync where clusters answer"
            p.conditions.set(ready, UNKNOWN, Reason.ADMIN_UNREACHABLE, text)
        elif not p.conditions.is_true(ConditionType.ACCEPTED):
            p.conditions.summarize(ConditionType.ACCEPTED, ready_message="")
        elif pending:
            p.conditions.set(ready, False, *self._waiting(total, done))
        elif self.waits_for_confirmation:
            p.conditions.set(ready, False, Reason.WAITING_FOR_CONFIRMATION, self._confirmation())
        elif self.removal.blocked:
            p.conditions.set(ready, False, *self._blocked())
        elif self.removal.turns:
            text = f"{len(self.removal.turns)} topics that left the set are being deleted"
            p.conditions.set(ready, False, Reason.PENDING, text)
        elif contested := [name for name, turn in self._of(State.DRIFTED) if turn.reason == Reason.CONFLICTING_WRITER]:
            text = f"{len(contested)} topics: {_of_template(self.turns.each[contested[0]].message)[:TEXT]}"
            p.conditions.set(ready, False, Reason.CONFLICTING_WRITER, f"{contested[0]} and others: {text}")
        else:
            p.conditions.set(ready, True, Reason.READY, f"{total} topics in {fields['pulsar_name']} are in sync")

    def _waiting(self, total: int, done: int) -> tuple[Reason, str]:
        stuck = [(name, turn) for name, turn in self._of(State.PENDING) if turn.attempts]
        text = f"{done} of {total} topics are in sync"
        if not stuck:
            return Reason.PENDING, text
        name, turn = stuck[0]
        more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
        return Reason(turn.reason), f"{text}; {name}{more} wait: {_of_template(turn.message)[:TEXT]}"

    def without_room(self) -> None:
        """The record has no room for new names."""
        text = (
            f"New topics are not made: {len(self.removal.turns)} topics that left the set still exist in Pulsar, and "
            f"status.owned has room for {MAX_OWNED} names. Delete them or let their clients finish, or set "
            "deletionPolicy to Retain, which leaves them in Pulsar"
        )
        self.p.conditions.set(ConditionType.READY, False, Reason.NOT_EMPTY, text)

    def _confirmation(self) -> str:
        meta = self.p.meta
        return (
            f"{self.left.number} of {self.left.of} topics left the set, {len(self.removal.turns)} of them exist "
            f"({some(list(self.removal.turns))}), and deletionPolicy is Delete. Bulk deletion requires confirmation: "
            f"kubectl -n {meta.namespace} annotate --overwrite pulsartopicset/{meta.name} "
            f"{ANNOTATION_CONFIRM_REMOVAL}={removal_answer(meta)}; to keep them set deletionPolicy to Retain"
        )

    def _blocked(self) -> tuple[Reason, str]:
        blocked = self.removal.blocked
        first = self.removal.turns[blocked[0]]
        text = (
            f"{len(blocked)} topics that left the set cannot be deleted, such as {blocked[0]}: {first.message[:TEXT]}"
        )
        return Reason(first.reason), text

    # -------------------------------------------------------------------------------------------------- deletion

    def deletion(self, unreachable: Sequence[str]) -> None:
        """The object is being deleted, and topics are left."""
        p = self.p
        p.fields.update(pending_deletion=len(self.removal.turns), examples=self._examples())
        if self.removal.blocked:
            reason, text = self._blocked()
            text = f"{text}. To let the set go and leave its topics: {keep(Kind.TOPIC_SET, p.obj)}"
            p.unknown(reason, text, known=True)
            p.conditions.set(ConditionType.DELETION_BLOCKED, True, reason, text)
        elif unreachable:
            text = (
                f"Topics cannot be looked for in cluster {', '.join(unreachable)}, which does not answer. Bring it "
                f"back, or let the set go and leave its topics: {keep(Kind.TOPIC_SET, p.obj)}"
            )
            p.unknown(Reason.ADMIN_UNREACHABLE, text)
            p.conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.ADMIN_UNREACHABLE, text)
        else:
            p.unknown(Reason.DELETING, f"{len(self.removal.turns)} topics are being deleted", known=True)


def _of_template(text: str) -> str:
    """Words about a topic's field in the terms of a set: what is in spec there is in spec.template here."""
    return text.replace("spec.template.", "spec.").replace("spec.", "spec.template.")
