"""External listeners whose Services lose what they had: brokers keep the addresses that they read at their start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PODS, SERVICES, STATEFUL_SETS, ForbiddenError, Json
from tests.support.cluster.outside import BROKERS, LOAD_BALANCER, NODE_PORT, Outside, outside
from tests.unit.cluster.test_external_listeners import brokers_to, listeners_to

PODS_OF_BROKERS = ("east-broker-0", "east-broker-1")


async def entries(found: Outside) -> Json:
    return dict((await found.world.get(CONFIG_MAPS, BROKERS.addresses))["data"])


async def started_again(found: Outside) -> None:
    """All brokers end, and start again with what they find."""
    for name in PODS_OF_BROKERS:
        await found.world.backstage.remove(PODS, "pulsar", name)
    await found.run()
    assert not found.waited, "a broker waits for an address that it had"


async def balanced(found: Outside, *ips: str) -> None:
    status = {"loadBalancer": {"ingress": [{"ip": ip} for ip in ips]}}
    for name in PODS_OF_BROKERS:
        await found.world.backstage.set_status(SERVICES, "pulsar", f"{name}-public", status)


async def test_a_listener_that_waits_takes_no_address_from_another_one() -> None:
    found = await outside(NODE_PORT)
    await found.run()
    before = await entries(found)
    found.balancers = False
    await listeners_to(found, NODE_PORT, LOAD_BALANCER)
    await found.run()
    assert await entries(found) == before
    assert (await found.told())[:2] == ("False", "AddressPending")
    await started_again(found)


async def test_an_empty_status_of_a_load_balancer_takes_no_address_away() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    before = await entries(found)
    found.balancers = False
    await balanced(found)
    await found.run()
    assert await entries(found) == before
    status, reason, text = await found.told()
    assert (status, reason) == ("False", "AddressPending") and "keeps the address that it had" in text
    await started_again(found)


async def test_a_service_that_somebody_deletes_takes_no_address_away() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    before = await entries(found)
    found.balancers = False
    await found.world.backstage.remove(SERVICES, "pulsar", "east-broker-0-public")
    await found.run()
    assert await entries(found) == before
    await found.address("east-broker-0-public", "198.51.100.9")
    await found.run()
    assert "198.51.100.9" in (await entries(found))["east-broker-0"]


async def test_the_order_of_addresses_restarts_no_broker() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    await balanced(found, "192.0.2.101", "192.0.2.102")
    await found.run()
    uids = {name: uid for name, uid in (await found.world.uids(PODS)).items() if name in PODS_OF_BROKERS}
    for _ in range(3):
        for ips in (("192.0.2.102", "192.0.2.101"), ("192.0.2.101", "192.0.2.102")):
            await balanced(found, *ips)
            await found.run()
    assert {name: uid for name, uid in (await found.world.uids(PODS)).items() if name in uids} == uids
    await balanced(found, "192.0.2.102")
    await found.run()
    assert all("192.0.2.102" in each for each in (await entries(found)).values()), "the first one is gone"


def refusing(found: Outside, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    apply: Callable[..., Awaitable[Any]] = found.world.deps.kube.apply

    async def refused(manifest: Json, *more: Any, **options: Any) -> Any:
        if manifest["kind"] == "Service" and manifest["metadata"]["name"] == name:
            raise ForbiddenError("services is forbidden")
        return await apply(manifest, *more, **options)

    monkeypatch.setattr(found.world.deps.kube, "apply", refused)


@pytest.mark.parametrize("foreign", [True, False])
async def test_no_broker_is_added_whose_service_cannot_be_created(
    foreign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    if foreign:
        meta, spec = (
            {"name": "east-broker-2-public", "namespace": "pulsar"},
            {"type": "ClusterIP", "ports": [{"port": 1}]},
        )
        await found.world.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    else:
        refusing(found, monkeypatch, "east-broker-2-public")
    await brokers_to(found, 3)
    await found.run()
    assert (await found.world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2


async def test_a_bootstrap_service_without_an_address_is_reported() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    found.balancers = False
    await found.world.backstage.set_status(SERVICES, "pulsar", "east-broker-public", {"loadBalancer": {}})
    await found.run()
    assert (await found.told())[:2] == ("False", "AddressPending")
    status = await found.world.status(Kind.CLUSTER, "east")
    assert status["listeners"] == [{"name": "public"}]
