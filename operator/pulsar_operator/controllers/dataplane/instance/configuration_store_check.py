"""Reads the configuration store itself: brokers answer 200 while it is unavailable, and its own pods may be ready
anyway."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.instance import OutageStatus
from pulsar_operator.controllers.core.stores import Store, store_state
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.domain.dataplane.registration.registration import CLUSTERS_PATH
from pulsar_operator.ports import Deps, Json, UnavailableError

READ_SECONDS: Final = 5.0
"""Deadline of the session and the read together."""


async def unavailability(deps: Deps, servers: str, chroot: str | None) -> str | None:
    """Returns why the store does not count as ready, as a message that stays the same while it does not answer; None if
    it answered. Raises PortError for anything but silence, such as invalid addresses.
    """
    try:
        async with asyncio.timeout(READ_SECONDS):
            try:
                await _read(deps, servers, chroot)
            except UnavailableError:
                await _read(deps, servers, chroot)  # a server that went takes an answer with it, not the store
    except (TimeoutError, UnavailableError):
        return (
            f"ZooKeeper at {servers} does not answer a read within {READ_SECONDS:g} s. Until it answers, brokers "
            "serve from their caches, and the operator replaces or removes no pod, moves no bundle and writes "
            "nothing into Pulsar. Check that the ZooKeeper servers run, have a quorum and can be reached"
        )
    return None


async def ask(
    deps: Deps, instance: Json, store: Store, stored: Sequence[OutageStatus], *, ready: bool
) -> tuple[str | None, list[OutageStatus]]:
    """Returns why the store gives no answer, as above, and the outages known then.

    A store that is not ``ready`` by other facts is asked if it ever answered, to measure the outage. ``stored`` are the
    outages in the status, the latest first. Raises PortError.
    """
    reads, uid, state = deps.store_reads, instance["metadata"]["uid"], store_state(instance)
    stored_since = parse_time(state.since) if state.reason == Reason.CONFIGURATION_STORE_UNAVAILABLE else None
    if not (ready or reads.known(uid) or stored_since is not None or state.ready):
        return None, list(stored)
    problem = await unavailability(deps, *store)
    now = deps.clock.now()
    if problem is not None:
        reads.silent(uid, now)
        return problem, reads.outages(uid, stored, now)
    return None, reads.outages(uid, stored, now, reads.answered(uid, now, stored_since))


async def _read(deps: Deps, servers: str, chroot: str | None) -> None:
    session = await deps.zookeeper.session(servers, chroot)
    await session.get(CLUSTERS_PATH)
