"""Which clusters answer their admin REST, as the calls to them tell. Pure: time comes in, nothing is asked.

A broker whose metadata store is away accepts a request and never answers it (observed on 4.0.8), so whoever asks waits
for the whole deadline. A cluster that did so several times in a row is left out: nobody waits for it any more. It is
asked again with a question of its own, ever more rarely, and is back with its first answer. Any answer counts, also one
that refuses: what is looked for is silence. But an answer to that question, which brokers give from memory, takes back
no other call that had none: it brings the cluster back on trial, and the next such call leaves it out again.

Until then, a few deadlines later, nobody waits long either for what another cluster can tell, or a pass can do without:
after PATIENCE_SECONDS the cluster is doubted, and such a question is asked of it last, or not at all, until it answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.domain.conditions import parse_time, timestamp

TIMEOUTS: Final = 3
"""Calls without an answer, one after another, after which a cluster is left out."""
PATIENCE_SECONDS: Final = 3.0
"""How long a look at one of several clusters takes, at most: brokers answer it from memory."""
FIRST_PAUSE_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between two questions to a cluster that is left out; the pause doubles with each that is not answered."""
UNLOOKED_SECONDS: Final = 120.0
"""So long after its time the question may be any call: whoever is to ask it does not."""
FRESH_SECONDS: Final = 1800.0
"""So old a ``lastResponseTime`` may be while the cluster answers: a status is not written for it alone."""


@dataclass(frozen=True)
class AddressReachability:
    """What is known of one admin address since the process started."""

    silent: int = 0
    """Calls without an answer since the last answer."""
    since: datetime | None = None
    """Since when it is left out; None = it is not."""
    again: datetime | None = None
    """When it is asked again, while it is left out."""
    pause: float = FIRST_PAUSE_SECONDS
    """Seconds until the question after the next one."""
    answered: datetime | None = None
    """When it answered last."""
    in_vain: int = 0
    """Calls without an answer, but for the question, since one that had one."""

    def heard(self, now: datetime) -> AddressReachability:
        """After an answer, whatever it was."""
        return AddressReachability(answered=now)

    def heard_question(self, now: datetime) -> AddressReachability:
        """After an answer to the question whether it answers."""
        if not self.in_vain:
            return self.heard(now)
        return AddressReachability(answered=now, in_vain=min(self.in_vain, TIMEOUTS - 1), pause=self.pause)

    def doubted(self) -> AddressReachability:
        """After a look that was given up early. However many, they are no more than one call without an answer: a
        silence that short leaves nobody out."""
        return replace(self, silent=max(self.silent, 1))

    def unheard(self, now: datetime, *, question: bool = False) -> AddressReachability:
        """After a call that had no answer within its deadline, or the ``question`` whether it answers."""
        vain = self.in_vain if question else min(self.in_vain + 1, TIMEOUTS)
        if self.since is None:
            if max(self.silent + 1, vain) < TIMEOUTS:
                return replace(self, silent=self.silent + 1, in_vain=vain)
            return replace(self, silent=TIMEOUTS, since=now, in_vain=vain)._paused(now)
        # Calls that were under way when it was left out end later, and say nothing new.
        found = replace(self, in_vain=vain)
        return found._paused(now) if self.due(now) else found

    def _paused(self, now: datetime) -> AddressReachability:
        longer = min(self.pause * 2, LONGEST_PAUSE_SECONDS)
        return replace(self, again=now + timedelta(seconds=self.pause), pause=longer)

    def due(self, now: datetime, *, late: float = 0.0) -> bool:
        """Whether it may be asked: it is not left out, or it is time, by ``late`` seconds; or the clock was set back,
        since nobody waits for so long."""
        if self.since is None or self.again is None:
            return True
        left = (self.again - now).total_seconds()
        return left <= -late or left > LONGEST_PAUSE_SECONDS


class Reachability:
    """The standing of every admin address. Kept for the life of the process; a new one knows nothing, and asks."""

    def __init__(self) -> None:
        self._known: dict[str, AddressReachability] = {}

    def of(self, url: str) -> AddressReachability:
        """The standing of an address."""
        return self._known.get(url, AddressReachability())

    def heard(self, url: str, now: datetime) -> None:
        """It answered."""
        self._known[url] = self.of(url).heard(now)

    def unheard(self, url: str, now: datetime) -> None:
        """It did not answer within a deadline."""
        self._known[url] = self.of(url).unheard(now)

    def asked(self, url: str, now: datetime, *, answered: bool) -> None:
        """It was asked whether it answers."""
        known = self.of(url)
        self._known[url] = known.heard_question(now) if answered else known.unheard(now, question=True)

    def doubted(self, url: str) -> None:
        """A look at it was given up early."""
        self._known[url] = self.of(url).doubted()

    def left_out(self, url: str, now: datetime) -> datetime | None:
        """Since when an address is not to be asked by whoever has something to ask; None = it may be.

        One that nobody asked for long although it was time is free for one call, which is this one.
        """
        known = self.of(url)
        if known.since is None:
            return None
        if known.due(now, late=UNLOOKED_SECONDS):
            self._known[url] = known._paused(now)
            return None
        return known.since


@dataclass(frozen=True)
class ReachabilityFact:
    """What a status says of whether a cluster answers; times as in a status."""

    reachable: bool | None = None
    """None = not known: it has no ready brokers to ask, or gave no answer that counts yet."""
    since: str | None = None
    last_response_time: str | None = None


def next_reachability(
    before: ReachabilityFact, standing: AddressReachability | None, now: datetime
) -> ReachabilityFact:
    """What the status says next; ``standing`` None = there is nobody to ask. Equal to what it said while all that
    changed is the time of the last answer, and that by little."""
    if standing is None:
        return before if before.reachable is None else ReachabilityFact(None, timestamp(now), before.last_response_time)
    answered = _later(before.last_response_time, standing.answered)
    if standing.since is not None:
        since = before.since if before.reachable is False else timestamp(standing.since)
        return ReachabilityFact(False, since, answered)
    if standing.silent or standing.answered is None:
        return before  # too early to tell
    if before.reachable is not True:
        return ReachabilityFact(True, timestamp(now), answered)
    known = parse_time(before.last_response_time)
    stale = known is None or (standing.answered - known).total_seconds() >= FRESH_SECONDS
    return ReachabilityFact(True, before.since, answered if stale else before.last_response_time)


def _later(text: str | None, moment: datetime | None) -> str | None:
    known = parse_time(text)
    if moment is None or (known is not None and known >= moment):
        return text
    return timestamp(moment)
