"""The in-memory state of the topics of a set, and the schedule that decides which topic is due next.

A set of 100,000 topics is reconciled in batches, so that it neither starves other objects nor sends all requests to
Pulsar at the same time. A topic is checked

* immediately if it is new, missing, or was not given the template yet;
* again after 30 s, then at growing intervals up to 10 minutes, if it is not in sync;
* otherwise once in a period, spread over it; the topics of a small set together, in every pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pulsar_operator.api.v1alpha1.topic import PulsarTopicStatus
from pulsar_operator.controllers.logical.ownership import RECORD_SECONDS

ROUND = 500
"""Maximum number of topics reconciled in a pass, so that other objects are reconciled."""
SMALL = 100
"""Maximum number of topics of a set that is checked as a whole in each pass: on changes, events, resync."""
PERIOD_SECONDS = 600.0
"""Seconds in which each topic of a larger set is read once."""
SLICE_SECONDS = 15.0
"""Minimum seconds between two passes while a larger set is only read."""
SETTLE_SECONDS = 20.0
"""Seconds within which a small set is not read again without a reason."""
AGAIN_SECONDS = 30.0
SOON_SECONDS = 2.0
"""First delay, in seconds, if no error is known: a write is not visible yet, or there was no answer."""
AGAIN_LIMIT_SECONDS = 600.0
FAILED_FIRST = 100
"""Maximum number of failed topics reconciled in a pass."""
CANARIES = 20
"""Number of topics that get a new template first. If Pulsar refuses all of them, the others wait."""


class State(StrEnum):
    """State of a topic."""

    READY = "ready"
    PENDING = "pending"
    REFUSED = "refused"
    DRIFTED = "drifted"
    CONFLICTING = "conflicting"


@dataclass(slots=True)
class ScheduledTopic:
    """The schedule and state of one topic."""

    due: float | None = 0.0
    """When the topic is checked next, in seconds since the epoch; None if with the whole set, or never."""
    state: State = State.PENDING
    given: bool = False
    """Whether it was given the template, so that a difference was caused by another writer."""
    observed: bool = False
    """Whether this process, or its predecessor, observed it in Pulsar."""
    recorded: bool = False
    """Whether the owner record in Pulsar names the set."""
    record_due: float = 0.0
    """When the owner record is read next, in seconds since the epoch."""
    attempts: int = 0
    """Number of consecutive failed attempts."""
    reason: str = ""
    message: str = ""
    status: PulsarTopicStatus | None = None
    """The status that a PulsarTopic would have. Kept while the topic is not ready."""
    pending: tuple[str, ...] = ()
    """The pending actions in a dry run."""

    def failed(self, now: float) -> None:
        """Schedules the next attempt, with a growing delay."""
        first = SOON_SECONDS if self.state is State.PENDING else AGAIN_SECONDS
        self.due = now + min(first * 2.0 ** min(self.attempts, 10), AGAIN_LIMIT_SECONDS)
        self.attempts += 1


@dataclass(frozen=True)
class PredecessorState:
    """The state in which a new process finds a set of its predecessor."""

    exist: Collection[str]
    """Names of topics that every answering cluster has."""
    given: bool
    """Whether all topics were given the template."""
    recorded: bool
    """Whether the owner record in Pulsar names the set for all topics."""
    complete: bool
    """Whether no work was left. The topics are then assumed to be in sync, and read in the course of a period."""


@dataclass
class TopicSchedule:
    """The schedule of the topics of one set."""

    uid: str
    each: dict[str, ScheduledTopic] = field(default_factory=dict)
    read_at: float = float("-inf")
    """When a small set was last read as a whole."""
    cause: object = None
    """Value whose change makes every topic due."""
    presumed_until: float = 0.0
    """Time until which drift that the previous process reported may not have been detected again."""
    template: str = ""

    @property
    def small(self) -> bool:
        """Whether the set is read as a whole."""
        return len(self.each) <= SMALL

    def keep(self, names: Iterable[str], *, predecessor: PredecessorState | None, now: float) -> None:
        """Schedules exactly these names. ``predecessor`` is given once, when a process first sees the set."""
        names = list(names)
        old, self.each = self.each, {}
        for place, name in enumerate(names):
            item = old.get(name)
            if item is None:
                item = ScheduledTopic(due=now)
                if predecessor is not None and name in predecessor.exist:
                    item.observed, item.given, item.recorded = True, predecessor.given, predecessor.recorded
                    item.record_due = now + RECORD_SECONDS * (place + 1) / len(names)
                    if predecessor.complete:
                        item.state = State.READY
                        item.due = None if len(names) <= SMALL else now + PERIOD_SECONDS * (place + 1) / len(names)
            self.each[name] = item

    def give(self, template: str, now: float) -> None:
        """Sets the template. A new one makes every topic due."""
        if template != self.template:
            self.template = template
            self.renew(now)

    def renew(self, now: float) -> None:
        """Marks every topic as without the template, and due."""
        for item in self.each.values():
            item.given, item.due, item.attempts = False, now, 0
            if item.state is not State.CONFLICTING:
                item.state = State.PENDING

    def wake(self, now: float) -> None:
        """Makes every topic due."""
        for item in self.each.values():
            item.due = now
            item.attempts = 0

    def take(self, now: float) -> list[str]:
        """Returns the topics that are due, at most ROUND of them."""
        if self.small and now - self.read_at >= SETTLE_SECONDS:
            self.read_at = now
            for item in self.each.values():
                item.due = now if item.state is State.READY else item.due
        due = [name for name, item in self.each.items() if _is_due(item, now)]
        fresh = [name for name in due if not self.each[name].attempts]
        failed = [name for name in due if self.each[name].attempts][:FAILED_FIRST]
        taken = sum(1 for item in self.each.values() if item.given and item.state is not State.REFUSED)
        if not taken:
            refused = sum(1 for item in self.each.values() if item.state is State.REFUSED)
            fresh = fresh[: max(0, CANARIES - refused)]
        return (failed + fresh)[:ROUND]

    def backed_off_count(self) -> int:
        """Returns the number of topics that wait because Pulsar refused the template for all topics tried."""
        tally = self.tally()
        accepted = sum(1 for item in self.each.values() if item.given and item.state is not State.REFUSED)
        return tally[State.PENDING] if not accepted and tally[State.REFUSED] >= CANARIES else 0

    def settle(self, name: str, now: float) -> None:
        """Records that a topic is in sync."""
        item = self.each[name]
        item.attempts, item.reason, item.message, item.pending = 0, "", "", ()
        item.due = None if self.small else now + PERIOD_SECONDS

    def next_due(self, now: float) -> float | None:
        """Returns the seconds until the next pass; 0 if topics are due now, None if only the resync is left."""
        if self.take_would_be_empty(now):
            later = [item.due for item in self.each.values() if item.due is not None and item.due > now]
            if not later:
                return None
            resting = not self.small and not self.tally()[State.PENDING]
            return max(min(later) - now, SLICE_SECONDS if resting else 1.0)
        return 0.0

    def take_would_be_empty(self, now: float) -> bool:
        """Whether no topic is due."""
        if self.backed_off_count():
            return not any(_is_due(item, now) and item.attempts for item in self.each.values())
        return not any(_is_due(item, now) for item in self.each.values())

    def tally(self) -> Counter[State]:
        """Returns the number of topics by state."""
        return Counter(item.state for item in self.each.values())

    @property
    def all_recorded(self) -> bool:
        """Whether the owner record names the set for every topic, those of other objects left out."""
        return all(item.recorded or item.state is State.CONFLICTING for item in self.each.values())

    def among(self, names: Collection[str]) -> int:
        """Returns the number of names that are topics of the set."""
        return sum(1 for name in names if name in self.each)

    @property
    def all_given(self) -> bool:
        """Whether every topic was given the template, those of other objects left out."""
        return all(item.given or item.state is State.CONFLICTING for item in self.each.values())

    def having(self, *states: State) -> Sequence[str]:
        """Returns the names of topics in one of the states, in order."""
        return [name for name, item in self.each.items() if item.state in states]


def _is_due(item: ScheduledTopic, now: float) -> bool:
    return item.due is not None and item.due <= now and item.state is not State.CONFLICTING
