"""Lists, watch events and reads of single objects in any order: what is gone stays gone, what is new stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pulsar_operator.api.constants import LABEL_OWNER_KIND, LABEL_OWNER_NAME, Kind
from pulsar_operator.controllers.core.freshness import Freshness
from pulsar_operator.controllers.core.reconciler import DONE, GONE, Outcome
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.handlers.streams import Children, CustomResources
from pulsar_operator.ports import CUSTOM, Deps, Key
from pulsar_operator.runtime import controllers
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.core.clocks import SteppingClock
from tests.support.core.engine import Running, engine_of, key, watch
from tests.support.core.objects import custom, pulsar_namespace, tenant, topic
from tests.support.core.recorder import CountingMetrics, Recorder
from tests.support.core.virtual_time import run_virtual

TENANT = (CUSTOM[Kind.TENANT], "ns", "t")


class Site:
    """An engine with a cache over an API server in memory; passes look for their object as controllers do."""

    def __init__(self, *, watched: bool = True, looks: bool = True) -> None:
        self.kube = FakeKube()
        self.recorder = Recorder(self._look if looks else None)
        self.cache = WatchCache(DirectReader(SimpleNamespace(kube=FakeKube())))  # type: ignore[arg-type]
        self.engine, _ = engine_of(self.recorder, kube=self.kube, cache=self.cache, resync_seconds=600.0)
        if watched:
            watch(self.kube, self.engine)

    async def _look(self, k: Key) -> Outcome:
        return GONE if await self.kube.get(CUSTOM[k.kind], k.namespace, k.name) is None else DONE

    def during(self, verb: str, kind: Kind, act: Callable[[], None]) -> None:
        """Act once, when the API server has made up the answer to a call and nobody got it yet."""

        def hook(call: Call) -> None:
            if (call.verb, call.kind) == (verb, kind.value):
                self.kube.after.remove(hook)
                act()

        self.kube.after.append(hook)

    async def known(self, kind: Kind) -> list[str]:
        """What the cache says there is."""
        return [obj["metadata"]["uid"] for obj in await self.cache.every(kind)]

    def living(self, kind: Kind) -> list[str]:
        """What there is."""
        return [obj["metadata"]["uid"] for obj in self.kube.all(CUSTOM[kind])]


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.TOPIC}))
@pytest.mark.parametrize("first", [True, False])
def test_what_is_deleted_during_a_list_does_not_come_back_with_it(kind: Kind, first: bool) -> None:
    async def scenario() -> None:
        site = Site()
        site.kube.put(custom(kind, "ns", "x", {}))
        if first:
            site.during("list", kind, lambda: site.kube.remove(CUSTOM[kind], "ns", "x"))
        async with Running(site.engine):
            if not first:
                site.during("list", kind, lambda: site.kube.remove(CUSTOM[kind], "ns", "x"))
                await asyncio.sleep(700)
            await site.engine.idle(within=500)
            assert await site.known(kind) == site.living(kind) == []

    run_virtual(scenario())


def test_dependents_that_are_deleted_during_a_list_are_not_counted() -> None:
    async def scenario() -> None:
        site = Site()
        site.kube.put(pulsar_namespace("ns"))
        for n in range(3):
            site.kube.put(topic("ns", f"x{n}"))
        async with Running(site.engine):
            site.during("list", Kind.TOPIC, lambda: site.kube.remove(CUSTOM[Kind.TOPIC], "ns", "x1"))
            await asyncio.sleep(700)
            parent = site.kube.live(CUSTOM[Kind.NAMESPACE], "ns", "n")
            assert parent is not None
            assert await site.cache.dependents(parent, Kind.TOPIC) == 2

    run_virtual(scenario())


@pytest.mark.parametrize("change", ["made again", "changed"])
def test_an_older_state_in_a_list_does_not_replace_a_newer_one(change: str) -> None:
    async def scenario() -> None:
        site = Site()
        site.kube.put(tenant("ns"))

        def act() -> None:
            if change == "made again":
                site.kube.remove(*TENANT)
                site.kube.put(tenant("ns"))
            site.kube.edit(*TENANT, lambda o: o["spec"].update(adminRoles=["me"]))

        async with Running(site.engine):
            site.during("list", Kind.TENANT, act)
            await asyncio.sleep(700)
            (kept,) = await site.cache.every(Kind.TENANT)
            assert kept == {**(site.kube.live(*TENANT) or {}), "kind": "PulsarTenant"}

    run_virtual(scenario())


def test_a_pass_that_finds_no_object_makes_it_forgotten() -> None:
    async def scenario() -> None:
        site = Site(watched=False)
        site.kube.put(tenant("ns"))
        site.kube.put(pulsar_namespace("ns"))
        async with Running(site.engine):
            site.recorder.passes.clear()
            site.kube.remove(CUSTOM[Kind.NAMESPACE], "ns", "n")
            site.engine.enqueue(key("n", Kind.NAMESPACE))
            await site.engine.idle(within=5)
            assert await site.known(Kind.NAMESPACE) == []
            assert "t" in site.recorder.names(), "its parent counts again"
            assert site.recorder.count(key("n", Kind.NAMESPACE)) <= 2

    run_virtual(scenario())


@pytest.mark.parametrize("reader", ["pass", "resync"])
def test_one_that_is_made_again_while_a_read_finds_none_stays(reader: str) -> None:
    async def scenario() -> None:
        site = Site(looks=reader == "pass")
        async with Running(site.engine):
            site.during("get", Kind.TENANT, lambda: site.kube.put(tenant("ns")))
            site.engine.observe(Kind.TENANT, tenant("ns", uid="before", resourceVersion="0"))
            if reader == "resync":
                await asyncio.sleep(700)
            await site.engine.idle(within=5)
            assert await site.known(Kind.TENANT) == site.living(Kind.TENANT) != []

    run_virtual(scenario())


def test_a_late_deletion_does_not_take_the_next_object_of_the_name() -> None:
    async def scenario() -> None:
        site = Site(watched=False)
        old = site.kube.put(tenant("ns"))
        async with Running(site.engine):
            site.kube.remove(*TENANT)
            new = site.kube.put(tenant("ns"))
            site.engine.observe(Kind.TENANT, new)
            site.engine.observe(Kind.TENANT, old, deleted=True)
            assert await site.known(Kind.TENANT) == [new["metadata"]["uid"]]

    run_virtual(scenario())


@pytest.mark.parametrize("kind", list(Kind))
async def test_every_controller_says_that_there_is_no_object(kind: Kind) -> None:
    deps = Deps(FakeKube(), None, None, SteppingClock(), None, CountingMetrics(), FakeBookies())  # type: ignore[arg-type]
    assert (await controllers(deps)[kind].reconcile(Key(kind, "ns", "none"))).gone


def test_deletions_are_remembered_only_while_a_list_is_under_way() -> None:
    freshness, one = Freshness(), key("x")
    obj = topic("ns", uid="u", resourceVersion="5")
    assert freshness.is_news(one, obj)
    freshness.list_begins(Kind.TOPIC)
    freshness.list_begins(Kind.TOPIC)
    freshness.bury(one, topic("ns", uid="u", resourceVersion="7"))
    freshness.list_ends(Kind.TOPIC)
    assert not freshness.is_news(one, obj)
    assert freshness.is_news(one, topic("ns", uid="v", resourceVersion="8"))
    freshness.list_ends(Kind.TOPIC)
    freshness.bury(one)
    assert freshness.is_news(one, obj), "no list that could show it is under way"
    # Versions that are no numbers cannot be compared: then the UID tells.
    freshness.list_begins(Kind.TOPIC)
    freshness.bury(one, topic("ns", uid="u", resourceVersion="x"))
    assert not freshness.is_news(one, topic("ns", uid="u", resourceVersion="w"))
    assert freshness.is_news(one, topic("ns", uid="z", resourceVersion="a"))


def test_what_a_list_of_a_watch_lacks_is_forgotten_only_if_it_is_gone() -> None:
    """Deleted while no stream was open, or missing from a list that is not true: the API server's word decides."""

    async def scenario() -> None:
        site = Site(watched=False)
        for name in ("gone", "there"):
            site.kube.put(tenant("ns", name))
        async with Running(site.engine):
            site.kube.remove(CUSTOM[Kind.TENANT], "ns", "gone")
            receiver = CustomResources(Kind.TENANT, site.engine)
            for name in ("gone", "there"):
                receiver.missing("ns", name, None, 0.0)
            await site.engine.idle(within=5)
            assert await site.known(Kind.TENANT) == site.living(Kind.TENANT)
            assert len(site.living(Kind.TENANT)) == 1

    run_virtual(scenario())


def test_a_pass_over_what_a_list_of_a_watch_lacks_does_not_take_the_first_list_for_true() -> None:
    async def scenario() -> None:
        site = Site(watched=False, looks=False)
        site.kube.put(topic("ns", "t", uid="t"))
        async with Running(site.engine):
            CustomResources(Kind.TOPIC, site.engine).missing("ns", "t", None, 0.0)
            assert site.cache.listed(key("t")) is None

    run_virtual(scenario())


def test_the_owner_of_what_a_list_of_a_watch_lacks_checks_again() -> None:
    async def scenario() -> None:
        site = Site(watched=False)
        async with Running(site.engine):
            children = Children(site.engine)
            labels = {LABEL_OWNER_KIND: "PulsarCluster", LABEL_OWNER_NAME: "c", "other": "x"}
            kept = children.keep({"metadata": {"namespace": "ns", "name": "p", "labels": labels}})
            assert "other" not in kept
            children.missing("ns", "p", kept, 0.0)
            children.missing("ns", "nobodys", children.keep({"metadata": {"name": "nobodys"}}), 0.0)
            await site.engine.idle(within=5)
            assert [each.name for each in site.recorder.passes] == ["c"]

    run_virtual(scenario())
