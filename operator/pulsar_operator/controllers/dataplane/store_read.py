"""The configuration store is asked itself: brokers answer 200 while it is away, and its own pods may be ready all the
same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.instance import OutageStatus, PulsarInstanceStatus
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.registration import CLUSTERS_PATH
from pulsar_operator.domain.stored import readable
from pulsar_operator.ports import Deps, Json, UnavailableError

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


async def ask(
    deps: Deps, instance: Json, servers: str, chroot: str | None, *, ready: bool
) -> tuple[str | None, OutageStatus | None]:
    """Why the store gives no answer, as above, and the outage that its answer ends. One that is not ``ready`` by what
    else is known is asked if it ever answered, to know how long it is away. Raises PortError."""
    reads, uid = deps.store_reads, instance["metadata"]["uid"]
    if not (ready or reads.known(uid)):
        return None, None
    problem = await away(deps, servers, chroot)
    if problem is not None:
        reads.silent(uid)
        return problem, None
    now = deps.clock.now()
    since = reads.answered(uid, now, _told_away(instance))
    return None, None if since is None else OutageStatus(since=timestamp(since), until=timestamp(now))


def last_outage(status: Mapping[str, Any] | None) -> OutageStatus | None:
    """In an instance's stored status; what cannot be read is none."""
    found = readable(PulsarInstanceStatus, status).get("configurationStoreOutage")
    return None if found is None else OutageStatus.model_validate(found)


def _told_away(instance: Json) -> datetime | None:
    """Since when the stored status says that the store is away; None = it does not."""
    told = condition_of(instance, ConditionType.CONFIGURATION_STORE_READY)
    if told is None or told.get("reason") != Reason.CONFIGURATION_STORE_AWAY:
        return None
    return parse_time(str(told["lastTransitionTime"]))


async def _read(deps: Deps, servers: str, chroot: str | None) -> None:
    session = await deps.zookeeper.session(servers, chroot)
    await session.get(CLUSTERS_PATH)
