"""What one process knows of the topics of a set, and which topic is due next. Kept in memory only.

A set of 100,000 topics is reconciled in batches: it neither starves other objects nor asks Pulsar for everything
together. A topic is checked

* immediately when it is new, missing, or was not given the template yet;
* again after 30 s, then ever more rarely up to 10 minutes, when it is not in sync;
* otherwise once a period, spread over it; the topics of a small set together, at every pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pulsar_operator.api.v1alpha1.topic import PulsarTopicStatus
from pulsar_operator.controllers.logical.ownership import RECORD_SECONDS

ROUND = 500
"""Topics reconciled in a pass; then other objects are reconciled."""
SMALL = 100
"""Number of topics up to which a set is checked as a whole, at each pass: changes, events, resync."""
PERIOD_SECONDS = 600.0
"""Seconds in which each topic of a larger set is read once."""
SLICE_SECONDS = 15.0
"""Seconds between two passes while a larger set is only read."""
SETTLE_SECONDS = 20.0
"""A small set is not read again within this time without a reason."""
AGAIN_SECONDS = 30.0
SOON_SECONDS = 2.0
"""The first wait where nothing is known to be wrong: a write that is not visible yet, an answer that did not come."""
AGAIN_LIMIT_SECONDS = 600.0
FAILED_FIRST = 100
"""Failed topics reconciled in a pass."""
CANARIES = 20
"""Topics that get a new template first; if Pulsar refuses all of them, the others wait."""


class State(StrEnum):
    """State of a topic."""

    READY = "ready"
    PENDING = "pending"
    REFUSED = "refused"
    DRIFTED = "drifted"
    CONFLICTING = "conflicting"


@dataclass(slots=True)
class ScheduledTopic:
    """One topic."""

    due: float | None = 0.0
    """When it is checked next, seconds since the epoch; None if it is checked with the whole set, or never."""
    state: State = State.PENDING
    given: bool = False
    """Whether it was given the template, so that a difference is another writer's."""
    observed: bool = False
    """Whether this process, or its predecessor, saw it in Pulsar."""
    recorded: bool = False
    """Whether Pulsar names the set as the one that manages the topic."""
    record_due: float = 0.0
    """When it is checked whether that is still so, seconds since the epoch."""
    attempts: int = 0
    """Consecutive failed observations."""
    reason: str = ""
    message: str = ""
    status: PulsarTopicStatus | None = None
    """What a PulsarTopic would have in its status; kept while the topic is not ready."""
    pending: tuple[str, ...] = ()
    """In a dry run: what would be done."""

    def failed(self, now: float) -> None:
        """Schedules the next attempt, with a growing delay."""
        first = SOON_SECONDS if self.state is State.PENDING else AGAIN_SECONDS
        self.due = now + min(first * 2.0 ** min(self.attempts, 10), AGAIN_LIMIT_SECONDS)
        self.attempts += 1


@dataclass(frozen=True)
class PredecessorState:
    """What a process finds of a set that its predecessor worked on."""

    exist: Collection[str]
    """Names every cluster that answers has."""
    given: bool
    """Whether all were given the template."""
    recorded: bool
    """Whether Pulsar names the set for all of them."""
    complete: bool
    """Whether nothing was left to do: topics are then taken to be in order, and read in the course of a period."""


@dataclass
class TopicSchedule:
    """The topics of one set."""

    uid: str
    each: dict[str, ScheduledTopic] = field(default_factory=dict)
    read_at: float = float("-inf")
    """When a small set was last read as a whole."""
    cause: object = None
    """Value whose change makes every topic due."""
    presumed_until: float = 0.0
    """Time until which drift that the previous process reported may not have been found again."""
    template: str = ""

    @property
    def small(self) -> bool:
        """Whether the set is read as a whole."""
        return len(self.each) <= SMALL

    def keep(self, names: Iterable[str], *, predecessor: PredecessorState | None, now: float) -> None:
        """Schedules exactly these names. ``predecessor`` is given once, to a process that meets the set."""
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
        """Records a new template for the topics."""
        if template != self.template:
            self.template = template
            self.renew(now)

    def renew(self, now: float) -> None:
        """No topic is known to have the template."""
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
        """Returns the topics that are due, at most a round of them."""
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
        """Returns topics that wait because Pulsar refused the template for all it was tried on."""
        tally = self.tally()
        accepted = sum(1 for item in self.each.values() if item.given and item.state is not State.REFUSED)
        return tally[State.PENDING] if not accepted and tally[State.REFUSED] >= CANARIES else 0

    def settle(self, name: str, now: float) -> None:
        """Records that a topic is in sync."""
        item = self.each[name]
        item.attempts, item.reason, item.message, item.pending = 0, "", "", ()
        item.due = None if self.small else now + PERIOD_SECONDS

    def next_due(self, now: float) -> float | None:
        """Returns the seconds until the next pass; 0 = there is more to do now. None if nothing but the resync."""
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
        """Whether Pulsar names the set for every topic of it."""
        return all(item.recorded or item.state is State.CONFLICTING for item in self.each.values())

    def among(self, names: Collection[str]) -> int:
        """Returns how many of the names are topics of the set."""
        return sum(1 for name in names if name in self.each)

    @property
    def all_given(self) -> bool:
        """Whether every topic was given the template; those of others do not count."""
        return all(item.given or item.state is State.CONFLICTING for item in self.each.values())

    def having(self, *states: State) -> Sequence[str]:
        """Returns names in one of the states, in order."""
        return [name for name, item in self.each.items() if item.state in states]


def _is_due(item: ScheduledTopic, now: float) -> bool:
    return item.due is not None and item.due <= now and item.state is not State.CONFLICTING
