"""Take our finalizers off all custom resources, so that they can be deleted without an operator (chart uninstall)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.ports import CUSTOM, ConflictError, Json, PortError, ResourceType

log = logging.getLogger(__name__)

ORDER = (
    Kind.REBALANCE,
    Kind.TOPIC_SET,
    Kind.TOPIC,
    Kind.NAMESPACE,
    Kind.TENANT,
    Kind.RESOURCE_GROUP,
    Kind.ISOLATION_POLICY,
    Kind.CLUSTER,
    Kind.INSTANCE,
)
"""Children first, as a person would delete them."""
ATTEMPTS = 5


class Finalizers(Protocol):
    """What the release needs of the Kubernetes adapter."""

    async def list(self, kind: ResourceType, namespace: str | None) -> list[Json]:
        """All objects of the watched namespaces."""

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """The object, or None."""

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Take one finalizer off the version that was read."""

    async def installed(self, kind: ResourceType) -> bool:
        """Whether the resource type exists."""


async def release_finalizers(kube: Finalizers, say: Callable[[str], None]) -> int:
    """Release all objects of the watched namespaces, tell each; returns how many could not be released.

    Nothing in Pulsar and no volume is touched: what the objects declared stays as it is.
    """
    failed = released = 0
    for kind in ORDER:
        resource = CUSTOM[kind]
        # Not by listing: an older release's account has no rights on kinds that came later, nor have they objects.
        if not await kube.installed(resource):
            say(f"{kind.value}: not installed")
            continue
        for obj in await kube.list(resource, None):
            meta = obj["metadata"]
            name = f"{kind.value} {meta['namespace']}/{meta['name']}"
            if FINALIZER not in (meta.get("finalizers") or ()):
                continue
            try:
                await _release(kube, resource, obj)
            except PortError as error:
                failed += 1
                say(f"{name}: NOT released: {error}")
            else:
                released += 1
                say(f"{name}: released")
    say(f"{released} objects released, {failed} failed")
    return failed


async def _release(kube: Finalizers, resource: ResourceType, obj: Json) -> None:
    current: Json | None = obj
    for attempt in range(ATTEMPTS):
        if current is None or FINALIZER not in (current["metadata"].get("finalizers") or ()):
            return
        try:
            await kube.drop_finalizer(current, FINALIZER)
            return
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.1 * 2**attempt)
            current = await kube.get(resource, obj["metadata"]["namespace"], obj["metadata"]["name"])
