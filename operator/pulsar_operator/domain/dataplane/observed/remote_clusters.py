"""The other clusters of an instance in the configuration store, and when brokers must be restarted to know them. Pure.

A broker creates its clients of another cluster once, from the ClusterData that it reads, and keeps them: Pulsar 4.0.8
creates no new client when the URLs change (class BrokerService reacts only to a deleted cluster; measured: a new topic
still used the old name). So brokers are replaced when the URLs of a cluster change that they may know. No broker knows
a cluster that joins, and brokers forget one that leaves.

The status has the last URLs. The pod template of the brokers has the time of the last change, which makes it another
revision; the entry stays for the life of the workload, since removing it would be a change too. A status may be lost,
or restored from an older state, so the workload also records which URLs brokers have, outside of the template, where it
creates no revision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import ANNOTATION_REMOTE_CLUSTERS, ANNOTATION_REMOTE_URLS
from pulsar_operator.api.v1alpha1.cluster_status import (
    MAX_REMOTE,
    MAX_REMOTE_NAME,
    MAX_URL,
    PulsarClusterStatus,
    RemoteClusterStatus,
)
from pulsar_operator.domain.apply import manifest_hash
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.objects.template_record import with_annotation
from pulsar_operator.domain.texts import without_userinfo

Json = dict[str, Any]

FIELDS: Final = ("serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls")
"""Fields of ClusterData from which clients are created."""
_TIME: Final = re.compile(r"20[0-9]{2}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z")
"""Format of times that this module writes: they sort as text."""
GLOBAL: Final = "global"
"""Pulsar's pseudo cluster."""


def observed_clusters(names: Iterable[str], own: str) -> list[str]:
    """Returns the names of other clusters among those below CLUSTERS_PATH, at most MAX_REMOTE."""
    fit = sorted(name for name in names if name not in (own, GLOBAL) and len(name) <= MAX_REMOTE_NAME)
    return fit[:MAX_REMOTE]


@dataclass(frozen=True)
class RemoteUrls:
    """URLs of another cluster from its ClusterData; empty for a URL that it does not have."""

    service_url: str = ""
    service_url_tls: str = ""
    broker_service_url: str = ""
    broker_service_url_tls: str = ""

    @property
    def reachable(self) -> bool:
        """Whether a broker could have created a client from them."""
        return bool(self.broker_service_url or self.broker_service_url_tls)


def remote_urls(data: bytes) -> RemoteUrls | None:
    """Parses the node of a cluster; None if it cannot be read, which differs from having no URLs. What precedes a host
    is left out, since a status has many readers."""
    try:
        found = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    values = [found.get(name) for name in FIELDS]
    if not all(value is None or (isinstance(value, str) and len(value) <= MAX_URL) for value in values):
        return None
    return RemoteUrls(*(without_userinfo(value or "") for value in values))


def remote_rows(
    status: PulsarClusterStatus,
    found: Mapping[str, RemoteUrls | None] | None,
    now: datetime,
    applied_changes: Mapping[str, str] | None = None,
    kept: Mapping[str, str] | None = None,
) -> list[RemoteClusterStatus]:
    """Returns the rows by name, with the time at which their URLs changed.

    ``found`` has the clusters that the store names, with None for one that cannot be read; it is None if the store did
    not answer, and the rows stay. ``applied_changes`` are the changes that brokers were restarted for (remote_changes),
    ``kept`` the URLs that they have (known_urls).
    """
    before = {row.name: row for row in status.remote_clusters}
    if found is None:
        return list(before.values())
    rows = []
    for name, urls in sorted(found.items()):
        old = before.get(name)
        if urls is None:
            rows += [old] if old is not None else []
            continue
        known = None if old is None else _urls(old)
        changed = old.changed if old is not None else None
        since = (applied_changes or {}).get(name, "")
        have = (kept or {}).get(name) if (changed or "") <= since else None
        left = known is not None and known != urls and known.reachable
        if have != _digest(urls) if have is not None else left:
            # Later than the last time in any case, whose clock that was: brokers are told by what is later.
            last = parse_time(max(changed or "", since))
            changed = timestamp(now if last is None else max(now, last + timedelta(seconds=1)))
        rows.append(
            RemoteClusterStatus(
                name=name,
                service_url=urls.service_url or None,
                service_url_tls=urls.service_url_tls or None,
                broker_service_url=urls.broker_service_url or None,
                broker_service_url_tls=urls.broker_service_url_tls or None,
                changed=changed,
            )
        )
    return rows


