"""Brokers whose session with the configuration store expired, so that they no longer learn of changes there. Pure.

A broker opens a configuration store that is not its own metadata store without a session watcher (Pulsar 4.0.8, class
PulsarService, createConfigurationMetadataStore, by MetadataStoreFactoryImpl.create), so the watch that it set at its
start is not set again after its session expired. Measured: after 40 s without the store, the broker noticed neither a
policy that another cluster set nor a narrowed replication of a topic until it was restarted; after 20 s it noticed
both.

So brokers are replaced after an outage that outlasts their sessions. The time of the outage is in the instance's
status, and in the pod template of the brokers, which makes it another revision; the entry stays for the life of the
workload, since removing it would be a change too. Brokers may wait long for their rollout, and sessions differ, so the
status has more than the last outage: each one that was longer than all later ones.
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
"""Pulsar's default session in milliseconds (metadataStoreSessionTimeoutMillis)."""
SETTINGS: Final = ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis")
"""Settings of brokers for the session; the first one above 0 counts (class ServiceConfiguration of Pulsar 4.0.8)."""
TICKS: Final = 20
"""Longest session that ZooKeeper grants, in ticks, unless maxSessionTimeout is set (class ZooKeeperServer)."""
GRANTED: Final = TICKS * timedelta(seconds=2)
"""Longest session with ZooKeeper's default tickTime."""
UNSEEN: Final = timedelta(seconds=15)
"""How long the store may already have been unavailable when a process that never got an answer observes it first."""
LONGEST_PAUSE: Final = timedelta(minutes=2)
"""Longest interval between two reads of a store. In a longer one the process was suspended or the clock was set, and a
negative one means that the clock was set back: either counts as UNSEEN at most."""


@dataclass
class _Read:
    observed_at: datetime
    silent: timedelta | None = None
    """How long the store has not answered; None if the last read had an answer."""


class StoreReads:
    """The answers of each instance's store, by the instance's UID. Kept for the life of the process."""

    def __init__(self) -> None:
        self._known: dict[str, _Read] = {}
        self._ended: dict[str, list[OutageStatus]] = {}

    def known(self, instance: str) -> bool:
        """Whether it ever answered this process."""
        return instance in self._known

    def silent(self, instance: str, now: datetime) -> None:
        """Records a read without an answer."""
        if (known := self._known.get(instance)) is not None:
            self._known[instance] = _Read(now, (known.silent or timedelta()) + _between(known.observed_at, now))

    def answered(self, instance: str, now: datetime, noted: datetime | None) -> timedelta | None:
        """Records an answer, and returns how long the store may have been unavailable until now; None if it was not.

        Time without reads is no outage: a process that was suspended learns nothing about it. ``noted`` is the time
        since which the status reports the outage, for a process that has just started.
        """
        before, self._known[instance] = self._known.get(instance), _Read(now)
        if before is None:
            return None if noted is None else max(now - noted, timedelta()) + UNSEEN
        return None if before.silent is None else before.silent + _between(before.observed_at, now)

    def outages(
        self, instance: str, stored: Iterable[OutageStatus], now: datetime, lasted: timedelta | None = None
    ) -> list[OutageStatus]:
        """Returns the outages for the status. ``stored`` are those of the current status, ``lasted`` the length of one
        that ends now. No outage that this process observed is lost if the status could not be written, or is lost."""
        found = outages([*stored, *self._ended.get(instance, ())], now, lasted)
        if found:
            self._ended[instance] = found
        return found


def _between(then: datetime, now: datetime) -> timedelta:
    return now - then if timedelta() <= now - then <= LONGEST_PAUSE else UNSEEN


def outages(known: Iterable[OutageStatus], now: datetime, lasted: timedelta | None = None) -> list[OutageStatus]:
    """Returns the outages to keep, the latest first: of the known ones and one that ends now, those that were longer
    than all later ones. Brokers whose sessions a shorter one outlasted are restarted for a later one."""
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
    """Returns how long a broker's session lasts after its last heartbeat, by its settings and the longest session that
    the servers grant; a value that is no number above 0 counts as unset."""
    found = (_millis((config or {}).get(name)) for name in SETTINGS)
    return min(next((each for each in found if each is not None), SESSION), granted)


def granted_by(config: Mapping[str, str] | None) -> timedelta:
    """Returns the longest session that ZooKeeper servers grant, by their settings."""
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
    """Returns the manifest of the brokers' StatefulSet with the time in its pod template at which the store returned
    from an outage longer than their sessions; unchanged if there was none.

    ``ended`` are the outages, the latest first. ``workload`` is the live StatefulSet, None if there is none yet:
    brokers that it starts read the store afresh.
    """
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
    """Returns the time in a pod template or a pod; None if there is none."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    found = annotations.get(ANNOTATION_STORE_UNAVAILABLE)
    return None if found is None else str(found)


def _length(outage: OutageStatus) -> timedelta:
    since, until = _time(outage.since), _time(outage.until)
    return until - since if since and until else timedelta()


def _time(text: object) -> datetime | None:
    return parse_time(str(text)) if text else None
