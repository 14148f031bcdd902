"""The engine with hints: what another writer changed runs within seconds; what the operator changed makes no loop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.logical.policy_changes import PolicyWatch
from pulsar_operator.ports import CUSTOM, Deps, Key
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.core.recorder import CountingMetrics
from tests.support.core.virtual_time import run_virtual

SERVERS = "zk:2181"
NAMESPACE = Key(Kind.NAMESPACE, "apps", "n")
NODE = "/admin/policies/t/n"


class Site:
    """An API server, a ZooKeeper, an engine and a controller that sets one node right."""

    def __init__(self, hints: Any = None) -> None:
        self.kube, self.zookeeper = FakeKube(), FakeZooKeeper()
        self.store = self.zookeeper.ensemble(SERVERS)
        self.passes: list[float] = []
        self._put(Kind.INSTANCE, "prod", {}, {"configurationStoreServers": SERVERS})
        self._put(Kind.TENANT, "t", {"instanceRef": {"name": "prod"}}, {"pulsarName": "t"})
        self._put(Kind.NAMESPACE, "n", {"tenantRef": {"name": "t"}}, {"pulsarName": "t/n"})
        self.store.put(NODE, "right")
        nothing: Any = None
        deps = Deps(self.kube, self.zookeeper, nothing, nothing, nothing, CountingMetrics(), FakeBookies())
        self.engine = Engine(
            deps,
            dict.fromkeys(Kind, self),
            resync_seconds=100_000.0,
            rng=random.Random(1),
            hints=hints or PolicyWatch(deps),
        )

    def _put(self, kind: Kind, name: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": "apps"}
        self.kube.put({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec})
        self.kube.set_status(CUSTOM[kind], "apps", name, status)

    async def reconcile(self, key: Key) -> Outcome:
        """Set the node right where it is not: as an admin call does, by another session."""
        if key == NAMESPACE:
            self.passes.append(asyncio.get_running_loop().time())
            if self.store.nodes[NODE].data != b"right":
                self.store.put(NODE, "right")
        return DONE


def play(site: Site, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the engine and a script beside it, in virtual time."""

    async def main() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(site.engine.run(stop))
        await site.engine.ready.wait()
        await asyncio.sleep(30)
        await script()
        stop.set()
        await running

    run_virtual(main())


def test_a_change_of_another_writer_is_checked_within_seconds_and_the_repair_makes_no_loop() -> None:
    site = Site()

    async def script() -> None:
        site.passes.clear()
        changed = asyncio.get_running_loop().time()
        site.store.put(NODE, "wrong")
        await asyncio.sleep(3600)
        assert site.store.nodes[NODE].data == b"right"
        assert site.passes[0] - changed <= 5
        assert len(site.passes) == 2, "the repair, and a look at what the repair changed"

    play(site, script)


def test_what_changes_before_a_new_object_is_watched_is_found_with_the_watch() -> None:
    """The drifted node is the first state the watch has, and no change of any."""
    site = Site()
    site.kube.set_status(CUSTOM[Kind.NAMESPACE], "apps", "n", {})

    async def script() -> None:
        site.kube.set_status(CUSTOM[Kind.NAMESPACE], "apps", "n", {"pulsarName": "t/n"})
        site.passes.clear()
        site.store.put(NODE, "wrong")
        await asyncio.sleep(17)
        assert site.store.nodes[NODE].data == b"right"
        await asyncio.sleep(3600)
        assert len(site.passes) == 2, "the repair, and a look at what the repair changed"

    play(site, script)


def test_without_zookeeper_an_object_runs_as_always() -> None:
    site = Site()
    site.store.reachable = False

    async def script() -> None:
        site.passes.clear()
        site.engine.enqueue(NAMESPACE)
        await asyncio.sleep(60)
        assert len(site.passes) == 1

    play(site, script)


def test_a_busy_writer_costs_no_more_than_a_pass_a_second() -> None:
    site = Site()

    async def script() -> None:
        site.passes.clear()
        for _ in range(6000):
            site.store.put(NODE, "wrong")
            await asyncio.sleep(0.01)
        assert 10 <= len(site.passes) <= 62

    play(site, script)


class Broken:
    """Hints that fail."""

    async def run(self, hint: Callable[[Key], None]) -> None:
        """See Hints."""
        raise RuntimeError("a defect")


def test_hints_that_fail_cost_nothing_but_the_hints(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(Broken())

    async def script() -> None:
        site.passes.clear()
        site.engine.enqueue(NAMESPACE)
        await asyncio.sleep(60)
        assert len(site.passes) == 1

    play(site, script)
    assert [r.message for r in caplog.records if r.levelno == logging.ERROR] == [
        "Hints have ended, so drift is detected at the next resync"
    ]
