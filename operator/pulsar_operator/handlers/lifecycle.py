"""kopf's part in the process: start-up, login, shutdown. Called by runtime.py.

kopf registers no resource here: one error on one of its watches ends all of them, and some of its tasks then survive
their cancellation, so that a process without any watch looks alive. The streams are those of adapters/reflector.py.
kopf's start-up handler opens them and its cleanup handler closes them. If kopf ends without a request, the process ends
too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import kopf

from pulsar_operator.api.constants import LEASE_NAME

END_SECONDS = 8.0
"""Seconds that kopf may take to end: it waits 5 s for tasks that it did not start."""

Session = Callable[[], Awaitable[tuple[str, aiohttp.ClientSession]]]
"""Returns the API server's URL and a session with current credentials."""


class EndedError(RuntimeError):
    """kopf or the watch streams ended without a request to stop."""


def kopf_settings() -> kopf.OperatorSettings:
    """Returns the settings that reduce kopf to its life cycle."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # it still asks once which kinds the API server serves
    settings.process.ultimate_exiting_timeout = None
    settings.networking.request_timeout = 60
    return settings


async def run(
    streams: Callable[[], Coroutine[Any, Any, None]], session: Session, *, stop: asyncio.Event, started: asyncio.Event
) -> None:
    """Runs ``streams`` inside kopf's life cycle until ``stop`` is set. ``started`` is set once kopf is running.

    Raises EndedError if either of them ends earlier.
    """
    registry = kopf.OperatorRegistry()
    closed = asyncio.Event()

    async def streaming() -> None:
        await started.wait()
        await streams()

    # Made before kopf starts: at its end kopf cancels every task that was made later.
    opened = asyncio.create_task(streaming(), name="streams")

    @kopf.on.startup(registry=registry)
    async def open_streams(**_: Any) -> None:
        started.set()

    @kopf.on.cleanup(registry=registry)
    async def close_streams(**_: Any) -> None:
        closed.set()
        await _cancel(opened)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        server, connections = await session()
        return kopf.AiohttpSession(server=server, aiohttp_session=connections)

    logging.getLogger("kopf.activities").setLevel(logging.WARNING)
    framework = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=kopf_settings(),
            standalone=True,
            # Without one kopf asks the system for the user's name, and a pod's uid has none.
            identity=LEASE_NAME,  # type: ignore[arg-type]
            clusterwide=True,
            stop_flag=stop,
        ),
        name="kopf",
    )
    closing = asyncio.create_task(closed.wait(), name="streams closed")
    try:
        await asyncio.wait([framework, opened, closing], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            # Not when kopf has ended as well: a task of its own may survive its cancellation.
            raise _ended(framework, opened)
        await asyncio.wait([framework], timeout=END_SECONDS)
    finally:
        for task in (closing, opened, framework):
            task.cancel()
        await asyncio.wait([closing, opened, framework], timeout=END_SECONDS)


def _ended(framework: asyncio.Task[None], opened: asyncio.Task[None]) -> EndedError:
    for task, what in ((framework, "kopf"), (opened, "the watch streams")):
        if task.done() and not task.cancelled():
            error = EndedError(f"{what} ended without a request to stop")
            error.__cause__ = task.exception()
            return error
    return EndedError("kopf closed the watch streams without a request to stop")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
