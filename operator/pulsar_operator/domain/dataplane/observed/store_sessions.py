"""Brokers whose session with the configuration store ended: they learn of no change there any more. Pure.

A broker opens a configuration store that is not its own metadata store without a session watcher (Pulsar 4.0.8, class
PulsarService, createConfigurationMetadataStore, by MetadataStoreFactoryImpl.create), so that the watch it set at its
start is not set again in the session that follows one that expired. Measured: after 40 s without the store neither a
policy that another cluster set was seen nor a topic's replication narrowed, until the broker was restarted; after 20 s
all was as before. So brokers are replaced after an outage that outlasts their sessions.

When that was is in the instance's status, and in the pod template of the brokers, which is another revision by it; the
entry stays as long as the workload, for taking it out would be a change too. Brokers may wait long for their roll, and
sessions differ, so the status has more than the last outage: each one that was longer than all that followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_STORE_UNAVAILABLE
from pulsar_operator.api.v1alpha1.instance import MAX_OUTAGES, OutageStatus
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.objects.template_record import with_annotation

Json = dict[str, Any]

SESSION: Final = timedelta(seconds=30)
"""Pulsar's default (metadataStoreSessionTimeoutMillis)."""
SETTINGS: Final = ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis")
"""Settings of brokers that say so: the first one that is above 0 (class ServiceConfiguration of Pulsar 4.0.8)."""
TICKS: Final = 20
"""Longest session that ZooKeeper grants, in ticks, unless maxSessionTimeout says otherwise (class ZooKeeperServer)."""
GRANTED: Final = TICKS * timedelta(seconds=2)
"""By ZooKeeper's default tickTime."""
UNSEEN: Final = timedelta(seconds=15)
"""How long the store may have been away already when a process that knows no answer of it told so."""
LONGEST_PAUSE: Final = timedelta(minutes=2)
"""Between two looks at a store at most. In more the process stood still or the clock was set, and less than nothing is
a clock that was set back: no more than UNSEEN counts of either."""


@dataclass
class _Read:
    observed_at: datetime
    silent: timedelta | None = None
    """For how long it has given no answer; None = the last look had one."""


class StoreReads:
    """What each instance's store answered, by the instance's UID. Kept for the life of the process."""

    def __init__(self) -> None:
        self._known: dict[str, _Read] = {}
        self._ended: dict[str, list[OutageStatus]] = {}

    def known(self, instance: str) -> bool:
        """Whether it ever answered this process."""
        return instance in self._known

    def silent(self, instance: str, now: datetime) -> None:
        """It gave no answer."""
        if (known := self._known.get(instance)) is not None:
            self._known[instance] = _Read(now, (known.silent or timedelta()) + _between(known.observed_at, now))

    def answered(self, instance: str, now: datetime, noted: datetime | None) -> timedelta | None:
        """Take an answer down; for how long the store may have been away until now, None = it was not.

        That nobody asked is no silence: a process that stood still learns nothing of the time. ``noted`` is since when
        the status says that it is away, for a process that was just started.
        """
        before, self._known[instance] = self._known.get(instance), _Read(now)
        if before is None:
            return None if noted is None else max(now - noted, timedelta()) + UNSEEN
        return None if before.silent is None else before.silent + _between(before.observed_at, now)

    def outages(
        self, instance: str, stored: Iterable[OutageStatus], now: datetime, lasted: timedelta | None = None
    ) -> list[OutageStatus]:
        """Those that the status says next; ``stored`` are those that it says, ``lasted`` how long one took that ends
        now. A status that could not be written, or is lost, loses none that this process saw."""
        found = outages([*stored, *self._ended.get(instance, ())], now, lasted)
        if found:
            self._ended[instance] = found
        return found


def _between(then: datetime, now: datetime) -> timedelta:
    return now - then if timedelta() <= now - then <= LONGEST_PAUSE else UNSEEN


def outages(known: Iterable[OutageStatus], now: datetime, lasted: timedelta | None = None) -> list[OutageStatus]:
    """Of the known outages and one that ends now after so long, the last one first, those that were longer than all
    that came later: brokers whose sessions a shorter one outlasted are told of a later one."""
    times = [(until, until - since) for each in known if (since := _time(each.since)) and (until := _time(each.until))]
    if lasted is not None:
        # Later than the last one in any case, whose clock that was: brokers are told by what is later.
        last = max((until for until, _ in times), default=None)
        times.append((now if last is None else max(now, last + timedelta(seconds=1)), lasted))
    found: list[tuple[datetime, timedelta]] = []
    for until, length in sorted(times, reverse=True):
        if not found or length > found[-1][1]:
            found.append((until, length))
    while len(found) > MAX_OUTAGES:
        # Of the two that are longest ago one is made that counts for both: it ended late and was long.
        found[-2:] = [(found[-2][0], found[-1][1])]
    return [OutageStatus(since=timestamp(until - length), until=timestamp(until)) for until, length in found]


def session_of(config: Mapping[str, str] | None, granted: timedelta = GRANTED) -> timedelta:
    """How long a broker's session outlasts its last sign, by its settings and by what the servers grant at most; what
    is no number above 0 counts as absent."""
    found = (_millis((config or {}).get(name)) for name in SETTINGS)
    return min(next((each for each in found if each is not None), SESSION), granted)


def granted_by(config: Mapping[str, str] | None) -> timedelta:
    """The longest session that ZooKeeper servers grant, by their settings."""
    tick = _millis((config or {}).get("tickTime"))
    most = _millis((config or {}).get("maxSessionTimeout"))
    return most or (GRANTED if tick is None else TICKS * tick)


def _millis(text: str | None) -> timedelta | None:
    try:
        found = timedelta(milliseconds=int(text or ""))
    except (ValueError, OverflowError):
        return None
    return found if found > timedelta() else None


def with_store_unavailable(
    manifest: Mapping[str, Any],
    ended: Sequence[OutageStatus],
    workload: Mapping[str, Any] | None,
    session: timedelta,
) -> Json:
    """The manifest of the brokers' StatefulSet, whose pod template says when the store was back after it was away for
    longer than their sessions; as given where it never was. ``ended`` are the outages, the last one first, ``workload``
    the StatefulSet as it is, None = there is none yet: what it starts finds the store as it is."""
    noted = store_back(workload["spec"]["template"]) if workload is not None else None
    last = next((each for each in ended if _length(each) >= session), None)
    if workload is not None and last is not None and (until := _time(last.until)) is not None:
        made, before = _time(workload["metadata"].get("creationTimestamp")), _time(noted)
        if (made is None or made < until) and (before is None or before < until):
            noted = last.until
    if noted is None:
        return dict(manifest)
    return with_annotation(manifest, ANNOTATION_STORE_UNAVAILABLE, noted)


def store_back(template: Mapping[str, Any] | None) -> str | None:
    """The time in a pod template, or in a pod; None = there is none."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    found = annotations.get(ANNOTATION_STORE_UNAVAILABLE)
    return None if found is None else str(found)


def _length(outage: OutageStatus) -> timedelta:
    since, until = _time(outage.since), _time(outage.until)
    return until - since if since and until else timedelta()


def _time(text: object) -> datetime | None:
    return parse_time(str(text)) if text else None
