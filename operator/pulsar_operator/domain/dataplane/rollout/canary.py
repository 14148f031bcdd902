"""Observes the first pod of a component that runs another version, before the others follow. Pure.

The pod must stay ready for the requested time, must not restart, and must not have more errors than its peers, which
are the pods of its component that are not replaced yet. Errors are compared by kind (observed/pod_counters.py). They
are counted from shortly after the pod became ready, because a starting server logs errors that its version does not
cause.

The pod fails if at least 10 and at least 1 % of its operations failed, and if this share is more than three times
that of every peer. So errors that a peer also has, for example while a bookie is unavailable, are not blamed on the
version. A server with fewer than 50 operations is not compared, so an idle cluster fails no upgrade. If metrics
cannot be read, only readiness and restarts decide, and the message says so. A counter that decreased was reset to 0
with its process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.cluster_status import CanaryStatus, CounterStatus
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.objects.pods import PodFacts
from pulsar_operator.domain.dataplane.objects.template_record import Stop
from pulsar_operator.domain.dataplane.observed.pod_counters import SORTS, Counts, Tally
from pulsar_operator.domain.dataplane.rollout.template_order import Tier


@dataclass(frozen=True)
class Watch:
    """A component whose first pod is observed."""

    message: str = ""
    """What the other pods wait for, as a sentence."""
    failed: Stop | None = None
    """Why the other pods must not get the version."""
    pod: PodFacts | None = None
    """The observed pod, while it is ready."""


def watch(tier: Tier, now: datetime, minutes: int) -> Watch | None:
    """Returns the watch on the first pod of another version: whether the other pods of its component wait for it, or
    must not follow it.

    None if there is nothing to observe: no pod has another version, no such pod is ready yet (the progress deadline
    covers that), or one has been ready for ``minutes``.
    """
    state = tier.state
    if state is None or minutes <= 0 or tier.changed or tier.stop is not None or not _another_version(tier):
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
    text = (
        f"Pod {first.name} runs another version and is under observation until {timestamp(over)} (spec.upgrade.canary)"
    )
    return Watch(text, pod=first)


def _stop(tier: Tier, pod: PodFacts, why: str) -> Stop:
    version = tier.record.kept[tier.newest].version
    return Stop(tier.newest, f"Pod {pod.name} of version {version} {why}", Reason.CANARY_FAILED)


def _another_version(tier: Tier) -> bool:
    """Whether the workload's template is of another version than the last one that all its pods ran well."""
    record = tier.record
    newest, good = record.kept.get(tier.newest), record.kept.get(record.good or "")
    if newest is None or good is None or newest.version is None or good.version is None:
        return False
    return newest.version != good.version


def _excused(tier: Tier, pod: PodFacts) -> bool:
    """Whether a pod existed while the configuration store was unavailable: without it, a starting broker ends."""
    made = parse_time((pod.raw.get("metadata") or {}).get("creationTimestamp"))
    return tier.answers_since is not None and made is not None and made < tier.answers_since


def _failed(pod: PodFacts) -> str | None:
    """Returns why an observed pod fails, as a message. None if it does not fail."""
    why = f". {pod.problem.message}" if pod.problem else ""
    containers = (pod.raw.get("status") or {}).get("containerStatuses") or ()
    restarts = sum(int(each.get("restartCount") or 0) for each in containers)
    if restarts:
        return f"restarted {restarts} times{why}" if restarts > 1 else f"restarted{why}"
    return f"was ready and is no longer ready{why}" if not pod.ready and pod.serving_before else None


