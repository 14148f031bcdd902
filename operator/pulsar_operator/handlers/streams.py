"""Watch streams by kopf, events to the engine.

kopf lists and watches; its handlers, finalizers, annotations, peering, scanning and event posting are not used. Only
``kopf.on.event`` is: it writes nothing. Called by main.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import aiohttp
import kopf

from pulsar_operator.api.constants import GROUP, LABEL_MANAGED_BY, LEASE_NAME, MANAGED_BY, Kind
from pulsar_operator.handlers.stateless import NoDiffBase, NoProgress
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, PODS, STATEFUL_SETS, Json, ResourceType

CHILDREN = (STATEFUL_SETS, PODS, CONFIG_MAPS)
"""Owned kinds that are watched; only objects with the managed-by label, filtered by the API server."""
CHILD_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
INACTIVITY_SECONDS = 70.0
"""A stream without a byte for this long is opened anew (bookmarks come about every 60 s)."""
CHUNK = 500
WORKERS = 500
IDLE_SECONDS = 0.1
"""kopf has a task for each object of which an event came lately, and by default keeps it for 5 s with the event: 15 kB
each, of ten thousand objects at a start. Handlers here only tell the engine, so few tasks for a short time are enough;
the two numbers let 5,000 objects a second pass."""

Session = Callable[[], Awaitable[tuple[str, aiohttp.ClientSession]]]
"""Gives the API server's URL and a session with current credentials."""


class Sink(Protocol):
    """Where events go: the engine."""

    def observe(self, kind: Kind, obj: Json, *, deleted: bool = False) -> None:
        """An event of a custom resource."""

    def observe_child(self, obj: Json) -> None:
        """An event of an owned object."""


def watched() -> tuple[ResourceType, ...]:
    """Every kind a stream is kept for."""
    return (*CUSTOM.values(), *CHILDREN)


def register(registry: kopf.OperatorRegistry, sink: Sink, session: Session) -> None:
    """Register all handlers; nothing is registered at import."""

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        server, opened = await session()
        return kopf.AiohttpSession(server=server, aiohttp_session=opened)

    for kind, resource in CUSTOM.items():
        _on_event(registry, resource, _custom(sink, kind))
    for resource in CHILDREN:
        _on_event(registry, resource, _child(sink))


def _on_event(registry: kopf.OperatorRegistry, resource: ResourceType, handler: Callable[..., Any]) -> None:
    kopf.on.event(
        group=resource.group, version=resource.version, plural=resource.plural, id=resource.plural, registry=registry
    )(handler)


def _custom(sink: Sink, kind: Kind) -> Callable[..., Any]:
    async def handle(event: Any, **_: Any) -> None:
        sink.observe(kind, event["object"], deleted=event["type"] == "DELETED")

    return handle


def _child(sink: Sink) -> Callable[..., Any]:
    async def handle(event: Any, **_: Any) -> None:
        sink.observe_child(event["object"])

    return handle


def kopf_settings(*, inactivity_seconds: float = INACTIVITY_SECONDS) -> kopf.OperatorSettings:
    """kopf reduced to lists and watches."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None
    settings.watching.inactivity_timeout = inactivity_seconds
    settings.watching.server_timeout = 600
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = CHUNK
    settings.queueing.worker_limit = WORKERS
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.networking.request_timeout = 60
    for resource in CHILDREN:
        settings.watching.label_selectors[resource.group, resource.version, resource.plural] = CHILD_SELECTOR
    # kopf takes *its* finalizer off every object it needs none for; this one exists nowhere, so it takes off nothing.
    settings.persistence.finalizer = f"{GROUP}/never-set"
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    return settings


async def watch(
    sink: Sink,
    session: Session,
    *,
    namespaces: Sequence[str],
    stop: asyncio.Event,
    started: asyncio.Event,
    inactivity_seconds: float = INACTIVITY_SECONDS,
) -> None:
    """Watch until ``stop`` is set; ``started`` is set once kopf is up. Raises when a watch is refused.

    The custom resource definitions must be installed already: kinds that appear later are not noticed.
    """
    registry = kopf.OperatorRegistry()
    register(registry, sink, session)
    logging.getLogger("kopf.activities").setLevel(logging.WARNING)
    await kopf.operator(
        registry=registry,
        settings=kopf_settings(inactivity_seconds=inactivity_seconds),
        standalone=True,
        # Without one kopf asks the system for the user's name, and a pod's uid has none.
        identity=LEASE_NAME,  # type: ignore[arg-type]
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        stop_flag=stop,
        ready_flag=started,
    )
