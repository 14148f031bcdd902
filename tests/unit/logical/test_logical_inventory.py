"""logical/topic_inventory.py by itself: when a list is made, how long it serves, and that nothing is kept for ever."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_operator.controllers.logical import topic_inventory
from pulsar_operator.controllers.logical.topic_inventory import CROWD, KEEP_SECONDS, InventoryCache, TopicInventory
from tests.support.logical.topic_sets import Still


class Asked:
    """A registrar whose lists are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.lists = Still(), list[str]()
        self.registrar = InventoryCache(self.clock)

        async def take(scope: Any, tenant: str, namespace: str) -> TopicInventory:
            self.lists.append(namespace)
            return TopicInventory((), {}, ())

        monkeypatch.setattr(topic_inventory, "read_inventory", take)

    async def ask(self, namespace: str = "n", times: int = 1, instance: str = "u1") -> list[bool]:
        """Questions; whether each was answered by a list."""
        scope: Any = SimpleNamespace(chain=[{}, {"metadata": {"uid": instance}}])
        return [await self.registrar.ask(scope, "t", namespace) is not None for _ in range(times)]

    def wait(self, seconds: float) -> None:
        self.clock.time += timedelta(seconds=seconds)

    @property
    def known(self) -> list[str]:
        return [namespace for _, _, namespace in self.registrar._places]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


async def test_a_list_is_made_for_a_crowd_and_serves_it(asked: Asked) -> None:
    assert await asked.ask(times=CROWD + 10) == [False] * CROWD + [True] * 10
    asked.wait(KEEP_SECONDS)
    assert await asked.ask(times=5) == [True] * 5
    assert asked.lists == ["n"]


async def test_a_crowd_that_was_there_a_moment_ago_gets_a_new_list_at_once(asked: Asked) -> None:
    await asked.ask(times=CROWD)
    asked.wait(KEEP_SECONDS + 0.1)
    assert await asked.ask() == [True] and asked.lists == ["n"]
    asked.wait(KEEP_SECONDS + 0.1)
    assert await asked.ask() == [True] and asked.lists == ["n", "n"]


async def test_a_clock_that_is_put_back_keeps_no_list(asked: Asked) -> None:
    asked.wait(86400)
    await asked.ask(times=CROWD + 1)
    asked.wait(-86400)
    await asked.ask()
    assert asked.lists == ["n", "n"]


async def test_a_few_are_no_crowd(asked: Asked) -> None:
    await asked.ask(times=CROWD - 1)
    asked.wait(KEEP_SECONDS + 0.1)
    assert await asked.ask(times=CROWD) == [False] * CROWD


async def test_namespaces_are_counted_by_themselves(asked: Asked) -> None:
    await asked.ask("n", CROWD)
    assert await asked.ask("m") == await asked.ask("n", instance="u2") == [False]


async def test_namespaces_without_questions_are_forgotten(asked: Asked) -> None:
    """Thousands of namespaces come and go in the life of a process, each with a list of all of its topics."""
    for number in range(100):
        await asked.ask(f"gone{number}", CROWD + 1)
    asked.wait(KEEP_SECONDS)
    await asked.ask("kept", CROWD + 1)
    assert len(asked.known) == 101
    asked.wait(KEEP_SECONDS)
    await asked.ask("another")
    assert len(asked.known) == 102, "a crowd of a moment ago is remembered for as long again"
    asked.wait(0.1)
    await asked.ask("last")
    assert asked.known == ["kept", "another", "last"]
    assert await asked.ask("gone0") == [False], "it is a stranger"


# ------------------------------------------------------------------------------------------------ what a list says


class Answers:
    """scope.admin of one cluster that answers the two lists."""

    def __init__(self, names: Any, whole: Any) -> None:
        self.lists = names, whole

    async def find(self, call: Any) -> tuple[str, Any]:
        return "east", {"replication_clusters": ["east"]}

    async def everywhere(self, clusters: Any, call: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        return {"east": self.lists[call.path[-1] == "partitioned"]}, ()


async def taken(names: Any, whole: Any) -> TopicInventory:
    scope: Any = SimpleNamespace(admin=Answers(names, whole), names={"east"})
    found = await topic_inventory.read_inventory(scope, "t", "n")
    assert found is not None
    return found


@pytest.mark.parametrize("odd", [{}, {"a": 1}, "text", 7, [1], [None], [["x"]]])
async def test_an_answer_that_is_no_list_of_names_is_no_empty_list(odd: Any) -> None:
    for lists in ((odd, []), ([], odd)):
        found = await taken(*lists)
        assert (found.topics, found.partitioned, found.unreachable) == ({}, {}, ("east",))
    assert (await taken([], [])).topics == {"east": {}}


async def test_long_lists_are_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_inventory, "LARGE", 3)
    where, counted = list[int](), topic_inventory._counted

    def noted(names: list[str], partitioned: frozenset[str]) -> dict[str, int]:
        where.append(threading.get_ident())
        return counted(names, partitioned)

    monkeypatch.setattr(topic_inventory, "_counted", noted)
    for number in (1, 4):
        names = [f"persistent://t/n/a{n}" for n in range(number)]
        found = await taken([*names, "persistent://t/n/p-partition-0"], ["persistent://t/n/p"])
        assert found.topics == {"east": {f"a{n}": 0 for n in range(number)} | {"p": 1}}
        assert found.partitioned == {"east": frozenset({"p"})}
    own = threading.get_ident()
    assert where[0] == own != where[1]
