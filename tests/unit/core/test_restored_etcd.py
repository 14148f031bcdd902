"""The API server comes back from a backup of etcd: resource versions are lower, and what was written since is gone."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from types import SimpleNamespace

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.freshness import Freshness
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.core.world import World
from pulsar_operator.ports import CUSTOM, Json, Key
from tests.fakes.kube import FakeKube
from tests.support.core.engine import Running, engine_of, watch
from tests.support.core.objects import tenant, topic
from tests.support.core.recorder import Recorder
from tests.support.core.virtual_time import run_virtual

TENANT = (CUSTOM[Kind.TENANT], "ns", "t")
STATE = ("_objects", "_managers", "_version")
T = Key(Kind.TENANT, "ns", "t")


def backup(kube: FakeKube) -> Json:
    """All that etcd has."""
    return {name: deepcopy(vars(kube)[name]) for name in STATE}


def restore(kube: FakeKube, state: Json) -> None:
    """No watch tells of it."""
    vars(kube).update(deepcopy(state))


def allow(kube: FakeKube, *namespaces: str) -> None:
    """A user edits the tenant."""
    kube.edit(*TENANT, lambda obj: obj["spec"].update(allowedKubernetesNamespaces=list(namespaces)))


class Site:
    """An engine over an API server that is backed up when it has one tenant, and edited since."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.recorder = Recorder()
        self.cache = WatchCache(DirectReader(SimpleNamespace(kube=FakeKube())))  # type: ignore[arg-type]
        self.engine, _ = engine_of(self.recorder, kube=self.kube, cache=self.cache, resync_seconds=600.0)
        watch(self.kube, self.engine)
        self.kube.put(tenant("ns"))
        self.backup = backup(self.kube)

    async def allowed(self) -> list[str] | None:
        """What the cache has of the tenant's specification."""
        known = await self.cache.get(Kind.TENANT, "ns", "t")
        return known["spec"].get("allowedKubernetesNamespaces") if known is not None else None

    async def settled(self) -> None:
        """The next list of all kinds was taken in."""
        await asyncio.sleep(700)
        await self.engine.idle(within=500)


@pytest.mark.parametrize("edits", [1, 7])
def test_after_the_next_list_changes_are_news_again(edits: int) -> None:
    async def scenario() -> None:
        site = Site()
        async with Running(site.engine):
            for n in range(20):
                allow(site.kube, f"lost-{n}")
            await site.engine.idle()
            assert await site.allowed() == ["lost-19"]
            restore(site.kube, site.backup)
            await site.settled()
            assert await site.allowed() is None, "what was written since the backup is gone"
            for n in range(edits):
                begin = len(site.recorder.passes)
                allow(site.kube, f"new-{n}")
                await site.engine.idle()
                assert await site.allowed() == [f"new-{n}"]
                assert T in site.recorder.passes[begin:], "a user's change runs a pass"

    run_virtual(scenario())


def test_what_was_deleted_since_the_backup_is_back() -> None:
    async def scenario() -> None:
        site = Site()
        async with Running(site.engine):
            allow(site.kube, "lost")
            site.kube.remove(*TENANT)
            await site.engine.idle()
            assert await site.cache.get(Kind.TENANT, "ns", "t") is None
            restore(site.kube, site.backup)
            await site.settled()
            assert await site.cache.get(Kind.TENANT, "ns", "t") is not None

    run_virtual(scenario())


def test_what_was_made_since_the_backup_is_gone() -> None:
    async def scenario() -> None:
        site = Site()
        async with Running(site.engine):
            site.kube.put(tenant("ns", "later"))
            await site.engine.idle()
            restore(site.kube, site.backup)
            await site.settled()
            assert [each["metadata"]["name"] for each in await site.cache.every(Kind.TENANT)] == ["t"]

    run_virtual(scenario())


def test_a_list_that_was_overtaken_brings_nothing_back() -> None:
    """Only what was known before it began can have been undone."""
    world = World(None)
    assert world.learn(Kind.TENANT, tenant("ns", uid="u", resourceVersion="5", generation=1)).own
    begun = world.freshness.list_begins(Kind.TENANT)
    assert world.learn(Kind.TENANT, tenant("ns", uid="u", resourceVersion="8", generation=3)).own
    listed = tenant("ns", uid="u", resourceVersion="6", generation=2)
    assert not world.learn(Kind.TENANT, listed, since=begun).own
    world.freshness.list_ends(Kind.TENANT)
    assert world.index.version_of(T) == ("u", 3)
    begun = world.freshness.list_begins(Kind.TENANT)
    assert world.learn(Kind.TENANT, listed, since=begun).own
    assert world.index.version_of(T) == ("u", 2)


def test_a_deletion_counts_against_lists_that_were_under_way() -> None:
    freshness, x = Freshness(), Key(Kind.TOPIC, "ns", "x")
    obj = topic("ns", uid="u", resourceVersion="5")
    assert freshness.is_news(x, obj)
    first = freshness.list_begins(Kind.TOPIC)
    freshness.bury(x, topic("ns", uid="u", resourceVersion="7"))
    second = freshness.list_begins(Kind.TOPIC)
    assert not freshness.is_news(x, obj, since=first)
    assert freshness.is_news(x, obj, since=second), "it was restored"
