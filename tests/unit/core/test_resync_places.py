"""Kinds and Kubernetes namespaces are listed each by itself: one that cannot be holds up nobody else, and what is in it
is unknown, not absent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.dataplane.objects.dependents import dependents_of_cluster, dependents_of_instance
from pulsar_operator.ports import CUSTOM, Deps, Json, PortError, RefusedError, UnavailableError
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.kube_calls import Call
from tests.support.core.clocks import SteppingClock
from tests.support.core.engine import engine_of, watch
from tests.support.core.objects import custom, instance, pulsar_namespace, tenant, topic
from tests.support.core.recorder import CountingMetrics, Recorder
from tests.support.core.virtual_time import run_virtual

NAMESPACES = ("a", "b")


class Site:
    """An engine and the Kubernetes namespaces it watches; ``broken``: lists that fail, ``slow``: that never end."""

    def __init__(self, *, namespaces: tuple[str, ...] = NAMESPACES) -> None:
        self.kube = FakeKube(watched=namespaces)
        self.broken: set[tuple[Kind | None, str | None]] = set()
        self.slow: set[tuple[Kind, str | None]] = set()
        self.recorder = Recorder()
        self.deps = Deps(self.kube, None, None, SteppingClock(), None, CountingMetrics(), FakeBookies())  # type: ignore[arg-type]
        self.cache = WatchCache(DirectReader(self.deps))
        self.engine, _ = engine_of(
            self.recorder, kube=self.kube, cache=self.cache, namespaces=namespaces, resync_seconds=600.0
        )
        self.kube.before.append(self._hook)

    async def _hook(self, call: Call) -> None:
        if call.verb == "list" and call.kind in set(Kind):
            scopes = [call.namespace] if call.namespace is not None else list(self.kube.watched) or [None]
            for kind, namespace in self.broken:
                if kind in (None, call.kind) and namespace in scopes:
                    raise RefusedError(f"{call.kind} of {namespace} is forbidden", status=403)
            if any((Kind(call.kind), scope) in self.slow for scope in scopes):
                await asyncio.sleep(1_000_000)

    async def run(self, act: Callable[[], Awaitable[None]]) -> None:
        """Act while the engine runs; what was there before comes by lists alone."""
        watch(self.kube, self.engine)
        stop = asyncio.Event()
        task = asyncio.create_task(self.engine.run(stop, grace=0.0))
        await self.engine.ready.wait()
        await self.engine.idle()
        await act()
        stop.set()
        await task


def trees(kube: FakeKube, *namespaces: str) -> None:
    for each in namespaces:
        kube.put(instance(each))
        kube.put(custom(Kind.CLUSTER, each, "c", {"instanceRef": {"name": "i"}}))
        kube.put(tenant(each))
        kube.put(pulsar_namespace(each))
        kube.put(topic(each))


def looked_at(site: Site) -> set[tuple[str, str]]:
    return {(key.namespace, key.name) for key in site.recorder.passes}


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_that_cannot_be_listed_holds_up_no_other(kind: Kind) -> None:
    async def scenario() -> None:
        site = Site(namespaces=())
        trees(site.kube, "a")
        site.broken = {(kind, None)}
        others = {obj["metadata"]["name"] for obj in site.kube.all() if obj["kind"] != kind.value}

        async def act() -> None:
            assert {name for _, name in looked_at(site)} == others
            problem = site.engine.not_ready()
            assert problem is not None and problem.startswith(f"cannot list {kind.value} objects: RefusedError")
            site.recorder.passes.clear()
            await asyncio.sleep(1200)
            assert {name for _, name in looked_at(site)} == others, "the resync of the others goes on"
            site.broken = set()
            await asyncio.sleep(60)
            assert site.engine.not_ready() is None
            mine = {obj["metadata"]["name"] for obj in site.kube.all(CUSTOM[kind])}
            assert mine <= {name for _, name in looked_at(site)}

        await site.run(act)

    run_virtual(scenario())


def test_a_namespace_that_cannot_be_listed_holds_up_no_other() -> None:
    async def scenario() -> None:
        site = Site()
        trees(site.kube, "a", "b")
        site.broken = {(None, "b")}

        async def act() -> None:
            assert looked_at(site) == {("a", name) for name in "ictnx"}
            problem = site.engine.not_ready()
            assert problem is not None and "Kubernetes namespace b" in problem and "namespace a" not in problem
            site.kube.edit(CUSTOM[Kind.TENANT], "a", "t", lambda o: o["spec"].update(adminRoles=["me"]))
            site.recorder.passes.clear()
            await asyncio.sleep(1200)
            assert looked_at(site) == {("a", name) for name in "ictnx"}
            site.broken = set()
            await asyncio.sleep(60)
            assert {("b", name) for name in "ictnx"} <= looked_at(site)
            assert site.engine.not_ready() is None

        await site.run(act)

    run_virtual(scenario())


def test_lists_are_made_at_once() -> None:
    async def scenario() -> None:
        site = Site()
        trees(site.kube, "a", "b")
        site.slow = {(Kind.INSTANCE, "a"), (Kind.TENANT, "b")}
        task = asyncio.create_task(site.engine.run(asyncio.Event()))
        await asyncio.sleep(60)
        slow = {("a", "i"), ("b", "t")}
        assert looked_at(site) == {(n, name) for n in NAMESPACES for name in "ictnx"} - slow
        assert site.engine.not_ready() == "The objects are not listed yet"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(scenario())


def found(objects: list[Json]) -> list[tuple[str, str]]:
    return sorted((obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in objects)


def test_questions_about_a_namespace_that_is_not_listed_have_no_answer_and_others_do() -> None:
    async def scenario() -> None:
        site = Site()
        trees(site.kube, "a", "b")
        shared = instance("a", "shared")
        shared["spec"]["allowedKubernetesNamespaces"] = ["b"]
        site.kube.put(shared)
        # In b, which cannot be listed: a namesake of a tenant, a dependent, a cluster.
        theirs = {"instanceRef": {"name": "shared", "namespace": "a"}}
        site.kube.put(custom(Kind.TENANT, "a", "mine", {**theirs, "name": "same"}))
        site.kube.put(custom(Kind.TENANT, "b", "theirs", {**theirs, "name": "same"}))
        site.kube.put(custom(Kind.CLUSTER, "a", "d", theirs))
        site.broken = {(None, "b")}

        async def act() -> None:
            cache, deps = site.cache, Deps(**{**vars(site.deps), "reader": site.cache})
            alone, both = site.kube.live(CUSTOM[Kind.INSTANCE], "a", "i"), site.kube.live(*at(Kind.INSTANCE, "shared"))
            mine = site.kube.live(*at(Kind.TENANT, "mine"))
            cluster, wide = site.kube.live(*at(Kind.CLUSTER, "c")), site.kube.live(*at(Kind.CLUSTER, "d"))
            assert alone and both and mine and cluster and wide
            # Nothing in b may refer to this one.
            assert await cache.dependents(alone, Kind.TENANT) == 1
            assert ("a", "c") in found(await cache.every(Kind.CLUSTER, allowed_by=alone))
            assert await cache.get(Kind.TENANT, "a", "t") is not None
            assert await cache.duplicates_of(site.kube.live(*at(Kind.TENANT, "t")) or {}) == []
            assert found(await dependents_of_instance(deps, alone)) == [("a", "t")]
            assert found(await dependents_of_cluster(deps, cluster)) == [("a", "n"), ("a", "t")]
            assert found(await dependents_of_cluster(deps, cluster, live=True)) == [("a", "n"), ("a", "t")]
            # What is in b matters to this one, and is unknown.
            questions: list[Awaitable[object]] = [
                cache.dependents(both, Kind.TENANT),
                cache.named(both, Kind.TENANT),
                cache.every(Kind.CLUSTER),
                cache.every(Kind.CLUSTER, allowed_by=both),
                cache.duplicates_of(mine),
                dependents_of_instance(deps, both),
                dependents_of_instance(deps, both, live=True),
                dependents_of_cluster(deps, wide),
                dependents_of_cluster(deps, wide, live=True),
            ]
            for question in questions:
                with pytest.raises(PortError):
                    await question
            site.broken = set()
            await asyncio.sleep(60)
            assert await cache.dependents(both, Kind.TENANT) == 2
            assert [key.name for key in await cache.duplicates_of(mine)] == ["theirs"]

        await site.run(act)

    run_virtual(scenario())


def at(kind: Kind, name: str) -> tuple[object, str, str]:
    return CUSTOM[kind], "a", name


def test_a_namespace_that_is_lost_later_keeps_what_was_known_and_takes_nothing_for_gone() -> None:
    async def scenario() -> None:
        site = Site()
        trees(site.kube, "a", "b")

        async def act() -> None:
            site.broken = {(None, "b")}
            site.recorder.passes.clear()
            await asyncio.sleep(1200)
            assert found(await site.cache.every(Kind.TENANT)) == [("a", "t"), ("b", "t")]
            assert site.engine.not_ready() is not None
            assert ("a", "x") in looked_at(site)

        await site.run(act)

    run_virtual(scenario())


def test_what_is_listed_late_wakes_who_waited_for_it() -> None:
    async def scenario() -> None:
        site = Site(namespaces=())
        trees(site.kube, "a")
        site.broken = {(Kind.NAMESPACE, None)}

        async def act() -> None:
            site.recorder.passes.clear()
            site.broken = set()
            await asyncio.sleep(60)
            assert {("a", "n"), ("a", "x"), ("a", "t")} <= looked_at(site)

        await site.run(act)

    run_virtual(scenario())


def test_the_same_refusal_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        site = Site(namespaces=())
        site.broken = {(Kind.TENANT, None)}

        async def act() -> None:
            await asyncio.sleep(600)

        await site.run(act)

    run_virtual(scenario())
    assert [record.levelname for record in caplog.records if "cannot list" in record.message] == ["WARNING"]


def test_other_errors_of_a_list_wait_as_long_as_the_server_says() -> None:
    async def scenario() -> list[float]:
        site, times = Site(namespaces=()), []

        def fail(call: Call) -> None:
            if (call.verb, call.kind) == ("list", "PulsarTenant"):
                times.append(asyncio.get_running_loop().time())
                if len(times) < 3:
                    raise UnavailableError("busy", retry_after=40.0)

        site.kube.before.append(fail)
        await site.run(lambda: asyncio.sleep(100))
        return times

    assert run_virtual(scenario()) == [0.0, 40.0, 80.0]
