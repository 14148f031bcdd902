"""A tenant on a real Pulsar with everything set that an export has to find."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any

from e2e.support.eventually import eventually_async
from pulsar_operator.domain.logical.pulsar_names import isolation_path
from pulsar_operator.domain.logical.subscriptions import subscription_path
from pulsar_operator.domain.policies import (
    GLOBAL_POLICIES,
    LOCAL_POLICIES,
    NAMESPACE_POLICIES,
    PolicyRow,
)
from pulsar_operator.ports import AdminEndpoint, NotFoundError, PortError, PulsarAdminPort, RefusedError
from tests.support.contracts.admin import local_cluster
from tests.support.contracts.policies import Place
from tests.support.policies.values import values_of

HOSTILE = ("Upper_Case", "a b", "a%2Fb", "süß", "a?b#c", "c+d", "1e3", "x-retry-RETRY")
PROPERTIES = {"team": "shop", "a/b": "c: d", "\u00fc": ""}
SUBSCRIPTION = "a/b c+d"
DEFINITION = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
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
        await place.ask("POST", *isolation_path(cluster, place.tenant), body=isolation(place.tenant))
        cut = {"boundaries": ["0x00000000", "0x30000000", "0x80000000", "0xffffffff"]}
        for name, body in (("n", None), ("first", None), ("last", {"bundles": cut}), ("bare", None)):
            await place.ask("PUT", "namespaces", place.tenant, name, body=body)
        await _topics(place)
        await _parts(place)
        for name, which in (("first", 0), ("last", -1)):
            await _set(place, NAMESPACE_POLICIES[1:], ("namespaces", place.tenant, name), which)
        await _set(place, loadable(LOCAL_POLICIES), place.topic("x"), 0)
        await _set(place, loadable(GLOBAL_POLICIES), place.topic("parts"), -1)
        for base in (("namespaces", place.tenant, "first"), place.topic("x"), place.topic("parts")):
            await place.ask("PUT", *base, "properties", body=PROPERTIES)
        await _set(place, LOCAL_POLICIES[3:4], ("non-persistent", place.tenant, "n", "split"), 0)
        yield place
    finally:
        await _removed(place)


def isolation(tenant: str) -> dict[str, Any]:
    """An isolation policy for the tenant's namespaces that takes no broker from others: a broker that is primary to any
    policy serves no namespace outside the policies."""
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "90"}}
    return {
        "namespaces": [f"{tenant}/.*"],
        "primary": ["no-such-broker"],
        "secondary": [".*"],
        "auto_failover_policy": failover,
        "unload_scope": "none",
    }


def loadable(rows: Iterable[PolicyRow]) -> list[PolicyRow]:
    """Policies with which a topic can still be loaded, to tell its subscriptions: not where they name an offloader the
    broker does not have, or more bookies than there are (seen on 4.0.8)."""
    return [row for row in rows if row.path not in {"policies.offload", "policies.persistence"}]


async def _topics(place: Place) -> None:
    for name in ("x", "s1", "s2", *HOSTILE):
        await place.ask("PUT", *place.topic(name))
    await place.ask("PUT", *place.topic("parts"), "partitions", body=3)
    await place.ask("PUT", "non-persistent", place.tenant, "n", "split", "partitions", body=2)


async def _parts(place: Place) -> None:
    """Subscriptions and schemas."""
    rate = {"dispatchThrottlingRateInMsg": 7, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
    for name in ("x", "parts"):
        for subscription, properties in (("orders", {}), (SUBSCRIPTION, {"team": "shop"})):
            start = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "properties": properties}
            await place.ask("PUT", *subscription_path(place.topic(name), subscription), body=start)
        await place.ask("POST", *place.topic(name), "orders", "dispatchRate", body=rate)
    for name, kind, definition in (("x", "AVRO", DEFINITION), ("parts", "JSON", DEFINITION), ("s1", "STRING", "")):
        body = {"type": kind, "schema": definition, "properties": {"owner": "shop"}}
        await place.ask("POST", "schemas", place.tenant, "n", name, "schema", body=body)


async def _set(place: Place, rows: Iterable[PolicyRow], base: tuple[str, ...], which: int) -> None:
    """Set what Pulsar takes of it, and wait until each is there: policies of topics travel through a topic."""
    for row in rows:
        value = place.real(values_of(row)[which])
        try:
            await place.call(row.set_call(base, value))
        except (RefusedError, NotFoundError):
            continue  # a value Pulsar does not take, or a policy this version does not have
        if row.own_get and row.is_set(value):
            await eventually_async(
                lambda row=row: place.call(row.get_call(base)),
                lambda found, row=row, value=value: row.in_sync(value, row.read(found, place.cluster)),
                what=f"{row.field} is there, which was set",
                every=PAUSE_SECONDS,
            )


async def _removed(place: Place) -> None:
    await place.removed(*isolation_path(place.cluster, place.tenant))
    for domain in ("persistent", "non-persistent"):

        async def left(domain: str = domain) -> list[str]:
            split: list[str] = await place.ask("GET", domain, place.tenant, "n", "partitioned")
            if split:
                with contextlib.suppress(PortError):
                    await place.ask("DELETE", *_path(split[0]), "partitions", force="true")
            return split

        what = f"no {domain} partitioned topic is left"
        await eventually_async(left, lambda split: not split, what=what, every=PAUSE_SECONDS)
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


__all__ = ["DEFINITION", "HOSTILE", "PROPERTIES", "SUBSCRIPTION", "furnished", "loadable"]
