"""The status of a topic set: counts, conditions and a few examples. Its size does not depend on the number of
topics."""

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
from pulsar_operator.controllers.core.objects import Meta, resume
from pulsar_operator.controllers.logical.deletion_results import keep
from pulsar_operator.controllers.logical.logical_pass import MAX_DRIFT, MAX_FIELDS, LogicalPass
from pulsar_operator.controllers.topicset.removal import Removal
from pulsar_operator.controllers.topicset.round import TopicEvent, tally
from pulsar_operator.controllers.topicset.topic_schedule import ScheduledTopic, State, TopicSchedule
from pulsar_operator.domain.conditions import UNKNOWN
from pulsar_operator.domain.logical.plan import difference_text
from pulsar_operator.domain.logical.topic_set import MAX_OWNED, Left, some
from pulsar_operator.domain.texts import sentence

EXAMPLES = 10
TEXT = 1000
QUIET_EVENTS = frozenset({Reason.ADOPTED, Reason.REJECTED_BY_PULSAR})
"""Reasons of events of single topics that conditions report instead."""


async def record_events(
    ctx: LogicalPass[Any, PulsarTopicSetStatus], topic_events: Iterable[TopicEvent], removal: Removal
) -> None:
    """Records one event for each reason, with the number of topics it applies to."""
    for reason, events in tally(topic_events).items():
        if reason in QUIET_EVENTS:
            continue
        topics = list(dict.fromkeys(each.topic for each in events))
        first = events[0]
        if len(topics) == 1:
            text = f"{topics[0]}: {_of_template(first.message)}"
        else:
            text = f"{len(topics)} topics ({some(topics)}), such as {first.topic}: {_of_template(first.message)}"
        await ctx.event(reason, text, warning=any(each.warning for each in events))
    if removal.released:
        text = (
            f"{len(removal.released)} topics were removed from the set, but stay in Pulsar "
            f"({some(removal.released)}), because their property {OWNER_PROPERTY} does not name this set. Delete "
            "them with pulsar-admin if they are no longer needed"
        )
        await ctx.event(Reason.HANDED_OVER, text)
    if removal.deleted:
        text = f"Deleted {len(removal.deleted)} topics that were removed from the set: {some(removal.deleted)}"
        await ctx.event(Reason.DELETED, text)


def removal_answer(meta: Meta) -> str:
    """Returns the value of annotation confirm-removal that allows the deletion of many topics. It is valid for this
    generation of this object only."""
    return f"{meta.generation}-{meta.uid[:8]}"


