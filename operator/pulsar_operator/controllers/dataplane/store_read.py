"""The configuration store is asked itself: brokers answer 200 while it is away, and its own pods may be ready all the
same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.instance import OutageStatus, PulsarInstanceStatus
from pulsar_operator.controllers.core.status import condition_of, is_true
from pulsar_operator.domain.conditions import parse_time
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
) -> tuple[str | None, list[OutageStatus]]:
    """Why the store gives no answer, as above, and the outages that are known then. One that is not ``ready`` by what
    else is known is asked if it ever answered, to know how long it is away. Raises PortError."""
    reads, uid, told = deps.store_reads, instance["metadata"]["uid"], _told_away(instance)
    stored = ended_outages(instance.get("status"))
    if not (
        ready or reads.known(uid) or told is not None or is_true(instance, ConditionType.CONFIGURATION_STORE_READY)
    ):
        return None, stored
    problem = await away(deps, servers, chroot)
    now = deps.clock.now()
    if problem is not None:
        reads.silent(uid, now)
        return problem, reads.outages(uid, stored, now)
    return None, reads.outages(uid, stored, now, reads.answered(uid, now, told))


def ended_outages(status: Mapping[str, Any] | None) -> list[OutageStatus]:
    """In an instance's stored status, the last one first; what cannot be read is none."""
    found = readable(PulsarInstanceStatus, status).get("configurationStoreOutages") or ()
    return [OutageStatus.model_validate(each) for each in found]


def _told_away(instance: Json) -> datetime | None:
    """Since when the stored status says that the store is away; None = it does not."""
    told = condition_of(instance, ConditionType.CONFIGURATION_STORE_READY)
    if told is None or told.get("reason") != Reason.CONFIGURATION_STORE_AWAY:
        return None
    return parse_time(str(told["lastTransitionTime"]))


async def _read(deps: Deps, servers: str, chroot: str | None) -> None:
    session = await deps.zookeeper.session(servers, chroot)
    await session.get(CLUSTERS_PATH)
