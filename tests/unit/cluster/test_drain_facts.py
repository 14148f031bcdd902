"""What a pass takes for true about brokers that go: since when, what counts, who may take it, what is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_operator.api.constants import LABEL_PURPOSE, Component, Kind
from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import DrainStatus, PulsarClusterStatus
from pulsar_operator.balance.execution.drain import BLIND_SECONDS, DRAIN, FILL, drain_manifest, fill_manifest
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.dataplane.balancing.broker_drains import FEW, BrokerDrains
from pulsar_operator.controllers.dataplane.observed.outage import (
    LONG_AGO,
    answers_since,
    back_since,
    stores_answer_since,
)
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.cluster.bring_up import StoreFact
from pulsar_operator.domain.dataplane.cluster.cluster_view import InstanceFact
from pulsar_operator.domain.stored import parsed
from pulsar_operator.ports import CUSTOM, AdminEndpoint, Json, PortError, RefusedError, UnavailableError
from tests.support.balancing.answers import answering
from tests.support.balancing.world import LAST, NS, URL, BalancingWorld, SetClock
from tests.support.cluster.world import quickstart

PODS = [f"east-broker-{number}" for number in range(3)]
NAME = "east-drain-to-1"
TIMEOUT = 1800
"""spec.broker.drain.timeoutSeconds, as it is by default."""


def broker(pod: str) -> str:
    return f"{pod}.east-broker-headless.{NS}.svc.cluster.local:8080"


class Brokers:
    """Three brokers of a cluster, and one pass after the other over what is to go."""

    def __init__(self, **drain: Any) -> None:
        self.world = BalancingWorld()
        self.world.pulsar.brokers = [broker(pod) for pod in PODS]
        self.kube, self.pulsar, self.clock = self.world.kube, self.world.pulsar, self.world.clock
        manifest = quickstart()[1]
        manifest["spec"]["broker"].update({"replicas": 3, **({"drain": drain} if drain else {})})
        self.spec = PulsarClusterSpec.model_validate(manifest["spec"])

    def bundles(self, namespace: str, *owners: str) -> None:
        """A namespace with a bundle at each."""
        step = (LAST + 1) // len(owners)
        bounds = [number * step for number in range(len(owners))] + [LAST]
        self.pulsar.namespace(namespace, bounds, [broker(pod) for pod in owners])

    def said(self, pods: Sequence[str], seconds: float, occasion: str | None = None) -> None:
        """What the status says of a drain: these pods, since so many seconds."""
        since = timestamp(self.clock.moment - timedelta(seconds=seconds))
        self.world._cluster_status({"drain": {"pods": list(pods), "since": since, "occasion": occasion or NAME}})

    def store(self, drain: DrainStatus) -> None:
        """The pass writes the status."""
        self.world._cluster_status({"drain": wire(drain)})

    def incomplete(self) -> int:
        """Events that a broker goes with bundles left."""
        return sum(event.reason == "DrainIncomplete" for event in self.kube.events)

    def drains(self, replicas: int = 3) -> BrokerDrains:
        """Of one pass."""
        cluster = self.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
        assert cluster is not None and self.spec.broker is not None
        made = self.spec.broker.model_copy(update={"replicas": replicas})
        spec = self.spec.model_copy(update={"broker": made})
        before, actor = parsed(PulsarClusterStatus, cluster["status"]).drain, Actor(self.world.deps, cluster)
        return BrokerDrains(self.world.deps, actor, cluster, spec, AdminEndpoint("east", URL), before)

    def rebalances(self) -> dict[str, Json]:
        return {o["metadata"]["name"]: o for o in self.kube.all() if o["kind"] == Kind.REBALANCE.value}

    def cluster(self) -> Json:
        cluster = self.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
        assert cluster is not None
        return cluster


@pytest.fixture
def brokers() -> Brokers:
    made = Brokers()
    made.bundles("shop/orders", *PODS)
    return made


@pytest.mark.parametrize("others", [["east-broker-1"], ["east-broker-2"], []])
async def test_the_time_of_another_occasion_is_not_the_time_of_this_one(brokers: Brokers, others: list[str]) -> None:
    """A drain that timed out says nothing of the one after it: that one has its own time."""
    brokers.said(others, TIMEOUT + 1, "east-drain-to-7")
    found = await brokers.drains().drain(["east-broker-2"], NAME)
    assert not found.go
    assert found.status is not None
    assert (found.status.pods, found.status.since) == (["east-broker-2"], timestamp(brokers.clock.moment))
    assert found.status.occasion == NAME
    assert NAME in brokers.rebalances()


@pytest.mark.parametrize("others", [["east-broker-1"], ["east-broker-1", "east-broker-2"], []])
async def test_the_time_goes_on_whoever_of_the_pods_was_there_last_time(brokers: Brokers, others: list[str]) -> None:
    brokers.said(others, TIMEOUT + 1)
    assert (await brokers.drains().drain(["east-broker-2"], NAME)).go


@pytest.mark.parametrize(("seconds", "go"), [(TIMEOUT - 1, False), (TIMEOUT, True)])
async def test_the_time_of_these_pods_goes_on(brokers: Brokers, seconds: int, go: bool) -> None:
    brokers.said(["east-broker-2", "east-broker-1"], seconds)
    found = await brokers.drains().drain(["east-broker-1", "east-broker-2"], NAME)
    assert found.go is go
    if not go:
        assert found.status is not None
        assert found.status.since == timestamp(brokers.clock.moment - timedelta(seconds=seconds))
    assert ["DrainIncomplete"] * go == [
        event.reason for event in brokers.kube.events if event.reason == "DrainIncomplete"
    ]


@pytest.mark.parametrize("paused", [False, True])
async def test_a_drain_reports_once_that_it_is_incomplete(brokers: Brokers, paused: bool) -> None:
    """Whatever keeps the pods afterwards, however the number of bundles changes, and also after a restart."""
    brokers.said(["east-broker-2"], TIMEOUT)
    if paused:
        drains = brokers.drains()
        drains._actor.act = False
        found = await drains.drain(["east-broker-2"], NAME)
        assert found.status is not None and found.status.incomplete_since is None, "nobody was told"
        brokers.store(found.status)
    begun = brokers.clock.moment
    for bundles in range(3):
        brokers.bundles(f"shop/more-{bundles}", "east-broker-2")
        found = await brokers.drains().drain(["east-broker-2"], NAME)
        assert found.go and found.status is not None
        assert found.status.incomplete_since == timestamp(begun)
        brokers.store(found.status)
        brokers.clock.moment += timedelta(seconds=30)
    assert brokers.incomplete() == 1
    other = "east-drain-to-0"
    brokers.said(["east-broker-2"], TIMEOUT, other)
    assert (await brokers.drains().drain(["east-broker-2"], other)).go
    assert brokers.incomplete() == 2, "another drain"


async def test_a_drain_that_goes_on_reports_nothing_again(brokers: Brokers) -> None:
    """A broker that did not answer, answers for a while, and is silent again: that is one drain."""
    brokers.said(["east-broker-2"], BLIND_SECONDS)
    brokers.pulsar.mute = {broker("east-broker-2")}
    for mute in (brokers.pulsar.mute, set(), brokers.pulsar.mute):
        brokers.pulsar.mute = mute
        found = await brokers.drains().drain(["east-broker-2"], NAME)
        assert found.go is bool(mute) and found.status is not None
        brokers.store(found.status)
    assert brokers.incomplete() == 1


async def test_a_broker_that_goes_next_takes_nothing(brokers: Brokers) -> None:
    found = await brokers.drains().drain(["east-broker-2"], NAME, avoid=["east-broker-1"])
    assert not found.go
    spec = brokers.rebalances()[NAME]["spec"]
    assert (spec["brokers"], spec["excludedBrokers"]) == ([broker("east-broker-2")], [broker("east-broker-1")])


async def test_a_drain_is_an_event_once_it_is_requested(brokers: Brokers) -> None:
    for _ in range(2):
        assert not (await brokers.drains().drain(["east-broker-2"], NAME)).go
    (event,) = brokers.kube.events
    assert event.reason == "Draining" and NAME in event.message


@pytest.mark.parametrize("avoid", [["east-broker-0", "east-broker-1"], ["east-broker-1", "east-broker-0", "gone-1"]])
async def test_brokers_that_take_nothing_do_not_count_as_takers(brokers: Brokers, avoid: list[str]) -> None:
    """Where all others are next, there is nowhere to hand over to: no drain, and no wait for ever."""
    found = await brokers.drains().drain(["east-broker-2"], NAME, avoid=avoid)
    assert (found.go, brokers.rebalances()) == (False, {})
    assert found.blocker is not None and "No other broker can take the bundles" in found.blocker.message
    brokers.said(["east-broker-2"], BLIND_SECONDS)
    assert (await brokers.drains().drain(["east-broker-2"], NAME, avoid=avoid)).go
    assert any("no other broker can take" in event.message for event in brokers.kube.events)


async def test_brokers_that_go_do_not_count_as_takers(brokers: Brokers) -> None:
    found = await brokers.drains().drain(PODS, NAME)
    assert (found.go, brokers.rebalances()) == (False, {})
    assert found.blocker is not None and "No other broker can take the bundles" in found.blocker.message


async def test_bundles_of_pulsars_own_namespace_hold_no_broker() -> None:
    """Pulsar moves its system topics itself, and no plan is made of them."""
    brokers = Brokers()
    brokers.bundles("pulsar/system", *PODS)
    assert (await brokers.drains().drain(["east-broker-2"], NAME)).go
    assert (brokers.rebalances(), brokers.kube.events) == ({}, [])


async def test_the_emptiest_broker_is_the_one_with_the_fewest_bundles_of_users() -> None:
    brokers = Brokers()
    brokers.bundles("shop/orders", "east-broker-0", "east-broker-1", "east-broker-1", "east-broker-2")
    brokers.bundles("pulsar/system", "east-broker-2", "east-broker-2", "east-broker-2")
    assert await brokers.drains().emptiest(PODS) == "east-broker-2"
    brokers.bundles("shop/more", "east-broker-2")
    assert await brokers.drains().emptiest(PODS) == "east-broker-0"
    assert await brokers.drains().emptiest([*PODS, "east-broker-10"]) == "east-broker-10", "it is not registered"


@pytest.mark.parametrize("error", [UnavailableError("no answer"), RefusedError("HTTP 403", status=403)])
async def test_a_broker_that_does_not_list_its_bundles_hides_no_other(error: PortError) -> None:
    """Nor is it the emptiest, however few it may have."""
    brokers = Brokers()
    brokers.bundles("shop/orders", "east-broker-0", "east-broker-0", "east-broker-1", "east-broker-1")
    odd = broker("east-broker-2")
    answering(brokers.world, lambda asked, path: asked == odd and path[-1] == "ownedNamespaces", error)
    brokers.bundles("shop/more", "east-broker-0")
    assert await brokers.drains().emptiest(PODS) == "east-broker-1"
    assert await brokers.drains().emptiest(["east-broker-2"]) is None
    brokers.pulsar.unreachable = True
    assert await brokers.drains().emptiest(PODS) is None


async def test_the_broker_that_leads_goes_last_however_empty() -> None:
    brokers = Brokers()
    brokers.bundles("shop/orders", "east-broker-0", "east-broker-1", "east-broker-1")
    brokers.pulsar.leader = broker("east-broker-2")
    assert await brokers.drains().emptiest(PODS) == "east-broker-0"
    assert await brokers.drains().emptiest(["east-broker-2"]) == "east-broker-2"
    brokers.pulsar.leader = "somebody-else:8080"
    assert await brokers.drains().emptiest(PODS) == "east-broker-2"


@pytest.mark.parametrize(("namespace", "asked"), [("shop/orders", True), ("pulsar/system", False)])
@pytest.mark.parametrize("there", [True, False])
async def test_new_brokers_get_a_share_where_users_have_bundles(namespace: str, asked: bool, there: bool) -> None:
    brokers = Brokers()
    brokers.bundles(namespace, "east-broker-0", "east-broker-0")
    pods = ["east-broker-2"] if there else ["east-broker-3"]
    await brokers.drains().fill("x", pods, there=there)
    found = [each["spec"]["brokers"] for each in brokers.rebalances().values()]
    assert found == ([[broker(pods[0])]] if asked else [])


async def test_no_share_for_brokers_that_are_not_there(brokers: Brokers) -> None:
    await brokers.drains().fill("x", ["east-broker-7"], there=True)
    assert brokers.rebalances() == {}


async def test_bundles_that_are_no_more_hold_no_broker_while_there_are_few(brokers: Brokers) -> None:
    """Beyond a few namespaces the brokers are believed: to read the boundaries of all would take longer."""
    going = broker("east-broker-2")
    brokers.pulsar.owners = {(f"shop/gone{number}", 0, LAST): going for number in range(FEW)}
    assert (await brokers.drains().drain(["east-broker-2"], NAME)).go
    brokers.pulsar.owners[f"shop/gone{FEW}", 0, LAST] = going
    found = await brokers.drains().drain(["east-broker-2"], NAME)
    assert not found.go and found.status is not None and found.status.bundles == FEW + 1


async def test_a_namespace_that_is_not_told_keeps_no_bundle_from_being_handed_over(brokers: Brokers) -> None:
    """Its own bundles count as the broker lists them."""
    brokers.bundles("bank/odd", "east-broker-2")
    error = RefusedError("HTTP 403", status=403)
    answering(brokers.world, lambda asked, path: path[-3:] == ["bank", "odd", "bundles"], error)
    found = await brokers.drains().drain(["east-broker-2"], NAME)
    assert not found.go and found.status is not None
    assert (found.status.bundles, found.status.rebalance) == (2, NAME)


async def test_pods_may_go_at_once_where_nothing_is_to_be_handed_over(brokers: Brokers) -> None:
    assert (await brokers.drains().drain([], NAME)).go
    without = Brokers(enabled=False)
    without.bundles("shop/orders", *PODS)
    assert (await without.drains().drain(["east-broker-2"], NAME)).go
    await without.drains().fill("x", ["east-broker-2"], there=True)
    assert without.rebalances() == brokers.rebalances() == {}


async def test_what_the_pass_needs_is_not_over(brokers: Brokers) -> None:
    drains = brokers.drains()
    await drains.drain(["east-broker-2"], NAME)
    await drains.fill("x", ["east-broker-0"], there=True)
    await drains.clean(drains.asked, changing=True)
    assert sorted(brokers.rebalances()) == [NAME, "east-fill-x"]
    again = brokers.drains()
    await again.fill("x", ["east-broker-0"], there=True)
    await again.clean(again.asked, changing=True)
    assert sorted(brokers.rebalances()) == ["east-fill-x"], "the drain was of an earlier occasion"


@pytest.mark.parametrize(
    ("named", "replicas", "changing", "kept"),
    [
        (["east-broker-2"], 3, False, True),
        (["east-broker-1", "east-broker-2"], 3, False, True),
        (["east-broker-2"], 3, True, False),
        (["east-broker-2"], 2, False, False),
        (["east-broker-1", "east-broker-2"], 2, False, False),
        (["east-broker-1"], 2, False, True),
    ],
)
async def test_a_share_is_over_where_one_of_its_brokers_is_not_to_be(
    brokers: Brokers, named: list[str], replicas: int, changing: bool, kept: bool
) -> None:
    """Scale-in starts here: a fill that waits for a broker that never comes keeps everything else waiting."""
    assert brokers.spec.broker is not None
    drain = brokers.spec.broker.drain
    brokers.kube.put(fill_manifest(brokers.cluster(), "f", [broker(pod) for pod in named], drain))
    await brokers.drains(replicas).clean((), changing=changing)
    assert ("f" in brokers.rebalances()) is kept


@pytest.mark.parametrize("changing", [True, False])
async def test_only_what_the_operator_made_for_this_cluster_is_ever_over(brokers: Brokers, changing: bool) -> None:
    assert brokers.spec.broker is not None
    drain = brokers.spec.broker.drain
    other = {**brokers.cluster(), "metadata": {**brokers.cluster()["metadata"], "uid": "another"}}
    mine = brokers.world.rebalance("mine", mode="RemoveBrokers", brokers=[broker("gone-9")])
    mine["metadata"]["labels"] = {LABEL_PURPOSE: FILL}
    brokers.kube.put(mine)
    brokers.kube.put(drain_manifest(other, "theirs", [broker("gone-9")], [], drain))
    brokers.kube.put(fill_manifest(other, "theirs-too", [broker("gone-9")], drain))
    brokers.kube.put(drain_manifest(brokers.cluster(), "ours", [broker("gone-9")], [], drain))
    going = drain_manifest(brokers.cluster(), "going", [broker("gone-9")], [], drain)
    going["metadata"]["finalizers"] = ["tests.example.com/hold"]
    brokers.kube.put(going)
    await brokers.kube.delete(CUSTOM[Kind.REBALANCE], NS, "going", uid=brokers.rebalances()["going"]["metadata"]["uid"])
    before = len(brokers.kube.calls)
    await brokers.drains().clean((), changing=changing)
    assert sorted(brokers.rebalances()) == ["going", "mine", "theirs", "theirs-too"]
    assert [call.name for call in brokers.kube.calls[before:] if call.verb == "delete"] == ["ours"]
    assert brokers.rebalances()["going"]["metadata"]["labels"][LABEL_PURPOSE] == DRAIN


async def test_the_status_names_the_drain_that_is_asked_for(brokers: Brokers) -> None:
    found = await brokers.drains().drain(["east-broker-2"], NAME)
    assert found.status is not None and (found.status.rebalance, found.status.bundles) == (NAME, 1)
    nowhere = await brokers.drains().drain(PODS, NAME)
    assert nowhere.status is not None and nowhere.status.rebalance is None


async def test_the_time_begins_anew_where_the_clock_was_set_back(brokers: Brokers) -> None:
    """Otherwise the pods would wait, beyond their time-out, until the clock has caught up."""
    brokers.said(["east-broker-2"], -5 * 3600)
    found = await brokers.drains().drain(["east-broker-2"], NAME)
    assert not found.go and found.status is not None
    assert found.status.since == timestamp(brokers.clock.moment)


@pytest.mark.parametrize("error", [UnavailableError("no answer"), RefusedError("HTTP 403", status=403)])
@pytest.mark.parametrize("silent", [[], [0], [0, 1], [2]])
async def test_new_brokers_get_a_share_although_another_is_silent(silent: list[int], error: PortError) -> None:
    """Also where only those that do not answer may have something to share out."""
    brokers = Brokers()
    brokers.bundles("shop/orders", PODS[0], PODS[1])
    odd = {broker(PODS[each]) for each in silent}
    answering(brokers.world, lambda asked, path: asked in odd and path[-1] == "ownedNamespaces", error)
    await brokers.drains(4).fill("grown", ["east-broker-3"], there=False)
    assert await brokers.kube.get(CUSTOM[Kind.REBALANCE], NS, "east-fill-grown") is not None


async def test_a_drain_does_not_wait_for_a_third_broker() -> None:
    brokers = Brokers()
    brokers.bundles("shop/orders", *PODS)
    brokers.pulsar.mute = {broker(PODS[0])}
    found = await brokers.drains().drain([PODS[2]], NAME)
    assert not found.go and found.status is not None
    assert (found.status.bundles, found.status.rebalance) == (1, NAME)


async def test_silent_brokers_are_waited_for_at_once(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, twenty of them would take longer than a pass may."""
    answer, running, most = brokers.pulsar.call, 0, 0

    async def silent(endpoint: AdminEndpoint, method: str, path: Sequence[str], **more: Any) -> Any:
        nonlocal running, most
        if path[-1] != "ownedNamespaces":
            return await answer(endpoint, method, path, **more)
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1
        raise UnavailableError("no answer in time")

    monkeypatch.setattr(brokers.pulsar, "call", silent)
    assert await brokers.drains().emptiest(PODS) is None
    assert most == len(PODS)
    most = 0
    assert not (await brokers.drains().drain(PODS[1:], NAME)).go
    assert most == len(PODS[1:])


