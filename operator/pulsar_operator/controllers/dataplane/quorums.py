"""The largest ensemble that any topic asks for: of the brokers' default, of namespaces and of topics."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.ports import Deps, Node, ZooKeeperSession

POLICIES_PATH: Final = "/admin/policies"
AT_ONCE: Final = 32
"""Reads in flight."""


async def largest_ensemble(deps: Deps, store: ZooKeeperSession, default: int) -> int:
    """Bookies that the largest ensemble takes; ``default`` is that of the brokers. Raises PortError: less than all is
    not known.

    Namespaces are read in the configuration store, ``/admin/policies/<tenant>/<namespace>``, member persistence (class
    Policies), declared or not. Policies of topics are in topics themselves, which nobody can list at once: those that
    PulsarTopics and the sets declare count.
    """
    found = [default]
    tenants = await store.children(POLICIES_PATH) or []
    paths = []
    for tenant in tenants:
        paths += [
            f"{POLICIES_PATH}/{tenant}/{name}" for name in await store.children(f"{POLICIES_PATH}/{tenant}") or []
        ]
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(path: str) -> int:
        async with gate:
            return _ensemble(await store.get(path))

    found += await asyncio.gather(*(read(path) for path in paths))
    for kind in (Kind.TOPIC, Kind.TOPIC_SET):
        found += [_declared(each) for each in await reader_of(deps).every(kind)]
    return max(found)


def _ensemble(node: Node | None) -> int:
    """Of a namespace's policies; 0 where it has the brokers' default."""
    try:
        policies = json.loads(node.data) if node is not None and node.data else {}
    except ValueError:
        return 0
    persistence = policies.get("persistence") if isinstance(policies, dict) else None
    return _number((persistence or {}).get("bookkeeperEnsemble"))


def _declared(obj: Any) -> int:
    spec = obj.get("spec") or {}
    template = spec.get("template") or spec
    return _number(((template.get("policies") or {}).get("persistence") or {}).get("ensembleSize"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
