"""Which clusters answer their admin REST, judged by the calls to them. Pure: the time is an argument.

A broker whose metadata store is unavailable accepts a request and never answers (observed on 4.0.8), so each caller
waits for the whole deadline. A cluster that did so in several consecutive calls is left out: other callers no longer
wait for it. It gets separate probes, at growing intervals, and is back at the first answer. Any answer counts, also a
refusal: only silence is bad. But brokers answer the probe from memory, so its answer does not cancel other calls
without an answer: it brings the cluster back on trial, and the next such call leaves it out again.

Until a cluster is left out, a few deadlines later, calls that another cluster can answer, or that a pass can do
without, do not wait long either: after PATIENCE_SECONDS the cluster is doubted, and such a call asks it last, or not at
all, until it answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.domain.conditions import parse_time, timestamp

TIMEOUTS: Final = 3
"""Consecutive calls without an answer after which a cluster is left out."""
PATIENCE_SECONDS: Final = 3.0
"""Maximum seconds of a call that reads one of several clusters: brokers answer it from memory."""
FIRST_PAUSE_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Maximum seconds between two probes of a cluster that is left out; the interval doubles with each unanswered one."""
UNLOOKED_SECONDS: Final = 120.0
"""Seconds after the due time from which any call may serve as the probe, because the regular probe does not run."""
FRESH_SECONDS: Final = 1800.0
"""Age in seconds up to which ``lastResponseTime`` is not written again while the cluster answers."""


@dataclass(frozen=True)
class AddressReachability:
    """What is known of one admin address since the process started."""

    silent: int = 0
    """Calls without an answer since the last answer."""
    since: datetime | None = None
    """Time at which the operator began to skip it; None if it does not."""
    again: datetime | None = None
    """Time of the next probe, while it is left out."""
    pause: float = FIRST_PAUSE_SECONDS
    """Seconds between the next probe and the one after it."""
    answered: datetime | None = None
    """Time of its last answer."""
    in_vain: int = 0
    """Calls without an answer, probes excluded, since the last call with one."""

    def heard(self, now: datetime) -> AddressReachability:
        """Returns the state after an answer of any kind."""
        return AddressReachability(answered=now)

    def heard_question(self, now: datetime) -> AddressReachability:
        """Returns the state after an answer to the probe."""
        if not self.in_vain:
            return self.heard(now)
        return AddressReachability(answered=now, in_vain=min(self.in_vain, TIMEOUTS - 1), pause=self.pause)

    def doubted(self) -> AddressReachability:
        """Records a call that its caller gave up early. Any number of them counts as one call without an answer: so
        short a silence leaves no cluster out."""
        return replace(self, silent=max(self.silent, 1))

    def unheard(self, now: datetime, *, question: bool = False) -> AddressReachability:
        """Returns the state after a call without an answer within its deadline, or after such a probe
        (``question``)."""
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
        """Whether it may be asked: it is not left out, or its probe is due for ``late`` seconds, or the clock was set
        back."""
        if self.since is None or self.again is None:
            return True
        left = (self.again - now).total_seconds()
        return left <= -late or left > LONGEST_PAUSE_SECONDS


class Reachability:
    """The reachability of every admin address. Kept for the life of the process; a new process knows nothing and
    asks."""

    def __init__(self) -> None:
        self._known: dict[str, AddressReachability] = {}

    def of(self, url: str) -> AddressReachability:
        """Returns the reachability of an address."""
        return self._known.get(url, AddressReachability())

    def heard(self, url: str, now: datetime) -> None:
        """Records an answer."""
        self._known[url] = self.of(url).heard(now)

    def unheard(self, url: str, now: datetime) -> None:
        """Records a call without an answer within its deadline."""
        self._known[url] = self.of(url).unheard(now)

    def asked(self, url: str, now: datetime, *, answered: bool) -> None:
        """Records the result of a probe."""
        known = self.of(url)
        self._known[url] = known.heard_question(now) if answered else known.unheard(now, question=True)

    def doubted(self, url: str) -> None:
        """Records a call that its caller gave up early."""
        self._known[url] = self.of(url).doubted()

    def left_out(self, url: str, now: datetime) -> datetime | None:
        """Returns the time since which calls skip an address; None if it may be called. An address whose probe is long
        overdue is free for this one call.
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
    """What the status reports of the reachability of a cluster; times as in a status."""

    reachable: bool | None = None
    """None if not known: the cluster has no ready brokers to ask, or gave no answer that counts yet."""
    since: str | None = None
    last_response_time: str | None = None


def next_reachability(
    before: ReachabilityFact, standing: AddressReachability | None, now: datetime
) -> ReachabilityFact:
    """Returns the next status; ``standing`` is None if there is no address to ask. It equals the stored one if only the
    time of the last answer changed, and only slightly."""
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
