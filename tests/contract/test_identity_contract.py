"""The operator and the start program of a bookie agree on ids and on the count of incarnations: each case is given to
both. A difference would have a bookie start under an id that the operator does not expect, or under one that was used.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from pulsar_start.errors import StartError
from pulsar_start.identity import RECORD_PATH, Names, identity
from pulsar_start.identity import parse_record as parsed_by_start
from pulsar_start.session import Node

from pulsar_operator.domain.bookkeeper.bookie_ids import (
    INCARNATIONS_PATH,
    OwnBookies,
    host_of,
    parse_incarnations,
    settled,
)
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.render.child_names import pod_host
from pulsar_operator.domain.render.listeners import bookie_id

WORKLOAD, NAMESPACE, DOMAIN = "east-bookie", "pulsar", "cluster.local"
FIRST = bookie_id(WORKLOAD, 0, NAMESPACE, DOMAIN)
OWN = OwnBookies.of(FIRST)
REST = f"{WORKLOAD}-headless.{NAMESPACE}.svc.{DOMAIN}"


def conf(ordinal: int) -> dict[str, str]:
    """What the pod of an ordinal is started with."""
    host = pod_host(WORKLOAD, ordinal, NAMESPACE, DOMAIN)
    return {"advertisedAddress": host, "bookiePort": "3181", "metadataServiceUri": "metadata-store:zk:zoo:2181/c"}


def names(ordinal: int) -> Names:
    """The ids of its bookie, as the start program makes them."""
    found = Names.of(conf(ordinal))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("ordinal", "incarnation", "expected"),
    [
        (0, 0, f"{WORKLOAD}-0.{REST}:3181"),
        (0, 1, f"{WORKLOAD}-0.i1.{REST}"),
        (2, 12, f"{WORKLOAD}-2.i12.{REST}"),
        (11, 0, f"{WORKLOAD}-11.{REST}:3181"),
        (11, 1000, f"{WORKLOAD}-11.i1000.{REST}"),
        (1234567890, 999999999, f"{WORKLOAD}-1234567890.i999999999.{REST}"),
    ],
)
def test_an_id_is_made_and_read_alike(ordinal: int, incarnation: int, expected: str) -> None:
    assert OWN.of_incarnation(ordinal, incarnation) == names(ordinal).id(incarnation) == expected
    assert OWN.slot(expected) == (ordinal, incarnation) and names(ordinal).incarnation(expected) == incarnation
    assert host_of(expected) == conf(ordinal)["advertisedAddress"]
    assert names(ordinal + 1).incarnation(expected) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{WORKLOAD}-2.{REST}",
        f"{WORKLOAD}-2.{REST}:3182",
        f"{WORKLOAD}-2.i0.{REST}",
        f"{WORKLOAD}-2.i01.{REST}",
        f"{WORKLOAD}-2.i1.{REST}:3181",
        f"{WORKLOAD}-2.i1.{REST}\n",
        f"{WORKLOAD}-2.i1.i2.{REST}",
        f"{WORKLOAD}-2.I1.{REST}",
        f"{WORKLOAD}-2.i1000000000.{REST}",
        f"{WORKLOAD}-2.i1\N{ARABIC-INDIC DIGIT THREE}.{REST}",
        f"{WORKLOAD}-02.{REST}:3181",
        f"{WORKLOAD}-2.i1.{REST}.x",
        f"other-{WORKLOAD}-2.i1.{REST}",
        "10.0.0.1:3181",
    ],
)
def test_what_is_no_id_is_none_to_both(text: str) -> None:
    assert OWN.slot(text) is None and names(2).incarnation(text) is None


COUNTED = {"number": 3, "seen": 2}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", (0, -1)),
        (b"{}", (0, -1)),
        ({"0": COUNTED}, (0, -1)),
        ({"2": COUNTED}, (3, 2)),
        ({"2": {"number": 0, "seen": -1}}, (0, -1)),
        ({"2": {**COUNTED, "by": "somebody"}}, (3, 2)),
        (b"garbage", None),
        (b"[]", None),
        (b"\xff", None),
        ({"2": None}, None),
        ({"2": 3}, None),
        ({"2": {"number": 3}}, None),
        ({"2": {"seen": 3}}, None),
        ({"2": {"number": "3", "seen": 2}}, None),
        ({"2": {"number": 3.0, "seen": 2}}, None),
        ({"2": {"number": True, "seen": 2}}, None),
        ({"2": {"number": -1, "seen": -1}}, None),
        ({"2": {"number": 3, "seen": -2}}, None),
        ({"02": COUNTED}, None),
        ({" 2": COUNTED}, None),
        ({"\N{ARABIC-INDIC DIGIT TWO}": COUNTED}, None),
        ({"two": COUNTED}, None),
        ({"2": COUNTED, "-1": COUNTED}, None),
    ],
    ids=str,
)
def test_the_count_is_read_alike(data: Any, expected: tuple[int, int] | None) -> None:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    assert INCARNATIONS_PATH == RECORD_PATH
    if expected is None:
        with pytest.raises(UndecodableError):
            parse_incarnations(raw)
        with pytest.raises(StartError):
            parsed_by_start(raw, "2")
        return
    mine, theirs = OwnBookies.of(FIRST, parse_incarnations(raw)).count(2), parsed_by_start(raw, "2")
    assert (mine.number, mine.observed) == (theirs.number, theirs.seen) == expected


class Case(NamedTuple):
    """What the metadata store has of ordinal 2."""

    number: int
    seen: int
    cookies: tuple[int, ...]


class Store:
    """ZooKeeper as the start program asks it."""

    def __init__(self, case: Case) -> None:
        self._record = json.dumps({"2": {"number": case.number, "seen": case.seen}}).encode()
        self._cookies = {OWN.of_incarnation(2, each) for each in case.cookies}
        self.clock = 0.0

    def open(self, _servers: Any, _left: Any) -> Any:
        return self

    def data(self, _path: str, _seconds: float) -> bytes:
        return self._record

    def node(self, path: str, _seconds: float) -> Node | None:
        return Node(path, ephemeral=False) if path.rpartition("/")[2] in self._cookies else None

    def pause(self, seconds: float) -> None:
        self.clock += seconds

    def close(self) -> None:
        pass

    drop = close

    def started(self) -> str | None:
        """Id of a bookie on empty volumes; None = it does not start."""
        try:
            found = identity(conf(2), (), lambda _: None, self.open, lambda: self.clock, self.pause)
        except StartError:
            return None
        return found.get("bookieId", names(2).id(0))


@pytest.mark.parametrize(
    "case",
    [
        Case(0, -1, ()),
        Case(0, 0, (0,)),
        Case(0, 0, ()),
        Case(1, 0, ()),
        Case(1, 0, (0,)),
        Case(1, 1, (1,)),
        Case(1, 1, ()),
        Case(1, 1, (0,)),
        Case(2, 1, (0, 1)),
        Case(0, 3, ()),
        Case(7, 3, (7,)),
    ],
)
def test_a_bookie_on_empty_volumes_gets_the_id_that_the_operator_expects(case: Case) -> None:
    """Where the number was used and its cookie is gone the start program waits, and the operator counts the next."""
    present = {OWN.of_incarnation(2, each) for each in case.cookies}
    counts = parse_incarnations(json.dumps({"2": {"number": case.number, "seen": case.seen}}).encode())
    own = OwnBookies.of(FIRST, counts, present)
    started = Store(case).started()
    used = own.count(2).spent and own.next_id(2) not in present
    assert started == (None if used else own.next_id(2))
    after = settled(own, present, ())[2]
    then = Store(Case(after.number, after.observed, case.cookies)).started()
    assert then == OwnBookies.of(FIRST, {2: after}, present).next_id(2), "and after a pass of the operator it starts"
    assert then in present or after.number > case.seen, "never under an id that was used and has no cookie"
