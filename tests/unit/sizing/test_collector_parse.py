"""collector/parse.py: from a broker's document to rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.pieces import FormatError
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.collector.parse import CpuReader, TopicsParser
from pulsar_sizing.schema import TRAFFIC
from tests.fakes.broker_stats import FakeTopic, document, in_order, keys_of

RECORDED = Path(__file__).parent / "data" / "broker_stats.json"
TIME = datetime(2025, 1, 1, 12, 30, tzinfo=UTC)


def parse(data: bytes, *, piece: int = 1 << 20, batch_rows: int = 10_000) -> list[dict[str, Any]]:
    parser = TopicsParser("h:1", TIME, batch_rows=batch_rows)
    rows: list[dict[str, Any]] = []
    for at in range(0, len(data), piece):
        parser.feed(data[at : at + piece])
        for batch in parser.take():
            rows += batch.to_pylist()
    parser.end()
    for batch in parser.take():
        assert batch.schema.equals(table_schema(TRAFFIC))
        rows += batch.to_pylist()
    assert parser.size == len(data)
    return rows


def one_topic(stats: dict[str, Any], namespace: str = "t/ns") -> bytes:
    topic = f"persistent://{namespace}/x"
    return json.dumps({namespace: {"0x00000000_0xffffffff": {"persistent": {topic: stats}}}}).encode()


RATES = {"msgRateIn": 1.0, "msgRateOut": 2.0, "msgThroughputIn": 3.0, "msgThroughputOut": 4.0}


def test_a_recorded_answer_of_a_real_broker() -> None:
    rows = {row["topic"]: row for row in parse(RECORDED.read_bytes())}
    assert set(rows) == {
        "persistent://sizingcol/orders/hot",
        "persistent://sizingcol/orders/unread",
        "persistent://sizingcol/orders/parted-partition-0",
        "persistent://sizingcol/orders/__change_events",
        "non-persistent://sizingcol/orders/np",
    }, "system topics stay, the health check's do not"
    hot = rows["persistent://sizingcol/orders/hot"]
    # Produced: 200 messages of 1000 bytes a second, two subscriptions; 31 bytes a message are Pulsar's metadata.
    assert hot["messages_in"] == pytest.approx(200, rel=0.01) and hot["messages_out"] == pytest.approx(400, rel=0.01)
    assert hot["bytes_in"] == pytest.approx(200 * 1031, rel=0.01)
    assert hot["bytes_out"] == pytest.approx(400 * 1031, rel=0.01)
    assert (hot["producers"], hot["consumers"], hot["subscriptions"]) == (1, 2, 2)
    unread = rows["persistent://sizingcol/orders/unread"]
    assert (unread["messages_out"], unread["consumers"], unread["subscriptions"]) == (0.0, 0, 1)
    assert unread["backlog"] > 1000 and unread["storage_bytes"] > 100_000
    loose = rows["non-persistent://sizingcol/orders/np"]
    assert loose["messages_in"] == pytest.approx(30, rel=0.01) and loose["storage_bytes"] == loose["backlog"] == 0
    for row in rows.values():
        low, high = (int(edge, 16) for edge in row["bundle"].split("_"))
        assert row["position"] == topic_hash(row["topic"])
        assert low <= row["position"] and (row["position"] < high or high == 0xFFFFFFFF)
        assert (row["broker"], row["sample_time"], row["namespace"]) == ("h:1", TIME, "sizingcol/orders")


def test_the_fake_broker_writes_the_keys_of_a_real_one() -> None:
    def keys(data: Any) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for bundles in data.values():
            for domains in bundles.values():
                for domain, topics in domains.items():
                    for stats in topics.values():
                        even = {
                            **stats,
                            "subscriptions": [
                                s for s in stats["subscriptions"].values() if s["type"] == "Shared" and s["consumers"]
                            ],
                            "replication": [],
                        }
                        found.setdefault(domain, set()).update(keys_of(even))
        return found

    fakes = [
        FakeTopic(f"{domain}://t/ns/x", 10.0, 10.0, 100.0, 100.0, producers=1, consumers=(1,))
        for domain in ("persistent", "non-persistent")
    ]
    fake = keys(json.loads(b"".join(document(in_order(fakes)))))
    assert fake == keys(json.loads(RECORDED.read_bytes()))


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_counts_of_the_fake_in_pieces_of_any_size(piece: int) -> None:
    topic = FakeTopic(
        "persistent://t/ns/x",
        10.0,
        30.0,
        1000.0,
        3000.0,
        producers=2,
        consumers=(2, 0, 3),
        backlog=(5, 7),
        storage_bytes=99,
        replication=("b", "c"),
    )
    topics = [topic, FakeTopic("non-persistent://t/ns/y", consumers=(1,)), FakeTopic("persistent://a/b/z")]
    rows = {r["topic"]: r for r in parse(b"".join(document(in_order(topics))), piece=piece)}
    assert len(rows) == 3
    row = rows[topic.name]
    assert (row["producers"], row["consumers"], row["subscriptions"]) == (2, 5, 3)
    assert (row["backlog"], row["storage_bytes"]) == (12, 99), "a replicator's backlog is no subscription's"
    assert rows["non-persistent://t/ns/y"]["consumers"] == 1 and rows["persistent://a/b/z"]["consumers"] == 0


@given(
    st.lists(
        st.builds(
            FakeTopic,
            st.tuples(
                st.sampled_from(["persistent", "non-persistent"]),
                st.sampled_from(["t/a", "t/b", "u/a"]),
                st.text(min_size=1, max_size=12).filter(lambda s: "/" not in s and s.isprintable()),
            ).map(lambda parts: f"{parts[0]}://{parts[1]}/{parts[2]}"),
            st.floats(0, 1e9),
            st.floats(0, 1e9),
            producers=st.integers(0, 2),
            consumers=st.lists(st.integers(0, 2), max_size=2),
            replication=st.lists(st.sampled_from(["east", "subscriptions"]), max_size=1),
        ),
        unique_by=lambda t: t.name,
        max_size=12,
    ),
    st.integers(1, 40),
)
def test_every_topic_is_one_row_with_its_rates(topics: list[FakeTopic], batch_rows: int) -> None:
    rows = parse(b"".join(document(in_order(topics))), piece=997, batch_rows=batch_rows)
    assert {(r["topic"], r["messages_in"], r["messages_out"], r["consumers"]) for r in rows} == {
        (t.name, t.messages_in, t.messages_out, sum(t.consumers)) for t in topics
    }
    assert len(rows) == len(topics)


def test_what_only_looks_like_a_count_is_none() -> None:
    stats = {
        **RATES,
        "replication": {"b": {"msgBacklog": 5, "consumers": [{}]}, "c": {}},
        "subscriptions": {
            "s": {"consumers": [{"msgBacklog": 7, "metadata": {}}], "others": [{}], "msgBacklog": 3, "storageSize": 8},
            "msgBacklog": {"msgBacklog": 4},
        },
        "publishers": [{"msgRateIn": 99.0, "metadata": {"producerCount": 5}}],
        "producerCount": 1,
    }
    (row,) = parse(one_topic(stats))
    assert (row["subscriptions"], row["consumers"], row["backlog"], row["producers"]) == (2, 1, 7, 1)
    assert (row["messages_in"], row["storage_bytes"]) == (1.0, 0)


def test_batches_leave_as_soon_as_they_are_full() -> None:
    data = b"".join(document(in_order([FakeTopic(f"persistent://t/ns/{i}") for i in range(25)])))
    parser = TopicsParser("h:1", TIME, batch_rows=10)
    parser.feed(data)
    assert [b.num_rows for b in parser.take()] == [10, 10] and parser.take() == []
    parser.end()
    assert [b.num_rows for b in parser.take()] == [5] and parser.rows == 25


@pytest.mark.parametrize(
    ("namespace", "kept"),
    [
        ("pulsar/broker-0.svc.cluster.local:8080", False),
        ("pulsar/east/10.0.0.1:8080", False),
        ("sla-monitor/east/10.0.0.1:8080", False),
        ("pulsar/system", True),
        ("public/functions", True),
        ("other/broker-0:8080", True),
        ("pulsar/broker-0:x", True),
    ],
)
def test_namespaces_of_health_checks_are_left_out(namespace: str, kept: bool) -> None:
    assert len(parse(one_topic(RATES, namespace))) == kept


def test_no_topics_is_an_answer() -> None:
    assert parse(b"{}") == []


def test_a_topic_without_rates_is_left_out_and_counted() -> None:
    parser = TopicsParser("h:1", TIME)
    parser.feed(one_topic({"msgRateIn": 1.0}))
    parser.end()
    assert (parser.rows, parser.incomplete) == (0, 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty, because the broker has no statistics yet"),
        (b"<html>", "not JSON"),
        (b'{"t/ns": {"0x0_0x1": {"persistent": {"a": {"msgRa', "not complete"),
        (b'{"t/ns": {"0x0_0x1": {"persistent": {', "not complete"),
        (b"{}{}", "not JSON"),
        (b"[]", "the value at the top is of type array"),
        (b'"x"', "the value at the top is of type string"),
        (b'{"a": 1}', "the value for a namespace is of type number"),
        (b'{"a": {"b": []}}', "the value for a bundle is of type array"),
        (b'{"a": {"b": {"c": null}}}', "the value for a domain is of type null"),
        (b'{"a": {"b": {"c": {"d": true}}}}', "the value for a topic is of type boolean"),
        (b'{"a": {"b": {"c": {"\xff": {}}}}}', "UTF8"),
        (one_topic({**RATES, "msgRateIn": float("nan")}), "not JSON"),
        (one_topic({**RATES, "producerCount": 1 << 40}), "does not fit"),
    ],
)
def test_what_is_no_document(data: bytes, words: str) -> None:
    with pytest.raises(FormatError) as error:
        parse(data, piece=16)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_the_cpu_of_a_broker_is_found_in_any_pieces(piece: int) -> None:
    items = [{"metrics": {"brk_topics_count": n}, "dimensions": {"namespace": f"t/{n}"}} for n in range(9)]
    items[4]["metrics"] = {"brk_lb_cpu_usage": 12.5}
    data = json.dumps(items).encode()
    reader = CpuReader()
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece])
    assert reader.share == 0.125


@pytest.mark.parametrize(
    "data", [b"[]", b"{}", b"3", b'["a"]', b'[{"metrics": {"brk_lb_cpu_usage": "NaN"}}]', b'[{"metrics": null}]']
)
def test_a_broker_that_does_not_tell_its_cpu(data: bytes) -> None:
    reader = CpuReader()
    reader.feed(data)
    assert reader.share is None


def test_metrics_that_are_no_json() -> None:
    with pytest.raises(FormatError, match="not JSON"):
        CpuReader().feed(b"<html>")
