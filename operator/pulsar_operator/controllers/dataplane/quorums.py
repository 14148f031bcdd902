"""The largest ensemble that any topic asks for, and whose: of the brokers' default, of namespaces and of topics."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.domain.bookkeeper.leaving_values import Widest
from pulsar_operator.ports import Deps, Node, ZooKeeperSession

POLICIES_PATH: Final = "/admin/policies"
AT_ONCE: Final = 32
"""Reads in flight."""


async def largest_ensemble(deps: Deps, store: ZooKeeperSession, default: int) -> int:
    """Bookies that the largest ensemble takes; ``default`` is that of the brokers. Raises PortError: less than all is
    not known."""
    return (await widest_ensemble(deps, store, default)).size


async def widest_ensemble(deps: Deps, store: ZooKeeperSession, default: int) -> Widest:
    """The largest ensemble, and who asks for it; ``default`` is that of the brokers. Raises PortError: less than all is
    not known.

    Namespaces are read in the configuration store, ``/admin/policies/<tenant>/<namespace>``, member persistence (class
    Policies), declared or not. Policies of topics are in topics themselves, which nobody can list at once: those that
    PulsarTopics and the sets declare count.
    """
    found = [Widest(default, "the default of managed ledgers")]
    tenants = await store.children(POLICIES_PATH) or []
    names = []
    for tenant in tenants:
        names += [f"{tenant}/{name}" for name in await store.children(f"{POLICIES_PATH}/{tenant}") or []]
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(name: str) -> Widest:
        async with gate:
            return Widest(_ensemble(await store.get(f"{POLICIES_PATH}/{name}")), f"namespace {name}")

    found += await asyncio.gather(*(read(name) for name in names))
    for kind in (Kind.TOPIC, Kind.TOPIC_SET):
        for each in await reader_of(deps).every(kind):
            meta = each["metadata"]
            found.append(Widest(_declared(each), f"{kind.value} {meta['namespace']}/{meta['name']}"))
    return max(found, key=lambda each: each.size)


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
