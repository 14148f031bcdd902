"""The first pod of a component that runs another version, watched before the others follow. Pure.

It must stay ready, not restart, and not err more than the pods of its component that are not replaced yet (its peers).
Errors are compared by sort (counters.py), as what was counted since the comparison began, shortly after the pod was
ready; e of n operations failed of the pod, E of N of all its peers:

| the pod errs too much if all of this holds | because |
|---|---|
| n >= 50 and N >= 50 | of fewer operations a rate says nothing; an idle cluster fails no upgrade |
| e >= 10 | one error of three is chance, and clients try again |
| e is 1 % of n or more | what fewer than one of a hundred operations meets is for people to weigh |
| e/n > 3 (E + 3)/N | while a bookie is away peers err too, not all alike; of N without an error 3/N is left open |
| e/n > 3 times the rate of each peer with 50 operations | what one of the others has as well is not of the version |

(3/N: the "rule of three", the upper end of a rate at 95 % when nothing was seen.)

So without errors, or beside peers that err as much, nothing fails; more errors of the pod never make it good, more
errors of its peers never make it bad. What cannot be read, or was read more than a minute ago, is not compared:
readiness and restarts alone decide then, and what is waited for says so. A counter that went back began anew with
its process, at 0. Where the component has one pod, that pod's counters before it was replaced stand for its peers, from
the start of that process on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import CanaryStatus, CounterStatus
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.counters import SORTS, Counts, Tally
from pulsar_operator.domain.dataplane.pods import PodFacts
from pulsar_operator.domain.dataplane.templates import Stop
from pulsar_operator.domain.dataplane.turns import Tier


@dataclass(frozen=True)
class Watch:
    """A component whose first pod is watched."""

    message: str = ""
    """What the others wait for, as a sentence."""
    failed: Stop | None = None
    """Why the version is not for the others."""
    pod: PodFacts | None = None
    """The one that is watched, while it is ready."""


def watch(tier: Tier, now: datetime, minutes: int) -> Watch | None:
    """Whether the others of a component still wait for its first pod of another version, or must not follow it.

    None where nothing is to be watched: no other version, no pod of it ready yet (the deadline of a roll is for that),
    or one that was ready for ``minutes``.
    """
    state = tier.state
    if state is None or not upgrading(tier, minutes):
        return None
    pods = [pod for pod in state.pods if pod.revision == state.revision and not pod.terminating]
    since = min((_ready_since(pod, now) for pod in pods if pod.ready), default=None)
    over = since + timedelta(minutes=minutes) if since is not None else None
    if over is not None and now >= over:
        return None
    for pod in pods:
        if not _excused(tier, pod) and (why := _failed(pod)) is not None:
            return Watch(failed=_stop(tier, pod, why))
    if over is None:
        return None
    first = min((pod for pod in pods if pod.ready), key=lambda pod: _ready_since(pod, now))
    text = f"Pod {first.name} of another version is under observation until {timestamp(over)} (spec.upgrade.canary)"
    return Watch(text, pod=first)


def upgrading(tier: Tier, minutes: int) -> bool:
    """Whether a component has the template of another version, whose first pod is to be watched."""
    changed = tier.state is None or tier.changed or tier.stop is not None
    return minutes > 0 and not changed and _another_version(tier)


def _stop(tier: Tier, pod: PodFacts, why: str) -> Stop:
    version = tier.record.kept[tier.newest].version
    return Stop(tier.newest, f"pod {pod.name} of version {version} {why}", Reason.CANARY_FAILED)


def _another_version(tier: Tier) -> bool:
    """Whether the workload has the template of another version than the last one that all its pods ran well."""
    record = tier.record
    mine, good = record.kept.get(tier.newest), record.kept.get(record.good or "")
    if mine is None or good is None or mine.version is None or good.version is None:
        return False
    return mine.version != good.version


def _excused(tier: Tier, pod: PodFacts) -> bool:
    """Whether a pod was there while the configuration store was away: without it a broker that starts ends again."""
    made = parse_time((pod.raw.get("metadata") or {}).get("creationTimestamp"))
    return tier.answers_since is not None and made is not None and made < tier.answers_since


def _failed(pod: PodFacts) -> str | None:
    """What speaks against a pod that is watched."""
    why = f": {pod.problem.message}" if pod.problem else ""
    containers = (pod.raw.get("status") or {}).get("containerStatuses") or ()
    restarts = sum(int(each.get("restartCount") or 0) for each in containers)
    if restarts:
        return f"restarted {restarts} times{why}" if restarts > 1 else f"restarted{why}"
    return f"was ready and is not any more{why}" if not pod.ready and pod.serving_before else None


def _ready_since(pod: PodFacts, now: datetime) -> datetime:
    """Since when a ready pod is; ``now`` where it does not tell."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or ()
    times = [parse_time(each.get("lastTransitionTime")) for each in conditions if each.get("type") == "Ready"]
    return next((each for each in times if each is not None), now)


