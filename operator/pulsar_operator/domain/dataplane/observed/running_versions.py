"""The Pulsar versions that run, by the templates of workloads and by pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.objects.template_record import (
    Kept,
    TemplateRecord,
    applied_hash,
    parse_record,
    record_name,
)

UNKNOWN_VERSION = "unknown"


def record_of(live: Live, component: Component) -> TemplateRecord:
    """Returns the record of a component's templates; empty if there is none."""
    return parse_record(live.get("ConfigMap", record_name(live.owner.name, component)))


def applied_versions(live: Live) -> frozenset[str]:
    """Returns the versions that the workloads' templates were rendered for, as far as they are recorded."""
    return frozenset(kept.version for kept in _applied(live) if kept is not None and kept.version is not None)


def all_on_record(live: Live) -> bool:
    """Whether the template of every workload is recorded. Templates that an earlier operator applied are not, nor those
    of a deleted record."""
    return None not in _applied(live)


def pod_versions(live: Live, component: Component) -> dict[str, list[str]]:
    """Returns the names of a component's pods by the version that they run. A pod runs the version of the template that
    has its image: each version has its own image, whatever the tag is.
    """
    record = record_of(live, component)
    by_image = {_image(each.template): each.version for each in record.kept.values() if each.version is not None}
    found: dict[str, list[str]] = {}
    for pod in live.pods(component):
        found.setdefault(by_image.get(_image(pod)) or UNKNOWN_VERSION, []).append(pod["metadata"]["name"])
    return found


def known_pod_versions(live: Live) -> frozenset[str]:
    """Returns the versions that pods run, as far as they are recorded."""
    return frozenset().union(*(pod_versions(live, each) for each in Component)) - {UNKNOWN_VERSION}


def _applied(live: Live) -> list[Kept | None]:
    """Returns the current template of each workload; None if it is not recorded."""
    there = [(component, live.stateful_set(component)) for component in Component]
    return [
        record_of(live, component).kept.get(applied_hash(found) or "")
        for component, found in there
        if found is not None
    ]


def _image(side: Mapping[str, Any]) -> str:
    containers = (side.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("image") or "")
