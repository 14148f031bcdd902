"""A real writer keeps a handle on a ledger whose metadata no longer shows it, and both members of the ledger return
empty: under the ids that they had it loses what was acknowledged (apache/bookkeeper#4812), under new ids it does not.

Four real bookies, started by the images' start program; the counts are of acknowledged entries that nobody can read.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH, Count, OwnBookies, incarnations_data
from tests.integration.contract.test_bookie_contract_real import CHROOT, prepare
from tests.support.bookkeeper.handles import OpenHandles
from tests.support.processes.bookkeeper import BOOKIE, BookKeeperProcess
from tests.support.processes.launching import free_ports
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]

REST = "b.ns.svc.cluster.local"
SEVERAL = 12
"""Ledgers whose ensemble changes: one of them gets the bookie that is wanted."""
ADDED = 10


@dataclass
class Ground:
    """Four bookies, their store and a writer."""

    bookies: list[BookKeeperProcess]
    store: KazooClient
    writer: OpenHandles
    ids: list[str]
    """As they are now."""

    def empty(self, ids: dict[int, str]) -> None:
        """These bookies are emptied, their cookies deleted, and they return."""
        for each in ids:
            self.bookies[each].stop()
            self.bookies[each].lose()
            self.store.delete(f"/ledgers/cookies/{self.ids[each]}")
        for each in ids:
            self.bookies[each].begin_as_in_the_image()
        for each, bookie in ids.items():
            self.bookies[each].wait()
            self.ids[each] = bookie
            eventually(
                lambda name=bookie: self.store.exists(f"/ledgers/available/{name}") is not None,
                within=60,
                what=f"{bookie} is registered",
                every=LOCAL,
            )

    def lost(self, prefix: str) -> dict[str, int]:
        """What a writer that goes on loses, by topic; every entry is acknowledged."""
        names = [f"{prefix}-{name}" for name in ("empty", "reached", "moved")]
        for name in names:
            assert self.writer.ask("add", name, str(ADDED)) == [str(ADDED)]
        return {name.rpartition("-")[2]: int(self.writer.ask("lost", name)[0]) for name in names}

    def prepare(self, prefix: str) -> None:
        """Three topics whose handles name the third and the fourth bookie, while metadata does not show that any
        broker may write there: closed while it is empty; reached by a change of the ensemble, and closed; closed, and
        moved to other bookies."""
        ask, (first, _, third, fourth) = self.writer.ask, self.ids
        ask("topic", f"{prefix}-empty", third, fourth)
        ask("topic", f"{prefix}-moved", third, fourth)
        assert ask("add", f"{prefix}-moved", "5") == ["5"]
        for number in range(SEVERAL):
            ask("topic", f"{prefix}-{number}", first, fourth)
            ask("add", f"{prefix}-{number}", "2")
        self.bookies[0].stop()
        reached = next(number for number in range(SEVERAL) if self._reaches(f"{prefix}-{number}"))
        self.bookies[0].begin_as_in_the_image()
        self.bookies[0].wait()
        ask("rename", f"{prefix}-{reached}", f"{prefix}-reached")
        for name in ("empty", "reached", "moved"):
            assert set(ask("ensemble", f"{prefix}-{name}")) == {third, fourth}
            ask("close", f"{prefix}-{name}")
        for name in ("reached", "moved"):
            for bookie in (third, fourth):
                ask("move", f"{prefix}-{name}", bookie)

    def _reaches(self, name: str) -> bool:
        assert self.writer.ask("add", name, "2") == ["2"]
        return set(self.writer.ask("ensemble", name)) == {self.ids[2], self.ids[3]}


@pytest.fixture(scope="module")
def ground(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    asyncio.run(prepare(real_zookeeper.servers))
    folder: Path = tmp_path_factory.mktemp("returned")
    ports = spread(4)
    hosts = folder / "hosts"
    names = [f"b-{ordinal}.{REST}" for ordinal in range(4)]
    lines = [f"127.0.0.{20 + ordinal} {name}" for ordinal, name in enumerate(names)]
    hosts.write_text("\n".join([*lines, f"127.0.0.1 {socket.gethostname()} localhost"]) + "\n")
    known, (http,) = f"-Djdk.net.hosts.file={hosts}", free_ports(1)
    store = real_zookeeper.servers + CHROOT
    with ExitStack() as stack:
        bookies = [
            BookKeeperProcess(
                BOOKIE,
                folder / f"bookie-{ordinal}",
                host=f"127.0.0.{20 + ordinal}",
                http_port=http,
                bookie_port=ports[ordinal],
                store=store,
                ready="/api/v1/bookie/is_ready",
                advertised=name,
                jvm=[known],
            )
            for ordinal, name in enumerate(names)
        ]
        for each in bookies:
            stack.callback(each.stop)
            each.begin_as_in_the_image()
        for each in bookies:
            each.wait()
        client = KazooClient(hosts=store, timeout=30)
        client.start(timeout=60)
        stack.callback(client.close)
        stack.callback(client.stop)
        writer = stack.enter_context(OpenHandles(folder / "writer", store, known))
        yield Ground(bookies, client, writer, [each.bookie_id for each in bookies])


def spread(count: int) -> list[int]:
    """Free ports of which the next one is none of them."""
    found: list[int] = []
    for port in free_ports(4 * count):
        if all(abs(port - each) > 3 for each in found):
            found.append(port)
    return found[:count]


def test_under_the_same_ids_acknowledged_entries_are_lost_and_under_new_ones_none_is(ground: Ground) -> None:
    first = list(ground.ids)
    ground.prepare("same")
    ground.empty({2: first[2], 3: first[3]})
    lost = ground.lost("same")
    assert lost == dict.fromkeys(("empty", "reached", "moved"), ADDED), "as reported, with the same ids"

    own = OwnBookies.of(first[0])
    ground.prepare("other")
    ground.store.ensure_path("/pulsar-operator")
    ground.store.create(INCARNATIONS_PATH, incarnations_data({ordinal: Count(1, 0) for ordinal in (2, 3)}))
    later = {ordinal: own.of_incarnation(ordinal, 1) for ordinal in (2, 3)}
    ground.empty(later)
    assert ground.lost("other") == dict.fromkeys(("empty", "reached", "moved"), 0)
    for ordinal, bookie in later.items():
        node = ground.store.get(f"/ledgers/available/{bookie}")[0]
        assert f"b-{ordinal}.{REST}".encode() in node, "clients find it by what it published"
        cookie = ground.store.get(f"/ledgers/cookies/{bookie}")[0].decode()
        assert json.dumps(bookie) in cookie
    # It keeps its id on its volumes, whatever the record says by then.
    ground.store.set(INCARNATIONS_PATH, incarnations_data({2: Count(9, 8), 3: Count(9, 8)}))
    ground.bookies[2].stop()
    ground.bookies[2].begin_as_in_the_image()
    ground.bookies[2].wait()
    assert later[2] in ground.store.get_children("/ledgers/available")
    ground.writer.ask("topic", "new", later[2], later[3])
    assert ground.writer.ask("add", "new", "3") == ["3"]
    assert ground.writer.ask("lost", "new") == ["0"]
    ground.writer.ask("close", "new")
    ground.writer.ask("move", "new", later[2])
    assert ground.writer.ask("lost", "new") == ["0"]
