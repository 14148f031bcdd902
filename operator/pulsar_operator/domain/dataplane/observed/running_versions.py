"""Which Pulsar versions run: of the templates that workloads have, and of each pod. Pure."""

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
    """The record of a component's templates; empty where there is none."""
    return parse_record(live.get("ConfigMap", record_name(live.owner.name, component)))


def applied_versions(live: Live) -> frozenset[str]:
    """Versions that the templates of workloads were rendered for, as far as they are on record."""
    return frozenset(kept.version for kept in _applied(live) if kept is not None and kept.version is not None)


def all_on_record(live: Live) -> bool:
    """Whether the template of every workload is on record: not those that an earlier operator applied, nor where a
    record was deleted."""
    return None not in _applied(live)


def pod_versions(live: Live, component: Component) -> dict[str, list[str]]:
    """Names of a component's pods by the version that they run.

    A pod runs the version of the template that has its image: images are one for a version, whatever their tags say.
    """
    record = record_of(live, component)
    by_image = {_image(each.template): each.version for each in record.kept.values() if each.version is not None}
    found: dict[str, list[str]] = {}
    for pod in live.pods(component):
        found.setdefault(by_image.get(_image(pod)) or UNKNOWN_VERSION, []).append(pod["metadata"]["name"])
    return found


def known_pod_versions(live: Live) -> frozenset[str]:
    """Versions that pods run, as far as they are on record."""
    return frozenset().union(*(pod_versions(live, each) for each in Component)) - {UNKNOWN_VERSION}


def _applied(live: Live) -> list[Kept | None]:
    """Of each workload the template that it has; None where that is not on record."""
    there = [(component, live.stateful_set(component)) for component in Component]
    return [
        record_of(live, component).kept.get(applied_hash(found) or "")
        for component, found in there
        if found is not None
    ]


def _image(side: Mapping[str, Any]) -> str:
    containers = (side.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("image") or "")
