"""What one process knows of the topics of a set, and whose turn it is to be looked at. Kept in memory only.

A set of 100,000 topics is reconciled in batches: it neither starves other objects nor asks Pulsar for everything
at once. A topic is looked at

* at once when it is new, missing, or was not given the template yet;
* again after 30 s, then ever more rarely up to 10 minutes, when something is the matter with it;
* else once a period, spread over it; the topics of a small set together, at every pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pulsar_operator.api.v1alpha1.topic import PulsarTopicStatus
from pulsar_operator.controllers.logical.ownership import RECORD_SECONDS

ROUND = 500
"""Topics looked at in a pass; then other objects have their turn."""
SMALL = 100
"""A set of at most so many topics is looked at as a whole, at each pass: changes, events, resync."""
PERIOD_SECONDS = 600.0
"""In which each topic of a larger set is read once."""
SLICE_SECONDS = 15.0
"""From one pass to the next while a larger set is only read."""
SETTLE_SECONDS = 20.0
"""A small set is not read again within this time without a reason."""
AGAIN_SECONDS = 30.0
SOON_SECONDS = 2.0
"""The first wait where nothing is known to be wrong: a write that is not visible yet, an answer that did not come."""
AGAIN_LIMIT_SECONDS = 600.0
FAILED_FIRST = 100
"""Topics with which something was the matter, looked at in a pass."""
CANARIES = 20
"""So many topics are given a new template first; if Pulsar refuses all of them, the others wait."""


class State(StrEnum):
    """How a topic is."""

    READY = "ready"
    PENDING = "pending"
    REFUSED = "refused"
    DRIFTED = "drifted"
    CONFLICTING = "conflicting"


@dataclass(slots=True)
class Turn:
    """One topic."""

    due: float | None = 0.0
    """When it is looked at next, seconds since the epoch; None = with the whole set, or never."""
    state: State = State.PENDING
    given: bool = False
    """Whether it was given the template, so that a difference is another writer's."""
    seen: bool = False
    """Whether this process, or its predecessor, saw it in Pulsar."""
    recorded: bool = False
    """Whether Pulsar names the set as the one that manages the topic."""
    record_due: float = 0.0
    """When it is looked at whether that is still so, seconds since the epoch."""
    attempts: int = 0
    """Looks in a row with which something was the matter."""
    reason: str = ""
    message: str = ""
    status: PulsarTopicStatus | None = None
    """What a PulsarTopic would have in its status; kept while something is the matter."""
    pending: tuple[str, ...] = ()
    """In a dry run: what would be done."""

    def failed(self, now: float) -> None:
        """Look again, ever more rarely."""
        first = SOON_SECONDS if self.state is State.PENDING else AGAIN_SECONDS
        self.due = now + min(first * 2.0 ** min(self.attempts, 10), AGAIN_LIMIT_SECONDS)
        self.attempts += 1