def _ready_since(pod: PodFacts, now: datetime) -> datetime:
    """Returns the time at which a ready pod became ready; ``now`` if it is not known."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or ()
    times = [parse_time(each.get("lastTransitionTime")) for each in conditions if each.get("type") == "Ready"]
    return next((each for each in times if each is not None), now)


# ------------------------------------------------------------------------------------------------ errors of its peers

MIN_OPERATIONS: Final = 50
MIN_ERRORS: Final = 10
MIN_PERCENT: Final = 1
TIMES: Final = 3
MOST_PEERS: Final = 8
"""Maximum number of peers that are asked, by ordinal."""


@dataclass(frozen=True)
class Comparison:
    """How the errors of a pod compare with those of its peers."""

    message: str
    """How far they can be compared, as text to follow "its errors"."""
    failed: str = ""
    """Why it has too many errors, as a message; empty if it has not, as far as is known."""


def compare(component: Component, own: Counts | None, peers: Sequence[Counts], problem: str = "") -> Comparison:
    """Applies the rule of the module to what was counted since the comparison began; ``own`` is None if not known.
    ``problem`` is why metrics could not be read, as a message."""
    sorts = SORTS.get(component, ())
    if not sorts:
        return Comparison(f"cannot be compared, because {component.value} pods have no counter of errors")
    if own is None or not peers:
        return Comparison(f"cannot be compared, because {problem or 'its metrics or those of its peers were not read'}")
    compared = 0
    for sort in sorts:
        of_canary, others = own.get(sort.name), [each[sort.name] for each in peers if sort.name in each]
        others = [each for each in others if each.operations >= MIN_OPERATIONS]
        if of_canary is None or of_canary.operations < MIN_OPERATIONS or not others:
            continue
        compared = max(compared, len(others))
        if too_many(of_canary, others):
            failed, total = sum(each.errors for each in others), sum(each.operations for each in others)
            words = (
                f"on this pod {of_canary.errors} of {of_canary.operations} {sort.words}, and on its peers {failed} of "
                f"{total}"
            )
            return Comparison("are too many", f"has more errors than its peers: {words}")
    if not compared:
        return Comparison("are not compared yet, because there are too few operations")
    return Comparison(f"are compared with those of {compared} other pods")


def too_many(own: Tally, peers: Sequence[Tally]) -> bool:
    """Whether a pod has too many errors of one kind compared with its peers; see the module. Each has enough
    operations."""
    enough = own.errors >= MIN_ERRORS and own.errors * 100 >= own.operations * MIN_PERCENT
    return enough and all(own.errors * each.operations > TIMES * each.errors * own.operations for each in peers)


def counted(before: Counts, after: Counts) -> Counts:
    """Returns what was counted between two readings of a pod."""
    return {sort: _since(before[sort], tally) for sort, tally in after.items() if sort in before}


def _since(before: Tally, after: Tally) -> Tally:
    if after.operations < before.operations or after.errors < before.errors:
        return after
    return Tally(after.operations - before.operations, after.errors - before.errors)


def with_comparison(tier: Tier, watch: Watch, found: Comparison) -> Watch:
    """Returns what is waited for, or why the version fails, including errors."""
    assert watch.pod is not None
    if found.failed:
        return Watch(failed=_stop(tier, watch.pod, found.failed))
    return Watch(f"{watch.message}. The errors of pod {watch.pod.name} {found.message}", pod=watch.pod)


def peers_of(tier: Tier) -> list[PodFacts]:
    """Returns the pods of a component that serve and are not replaced yet."""
    return [] if tier.state is None else [pod for pod in tier.state.outdated if pod.ready][:MOST_PEERS]


def begun(
    component: Component, stored: CanaryStatus | None, pods: Sequence[PodFacts], readings: Mapping[str, Counts]
) -> CanaryStatus | None:
    """Returns the record while the first of ``pods`` is observed: its counters and those of its peers, the others, when
    the comparison began.

    ``readings`` are by UID. A new peer joins with its current counters, one that is gone is dropped; another first pod
    begins again. None if nothing is known yet.
    """
    first = pods[0]
    same = stored is not None and stored.uid == first.uid
    if not same and first.uid not in readings:
        return None
    uids = {pod.uid for pod in pods}
    kept = [row for row in stored.counters if row.uid in uids] if stored is not None and same else []
    known = {(row.uid, row.sort) for row in kept}
    read = [row for pod in pods if pod.uid in readings for row in _rows(pod, readings[pod.uid])]
    rows = [*kept, *(row for row in read if (row.uid, row.sort) not in known)]
    return CanaryStatus(component=component.value, pod=first.name, uid=first.uid, counters=rows)


def remembered(rows: Sequence[CounterStatus], uid: str) -> Counts:
    """Returns the recorded counters of a pod."""
    return {row.sort: Tally(row.operations, row.errors) for row in rows if row.uid == uid}


def _rows(pod: PodFacts, counts: Counts) -> list[CounterStatus]:
    return [
        CounterStatus(pod=pod.name, uid=pod.uid, sort=sort, operations=tally.operations, errors=tally.errors)
        for sort, tally in sorted(counts.items())
    ]
