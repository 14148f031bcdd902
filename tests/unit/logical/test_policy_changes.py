"""Watches on tenants and namespaces in the configuration store: a hint, coalesced, bounded, and never needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.controllers.logical.policy_changes import PolicyWatch
from pulsar_operator.domain.logical.pulsar_names import policies_node
from pulsar_operator.ports import Json, Key, UnavailableError
from tests.fakes.zookeeper import Call, FakeEnsemble, FakeZooKeeper

SERVERS = "zk:2181"
TENANT, NAMESPACE = Key(Kind.TENANT, "apps", "t"), Key(Kind.NAMESPACE, "apps", "n")


@dataclass
class Site:
    """Objects as the watches delivered them, a ZooKeeper, and the hints that were given."""

    objects: list[Json] = field(default_factory=list)
    zookeeper: FakeZooKeeper = field(default_factory=FakeZooKeeper)
    hints: list[Key] = field(default_factory=list)
    hinted: asyncio.Event = field(default_factory=asyncio.Event)
    sweeps: int = 0

    @property
    def reader(self) -> Site:
        """Part of Deps."""
        return self

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """See ports.ReaderPort."""
        self.sweeps += kind is Kind.INSTANCE
        return [each for each in self.objects if each["kind"] == kind.value]

    @property
    def watched(self) -> int:
        """Watches the configuration store has."""
        return sum(len(each) for each in self.ensemble.watches.values())

    async def swept(self) -> None:
        """Wait until a sweep that began after this call has ended."""
        before = self.sweeps
        await until(lambda: self.sweeps >= before + 2)

    @property
    def ensemble(self) -> FakeEnsemble:
        """The configuration store."""
        return self.zookeeper.ensemble(SERVERS)

    def add(self, kind: Kind, name: str, status: Json, *, ns: str = "apps", **spec: Any) -> None:
        """An object exists."""
        meta = {"name": name, "namespace": ns, "uid": f"{kind.value}-{name}"}
        self.objects.append(
            {"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec, "status": status}
        )

    def hint(self, key: Key) -> None:
        """Takes a hint."""
        self.hints.append(key)
        self.hinted.set()

    async def soon(self, *keys: Key) -> None:
        """Wait for exactly these hints. Raises TimeoutError."""
        async with asyncio.timeout(10):
            while set(self.hints) != set(keys) or len(self.hints) < len(keys):
                self.hinted.clear()
                await self.hinted.wait()
        assert sorted(self.hints) == sorted(keys)
        self.hints.clear()


def site(*, chroot: str | None = None) -> Site:
    """Instance prod with tenant t, namespace t/n and another one that is not in Pulsar yet."""
    s = Site()
    store = {"configurationStoreServers": SERVERS, **({"configurationStoreChroot": chroot} if chroot else {})}
    s.add(Kind.INSTANCE, "prod", store)
    s.add(Kind.TENANT, "t", {"pulsarName": "t"}, instanceRef={"name": "prod"})
    s.add(Kind.NAMESPACE, "n", {"pulsarName": "t/n"}, tenantRef={"name": "t"})
    s.add(Kind.NAMESPACE, "new", {}, tenantRef={"name": "t"})
    root = chroot or ""
    s.ensemble.put(f"{root}/admin/policies/t", "{}")
    s.ensemble.put(f"{root}/admin/policies/t/n", "{}")
    return s


class Watching:
    """A PolicyWatch that runs."""

    def __init__(self, s: Site, **options: Any) -> None:
        deps: Any = s
        self.watch = PolicyWatch(deps, **{"sweep_seconds": 0.02, "settle_seconds": 0.0, **options})
        self._site = s
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> PolicyWatch:
        self._task = asyncio.create_task(self.watch.run(self._site.hint))
        return self.watch

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("names", "node"),
    [
        (("t",), "/admin/policies/t"),
        (("t", "n"), "/admin/policies/t/n"),
        (("a=b:c.d-e_F", "..x"), "/admin/policies/a=b:c.d-e_F/..x"),
        (("t", ".."), None),
        (("t", ""), None),
        (("t", "a/b"), None),
        (("a%2Fb",), None),
        (("t", "n\n"), None),
        (("t", "\u00e9"), None),
        (("t", "c", "n"), None),
        ((), None),
    ],
)
def test_where_a_tenant_or_namespace_is(names: tuple[str, ...], node: str | None) -> None:
    """Names are written as they are; one that Pulsar would refuse is nowhere."""
    assert policies_node(*names) == node


@pytest.mark.parametrize("chroot", [None, "/pulsar/prod"])
async def test_a_change_of_another_writer_is_a_hint_at_that_object_alone(chroot: str | None) -> None:
    s = site(chroot=chroot)
    async with Watching(s):
        await until(lambda: s.watched == 2)
        assert s.hints == [], "what is found at the start is looked at anyway"
        s.ensemble.put(f"{chroot or ''}/admin/policies/t/n", "changed")
        await s.soon(NAMESPACE)
        s.ensemble.put(f"{chroot or ''}/admin/policies/t", "changed")
        await s.soon(TENANT)
        s.ensemble.remove(f"{chroot or ''}/admin/policies/t/n")
        await s.soon(NAMESPACE)
        s.ensemble.put(f"{chroot or ''}/admin/policies/t/n", "made again")
        await s.soon(NAMESPACE)
    assert s.zookeeper.writes == []


async def test_an_object_that_appears_in_pulsar_is_watched_from_then_on() -> None:
    """And looked at once: what others changed before the watch is its first state."""
    s = site()
    new = Key(Kind.NAMESPACE, "apps", "new")
    async with Watching(s):
        await until(lambda: s.watched == 2)
        s.objects[-1]["status"] = {"pulsarName": "t/new"}
        await until(lambda: s.watched == 3)
        await s.soon(new)
        await s.swept()
        assert s.hints == []
        s.ensemble.put("/admin/policies/t/new", "")
        await s.soon(new)


async def test_a_second_object_of_a_watched_namespace_is_checked_once() -> None:
    """What was changed before it was known was a hint at the first one alone."""
    s = site()
    async with Watching(s):
        await until(lambda: s.watched == 2)
        s.add(Kind.NAMESPACE, "twin", {"pulsarName": "t/n"}, tenantRef={"name": "t"})
        await s.soon(Key(Kind.NAMESPACE, "apps", "twin"))
        await s.swept()
        assert s.hints == []


async def test_many_changes_are_few_hints() -> None:
    """While a change settles the next ones are the same hint."""
    s = site()
    async with Watching(s, settle_seconds=0.2, sweep_seconds=60):
        await until(lambda: s.watched == 2)
        for number in range(500):
            s.ensemble.put("/admin/policies/t/n", str(number))
            await asyncio.sleep(0)
        await s.soon(NAMESPACE)
        await until(lambda: s.watched == 2)
        asked = [call for call in s.zookeeper.calls if call.op == "watch"]
        assert len(asked) == 3, "two at the start, and one for all changes"


async def test_two_objects_for_one_namespace_are_both_hinted_at() -> None:
    s = site()
    s.add(Kind.NAMESPACE, "twin", {"pulsarName": "t/n"}, tenantRef={"name": "t"})
    async with Watching(s):
        await until(lambda: s.watched == 2)
        s.ensemble.put("/admin/policies/t/n", "changed")
        await s.soon(NAMESPACE, Key(Kind.NAMESPACE, "apps", "twin"))


async def test_what_was_missed_without_a_session_is_hinted_at_and_nothing_else() -> None:
    s = site()
    async with Watching(s):
        await until(lambda: s.watched == 2)
        s.ensemble.reachable = False
        s.ensemble.end_sessions()
        await until(lambda: s.watched == 0)
        s.ensemble.put("/admin/policies/t/n", "changed meanwhile")
        s.ensemble.reachable = True
        await s.soon(NAMESPACE)
        await until(lambda: s.watched == 2)
        s.ensemble.end_sessions()
        await until(lambda: s.watched == 2)
        s.ensemble.put("/admin/policies/t", "changed")
        await s.soon(TENANT)


async def test_without_zookeeper_it_says_so_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pulsar_operator.controllers.logical.policy_changes")
    s = site()
    s.ensemble.reachable = False
    async with Watching(s):
        await s.swept()
        assert s.watched == 0
        s.ensemble.reachable = True
        await until(lambda: s.watched == 2)
        await until(lambda: len(caplog.records) >= 2)
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert f"policies at {SERVERS} are not watched" in said[0]
    assert f"policies at {SERVERS} are watched again" in said[1]


async def test_one_ensemble_that_is_away_is_no_trouble_for_another() -> None:
    s = site()
    s.add(Kind.INSTANCE, "away", {"configurationStoreServers": "away:2181"})
    s.add(Kind.TENANT, "a", {"pulsarName": "a"}, instanceRef={"name": "away"})
    s.zookeeper.ensemble("away:2181").reachable = False
    async with Watching(s):
        await until(lambda: s.watched == 2)
        s.ensemble.put("/admin/policies/t", "changed")
        await s.soon(TENANT)


async def test_a_call_that_fails_leaves_the_rest_watched() -> None:
    s = site()
    failing = ["/admin/policies/t"]

    def fail(call: Call) -> None:
        if call.path in failing:
            failing.clear()
            raise UnavailableError("lost")

    s.zookeeper.before.append(fail)
    async with Watching(s):
        await until(lambda: s.watched == 2)
        await s.soon(TENANT)  # watched later than the others, and so looked at once
        s.ensemble.put("/admin/policies/t", "changed")
        await s.soon(TENANT)


async def test_the_number_of_watches_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    s = site()
    for number in range(50):
        s.add(Kind.NAMESPACE, f"n{number}", {"pulsarName": f"t/n{number}"}, tenantRef={"name": "t"})
    async with Watching(s, limit=10):
        await until(lambda: s.watched == 10)
        await s.swept()
        assert s.watched == 10
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        "There are more than 10 tenants and namespaces. Changes of the others are detected at the next resync"
    ]


async def test_a_deleted_object_is_hinted_at_no_more() -> None:
    s = site()
    async with Watching(s):
        await until(lambda: s.watched == 2)
        del s.objects[2]
        await s.swept()
        s.ensemble.put("/admin/policies/t/n", "changed")
        await until(lambda: s.watched == 1)
        s.ensemble.put("/admin/policies/t", "changed")
        await s.soon(TENANT)


@pytest.mark.parametrize("name", ["..", "t/../../ledgers", "t/n/x", "t//n", "\u00e9", 5, ""])
async def test_a_hostile_name_in_a_status_is_nowhere(name: Any) -> None:
    s = site()
    s.objects[2]["status"] = {"pulsarName": name}
    async with Watching(s):
        await until(lambda: s.watched == 1)
        await s.swept()
        assert {call.path for call in s.zookeeper.calls} == {"/admin/policies/t"}


@pytest.mark.parametrize("spec", [{}, {"tenantRef": "t"}, {"tenantRef": {"name": "other"}}])
async def test_an_object_without_a_way_to_a_store_is_not_watched(spec: Json) -> None:
    s = site()
    s.objects[2]["spec"] = spec
    async with Watching(s):
        await until(lambda: s.watched == 1)
