"""A tenant on a real Pulsar with everything set that an export has to find."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable

from pulsar_operator.domain.policies import (
    GLOBAL_POLICIES,
    LOCAL_POLICIES,
    NAMESPACE_POLICIES,
    TOPIC_POLICIES,
    PolicyRow,
)
from pulsar_operator.ports import AdminEndpoint, NotFoundError, PortError, PulsarAdminPort, RefusedError
from tests.support.admin_contract import local_cluster
from tests.support.policy_contract import Place

HOSTILE = ("Upper_Case", "a b", "a%2Fb", "süß", "a?b#c", "c+d", "1e3", "x-retry-RETRY")
PROPERTIES = {"team": "shop", "a/b": "c: d", "\u00fc": ""}
TRIES = 100
PAUSE_SECONDS = 0.2


async def furnished(admin: PulsarAdminPort, url: str) -> AsyncIterator[Place]:
    """The tenant: namespace n with topics, first and last with every policy, bare; removed at the end."""
    cluster = await local_cluster(admin, url)
    place = Place(admin, AdminEndpoint(cluster, url), cluster, f"export-{uuid.uuid4().hex[:8]}")
    tenant = ("tenants", place.tenant)
    await place.ask("PUT", *tenant, body={"adminRoles": ["ops", "Ünïcode Role"], "allowedClusters": [cluster]})
    for group in ("group", "other_group"):
        await place.ask("PUT", "resourcegroups", place.names[group], body={"publishRateInMsgs": 1000000})
    try:
        cut = {"boundaries": ["0x00000000", "0x30000000", "0x80000000", "0xffffffff"]}
        for name, body in (("n", None), ("first", None), ("last", {"bundles": cut}), ("bare", None)):
            await place.ask("PUT", "namespaces", place.tenant, name, body=body)
        await _topics(place)
        for name, which in (("first", 0), ("last", -1)):
            await _set(place, NAMESPACE_POLICIES[1:], ("namespaces", place.tenant, name), which)
        await _set(place, LOCAL_POLICIES, place.topic("x"), 0)
        await _set(place, GLOBAL_POLICIES, place.topic("parts"), -1)
        for base in (("namespaces", place.tenant, "first"), place.topic("x"), place.topic("parts")):
            await place.ask("PUT", *base, "properties", body=PROPERTIES)
        await _set(place, LOCAL_POLICIES[3:4], ("non-persistent", place.tenant, "n", "split"), 0)
        yield place
    finally:
        await _removed(place)


async def _topics(place: Place) -> None:
    for name in ("x", "s1", "s2", *HOSTILE):
        await place.ask("PUT", *place.topic(name))
    await place.ask("PUT", *place.topic("parts"), "partitions", body=3)
    await place.ask("PUT", "non-persistent", place.tenant, "n", "split", "partitions", body=2)


async def _set(place: Place, rows: Iterable[PolicyRow], base: tuple[str, ...], which: int) -> None:
    """Set what Pulsar takes of it, and wait until each is there: policies of topics travel through a topic."""
    for row in rows:
        value = place.real(row.examples[which])
        try:
            await place.call(row.set_call(base, value))
        except RefusedError:
            continue
        for _ in range(TRIES if row.own_get else 0):
            found = row.read(await place.call(row.get_call(base)), place.cluster)
            if row.in_sync(value, found) or not row.is_set(value):
                break
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            assert not row.own_get, f"{row.field} was set and is not there"


async def _removed(place: Place) -> None:
    # A topic whose policies name an offloader the broker does not have is not even deleted (seen on 4.0.8).
    for row in TOPIC_POLICIES:
        for name in ("x", "parts") if row.path == "policies.offload" else ():
            reset = row.remove_call(place.topic(name))
            assert reset is not None
            with contextlib.suppress(NotFoundError):
                await place.call(reset)
    for domain in ("persistent", "non-persistent"):
        async with asyncio.timeout(60):
            while split := await place.ask("GET", domain, place.tenant, "n", "partitioned"):
                with contextlib.suppress(PortError):
                    await place.ask("DELETE", *_path(split[0]), "partitions", force="true")
                await asyncio.sleep(PAUSE_SECONDS)
    # A topic with shadow topics goes before them: its replicators hold them open.
    for full in sorted(await place.ask("GET", "persistent", place.tenant, "n"), key=lambda n: not n.endswith("/x")):
        await place.removed(*_path(full))
    for full in await place.ask("GET", "namespaces", place.tenant):
        await place.removed("namespaces", *full.split("/"))
    await place.removed("tenants", place.tenant)
    for group in ("group", "other_group"):
        await place.removed("resourcegroups", place.names[group])


def _path(full: str) -> tuple[str, ...]:
    domain, _, rest = full.partition("://")
    return (domain, *rest.split("/", 2))


__all__ = ["HOSTILE", "PROPERTIES", "furnished"]
