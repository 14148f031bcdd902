"""A cluster of an instance with authentication: brought up, asked with a token, and never opened by what is missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from yarl import URL

from pulsar_operator.adapters.admin_access import check_host
from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.clusters import broker_endpoint, serving_endpoint
from pulsar_operator.ports import CUSTOM, SERVICE_ACCOUNTS, STATEFUL_SETS, AdminAccess, UnavailableError
from tests.support.cluster.world import ClusterWorld, quickstart

AUDIENCE = "pulsaroperator.io/pulsar/demo"
SECURED = {"authentication": {"serviceAccountTokens": {}}, "authorization": {"superUserRoles": ["ops"]}}


async def secured() -> ClusterWorld:
    """The quickstart in a secured instance, converged."""
    world = ClusterWorld.fakes()
    found = quickstart(world.namespace)
    for each in found:
        if each["kind"] == Kind.INSTANCE.value:
            each["spec"] |= copy.deepcopy(SECURED)
    await world.apply(*found)
    await world.run()
    return world


async def templates(world: ClusterWorld) -> dict[str, Any]:
    """Pod templates of all workloads."""
    return {each["metadata"]["name"]: each["spec"]["template"] for each in await world.backstage.all(STATEFUL_SETS)}


async def test_it_becomes_ready_and_is_asked_with_a_token_that_stays_with_it() -> None:
    world = await secured()
    assert await world.all_ready() == {}
    cluster = await world.get(Kind.CLUSTER, "east")
    assert cluster["status"]["endpoints"]["tokenAudience"] == AUDIENCE
    endpoint = serving_endpoint(cluster)
    assert endpoint is not None
    domain = f"{world.namespace}.svc.cluster.local"
    hosts = (f"east-broker.{domain}", f".east-broker-headless.{domain}")
    assert endpoint.access == AdminAccess(hosts, audience=AUDIENCE)
    assert broker_endpoint(endpoint, f"east-broker-0.east-broker-headless.{domain}:8080").access == endpoint.access
    assert {"east-broker", "east-proxy"} <= set(await world.names(SERVICE_ACCOUNTS))


@pytest.mark.parametrize("audience", ["https://kubernetes.default.svc.cluster.local", "pulsaroperator.io/other/prod"])
async def test_a_status_chooses_neither_the_audience_nor_the_receiver_of_a_token(audience: str) -> None:
    world = await secured()
    cluster = await world.get(Kind.CLUSTER, "east")
    before = serving_endpoint(cluster)
    known = cluster["status"]["endpoints"]
    known |= {"tokenAudience": audience, "brokerWebServiceUrl": "http://elsewhere.example:8080"}
    endpoint = serving_endpoint(cluster)
    assert before is not None and endpoint is not None and endpoint.access == before.access
    with pytest.raises(UnavailableError, match=r"elsewhere\.example:8080 is not among the hosts of cluster east"):
        check_host(endpoint, URL(endpoint.url))


async def test_without_authentication_no_call_carries_a_token() -> None:
    world = await ClusterWorld.fakes().bring_up()
    cluster = await world.get(Kind.CLUSTER, "east")
    assert "tokenAudience" not in cluster["status"]["endpoints"]
    endpoint = serving_endpoint(cluster)
    assert endpoint is not None and endpoint.access is None


def unreadable(spec: dict[str, Any]) -> None:
    """As a newer operator may have written it."""
    spec["authentication"] = {"serviceAccountTokens": {"discovery": "OfTheFuture"}}


@pytest.mark.parametrize("status", ["stored", "lost"])
@pytest.mark.parametrize("lost", ["instance", "its specification"])
async def test_a_cluster_whose_instance_is_not_known_stays_as_it_is(lost: str, status: str) -> None:
    """Rendered without the instance, brokers would be replaced by ones that serve everybody. A restored object has no
    status."""
    world = await secured()
    before, accounts = await templates(world), set(await world.names(SERVICE_ACCOUNTS))
    if lost == "instance":
        await world.backstage.edit(
            CUSTOM[Kind.INSTANCE], world.namespace, "demo", lambda obj: obj["metadata"].update(finalizers=[])
        )
        await world.backstage.remove(CUSTOM[Kind.INSTANCE], world.namespace, "demo")
    else:
        await world.change(Kind.INSTANCE, "demo", unreadable)
    if status == "lost":
        await world.backstage.set_status(CUSTOM[Kind.CLUSTER], world.namespace, "east", {"endpoints": None})
    await world.annotate(Kind.CLUSTER, "east", "example.com/touched", "1")
    await world.run()
    assert await templates(world) == before
    assert set(await world.names(SERVICE_ACCOUNTS)) == accounts
    if status == "stored":
        cluster = await world.get(Kind.CLUSTER, "east")
        assert cluster["status"]["endpoints"]["tokenAudience"] == AUDIENCE, "it is asked with its token still"
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[0] == "False"


async def test_a_standalone_pod_waits_until_its_instance_is_known() -> None:
    world = ClusterWorld.fakes()
    found = {each["kind"]: each for each in quickstart(world.namespace)}
    spec = {"instanceRef": {"name": "demo"}, "mode": "Standalone", "preset": "Small", "standalone": {}}
    await world.apply({**found[Kind.CLUSTER.value], "spec": spec})
    await world.run()
    assert await templates(world) == {}, "it would serve everybody"
    instance = found[Kind.INSTANCE.value]
    await world.apply({**instance, "spec": {**instance["spec"], **copy.deepcopy(SECURED)}})
    await world.run()
    (template,) = (await templates(world)).values()
    assert "pulsar-operator-token" in str(template)