@dataclass
class Report:
    """The status of one pass."""

    ctx: LogicalPass[Any, PulsarTopicSetStatus]
    schedule: TopicSchedule
    removal: Removal
    left: Left
    waits_for_confirmation: bool

    def summarize(self, clusters: list[SetClusterStatus], now: float) -> None:
        """Sets the conditions and the fields of the status."""
        counts = self.schedule.tally()
        fields = self.ctx.fields
        removing = self.ctx.spec.deletion_policy is SetDeletionPolicy.DELETE
        fields.update(
            desired=len(self.schedule.each),
            ready=counts[State.READY],
            pending=counts[State.PENDING],
            refused=counts[State.REFUSED],
            drifted=counts[State.DRIFTED],
            conflicting=counts[State.CONFLICTING],
            pending_deletion=len(self.removal.schedule) if removing else 0,
            template_hash=self.schedule.template,
            clusters=clusters,
            examples=self._examples(),
            drift=self._drift(),
            refused_fields=self._refused_fields(),
            owner_recorded=(self.schedule.all_recorded and bool(self.schedule.each)) or None,
        )
        if self.schedule.all_given and not any(each.unreachable_since for each in clusters):
            fields["applied_generation"] = self.ctx.meta.generation
        self._pending_actions()
        before = self.ctx.before
        if before.drifted and counts[State.DRIFTED] < before.drifted and now < self.schedule.presumed_until:
            # The process before found them, and this one has not come round to them yet.
            fields.update(drifted=before.drifted, drift=before.drift, examples=before.examples)
            fields["ready"] = max(0, counts[State.READY] - before.drifted + counts[State.DRIFTED])
        fields["summary"] = f"{fields['ready']}/{fields['desired']}"
        self._accepted(counts[State.REFUSED], counts[State.CONFLICTING])
        self._drifted(fields["drifted"])
        self._ready([each for each in clusters if each.unreachable_since is not None])

    # ------------------------------------------------------------------------------------------------- examples

    def _of(self, state: State) -> list[tuple[str, ScheduledTopic]]:
        return [(name, item) for name, item in self.schedule.each.items() if item.state is state]

    def _examples(self) -> list[TopicExample]:
        """Returns example topics, the most severe state first. A pending topic is an example only if it failed
        before."""
        out: dict[str, TopicExample] = {}
        blocked = [(name, self.removal.schedule[name]) for name in self.removal.blocked]
        shown = [*self._of(State.REFUSED), *self._of(State.CONFLICTING), *self._of(State.DRIFTED), *blocked]
        shown += [
            (name, item) for name, item in self._of(State.PENDING) if item.attempts and self.ctx.pause_reason is None
        ]
        for name, item in shown[:EXAMPLES]:
            drift = item.status.drift[0] if item.status is not None and item.status.drift else None
            out[name] = TopicExample(
                name=name,
                reason=item.reason,
                field=f"template.{drift.field}" if drift is not None else None,
                desired=drift.desired if drift is not None else None,
                actual=drift.actual if drift is not None else None,
                message=None if drift is not None else _of_template(item.message)[:TEXT],
            )
        return list(out.values())

    def _drift(self) -> list[DriftEntry]:
        """Returns one entry for each field, with the first topic in which it differs and the number of further
        topics."""
        found: dict[str, tuple[str, DriftEntry, int]] = {}
        for name, item in self._of(State.DRIFTED):
            for entry in item.status.drift if item.status is not None else ():
                first = found.get(entry.field)
                found[entry.field] = (name, entry, 1) if first is None else (first[0], first[1], first[2] + 1)
        out = []
        for field, (name, entry, number) in sorted(found.items()):
            more = f", and {number - 1} more topics differ" if number > 1 else ""
            text = f"{entry.actual} (topic {name}){more}"
            out.append(DriftEntry(field=f"template.{field}", desired=entry.desired, actual=text))
        return out[:MAX_DRIFT]

    def _refused_fields(self) -> list[str]:
        refused = {f for _, item in self._of(State.REFUSED) if item.status for f in item.status.refused_fields}
        return sorted(refused)[:MAX_FIELDS]

    def _pending_actions(self) -> None:
        if not self.ctx.meta.dry_run:
            return
        lines = [f"{name}: {text}"[:TEXT] for name, item in self.schedule.each.items() for text in item.pending]
        if self.removal.schedule:
            names = list(self.removal.schedule)
            lines.insert(0, f"Delete {len(names)} topics that were removed from the set: {some(names)}")
        if len(lines) > MAX_PENDING:
            lines = [*lines[: MAX_PENDING - 1], f"and {len(lines) - MAX_PENDING + 1} more actions"]
        self.ctx.fields["pending_actions"] = lines

    # ----------------------------------------------------------------------------------------------- conditions

    def _accepted(self, refused: int, conflicting: int) -> None:
        texts: list[tuple[Reason, str]] = []
        if refused:
            name, item = self._of(State.REFUSED)[0]
            backed_off = self.schedule.backed_off_count()
            rest = (
                (
                    f". Pulsar refused the template for every topic that was tried, so {backed_off} more topics are "
                    "not tried yet"
                )
                if backed_off
                else ""
            )
            text = (
                f"{refused} topics cannot match the template, such as {name}: {_of_template(item.message)[:TEXT]}{rest}"
            )
            texts.append((Reason(item.reason), text))
        if conflicting:
            name, item = self._of(State.CONFLICTING)[0]
            text = (
                f"The set does not change {conflicting} topics, such as {name}: {item.message}. Declare each "
                "topic only once: remove the topic from this set, or delete the other object"
            )
            texts.append((Reason.DUPLICATE, text))
        if texts:
            self.ctx.conditions.set(ConditionType.ACCEPTED, False, texts[0][0], ". ".join(text for _, text in texts))
        else:
            self.ctx.conditions.set(ConditionType.ACCEPTED, True, Reason.VALID, "The specification is accepted")

    def _drifted(self, number: int) -> None:
        kind = ConditionType.DRIFTED
        if number:
            listed = "; ".join(map(difference_text, self.ctx.fields["drift"][:3]))
            self.ctx.conditions.set(
                kind, True, Reason.DRIFT_DETECTED, f"{number} topics differ from the template. {listed}"
            )
        elif self.ctx.fields["desired"] and not self.ctx.fields["ready"]:
            self.ctx.conditions.set(kind, UNKNOWN, Reason.PENDING, "No topic has been compared yet")
        else:
            self.ctx.conditions.set(kind, False, Reason.IN_SYNC, "The state in Pulsar matches the spec")

    def _ready(self, unreachable: list[SetClusterStatus]) -> None:
        ready, fields, ctx = ConditionType.READY, self.ctx.fields, self.ctx
        total, done, pending = fields["desired"], fields["ready"], fields["pending"]
        repairs = fields["drifted"] if ctx.spec.drift_policy is DriftPolicy.REPAIR else 0
        if ctx.pause_reason is not None and (pending or fields["pending_deletion"] or repairs):
            text = (
                f"The object is {'paused' if ctx.pause_reason is Reason.PAUSED else 'in dry run'}, so "
                f"{pending + repairs} topics are not changed. To continue, run: {resume(ctx.obj)}"
            )
            ctx.conditions.set(ready, False, ctx.pause_reason, text)
        elif unreachable:
            who = ", ".join(f"{each.name} (since {each.unreachable_since})" for each in unreachable)
            text = f"These clusters do not answer: {who}. In the other clusters {done} of {total} topics are in sync"
            ctx.conditions.set(ready, UNKNOWN, Reason.ADMIN_UNREACHABLE, text)
        elif not ctx.conditions.is_true(ConditionType.ACCEPTED):
            ctx.conditions.summarize(ConditionType.ACCEPTED, ready_message="")
        elif pending:
            ctx.conditions.set(ready, False, *self._waiting(total, done))
        elif self.waits_for_confirmation:
            ctx.conditions.set(ready, False, Reason.WAITING_FOR_CONFIRMATION, self._confirmation())
        elif self.removal.blocked:
            ctx.conditions.set(ready, False, *self._blocked())
        elif self.removal.schedule:
            text = f"{len(self.removal.schedule)} topics that were removed from the set are being deleted"
            ctx.conditions.set(ready, False, Reason.PENDING, text)
        elif contested := [name for name, item in self._of(State.DRIFTED) if item.reason == Reason.CONFLICTING_WRITER]:
            text = sentence(_of_template(self.schedule.each[contested[0]].message)[:TEXT])
            ctx.conditions.set(
                ready,
                False,
                Reason.CONFLICTING_WRITER,
                f"Another writer keeps changing {len(contested)} topics, such as {contested[0]}. {text}",
            )
        else:
            ctx.conditions.set(ready, True, Reason.READY, f"{total} topics in {fields['pulsar_name']} are in sync")

    def _waiting(self, total: int, done: int) -> tuple[Reason, str]:
        stuck = [(name, item) for name, item in self._of(State.PENDING) if item.attempts]
        text = f"{done} of {total} topics are in sync"
        if not stuck:
            return Reason.PENDING, text
        name, item = stuck[0]
        more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
        return Reason(item.reason), f"{text}. {name}{more} cannot be changed yet: {_of_template(item.message)[:TEXT]}"

    def without_room(self) -> None:
        """Sets condition Ready to False because status.owned has no room for new names."""
        text = (
            f"New topics are not created, because {len(self.removal.schedule)} topics that were removed from the "
            f"set still exist in Pulsar and status.owned has room for {MAX_OWNED} names. Delete these topics, "
            "stop their clients so that the operator can delete them, or set deletionPolicy to Retain to leave "
            "them in Pulsar"
        )
        self.ctx.conditions.set(ConditionType.READY, False, Reason.NOT_EMPTY, text)

    def _confirmation(self) -> str:
        meta = self.ctx.meta
        return (
            f"{self.left.number} of {self.left.of} topics were removed from the set, and "
            f"{len(self.removal.schedule)} of them exist in Pulsar ({some(list(self.removal.schedule))}). "
            "deletionPolicy is Delete, but the operator deletes this many topics only after a confirmation. To "
            f"confirm, run: kubectl -n {meta.namespace} annotate --overwrite pulsartopicset/{meta.name} "
            f"{ANNOTATION_CONFIRM_REMOVAL}={removal_answer(meta)}. To keep the topics, set deletionPolicy to "
            "Retain"
        )

    def _blocked(self) -> tuple[Reason, str]:
        blocked = self.removal.blocked
        first = self.removal.schedule[blocked[0]]
        text = (
            f"{len(blocked)} topics that were removed from the set cannot be deleted, such as {blocked[0]}: "
            f"{first.message[:TEXT]}"
        )
        return Reason(first.reason), text

    # -------------------------------------------------------------------------------------------------- deletion

    def deletion(self, unreachable: Sequence[str]) -> None:
        """Reports a deletion while topics are left."""
        ctx = self.ctx
        ctx.fields.update(pending_deletion=len(self.removal.schedule), examples=self._examples())
        if self.removal.blocked:
            reason, text = self._blocked()
            text = f"{text}. To release the set and leave its topics in Pulsar, run: {keep(Kind.TOPIC_SET, ctx.obj)}"
            ctx.unknown(reason, text, known=True)
            ctx.conditions.set(ConditionType.DELETION_BLOCKED, True, reason, text)
        elif unreachable:
            text = (
                f"Cluster {', '.join(unreachable)} does not answer, so its topics cannot be listed and deleted. "
                "Restore the cluster. To release the set and leave its topics in Pulsar instead, run: "
                f"{keep(Kind.TOPIC_SET, ctx.obj)}"
            )
            ctx.unknown(Reason.ADMIN_UNREACHABLE, text)
            ctx.conditions.set(ConditionType.DELETION_BLOCKED, True, Reason.ADMIN_UNREACHABLE, text)
        else:
            ctx.unknown(Reason.DELETING, f"{len(self.removal.schedule)} topics are being deleted", known=True)


def _of_template(text: str) -> str:
    """Returns a message about a field of a topic with the path of a set: spec of a topic is spec.template of a set."""
    return text.replace("spec.template.", "spec.").replace("spec.", "spec.template.")
