"""Whose store it is: every combination of record, INSTANCEID, marker, remnants and volumes that can be met."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.bookkeeper.bookie_ids import Count
from pulsar_operator.domain.dataplane.registration.metadata import (
    INSTANCE_ID_PATH,
    DamagedRecordError,
    Identity,
    IdentityFacts,
    Marker,
    Record,
    RecordState,
    Refusal,
    decide_identity,
    local_nodes,
    parse_marker,
    parse_record,
    remnants_of,
)
from tests.support.cluster.bootstrap import adopting

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS, OTHER, NEW = "id-ours", "id-other", "id-new"
INITIALIZING = Record(OURS, "c", RecordState.INITIALIZING)
ADOPTING = replace(INITIALIZING, adopted=True)
INITIALIZED = replace(INITIALIZING, state=RecordState.INITIALIZED)
MARKER = Marker(OURS, "c", "ns/c")
FOREIGN = Marker(OTHER, "d", "ns/d")
EMPTY = IdentityFacts("c", "ns/c", "ns/c-instance-id", NOW, False, None, "zk:2181/c", None, new_id=NEW)


def facts(**changes: object) -> IdentityFacts:
    return replace(EMPTY, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_facts", "instance_id", "writes_record_first", "adopted"),
    [
        (facts(), NEW, True, False),
        (facts(marker=MARKER), OURS, True, False),
        (facts(store_id=OURS, confirmations=adopting(OURS)), OURS, True, True),
        (facts(store_id=OURS, bookies_exist=True, confirmations=adopting(OURS)), OURS, True, True),
        (facts(store_id=OURS, marker=MARKER), OURS, True, True),
        (facts(record=INITIALIZING), OURS, False, False),
        (facts(record=INITIALIZING, marker=MARKER), OURS, False, False),
        (facts(record=INITIALIZING, store_id=OURS, bookies_exist=True), OURS, False, False),
        (facts(record=INITIALIZING, store_id=OURS, marker=MARKER), OURS, False, False),
        (facts(record=ADOPTING, store_id=OURS), OURS, False, True),
        (facts(record=INITIALIZED, store_id=OURS), OURS, False, False),
        (facts(record=INITIALIZED, store_id=OURS, bookies_exist=True), OURS, False, False),
    ],
)
def test_goes_on_with_the_one_right_id(
    given_facts: IdentityFacts, instance_id: str, writes_record_first: bool, adopted: bool
) -> None:
    decision = decide_identity(given_facts)
    assert isinstance(decision, Identity), decision
    assert decision.record.instance_id == instance_id
    assert (decision.why is not None) == writes_record_first
    assert decision.record.adopted == adopted
    assert decision.settled == (given_facts.record is INITIALIZED)


LOST, CONFLICT = Reason.METADATA_LOST, Reason.METADATA_CONFLICT


@pytest.mark.parametrize(
    ("given_facts", "reason", "words"),
    [
        # initialized once, and the store is empty or another one
        (facts(record=INITIALIZED), LOST, "has no /ledgers/INSTANCEID"),
        (facts(record=INITIALIZED, store_id=OTHER), LOST, "instance id id-other"),
        (facts(record=ADOPTING), LOST, "has no /ledgers/INSTANCEID"),
        (facts(record=ADOPTING, store_id=OTHER), LOST, "instance id id-other"),
        # no record, and something says there was a cluster
        (facts(bookies_exist=True), LOST, "PersistentVolumeClaims or pods of the bookies of this cluster exist"),
        (
            facts(marker=MARKER, bookies_exist=True),
            LOST,
            "PersistentVolumeClaims or pods of the bookies of this cluster exist",
        ),
        (facts(record=INITIALIZING, bookies_exist=True), LOST, "The ConfigMap is therefore outdated"),
        (facts(record=INITIALIZING, marker=MARKER, bookies_exist=True), LOST, "The ConfigMap is therefore outdated"),
        (facts(remnants=["/ledgers/cookies"]), LOST, "has /ledgers/cookies but no /ledgers/INSTANCEID"),
        (facts(marker=MARKER, remnants=["/managed-ledgers/public"]), LOST, "/managed-ledgers/public"),
        (facts(record=INITIALIZING, remnants=["/ledgers/idgen"]), LOST, "/ledgers/idgen"),
        # nobody says whose store it is
        (facts(store_id=OTHER), CONFLICT, 'answers: "id-other"'),
        (
            facts(store_id=OTHER, bookies_exist=True),
            CONFLICT,
            "bookies refuse to start with the instance id of another store",
        ),
        (
            facts(store_id=OTHER, confirmations=adopting(OURS)),
            CONFLICT,
            "is not used, because its field answers is id-ours",
        ),
        # a copy of another cluster's record
        (facts(record=INITIALIZED, store_id=OURS, marker=FOREIGN), CONFLICT, "by cluster 'd'"),
        (
            facts(record=INITIALIZED, store_id=OURS, marker=replace(MARKER, owner="elsewhere/c")),
            CONFLICT,
            "elsewhere/c",
        ),
        # another cluster's store
        (facts(marker=FOREIGN), CONFLICT, "by cluster 'd' of PulsarCluster ns/d"),
        (facts(marker=FOREIGN, store_id=OTHER), CONFLICT, "by cluster 'd'"),
        (facts(marker=replace(MARKER, owner="elsewhere/c"), store_id=OURS), CONFLICT, "elsewhere/c"),
        (facts(marker=MARKER, store_id=OTHER), CONFLICT, "with instance id id-ours"),
        (facts(record=INITIALIZING, marker=FOREIGN), CONFLICT, "by cluster 'd'"),
        (facts(record=INITIALIZING, marker=replace(MARKER, instance_id=OTHER)), CONFLICT, "id-other"),
        (
            facts(record=INITIALIZING, store_id=OTHER),
            CONFLICT,
            "with instance id id-other while this cluster was being set up",
        ),
        (facts(record=replace(INITIALIZED, cluster_name="d"), store_id=OURS), CONFLICT, "belongs to cluster 'd'"),
        # nonsense
        (facts(store_id=""), CONFLICT, "is not an instance id"),
        (facts(store_id="a b", record=INITIALIZED), CONFLICT, "is not an instance id"),
        (facts(store_id="x" * 200), CONFLICT, "is not an instance id"),
    ],
)
def test_refuses_in_words(given_facts: IdentityFacts, reason: Reason, words: str) -> None:
    decision = decide_identity(given_facts)
    assert isinstance(decision, Refusal), decision
    assert decision.reason is reason
    assert words in decision.message
    assert "zk:2181/c" in decision.message or "ns/c-instance-id" in decision.message


RECORDS: dict[str, Record | None] = {
    "absent": None,
    "of another cluster": replace(INITIALIZED, cluster_name="d"),
    "first start": INITIALIZING,
    "adoption": ADOPTING,
    "initialized": INITIALIZED,
}
STORES: dict[str, dict[str, object]] = {
    "empty": {},
    "begun by us": {"marker": MARKER},
    "begun by another": {"marker": FOREIGN},
    "headless": {"remnants": ["/ledgers/cookies"]},
    "headless, ours": {"marker": MARKER, "remnants": ["/ledgers/cookies"]},
    "ours": {"store_id": OURS, "marker": MARKER},
    "our id, no marker": {"store_id": OURS},
    "our id, marked by another": {"store_id": OURS, "marker": replace(MARKER, owner="elsewhere/c")},
    "a stranger's": {"store_id": OTHER},
    "a stranger's, marked": {"store_id": OTHER, "marker": FOREIGN},
    "garbage": {"store_id": ""},
}
NEW_ID, RESUMES, ADOPTS, SETTLED = "a new id", "goes on", "is adopted", "settled"
TABLE: dict[str, dict[str, tuple[object, object]]] = {
    # what becomes of it while no bookie ever was, and while bookies have claims or pods
    "absent": {
        "empty": (NEW_ID, LOST),
        "begun by us": (NEW_ID, LOST),
        "begun by another": (CONFLICT, CONFLICT),
        "headless": (LOST, LOST),
        "headless, ours": (LOST, LOST),
        "ours": (ADOPTS, ADOPTS),
        "our id, no marker": (CONFLICT, CONFLICT),
        "our id, marked by another": (CONFLICT, CONFLICT),
        "a stranger's": (CONFLICT, CONFLICT),
        "a stranger's, marked": (CONFLICT, CONFLICT),
        "garbage": (CONFLICT, CONFLICT),
    },
    "of another cluster": dict.fromkeys(STORES, (CONFLICT, CONFLICT)),
    "first start": {
        "empty": (RESUMES, LOST),
        "begun by us": (RESUMES, LOST),
        "begun by another": (CONFLICT, CONFLICT),
        "headless": (LOST, LOST),
        "headless, ours": (LOST, LOST),
        "ours": (RESUMES, RESUMES),
        "our id, no marker": (RESUMES, RESUMES),
        "our id, marked by another": (CONFLICT, CONFLICT),
        "a stranger's": (CONFLICT, CONFLICT),
        "a stranger's, marked": (CONFLICT, CONFLICT),
        "garbage": (CONFLICT, CONFLICT),
    },
    **{
        name: {
            "empty": (LOST, LOST),
            "begun by us": (LOST, LOST),
            "begun by another": (LOST, LOST),
            "headless": (LOST, LOST),
            "headless, ours": (LOST, LOST),
            "ours": (goes_on, goes_on),
            "our id, no marker": (goes_on, goes_on),
            "our id, marked by another": (CONFLICT, CONFLICT),
            "a stranger's": (LOST, LOST),
            "a stranger's, marked": (LOST, LOST),
            "garbage": (CONFLICT, CONFLICT),
        }
        for name, goes_on in (("adoption", RESUMES), ("initialized", SETTLED))
    },
}
CONSENTED = {("absent", "our id, no marker"), ("absent", "a stranger's")}
"""Where a confirmation changes anything."""


def outcome(given_facts: IdentityFacts) -> object:
    decision = decide_identity(given_facts)
    if isinstance(decision, Refusal):
        return decision.reason
    if decision.settled:
        return SETTLED
    if decision.why is None:
        return RESUMES
    return ADOPTS if decision.record.adopted else NEW_ID


def test_the_table_has_every_cell() -> None:
    assert {(record, store) for record, row in TABLE.items() for store in row} == set(
        itertools.product(RECORDS, STORES)
    )


@pytest.mark.parametrize("confirmed", [None, "the id that is there", "another id"])
@pytest.mark.parametrize("bookies", [False, True])
@pytest.mark.parametrize(("record", "store"), list(itertools.product(RECORDS, STORES)))
def test_every_cell(record: str, store: str, bookies: bool, confirmed: str | None) -> None:
    given_facts = facts(record=RECORDS[record], bookies_exist=bookies, **STORES[store])
    expected = TABLE[record][store][bookies]
    if confirmed is not None:
        named = str(given_facts.store_id or "id") if confirmed == "the id that is there" else "another"
        given_facts = replace(given_facts, confirmations=adopting(named))
        if confirmed == "the id that is there" and (record, store) in CONSENTED:
            expected = ADOPTS
    assert outcome(given_facts) == expected


ids = st.sampled_from([None, OURS, OTHER])
records = st.one_of(
    st.none(),
    st.builds(
        Record, st.sampled_from([OURS, OTHER]), st.sampled_from(["c", "d"]), st.sampled_from(RecordState), st.booleans()
    ),
)
markers = st.sampled_from([None, MARKER, FOREIGN, replace(MARKER, instance_id=OTHER)])
remnants = st.sampled_from([(), ("/ledgers/cookies",)])


@given(records, ids, markers, remnants, st.booleans(), st.sampled_from([None, OURS, OTHER]))
def test_an_id_in_the_store_or_a_finished_record_is_never_replaced(
    record: Record | None,
    store_id: str | None,
    marker: Marker | None,
    left: tuple[str, ...],
    bookies: bool,
    agreed: str | None,
) -> None:
    decision = decide_identity(
        facts(
            record=record,
            store_id=store_id,
            marker=marker,
            remnants=left,
            bookies_exist=bookies,
            confirmations=adopting(agreed) if agreed is not None else (),
        )
    )
    if isinstance(decision, Refusal):
        return
    chosen = decision.record.instance_id
    assert store_id in (None, chosen)
    if record is not None:
        assert chosen == record.instance_id
        assert record.cluster_name == "c"
        if record.state is RecordState.INITIALIZED or record.adopted:
            assert store_id == chosen
    if store_id is None:
        assert not left
        assert not bookies, "initialized over data"
    if record is None and store_id is not None:
        assert marker == replace(MARKER, instance_id=store_id) or (marker is None and agreed == store_id)
    assert marker is None or (marker.owner, marker.instance_id) == ("ns/c", chosen), "somebody else's"
    if decision.settled:
        assert store_id == chosen


def test_a_record_survives_the_config_map() -> None:
    counted = replace(INITIALIZED, incarnations={0: Count(0, 0), 2: Count(3, 2)})
    for record in (INITIALIZING, ADOPTING, INITIALIZED, replace(INITIALIZED, registered=True), counted):
        assert parse_record(record.to_data()) == record


@pytest.mark.parametrize(
    "change",
    [
        {"instanceId": ""},
        {"instanceId": "a b"},
        {"state": ""},
        {"state": "initialized"},
        {"registered": "yes"},
        {"bookieIncarnations": "garbage"},
        {"bookieIncarnations": '{"2": {"number": "1", "seen": 0}}'},
    ],
)
def test_a_damaged_record_is_not_guessed_at(change: dict[str, str]) -> None:
    with pytest.raises(DamagedRecordError, match=next(iter(change))):
        parse_record({**INITIALIZED.to_data(), **change})


def test_an_empty_config_map_is_damaged() -> None:
    with pytest.raises(DamagedRecordError):
        parse_record({})


def test_a_marker_survives_and_garbage_is_told() -> None:
    assert parse_marker(MARKER.to_bytes()) == MARKER
    for garbage in (b"", b"{", b"[]", b"{}", b'{"instanceId": 1, "clusterName": "c", "owner": "o"}', b"\xff"):
        with pytest.raises(ValueError):
            parse_marker(garbage)


def test_what_formatting_makes_is_no_remnant() -> None:
    assert remnants_of(None, None) == []
    assert remnants_of(["available", "INSTANCEID"], []) == []
    assert remnants_of(["available", "cookies", "LAYOUT"], ["public"]) == [
        "/ledgers/LAYOUT",
        "/ledgers/cookies",
        "/managed-ledgers/public",
    ]


def test_the_id_is_written_last_because_bookies_start_on_it() -> None:
    nodes = local_nodes(INITIALIZING, "ns/c")
    assert nodes[-1].path == INSTANCE_ID_PATH
    assert nodes[-1].data == OURS.encode()
    assert all(node.version is None and node.why for node in nodes)
