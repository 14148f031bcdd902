"""The configuration store is asked itself: brokers answer 200 while it is away, and its own pods may be ready all the
same."""

from __future__ import annotations

import asyncio
from typing import Final

from pulsar_operator.domain.dataplane.registration import CLUSTERS_PATH
from pulsar_operator.ports import Deps, UnavailableError

READ_SECONDS: Final = 5.0
"""Deadline of the session and the read together."""


async def away(deps: Deps, servers: str, chroot: str | None) -> str | None:
    """Why the store does not count as ready, in words that stay the same while it does not answer; None = it answered.

    Raises PortError for anything but silence, such as servers that are no addresses.
    """
    try:
        async with asyncio.timeout(READ_SECONDS):
            try:
                await _read(deps, servers, chroot)
            except UnavailableError:
                await _read(deps, servers, chroot)  # a server that went takes an answer with it, not the store
    except (TimeoutError, UnavailableError):
        return (
            f"ZooKeeper at {servers} answers no read within {READ_SECONDS:g} s. Until it does brokers serve what they "
            "know, no pod is replaced or removed, no bundle is moved, and nothing is written into Pulsar: see that its "
            "servers run, have a quorum and can be reached"
        )
    return None


async def _read(deps: Deps, servers: str, chroot: str | None) -> None:
    session = await deps.zookeeper.session(servers, chroot)
    await session.get(CLUSTERS_PATH)
