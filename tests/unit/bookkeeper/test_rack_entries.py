"""Racks in znode /bookies and what is said of them: tables, and that entries of others survive any change."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.racks import Racks
from pulsar_operator.domain.bookkeeper.bookie_racks import (
    KnownRacks,
    begun_first,
    by_ordinal,
    rack_of,
    racks_known,
    too_few,
    unreadable,
)
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.rack_entries import (
    Entries,
    entries_data,
    merged,
    parse_entries,
    parse_record,
    racks_of,
    record_data,
)
from pulsar_operator.domain.conditions import FALSE, TRUE, UNKNOWN

ZONE = "topology.kubernetes.io/zone"
ENFORCED = Racks(topology_key=ZONE, enforce_minimum=True)
LOOSE = Racks(topology_key=ZONE)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"null",
        b"1",
        b'{"default": 1}',
        b'{"default": null}',
        b'{"default": {"a": "/z"}}',
        b'{"default": {"a": {"rack": NaN}}}',
        b'{"default": {"a": {"rack": 1e999}}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_says_nothing(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        parse_entries(data)


@pytest.mark.parametrize("data", [b"", b" ", b"{}"])
def test_nothing_is_there(data: bytes) -> None:
    assert parse_entries(data) == {}


def test_racks_as_brokers_take_them() -> None:
    found = {
        "a": {"x": {"rack": "/1"}, "y": {"rack": "2"}, "none": {}, "empty": {"rack": ""}, "root": {"rack": "/"}},
        "b": {"x": {"rack": "/3"}, "odd": {"rack": 4}},
    }
    assert racks_of(found) == {"x": "/3", "y": "/2"}


CASES: list[tuple[Entries, dict[str, str], dict[str, str], Entries]] = [
    ({}, {"p.d:1": "/a"}, {}, {"default": {"p.d:1": {"hostname": "p.d", "rack": "/a"}}}),
    ({"default": {"p": {"rack": "/a", "x": 1}}}, {"p": "/b"}, {}, {"default": {"p": {"rack": "/b", "x": 1}}}),
    ({"g": {"p": {"x": 1}}}, {"p": "/b"}, {}, {"g": {"p": {"x": 1, "rack": "/b"}}}),
    ({"g": {"p": {}}, "h": {"p": {}}}, {"p": "/b"}, {}, {"g": {"p": {"hostname": "p", "rack": "/b"}}} | {
        "h": {"p": {"hostname": "p", "rack": "/b"}}
    }),
    ({"default": {"p": {"rack": "/a"}}}, {}, {"p": "/a"}, {}),
    ({"default": {"p": {"rack": "/a"}, "q": {}}}, {}, {"p": "/a"}, {"default": {"q": {}}}),
    ({"default": {"p": {"rack": "/by-hand"}}}, {}, {"p": "/a"}, {"default": {"p": {"rack": "/by-hand"}}}),
    ({"g": {"p": {"rack": "/a", "x": 1}}}, {}, {"p": "/a"}, {"g": {"p": {"x": 1}}}),
    ({"g": {}}, {}, {"p": "/a"}, {"g": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "desired", "gone", "after"), CASES)
def test_merged(before: Entries, desired: dict[str, str], gone: dict[str, str], after: Entries) -> None:
    kept = copy.deepcopy(before)
    assert merged(before, desired, gone) == after
    assert before == kept, "what was read is not changed"
    assert merged(after, desired, gone) == after, "again it is the same"


OURS, THEIRS = st.sampled_from(["own-0", "own-1", "own-2"]), st.sampled_from(["x", "y", "own-10", ""])
RACK = st.sampled_from(["/a", "/b", "/c"])
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
ENTRY = st.dictionaries(st.sampled_from(["rack", "hostname", "other"]), VALUE, max_size=3)
ENTRIES = st.dictionaries(
    st.sampled_from(["default", "g", "h"]), st.dictionaries(OURS | THEIRS, ENTRY, max_size=4), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(before=ENTRIES, desired=st.dictionaries(OURS, RACK), gone=st.dictionaries(OURS, RACK))
def test_entries_of_others_survive_any_change(before: Any, desired: dict[str, str], gone: dict[str, str]) -> None:
    gone = {bookie: rack for bookie, rack in gone.items() if bookie not in desired}
    after = parse_entries(entries_data(merged(parse_entries(json.dumps(before).encode()), desired, gone)))

    def foreign(entries: Entries) -> dict[tuple[str, str], Any]:
        own = desired.keys() | gone.keys()
        return {(g, b): each for g, of in entries.items() for b, each in of.items() if b not in own}

    assert foreign(after) == foreign(before)
    assert {b: r for b, r in racks_of(after).items() if b in desired} == desired
    for group, bookies in before.items():
        for bookie in bookies.keys() & (desired.keys() | gone.keys()):
            had, has = bookies[bookie], after.get(group, {}).get(bookie, {})
            lost = {name: value for name, value in had.items() if name != "rack" and has.get(name, ...) != value}
            taken_out = group == "default" and bookie in gone and had.get("rack") == gone[bookie]
            assert not lost or taken_out, "unknown fields of our own stay while the entry does"


@pytest.mark.parametrize(("data", "found"), [(b"", {}), (b"{", {}), (b"[]", {}), (b'{"a": "/z"}', {"a": "/z"})])
def test_record(data: bytes, found: dict[str, str]) -> None:
    assert parse_record(data) == found and parse_record(record_data(found)) == found


@pytest.mark.parametrize(
    ("labels", "rack"),
    [({ZONE: "a"}, "/a"), ({ZONE: ""}, None), ({}, None), ({ZONE: "a/b"}, None), ({ZONE: "default-rack"}, None)],
)
def test_rack_of_labels(labels: dict[str, str], rack: str | None) -> None:
    assert rack_of(labels, ZONE) == rack


def test_by_ordinal_goes_round() -> None:
    assert by_ordinal(["a", "b", "c"], range(5)).of == {0: "/a", 1: "/b", 2: "/c", 3: "/a", 4: "/b"}


TWO, ONE = KnownRacks({0: "/a", 1: "/b"}), KnownRacks({0: "/a", 1: "/a"})


@pytest.mark.parametrize(
    ("racks", "known", "short"),
    [
        (LOOSE, ONE, None),
        (ENFORCED, TWO, None),
        (ENFORCED, ONE, "bookies are in /a"),
        (ENFORCED, KnownRacks(), "no bookie's rack is known"),
        (Racks(topology_key=ZONE, enforce_minimum=True, minimum=3), TWO, "bookies in 3 racks"),
    ],
)
def test_too_few(racks: Racks, known: KnownRacks, short: str | None) -> None:
    found = too_few(racks, known)
    assert (found is None) == (short is None) and (short or "") in (found or "")


WRITTEN = {"b": "/a"}
SAID = [
    (LOOSE, TWO, WRITTEN, (TRUE, Reason.RACKS_KNOWN), "Bookies are in 2 racks (ordinals by rack: /a: 0; /b: 1)"),
    (LOOSE, ONE, WRITTEN, (TRUE, Reason.RACKS_KNOWN), "racks.minimum is 2, so a rack stores more than one copy"),
    (ENFORCED, ONE, WRITTEN, (FALSE, Reason.TOO_FEW_RACKS), "set enforceMinimum to false"),
    (LOOSE, KnownRacks({}, {0: "pod 0", 1: "pod 1"}), WRITTEN, (FALSE, Reason.RACK_UNKNOWN), "pod 0 (and 1 more)"),
    (LOOSE, KnownRacks({}, {}, frozenset({2, 1})), WRITTEN, (UNKNOWN, Reason.PENDING), "1, 2"),
    (LOOSE, TWO, None, (UNKNOWN, Reason.METADATA_UNREACHABLE), "away"),
]


@pytest.mark.parametrize(("racks", "known", "written", "head", "text"), SAID)
def test_what_is_said(racks: Racks, known: KnownRacks, written: Any, head: Any, text: str) -> None:
    found = racks_known(racks, known, written, "away")
    assert found is not None and found[:2] == head and text in found[2]


def test_nothing_is_said_without_racks_and_what_cannot_be_read_is() -> None:
    assert racks_known(None, None, None, None) is None
    assert unreadable("why")[:2] == (FALSE, Reason.RACKS_UNREADABLE) and "does not overwrite" in unreadable("why")[2]


OF = {"b-0": "/a", "b-1": "/b", "b-2": "/a", "b-3": "/b"}


@pytest.mark.parametrize(
    ("racks", "outdated", "done", "first"),
    [
        (OF, {"b-0", "b-1", "b-2", "b-3"}, set(), {"b-1", "b-3"}),
        (OF, {"b-0", "b-1", "b-2"}, {"b-3"}, {"b-1"}),
        (OF, {"b-0", "b-2"}, {"b-1", "b-3"}, {"b-0", "b-2"}),
        (OF, {"b-0", "b-1", "b-3"}, {"b-2"}, {"b-0"}),
        (OF, {"b-0", "b-1", "b-3", "b-9"}, {"b-2", "b-8"}, {"b-9"}),
        ({}, {"b-0", "b-1"}, set(), {"b-0", "b-1"}),
        ({"b-0": "/a"}, {"b-0", "b-1", "b-2"}, set(), {"b-1", "b-2"}),
        (OF, set(), {"b-0"}, set()),
    ],
)
def test_rack_by_rack(racks: dict[str, str], outdated: set[str], done: set[str], first: set[str]) -> None:
    assert begun_first(racks, outdated, done) == first