@dataclass(frozen=True)
class Met:
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
class Turns:
    """The topics of one set."""

    uid: str
    each: dict[str, Turn] = field(default_factory=dict)
    read_at: float = float("-inf")
    """When a small set was last read as a whole."""
    cause: object = None
    """What makes everything worth a look when it changes."""
    presumed_until: float = 0.0
    """Until then drift that the process before told of may not have been found again."""
    template: str = ""

    @property
    def small(self) -> bool:
        """Whether the set is read as a whole."""
        return len(self.each) <= SMALL

    def keep(self, names: Iterable[str], *, met: Met | None, now: float) -> None:
        """Have a turn for exactly these names. ``met`` is given once, to a process that meets the set."""
        names = list(names)
        old, self.each = self.each, {}
        for place, name in enumerate(names):
            turn = old.get(name)
            if turn is None:
                turn = Turn(due=now)
                if met is not None and name in met.exist:
                    turn.seen, turn.given, turn.recorded = True, met.given, met.recorded
                    turn.record_due = now + RECORD_SECONDS * (place + 1) / len(names)
                    if met.complete:
                        turn.state = State.READY
                        turn.due = None if len(names) <= SMALL else now + PERIOD_SECONDS * (place + 1) / len(names)
            self.each[name] = turn

    def give(self, template: str, now: float) -> None:
        """From now on the topics are to be like this template."""
        if template != self.template:
            self.template = template
            self.renew(now)

    def renew(self, now: float) -> None:
        """No topic has the template, as far as somebody knows."""
        for turn in self.each.values():
            turn.given, turn.due, turn.attempts = False, now, 0
            if turn.state is not State.CONFLICTING:
                turn.state = State.PENDING

    def wake(self, now: float) -> None:
        """Look at everything now."""
        for turn in self.each.values():
            turn.due = now
            turn.attempts = 0

    def take(self, now: float) -> list[str]:
        """Whose turn it is, at most a round of them."""
        if self.small and now - self.read_at >= SETTLE_SECONDS:
            self.read_at = now
            for turn in self.each.values():
                turn.due = now if turn.state is State.READY else turn.due
        due = [name for name, turn in self.each.items() if _is_due(turn, now)]
        fresh = [name for name in due if not self.each[name].attempts]
        failed = [name for name in due if self.each[name].attempts][:FAILED_FIRST]
        taken = sum(1 for turn in self.each.values() if turn.given and turn.state is not State.REFUSED)
        if not taken:
            refused = sum(1 for turn in self.each.values() if turn.state is State.REFUSED)
            fresh = fresh[: max(0, CANARIES - refused)]
        return (failed + fresh)[:ROUND]

    def held_back(self) -> int:
        """Topics that wait because Pulsar refused the template for all it was tried on."""
        tally = self.tally()
        accepted = sum(1 for turn in self.each.values() if turn.given and turn.state is not State.REFUSED)
        return tally[State.PENDING] if not accepted and tally[State.REFUSED] >= CANARIES else 0

    def settle(self, name: str, now: float) -> None:
        """A topic is in order."""
        turn = self.each[name]
        turn.attempts, turn.reason, turn.message, turn.pending = 0, "", "", ()
        turn.due = None if self.small else now + PERIOD_SECONDS

    def next_due(self, now: float) -> float | None:
        """Seconds until the next pass; 0 = there is more to do now. None = nothing but the resync."""
        if self.take_would_be_empty(now):
            later = [turn.due for turn in self.each.values() if turn.due is not None and turn.due > now]
            if not later:
                return None
            resting = not self.small and not self.tally()[State.PENDING]
            return max(min(later) - now, SLICE_SECONDS if resting else 1.0)
        return 0.0

    def take_would_be_empty(self, now: float) -> bool:
        """Whether nobody has a turn now."""
        if self.held_back():
            return not any(_is_due(turn, now) and turn.attempts for turn in self.each.values())
        return not any(_is_due(turn, now) for turn in self.each.values())

    def tally(self) -> Counter[State]:
        """Number of topics by state."""
        return Counter(turn.state for turn in self.each.values())

    @property
    def all_recorded(self) -> bool:
        """Whether Pulsar names the set for every topic of it."""
        return all(turn.recorded or turn.state is State.CONFLICTING for turn in self.each.values())

    def among(self, names: Collection[str]) -> int:
        """How many of the names are topics of the set."""
        return sum(1 for name in names if name in self.each)

    @property
    def all_given(self) -> bool:
        """Whether every topic was given the template; those of others do not count."""
        return all(turn.given or turn.state is State.CONFLICTING for turn in self.each.values())

    def having(self, *states: State) -> Sequence[str]:
        """Names in one of the states, in order."""
        return [name for name, turn in self.each.items() if turn.state in states]


def _is_due(turn: Turn, now: float) -> bool:
    return turn.due is not None and turn.due <= now and turn.state is not State.CONFLICTING
