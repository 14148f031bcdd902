"""External listeners in memory: brought up, added, taken out, grown and shrunk, and an address that changes."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.render.listeners import ListenerPlan
from pulsar_operator.ports import CONFIG_MAPS, PODS, SERVICES, STATEFUL_SETS, Json
from tests.support.cluster.outside import BROKERS, LOAD_BALANCER, NODE_PORT, Outside, outside

INTERNAL = "pulsar://east-broker-{n}.east-broker-headless.pulsar.svc.cluster.local:6650"


async def brokers_to(found: Outside, number: int) -> None:
    await found.world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=number))


async def listeners_to(found: Outside, *listeners: Json) -> None:
    def change(spec: Json) -> None:
        spec.pop("listeners", None)
        if listeners:
            spec["listeners"] = list(listeners)

    await found.world.change(Kind.CLUSTER, "east", change)


async def node_port(found: Outside, service: str) -> int:
    return int((await found.world.get(SERVICES, service))["spec"]["ports"][0]["nodePort"])


async def test_brokers_advertise_their_node_ports_and_wait_for_nothing() -> None:
    found = await outside(NODE_PORT)
    await found.run()
    assert await found.world.all_ready() == {}
    ports = [await node_port(found, f"east-broker-{n}-external") for n in range(2)]
    assert ports[0] != ports[1]
    assert await found.advertised() == {
        f"east-broker-{n}": {
            "internal": INTERNAL.format(n=n),
            "external": f"pulsar://nodes.example.com:{ports[n]}",
        }
        for n in range(2)
    }
    url = f"pulsar://nodes.example.com:{await node_port(found, 'east-broker-external')}"
    assert await found.told() == ("True", "Ready", f"Clients reach the brokers through listener external at {url}")
    status = await found.world.status(Kind.CLUSTER, "east")
    assert status["listeners"] == [{"name": "external", "serviceUrl": url}]
    assert found.waited == set(), "a broker that waits makes a roll wait"


async def test_without_listeners_nothing_of_it_is_written_or_said() -> None:
    found = await outside()
    await found.run()
    assert (await found.told())[0] == "absent" and "listeners" not in await found.world.status(Kind.CLUSTER, "east")
    assert await found.services() == set() and await found.world.live(CONFIG_MAPS, BROKERS.addresses) is None
    assert found.started == {}


async def test_brokers_are_not_created_before_their_load_balancers_have_addresses() -> None:
    found = await outside(LOAD_BALANCER, balancers=False)
    await found.run()
    assert await found.world.live(STATEFUL_SETS, "east-broker") is None
    status, reason, text = await found.told()
    assert (status, reason) == ("False", "AddressPending")
    assert text.startswith("Service east-broker-0-public of listener public has no address from its load balancer yet")
    assert "See the events of the Service" in text and "(and 1 more)" in text
    assert (await found.world.condition(Kind.CLUSTER, "east", "BrokersReady"))[1] == "AddressPending"
    found.balancers = True
    await found.run()
    assert await found.world.all_ready() == {}
    assert {each["public"] for each in (await found.advertised()).values()} <= {
        f"pulsar://192.0.2.{n}:6661" for n in range(1, 4)
    }
    assert found.waited == set()


async def test_two_brokers_three_and_two_again() -> None:
    found = await outside(NODE_PORT)
    await found.run()
    before = await found.world.uids(PODS)
    await brokers_to(found, 3)
    await found.run()
    assert "east-broker-2-external" in await found.services()
    assert (await found.advertised()).keys() == {"east-broker-0", "east-broker-1", "east-broker-2"}
    after = await found.world.uids(PODS)
    assert {name: uid for name, uid in after.items() if name in before} == before, "no other pod is replaced"
    assert found.waited == set()
    await brokers_to(found, 2)
    await found.run()
    assert await found.services() == {"east-broker-external", "east-broker-0-external", "east-broker-1-external"}
    assert await found.world.uids(PODS) == before


async def test_a_broker_that_is_still_there_keeps_its_service() -> None:
    found = await outside(NODE_PORT, brokers=3)
    await found.run()
    await found.world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    key = next(each for each in await found.world.keys() if each.kind is Kind.CLUSTER)
    await found.world.reconcile(key)
    assert "east-broker-2-external" in await found.services(), "the pod has not ended yet"


async def test_further_brokers_wait_for_the_addresses_and_say_so() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    found.balancers = False
    await brokers_to(found, 3)
    await found.run()
    assert (await found.world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
    assert (await found.told())[1] == "AddressPending"
    text = (await found.world.condition(Kind.CLUSTER, "east", "Progressing"))[2]
    assert "The operator does not add brokers yet. Service east-broker-2-public" in text
    found.balancers = True
    await found.run()
    assert await found.world.all_ready() == {}
    assert (await found.world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 3


async def test_a_listener_is_added_once_its_addresses_are_known_and_taken_out() -> None:
    found = await outside(balancers=False)
    await found.run()
    before = await found.world.uids(PODS)
    await listeners_to(found, LOAD_BALANCER)
    await found.run()
    assert await found.world.uids(PODS) == before, "no broker is replaced that would wait"
    template = (await found.world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"]
    assert "listeners" not in [each["name"] for each in template["spec"]["volumes"]], "a pod that ends would wait"
    assert (await found.told())[:2] == ("False", "AddressPending")
    found.balancers = True
    said: list[tuple[str, str, str]] = []

    async def look() -> None:
        await found.step()
        said.append(await found.told())

    await found.world.run(each=look)
    assert any(each[1] == "RolloutInProgress" and "do not advertise all listeners yet" in each[2] for each in said)
    await found.run()
    assert await found.world.all_ready() == {}
    after = await found.world.uids(PODS)
    assert {name for name in before if before[name] != after[name]} == {"east-broker-0", "east-broker-1"}
    assert found.waited == set()
    await listeners_to(found)
    await found.run()
    assert await found.world.all_ready() == {} and (await found.told())[0] == "absent"
    assert await found.services() == set() and await found.world.live(CONFIG_MAPS, BROKERS.addresses) is None


async def test_an_address_that_changes_replaces_that_broker_alone() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    before = await found.world.uids(PODS)
    await found.address("east-broker-1-public", "198.51.100.7")
    key = next(each for each in await found.world.keys() if each.kind is Kind.CLUSTER)
    await found.world.reconcile(key)
    status, reason, text = await found.told()
    assert (status, reason) == ("False", "RolloutInProgress")
    assert "listener public has address pulsar://198.51.100.7:6661, but the broker advertises" in text
    await found.run()
    after = await found.world.uids(PODS)
    assert {name for name in before if before[name] != after[name]} == {"east-broker-1"}
    assert (await found.advertised())["east-broker-1"]["public"] == "pulsar://198.51.100.7:6661"
    assert await found.world.all_ready() == {}
    quiet = len(found.world.journal.attempts)
    await found.world.reconcile(key)
    assert len(found.world.journal.attempts) == quiet, "nothing is written at rest"


async def test_the_bootstrap_address_concerns_no_broker() -> None:
    found = await outside(LOAD_BALANCER)
    await found.run()
    before = await found.world.uids(PODS)
    await found.address("east-broker-public", "198.51.100.9")
    await found.run()
    assert await found.world.uids(PODS) == before
    status = await found.world.status(Kind.CLUSTER, "east")
    assert status["listeners"][0]["serviceUrl"] == "pulsar://198.51.100.9:6661"


@pytest.mark.parametrize("listeners", [(NODE_PORT,), (NODE_PORT, LOAD_BALANCER)])
async def test_each_broker_keeps_its_address_through_a_restart(listeners: tuple[Json, ...]) -> None:
    found = await outside(*listeners)
    await found.run()
    before = await found.advertised()
    await found.world.backstage.remove(PODS, "pulsar", "east-broker-0")
    found.world.restart()
    await found.run()
    assert await found.advertised() == before


def test_ids_of_brokers_stay_what_they_were() -> None:
    plan = ListenerPlan(BROKERS.owner, BROKERS.component, "cluster.local", external=())
    assert plan.broker_id(1) == "east-broker-1.east-broker-headless.pulsar.svc.cluster.local:8080"
