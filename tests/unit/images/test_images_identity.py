"""Which id a bookie registers with: that of its volumes, and on empty ones none that was used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulsar_start.components import component_named
from pulsar_start.errors import StartError
from pulsar_start.identity import PORTS, RECORD_PATH, Count, Names, cookies, identity, parse_record
from pulsar_start.layering import parse
from pulsar_start.main import prepare
from pulsar_start.registration import TLS_ARGUMENT
from pulsar_start.session import Node, ProtocolError

from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH, OwnBookies, incarnations_data
from pulsar_operator.domain.bookkeeper.bookie_ids import Count as Counted
from tests.support.processes.zookeeper_socket import SocketServer, Tree

HOST = "b-2.b.ns.svc.cluster.local"
CONF = {"advertisedAddress": HOST, "bookiePort": "3181", "metadataServiceUri": "metadata-store:zk:zoo:2181/c"}
FIRST, SECOND = f"{HOST}:3181", "b-2.i1.b.ns.svc.cluster.local"


class Store:
    """ZooKeeper as a session sees it."""

    def __init__(self, record: Any = None, *ids: str, trouble: list[Exception] | None = None) -> None:
        self.record, self.cookies, self.trouble = record, set(ids), list(trouble or ())
        self.asked: list[str] = []
        self.clock = 0.0
        self.after: dict[float, Any] = {}
        self.said: list[str] = []

    def open(self, servers: Any, left: Any) -> Any:
        if self.trouble:
            raise self.trouble.pop(0)
        return self

    def data(self, path: str, _seconds: float) -> bytes | None:
        self.asked.append(path)
        for at in sorted(self.after):
            if at <= self.clock:
                self.record = self.after[at]
        if isinstance(self.record, bytes):
            return self.record
        return None if self.record is None else json.dumps(self.record).encode()

    def node(self, path: str, _seconds: float) -> Node | None:
        self.asked.append(path)
        return Node(path, ephemeral=False) if path.rpartition("/")[2] in self.cookies else None

    def pause(self, seconds: float) -> None:
        self.clock += seconds

    def close(self) -> None:
        self.asked.append("close")

    drop = close

    def identity(self, conf: dict[str, str] | None = None, *arguments: str) -> dict[str, str]:
        return identity(conf or CONF, arguments, self.said.append, self.open, lambda: self.clock, self.pause)


def volumes(folder: Path, **of: str | None) -> dict[str, str]:
    """Folders, each with a cookie that names a bookie, or empty."""
    for name, bookie in of.items():
        (folder / name / "current").mkdir(parents=True)
        if bookie is not None:
            text = f'4\nbookieHost: "{bookie}"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\ninstanceId: "x"\n'
            (folder / name / "current" / "VERSION").write_text(text)
    return CONF | {
        "journalDirectories": str(folder / "journal"),
        "ledgerDirectories": ",".join(str(folder / name) for name in of if name != "journal"),
    }


def numbered(number: int, seen: int) -> dict[str, Any]:
    return {"0": {"number": 7, "seen": 7}, "2": {"number": number, "seen": seen}}


@pytest.mark.parametrize(
    ("record", "ids", "expected"),
    [
        (None, (), {}),
        ({}, (), {}),
        ({"0": {"number": 7, "seen": 7}}, (), {}),
        (numbered(0, -1), (), {}),
        (numbered(0, 0), (FIRST,), {}),
        (numbered(1, 0), (FIRST,), {"bookieId": SECOND, "bookiePort": "3182"}),
        (numbered(1, 0), (), {"bookieId": SECOND, "bookiePort": "3182"}),
        (numbered(1, 1), (SECOND,), {"bookieId": SECOND, "bookiePort": "3182"}),
        (numbered(12, 11), (), {"bookieId": SECOND.replace("i1", "i12"), "bookiePort": "3193"}),
        (numbered(1003, 0), (), {"bookieId": SECOND.replace("i1", "i1003"), "bookiePort": "3184"}),
    ],
)
def test_on_empty_volumes_the_number_of_the_record_counts(
    record: Any, ids: tuple[str, ...], expected: dict[str, str]
) -> None:
    store = Store(record, *ids)
    assert store.identity() == expected
    assert store.asked[0] == f"/c{RECORD_PATH}" and store.asked[-1] == "close"
    assert all(path.startswith("/c/ledgers/cookies/b-2.") for path in store.asked[1:-1])


@pytest.mark.parametrize(("bookie", "port"), [(SECOND, "3182"), (SECOND.replace("i1", "i4"), "3185"), (FIRST, None)])
def test_a_volume_that_holds_an_id_keeps_it_and_nobody_is_asked(tmp_path: Path, bookie: str, port: str | None) -> None:
    conf = volumes(tmp_path, journal=bookie, ledgers=bookie)
    store = Store(numbered(9, 8))
    assert store.identity(conf) == ({} if port is None else {"bookieId": bookie, "bookiePort": port})
    assert store.asked == []


def test_one_empty_folder_beside_one_with_a_cookie_is_for_bookkeeper_to_refuse(tmp_path: Path) -> None:
    assert Store().identity(volumes(tmp_path, journal=None, ledgers=SECOND))["bookieId"] == SECOND


def test_folders_of_several_bookies_are_named(tmp_path: Path) -> None:
    conf = volumes(tmp_path, journal=FIRST, ledgers=SECOND)
    with pytest.raises(StartError, match="several bookies") as refused:
        Store().identity(conf)
    assert all(each in str(refused.value) for each in (FIRST, SECOND, f"{tmp_path}/journal", f"{tmp_path}/ledgers"))


@pytest.mark.parametrize(
    "bookie", ["b-1.b.ns.svc.cluster.local:3181", "b-2.i0.b.ns.svc.cluster.local", "10.0.0.1:3181"]
)
def test_a_volume_of_another_bookie_is_for_bookkeeper_to_refuse(tmp_path: Path, bookie: str) -> None:
    assert Store().identity(volumes(tmp_path, ledgers=bookie)) == {}


def test_a_cookie_that_says_nothing_is_named(tmp_path: Path) -> None:
    conf = volumes(tmp_path, ledgers=FIRST)
    (tmp_path / "ledgers/current/VERSION").write_text("4\n")
    with pytest.raises(StartError, match="ledgers/current/VERSION holds no cookie"):
        cookies(conf)


def test_no_empty_bookie_starts_with_an_id_whose_cookie_was_deleted_by_hand() -> None:
    store = Store(numbered(0, 0))
    with pytest.raises(StartError, match="was used, and its cookie is deleted"):
        store.identity()
    assert store.clock == 90, "it waits for so long, and no longer"
    store = Store(numbered(0, 0))
    store.after = {20.0: numbered(1, 0)}
    assert store.identity()["bookieId"] == SECOND
    assert len([line for line in store.said if "was used" in line]) == 1, "said once"


def test_it_waits_for_zookeeper_and_never_guesses() -> None:
    store = Store(numbered(1, 0), trouble=[ConnectionError("refused")] * 20)
    assert store.identity()["bookieId"] == SECOND
    with pytest.raises(StartError, match="it was waiting for ZooKeeper, 90 s at most: refused"):
        Store(trouble=[ConnectionError("refused")] * 200).identity()
    with pytest.raises(StartError, match="cannot be asked for its id: no ZooKeeper"):
        Store(trouble=[ProtocolError("no ZooKeeper")]).identity()


@pytest.mark.parametrize(
    "record", [b"x", b"[]", b"{", {"2": 1}, {"2": {"number": "1"}}, {"2": {"number": -1}}, {"2": {"number": True}}]
)
def test_a_record_that_cannot_be_read_starts_nothing(record: Any) -> None:
    with pytest.raises(StartError, match=RECORD_PATH):
        Store(record).identity()


@pytest.mark.parametrize(
    ("conf", "arguments"),
    [
        ({"advertisedAddress": ""}, ()),
        ({"advertisedAddress": "127.0.0.1"}, ()),
        ({"bookieId": "own"}, ()),
        ({"metadataServiceUri": "metadata-store:rocksdb://x"}, ()),
        ({}, (TLS_ARGUMENT,)),
    ],
)
def test_where_nobody_can_be_asked_bookkeeper_makes_the_id(conf: dict[str, str], arguments: tuple[str, ...]) -> None:
    store = Store(numbered(1, 0))
    assert store.identity(CONF | conf, *arguments) == {} and store.asked == []


ORDINALS, NUMBERS = st.integers(0, 10**6), st.integers(0, 10**6)


@given(ordinal=ORDINALS, number=NUMBERS)
def test_both_programs_make_the_same_ids(ordinal: int, number: int) -> None:
    names = Names.of(CONF | {"advertisedAddress": HOST.replace("b-2", f"b-{ordinal}")})
    own = OwnBookies.of(FIRST.replace("b-2", "b-0"))
    assert names is not None
    assert names.id(number) == own.of_incarnation(ordinal, number)
    assert names.incarnation(names.id(number)) == number
    assert 3181 <= int(names.settings(number).get("bookiePort", "3181")) < 3181 + PORTS


@given(number=NUMBERS, seen=st.integers(-1, 10**6))
def test_one_reads_what_the_other_writes(number: int, seen: int) -> None:
    assert parse_record(incarnations_data({2: Counted(number, seen)}), "2") == Count(number, seen)
    assert RECORD_PATH == INCARNATIONS_PATH


@pytest.mark.parametrize("each", [{}, {"number": 1}, {"seen": 0}, None])
def test_half_of_a_count_is_none(each: Any) -> None:
    """The operator does not read it either: an id that was used must not come of it."""
    with pytest.raises(StartError):
        parse_record(json.dumps({"2": each}).encode(), "2")


def test_java_gets_the_id_and_waits_for_its_own_registration(tmp_path: Path) -> None:
    for folder in ("conf", "jdk/bin", "config"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "conf/bookkeeper.conf").write_text("# stock\nbookieId=\nbookiePort=3181\nmetadataServiceUri=\n")
    program = tmp_path / "jdk/bin/java"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    tree = Tree(contents={f"/p{RECORD_PATH}": json.dumps(numbered(1, 0)).encode()})
    with SocketServer(tree) as server:
        text = f"metadataServiceUri=metadata-store:zk:127.0.0.1:{server.port}/p\nadvertisedAddress={HOST}\n"
        (tmp_path / "config/overrides.conf").write_text(text)
        home = {"PULSAR_HOME": str(tmp_path), "PULSAR_OPERATOR_CONFIG": str(tmp_path / "config")}
        said: list[str] = []
        prepare(component_named("bookie"), home | {"JAVA_HOME": str(tmp_path / "jdk")}, said.append)
    found = dict(parse((tmp_path / "conf-rendered/bookkeeper.conf").read_text()))
    assert (found["bookieId"], found["bookiePort"], found["advertisedAddress"]) == (SECOND, "3182", HOST)
    assert any(f"/p/ledgers/available/{SECOND}".encode() in request for request in tree.requests)
    assert f"bookie: the volumes of this bookie are empty: it becomes incarnation 1, id {SECOND}" in said
