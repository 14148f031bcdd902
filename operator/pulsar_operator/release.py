"""What goes with the operator (chart uninstall): Pulsar's balancer gets its settings back, and our finalizers are taken
off all custom resources, so that they can be deleted without an operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pydantic import ValidationError

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1.cluster_status import BalancerStatus
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.dataplane.load_balancer import FLAGS, restore
from pulsar_operator.ports import (
    CUSTOM,
    AdminEndpoint,
    ConflictError,
    Json,
    PortError,
    PulsarAdminPort,
    ResourceType,
)

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

    No volume is touched, and nothing that the objects declared: it stays as it is.
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


async def release_balancers(kube: Finalizers, admin: PulsarAdminPort, say: Callable[[str], None]) -> None:
    """Restore what the operator took over of each cluster's balancer: nobody would balance without it.

    Brokers that do not answer are told and left: they may be gone with their cluster. The status stays as it is, so
    that an operator that is installed again goes on.
    """
    resource = CUSTOM[Kind.CLUSTER]
    if not await kube.installed(resource):
        return
    for obj in await kube.list(resource, None):
        status, meta = obj.get("status") or {}, obj["metadata"]
        url = (status.get("endpoints") or {}).get("brokerWebServiceUrl")
        if not status.get("balancer") or not url:
            continue
        name = f"{Kind.CLUSTER.value} {meta['namespace']}/{meta['name']}"
        try:
            before = BalancerStatus.model_validate(status["balancer"])
            await restore(admin, AdminEndpoint(pulsar_name(obj), str(url)), before)
        except (PortError, ValidationError) as error:
            say(f"{name}: settings of Pulsar's balancer NOT restored: {error}; see {' and '.join(FLAGS)} by hand")
        else:
            say(f"{name}: settings of Pulsar's balancer restored")


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