@pytest.mark.parametrize("odd", [["x"], "text", 7, {"brokerId": ["x"]}], ids=str)
async def test_a_leader_that_is_none_fails_no_pass(brokers: Brokers, odd: Any) -> None:
    answering(brokers.world, lambda asked, path: path[-1] == "leaderBroker", odd)
    assert await brokers.drains().emptiest(PODS) in (None, PODS[2])


def test_a_time_to_come_at_which_a_store_answers_holds_no_deadline() -> None:
    """The clock was ahead, and was set back: what counts from the store's return counts from long ago."""
    clock = SetClock()
    ahead, behind = (timestamp(clock.moment + timedelta(hours=hours)) for hours in (48, -48))
    metadata = {"type": "MetadataReady", "status": "True", "lastTransitionTime": ahead}
    spec = PulsarClusterSpec.model_validate(quickstart()[1]["spec"])

    def facts(since: str) -> Any:
        instance = InstanceFact(True, StoreFact(True, since=since))
        return SimpleNamespace(spec=spec, instance=instance, obj={"status": {"conditions": [metadata]}})

    assert answers_since(facts(ahead), Component.BROKER, clock.moment) == LONG_AGO
    assert answers_since(facts(behind), Component.BROKER, clock.moment) == clock.moment - timedelta(hours=48)
    assert set(stores_answer_since(facts(ahead), clock.moment).values()) == {LONG_AGO}
    assert back_since(facts(ahead), clock.moment) == LONG_AGO