# ------------------------------------------------------------------------------------------------ errors of its peers

MIN_OPERATIONS: Final = 50
MIN_ERRORS: Final = 10
MIN_PERCENT: Final = 1
TIMES: Final = 3
SLACK: Final = 3
FRESH_SECONDS: Final = 60.0
MOST_PEERS: Final = 8
"""Peers that are asked, by ordinal: more say no more."""


@dataclass(frozen=True)
class Reading:
    """Counters of a pod."""

    at: datetime
    """When they were read."""
    counts: Counts


@dataclass(frozen=True)
class Window:
    """Counters of a pod when the comparison began, and now."""

    before: Counts
    after: Reading | None
    """None = they could not be read."""

    def counted(self, now: datetime) -> Counts | None:
        """What was counted meanwhile; None where that is not known, or was read too long ago."""
        if self.after is None or (now - self.after.at).total_seconds() > FRESH_SECONDS:
            return None
        return {
            sort: _since(self.before[sort], tally) for sort, tally in self.after.counts.items() if sort in self.before
        }


def _since(before: Tally, after: Tally) -> Tally:
    if after.operations < before.operations or after.errors < before.errors:
        return after
    return Tally(after.operations - before.operations, after.errors - before.errors)


@dataclass(frozen=True)
class Comparison:
    """How the errors of a pod compare with those of its peers."""

    said: str
    """How far they can be compared, in words, behind "its errors"."""
    failed: str = ""
    """Why it errs too much, in words; empty = it does not, as far as is known."""


def compare(
    component: Component, pod: Window, peers: Sequence[Window], before: Counts, now: datetime, problem: str = ""
) -> Comparison:
    """The table of the module. ``before`` is what the only pod of a component counted before it was replaced; empty =
    not known. ``problem`` is what kept metrics from being read, in words."""
    sorts = SORTS.get(component, ())
    if not sorts:
        return Comparison(f"cannot be compared: {component.value} pods have no counter of them")
    mine, theirs = pod.counted(now), [each for peer in peers if (each := peer.counted(now)) is not None]
    if not peers and before:
        theirs = [before]
    if mine is None or not theirs:
        why = problem or "no metrics of them were read"
        if mine is not None and not peers:
            why = "the component has no other pod, and what this one counted before is not known"
        return Comparison(f"cannot be compared: {why}")
    enough = False
    for sort in sorts:
        if sort.name not in mine:
            continue
        own, others = mine[sort.name], [each[sort.name] for each in theirs if sort.name in each]
        if own.operations < MIN_OPERATIONS or sum(each.operations for each in others) < MIN_OPERATIONS:
            continue
        enough = True
        if too_many(own, others):
            failed, total = sum(each.errors for each in others), sum(each.operations for each in others)
            whom, whose = ("its peers", "theirs") if peers else ("the pod before it", "before")
            words = f"{own.errors} of its {own.operations} {sort.words}, {whose} {failed} of {total}"
            return Comparison("are too many", f"errs more than {whom}: {words}")
    if not enough:
        return Comparison("are not compared yet: too few operations")
    return Comparison(f"are compared with those of {f'{len(theirs)} others' if peers else 'the pod before it'}")


