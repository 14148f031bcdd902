"""An operator that is uninstalled half-way gives back what it changed in BookKeeper, or says how to do it by hand."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.bookkeeper.recovery_delay import DELAY_PATH, DELAY_RECORD_PATH, RaisedDelay
from pulsar_operator.domain.bookkeeper.znodes import READONLY
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    Cause,
    DecommissionRecord,
    Renewal,
    parse_decommission_record,
)
from pulsar_operator.ports import CUSTOM, Json, ResourceType, UnavailableError
from pulsar_operator.release import release_storage
from tests.fakes.bookies import FakeBookies
from tests.fakes.zookeeper import FakeZooKeeper

SERVERS, HOST = "zk:2181", "east-bookie-2.east-bookie-headless.pulsar.svc.cluster.local"
BOOKIE = f"{HOST}:3181"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HELD = {
    "recoveryDelay": {"before": 0, "raised": 660},
    "bookies": [
        {"id": "east-bookie-0.x:3181", "ordinal": 0, "state": "ReadOnly", "reason": "DisksFull"},
        {"id": BOOKIE, "ordinal": 2, "state": "ReadOnly", "step": "Copying"},
    ],
}


def cluster(name: str = "east", **status: Any) -> Json:
    found = {"metadataStoreServers": SERVERS, "metadataStoreChroot": "/east", **status}
    return {"kind": "PulsarCluster", "metadata": {"namespace": "pulsar", "name": name}, "spec": {}, "status": found}


class Objects:
    """Clusters, and nothing else."""

    def __init__(self, *clusters: Json, installed: bool = True) -> None:
        self._clusters, self._installed = list(clusters), installed

    async def list(self, kind: ResourceType, namespace: str | None) -> list[Json]:
        assert (kind, namespace) == (CUSTOM[Kind.CLUSTER], None)
        return self._clusters

    async def installed(self, kind: ResourceType) -> bool:
        return self._installed


class World:
    """A metadata store and the bookie that leaves."""

    def __init__(self) -> None:
        self.zookeeper, self.bookies = FakeZooKeeper(), FakeBookies()
        self.bookies.start(HOST, bookie=True)
        self.bookies.servers[HOST].readonly = True
        self.store = self.zookeeper.ensemble(SERVERS)

    def put(self, path: str, data: bytes = b"") -> None:
        self.store.put(f"/east{path}", data.decode())

    def data(self, path: str) -> bytes | None:
        node = self.store.nodes.get(f"/east{path}")
        return node.data if node is not None else None

    def raised(self, *, now: int = 660) -> None:
        self.put(DELAY_PATH, str(now).encode())
        self.put(DELAY_RECORD_PATH, RaisedDelay(0, 660).to_bytes())

    def leaves(self, **fields: Any) -> None:
        self.put(DECOMMISSION_RECORD_PATH, DecommissionRecord(BOOKIE, 2, NOW, **{"run": "uid/0", **fields}).data())
        self.put(f"{READONLY}/{BOOKIE}")

    async def released(self, *clusters: Json, installed: bool = True) -> list[str]:
        said: list[str] = []
        objects = Objects(*(clusters or (cluster(**HELD),)), installed=installed)
        await release_storage(objects, self.zookeeper, self.bookies, said.append)  # type: ignore[arg-type]
        return said

    @property
    def readonly(self) -> bool:
        return self.bookies.servers[HOST].readonly


@pytest.fixture
def world() -> World:
    return World()


async def test_the_delay_is_what_it_was(world: World) -> None:
    world.raised()
    assert await world.released() == ["lostBookieRecoveryDelay of PulsarCluster pulsar/east was restored to 0 s"]
    assert (world.data(DELAY_PATH), world.data(DELAY_RECORD_PATH)) == (b"0", None)
    assert await world.released() == []


async def test_a_value_of_another_client_stays(world: World) -> None:
    world.raised(now=30)
    assert await world.released() == []
    assert world.data(DELAY_PATH) == b"30"


@pytest.mark.parametrize("renewal", [None, Renewal(Cause.ASKED, "SMART errors", "uid")])
async def test_a_bookie_that_leaves_takes_entries_again(world: World, renewal: Renewal | None) -> None:
    world.leaves(renewal=renewal)
    assert await world.released() == [f"PulsarCluster pulsar/east: Bookie {BOOKIE} was made writable"]
    assert not world.readonly
    record = parse_decommission_record(world.data(DECOMMISSION_RECORD_PATH) or b"")
    assert record is not None and record.restored, "an operator that is installed again knows"


async def test_a_bookie_whose_claims_are_deleted_stays_read_only(world: World) -> None:
    world.leaves(renewal=Renewal(Cause.ASKED, "SMART errors", "uid", claims={"ledgers-0-east-bookie-2": "x"}))
    (said,) = await world.released()
    assert "stays read-only, because its PersistentVolumeClaims are being deleted" in said and world.readonly


async def test_a_bookie_that_is_not_read_only_is_not_asked(world: World) -> None:
    world.leaves()
    world.store.remove(f"/east{READONLY}/{BOOKIE}")
    world.bookies.stop(HOST)
    assert await world.released() == []


async def test_a_bookie_that_was_freed_before_was_made_read_only_by_another_client(world: World) -> None:
    world.leaves(restored=True)
    assert await world.released() == [] and world.readonly


async def test_a_bookie_that_does_not_answer_is_reported_with_the_command(world: World) -> None:
    world.raised()
    world.leaves()
    world.bookies.failing.add(HOST)
    restored, said = await world.released()
    assert "restored to 0 s" in restored and f"Bookie {BOOKIE} was NOT made writable" in said
    words = shlex.split(said.partition("Run: ")[2])
    assert words[:7] == ["kubectl", "-n", "pulsar", "exec", "east-bookie-2", "--", "python3"]
    compile(words[-1], "command", "exec")
    assert """b'{"readOnly": false}'""" in words[-1]


async def test_a_store_that_does_not_answer_is_reported_with_the_commands_and_keeps_no_other(world: World) -> None:
    world.raised()
    away = cluster("west", **HELD, metadataStoreServers="away:2181")
    world.zookeeper.ensemble("away:2181").reachable = False
    said = await world.released(away, cluster(**HELD))
    (restored,) = [line for line in said if "pulsar/east" in line]
    assert "restored to 0 s" in restored
    delay, bookie = [line for line in said if "pulsar/west" in line]
    assert "NOT restored" in delay and delay.endswith("bin/bookkeeper shell lostbookierecoverydelay -s 0")
    assert f"Bookie {BOOKIE} was NOT made writable" in bookie


LEAK = "https://u:hunter2@h/ token=hunter2"


@pytest.mark.parametrize("where", ["session", "status"])
async def test_an_error_that_nobody_expects_is_reported_and_keeps_no_other(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.raised()
    broken = cluster("west", **{**HELD, "bookies": [{"ordinal": 1}]}, metadataStoreServers="away:2181")
    world.zookeeper.ensemble("away:2181").reachable = False
    if where == "session":
        real = world.zookeeper.session

        async def session(servers: str, chroot: str | None) -> Any:
            if servers == "away:2181":
                raise KeyError(LEAK)
            return await real(servers, chroot)

        monkeypatch.setattr(world.zookeeper, "session", session)
    said = await world.released(broken, cluster(**HELD))
    (restored,) = [line for line in said if "pulsar/east" in line]
    assert "restored to 0 s" in restored and world.data(DELAY_PATH) == b"0"
    (text,) = [line for line in said if "pulsar/west" in line]
    assert "may NOT be restored: KeyError: " in text and "hunter2" not in text


async def test_secrets_in_the_words_of_a_store_are_not_printed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def session(servers: str, chroot: str | None) -> Any:
        raise UnavailableError(f"\x1b[2J{LEAK}")

    monkeypatch.setattr(world.zookeeper, "session", session)
    said = await world.released()
    assert "NOT restored" in said[0]
    assert not [line for line in said if "hunter2" in line or not line.isprintable()], said


@pytest.mark.parametrize("installed", [True, False])
async def test_where_nothing_was_ever_brought_up_nothing_is_asked(world: World, installed: bool) -> None:
    standalone = cluster()
    del standalone["status"]
    assert await world.released(standalone, installed=installed) == []
    assert world.zookeeper.calls == []