def with_remote_clusters(
    manifest: Mapping[str, Any], status: PulsarClusterStatus, applied_template: Mapping[str, Any] | None
) -> Json:
    """Returns the manifest of the brokers' StatefulSet with the times in its pod template at which URLs of clusters
    changed; unchanged if none did. ``applied_template`` is the one applied last, None if there is no StatefulSet
    yet."""
    applied_changes = remote_changes(applied_template)
    for row in status.remote_clusters:
        if row.changed is not None and row.changed > applied_changes.get(row.name, ""):
            applied_changes[row.name] = row.changed
    if not applied_changes:
        return dict(manifest)
    value = json.dumps(applied_changes, sort_keys=True, separators=(",", ":"))
    return with_annotation(manifest, ANNOTATION_REMOTE_CLUSTERS, value)


def remote_changes(template: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns the times of changes by cluster from a pod template or a pod; unreadable ones are left out."""
    annotations = ((template or {}).get("metadata") or {}).get("annotations") or {}
    try:
        found = json.loads(annotations.get(ANNOTATION_REMOTE_CLUSTERS) or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: time for name, time in found.items() if isinstance(time, str) and _TIME.fullmatch(time)}


def with_known_urls(
    manifest: Mapping[str, Any], status: PulsarClusterStatus, workload: Mapping[str, Any] | None
) -> Json:
    """Returns the manifest of the brokers' StatefulSet with the URLs of other clusters that brokers of its template
    have.

    The manifest is unchanged if none are known. What is recorded for a template stays, even if the status was lost or
    restored. ``workload`` is the live StatefulSet, None if there is none yet.
    """
    applied_changes = remote_changes(workload["spec"]["template"]) if workload is not None else {}
    before = _noted(workload)
    known = {} if status.conditions else dict(before)
    for row in status.remote_clusters:
        since = applied_changes.get(row.name, "")
        if row.name in before and ((row.changed or "") > since or before[row.name][0] == since):
            known[row.name] = before[row.name]
        elif (row.changed or "") <= since and _urls(row).reachable:
            known[row.name] = [since, _digest(_urls(row))]
    if not known:
        return dict(manifest)
    meta = manifest["metadata"]
    value = json.dumps(known, sort_keys=True, separators=(",", ":"))
    annotations = {**(meta.get("annotations") or {}), ANNOTATION_REMOTE_URLS: value}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def known_urls(workload: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns a digest of the URLs that brokers of the pod template have, by cluster; empty if they were recorded for
    another one."""
    applied_changes = remote_changes(workload["spec"]["template"]) if workload is not None else {}
    return {
        name: digest for name, (since, digest) in _noted(workload).items() if since == applied_changes.get(name, "")
    }


def _noted(workload: Mapping[str, Any] | None) -> dict[str, list[str]]:
    annotations = ((workload or {}).get("metadata") or {}).get("annotations") or {}
    try:
        found = json.loads(annotations.get(ANNOTATION_REMOTE_URLS) or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: each
        for name, each in found.items()
        if isinstance(each, list) and len(each) == 2 and all(isinstance(text, str) for text in each)
    }


def _digest(urls: RemoteUrls) -> str:
    return manifest_hash(asdict(urls))


def _urls(row: RemoteClusterStatus) -> RemoteUrls:
    return RemoteUrls(
        row.service_url or "", row.service_url_tls or "", row.broker_service_url or "", row.broker_service_url_tls or ""
    )