def too_many(own: Tally, others: Sequence[Tally]) -> bool:
    """Whether a pod errs too much beside its peers, in one sort; see the table of the module."""
    total, failed = sum(each.operations for each in others), sum(each.errors for each in others)
    if own.operations < MIN_OPERATIONS or total < MIN_OPERATIONS or own.errors < MIN_ERRORS:
        return False
    if own.errors * 100 < own.operations * MIN_PERCENT:
        return False
    if own.errors * total <= TIMES * (failed + SLACK) * own.operations:
        return False
    return all(
        own.errors * each.operations > TIMES * each.errors * own.operations
        for each in others
        if each.operations >= MIN_OPERATIONS
    )


def with_comparison(tier: Tier, seen: Watch, found: Comparison) -> Watch:
    """What is waited for, or why the version is not for the others, by errors too."""
    assert seen.pod is not None
    if found.failed:
        return Watch(failed=_stop(tier, seen.pod, found.failed))
    return Watch(f"{seen.message}; its errors {found.said}", pod=seen.pod)


def peers_of(tier: Tier) -> list[PodFacts]:
    """Pods of a component that are not replaced yet and serve."""
    state = tier.state
    return [] if state is None else [pod for pod in state.outdated if pod.ready][:MOST_PEERS]


def about_to_go(tier: Tier) -> PodFacts | None:
    """The only pod of a component, which is to be replaced: what it counted so far stands for its peers."""
    state, there = tier.state, peers_of(tier)
    return there[0] if state is not None and state.total == 1 and len(state.pods) == 1 and there else None


def over(tier: Tier) -> bool:
    """Whether a component that is not watched any more was: a pod of the newest template is ready."""
    state = tier.state
    return state is not None and any(pod.ready and pod.revision == state.revision for pod in state.pods)


def replaced_soon(component: Component, pod: PodFacts, reading: Reading) -> CanaryStatus:
    """What is remembered of the only pod of a component before it is replaced."""
    return CanaryStatus(component=component.value, before=_rows(pod, reading))


def begun(
    component: Component, stored: CanaryStatus | None, pods: Sequence[PodFacts], readings: Mapping[str, Reading]
) -> CanaryStatus | None:
    """What is remembered while the first of ``pods`` is watched: counters of it and its peers, the others, when the
    comparison began; ``readings`` are by UID. A peer that is new joins with what it has counted by now, one that is
    gone is dropped; another first pod begins anew. None = nothing is known yet.
    """
    first, before = pods[0], stored.before if stored is not None else []
    same = stored is not None and stored.uid == first.uid
    if not same and first.uid not in readings:
        return CanaryStatus(component=component.value, before=before) if before else None
    there = {pod.uid for pod in pods}
    kept = [row for row in stored.counters if row.uid in there] if stored is not None and same else []
    known = {(row.uid, row.sort) for row in kept}
    read = [row for pod in pods if pod.uid in readings for row in _rows(pod, readings[pod.uid])]
    return CanaryStatus(
        component=component.value,
        pod=first.name,
        uid=first.uid,
        since=stored.since if stored is not None and same else timestamp(readings[first.uid].at),
        before=before,
        counters=[*kept, *(row for row in read if (row.uid, row.sort) not in known)],
    )


def remembered(rows: Sequence[CounterStatus], uid: str | None = None) -> Counts:
    """Counters on record, of one pod where it is named."""
    return {row.sort: Tally(row.operations, row.errors) for row in rows if uid is None or row.uid == uid}


def _rows(pod: PodFacts, reading: Reading) -> list[CounterStatus]:
    return [
        CounterStatus(pod=pod.name, uid=pod.uid, sort=sort, operations=tally.operations, errors=tally.errors)
        for sort, tally in sorted(reading.counts.items())
    ]
