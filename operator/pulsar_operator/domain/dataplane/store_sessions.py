"""Brokers whose session with the configuration store ended: they learn of no change there any more. Pure.

A broker opens a configuration store that is not its own metadata store without a session watcher (Pulsar 4.0.8, class
PulsarService, createConfigurationMetadataStore, by MetadataStoreFactoryImpl.create), so that the watch it set at its
start is not set again in the session that follows one that expired. Measured: after 40 s without the store neither a
policy that another cluster set was seen nor a topic's replication narrowed, until the broker was restarted; after 20 s
all was as before. So brokers are replaced after an outage that outlasts their sessions.

When that was is in the instance's status, and in the pod template of the brokers, which is another revision by it; the
entry stays as long as the workload, for taking it out would be a change too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_STORE_AWAY
from pulsar_operator.api.v1alpha1.instance import OutageStatus
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.domain.dataplane.templates import with_annotation

Json = dict[str, Any]

SESSION: Final = timedelta(seconds=30)
"""Pulsar's default (metadataStoreSessionTimeoutMillis)."""
SETTINGS: Final = ("metadataStoreSessionTimeoutMillis", "zooKeeperSessionTimeoutMillis")
"""Settings of brokers that say so, the first that is there."""
UNSEEN: Final = timedelta(seconds=15)
"""How long the store may have been away already when a process that knows no answer of it told so."""


@dataclass
class _Read:
    answered: datetime
    silent: bool = False


class StoreReads:
    """When each instance's store answered last, by the instance's UID. Kept for the life of the process."""

    def __init__(self) -> None:
        self._known: dict[str, _Read] = {}

    def known(self, instance: str) -> bool:
        """Whether it ever answered this process."""
        return instance in self._known

    def silent(self, instance: str) -> None:
        """It gave no answer."""
        if (known := self._known.get(instance)) is not None:
            known.silent = True

    def answered(self, instance: str, now: datetime, told: datetime | None) -> datetime | None:
        """Take an answer down; since when the store may have been away until now, None = it was not.

        That nobody asked is no silence: a process that stood still learns nothing of the time. ``told`` is since when
        the status says that it is away, for a process that was just started.
        """
        before, self._known[instance] = self._known.get(instance), _Read(now)
        if before is None:
            return None if told is None else told - UNSEEN
        return before.answered if before.silent else None


def session_of(config: Mapping[str, str] | None) -> timedelta:
    """How long a broker's session outlasts its last sign, by its settings; what is no number counts as absent."""
    for name in SETTINGS:
        try:
            return timedelta(milliseconds=int((config or {})[name]))
        except (KeyError, ValueError, OverflowError):
            continue
    return SESSION


def with_store_away(
    manifest: Mapping[str, Any],
    outage: OutageStatus | None,
    workload: Mapping[str, Any] | None,
    session: timedelta,
) -> Json:
    """The manifest of the brokers' StatefulSet, whose pod template says when the store was back after it was away for
    longer than their sessions; as given where it never was. ``outage`` is the last one, ``workload`` the
    StatefulSet as it is, None = there is none yet: what it starts finds the store as it is."""
    told = store_back(workload["spec"]["template"]) if workload is not None else None
    since, until = (None, None) if outage is None else (_time(outage.since), _time(outage.until))
    if workload is not None and outage is not None and since and until and until - since >= session:
        made, before = _time(workload["metadata"].get("creationTimestamp")), _time(told)
        if (made is None or made < until) and (before is None or before < until):
            told = outage.until
    if told is None:
        return dict(manifest)
    return with_annotation(manifest, ANNOTATION_STORE_AWAY, told)


def store_back(template: Mapping[str, Any] | None) -> str | None:
    """The time in a pod template, or in a pod; None = there is none."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    found = annotations.get(ANNOTATION_STORE_AWAY)
    return None if found is None else str(found)


def _time(text: object) -> datetime | None:
    """What cannot be read says nothing."""
    try:
        return parse_time(str(text)) if text else None
    except ValueError:
        return None
