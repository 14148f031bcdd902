"""The order of the end-to-end tests: chapters of one session on one cluster, each beginning where the last one ended.

Broker starts and bring-ups are most of the time, so nothing is changed back that a later chapter does not mind:

1. quickstart: brought up, used, disturbed. One broker, Pulsar's default settings.
2. documents, bad_input, export, resource_groups, topic_sets: objects beside the quickstart's; each leaves none behind.
3. conformance: what Pulsar promises at its default settings.
4. rolls: the only broker is rolled once, with every setting that any later test needs.
5. brokers: three of them, load evened out, all rolled under traffic, scaled in again.
6. bookies: three of them, rolled under traffic, one out and in again, the operator killed meanwhile.
7. conformance_configured: what Pulsar promises under those settings, by brokers and bookies that came and went.
8. geo_region: a second region joins, dies under traffic, comes back and leaves.
9. life_cycle: parents, cluster, release and Kubernetes namespace are deleted and come back. Nothing can come after it.

A long test of an area (tests/suite/areas.py) begins with a session of its own, and its module may stand anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

CHAPTERS = (
    "test_quickstart",
    "test_documents",
    "test_bad_input",
    "test_export",
    "test_resource_groups",
    "test_topic_sets",
    "test_conformance",
    "test_rolls",
    "test_brokers",
    "test_bookies",
    "test_conformance_configured",
    "test_geo_region",
    "test_life_cycle",
)
AREAS = (
    "test_autoscaling",
    "test_autoscaling_bookies",
    "test_autoscaling_disks",
    "test_autoscaling_forecast",
    "test_autoscaling_proxies",
    "test_balance",
    "test_bookie_volumes",
    "test_bookies_area",
    "test_distributed",
    "test_disturbed",
    "test_edge_tls",
    "test_external_listeners",
    "test_failed_compaction",
    "test_geo",
    "test_geo_mesh",
    "test_geo_addresses",
    "test_geo_promises",
    "test_geo_store",
    "test_geo_stuck",
    "test_pauses",
    "test_proxies",
    "test_racks",
    "test_safety",
    "test_security",
    "test_sizing_executors",
    "test_uninstall",
    "test_upgrade",
    "test_versions",
)
"""Modules that have long tests alone."""
ORDER = (*AREAS, *CHAPTERS)


def place(module: str) -> int:
    """Where a module stands. Raises ValueError for one that has no place."""
    name = PurePath(module).stem
    if name not in ORDER:
        raise ValueError(f"{module} has no place in e2e/story.py: name it in CHAPTERS, or in AREAS")
    return ORDER.index(name)


def in_order(modules: Iterable[str]) -> list[str]:
    """Modules in the order of the story."""
    return sorted(modules, key=place)
