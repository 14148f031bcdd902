"""balance/model/statistics.py: what is read piece by piece is what the whole document says."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model import topic_statistics
from pulsar_operator.balance.model.cells import CellBuffer
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import BundleLoad, Observed, full_bundle, model_of, usage_of
from pulsar_operator.balance.model.pieces import SLICE_BYTES, FormatError, Limits, TopicNames, position_of
from pulsar_operator.balance.model.statistics import (
    BundleTraffic,
    TopicTraffic,
    TopicTrafficByBundle,
    UsageFigures,
)
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.plan import plan
from tests.fakes.broker_stats import FakeTopic, topic_stats
from tests.support.balancing.documents import documents, topic_load, whole_cells

COST = CostModel()
HALF, LAST = 1 << 31, 0xFFFFFFFF
BOUNDS = (0, HALF, LAST)


def nothing(_: str) -> bool:
    return False


def fed(reader: Any, data: bytes, piece: int = 1 << 20) -> Any:
    for at in range(0, len(data), piece):
        reader.feed(data[at : at + piece])
    reader.end()
    return reader


def compact(document: Any) -> bytes:
    """As brokers write it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def streamed(data: bytes, piece: int = 1 << 20) -> dict[str, CellBuffer]:
    found: TopicTraffic = fed(TopicTraffic(COST, nothing), data, piece)
    return found.namespaces


def one_topic(stats: Any, namespace: str = "t/n") -> bytes:
    return json.dumps({namespace: {"0x00000000_0xffffffff": {"persistent": {"persistent://t/n/x": stats}}}}).encode()


@given(st.lists(documents(), min_size=1, max_size=3), st.integers(1, 3000), st.booleans())
def test_pieces_are_the_whole_document(some: list[Any], piece: int, spaces: bool) -> None:
    """Cells, topic counts and clients, to the last bit; and so splits, hot topics and moves."""
    brokers = tuple(f"b{i}.x:8080" for i in range(len(some)))
    observed, plain = Observed(brokers), Observed(brokers)
    for document in some:
        observed.take_cells(streamed(json.dumps(document).encode() if spaces else compact(document), piece))
    whole = whole_cells(some, COST)
    assert {name: cells.cells() for name, cells in observed.cells.items()} == whole
    for name, cells in whole.items():
        for cell in cells:
            plain.add(name, *cell)
        for each in (observed, plain):
            each.boundaries[name] = BOUNDS
            each.owners |= {BundleId(name, low, high): brokers[0] for low, high in pairwise(BOUNDS)}
    model, same = model_of(observed), model_of(plain)
    assert model == same and plan(model, Options()) == plan(same, Options())


@pytest.mark.parametrize("spaces", [False, True])
def test_a_document_may_be_cut_anywhere(spaces: bool) -> None:
    topic = FakeTopic("persistent://t/n/\u00e9\u2192", 1.5, 2.5, 3.5, 4.5, 1, (2,), (3,), 5, ("b",))
    names = (topic.name, "persistent://t/n/y")
    document = {"t/n": {"0x00000000_0xffffffff": {"persistent": {name: topic_stats(topic) for name in names}}}}
    data = json.dumps(document, ensure_ascii=False).encode() if spaces else compact(document)
    whole = whole_cells([document], COST)
    for at in range(len(data)):
        reader = TopicTraffic(COST, nothing)
        reader.feed(data[:at])
        reader.feed(data[at:])
        reader.end()
        assert {name: cells.cells() for name, cells in reader.namespaces.items()} == whole
        cut = TopicTraffic(COST, nothing)
        with pytest.raises(FormatError, match=r"not complete|empty"):
            fed(cut, data[:at])


def of_three(odd: Any, namespace: str = "t/n") -> Any:
    """A document of three topics, of which the second is odd."""
    sane = topic_stats(FakeTopic("x", 1.0, 2.0, 3.0, 4.0, 1, (1,), (5,)))
    names = [f"persistent://{namespace}/{each}" for each in "abc"]
    topics = dict(zip(names, (sane, {**sane, **odd}, sane), strict=True))
    return {namespace: {"0x00000000_0xffffffff": {"persistent": topics, "non-persistent": {}}}}


ONE = {"s": {"consumers": [{}]}}
NAMED = {"persistent://t/n/b": {"consumers": [{}, {}]}, "s": {}, "persistent://t/n/c": {"consumers": []}}


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
@pytest.mark.parametrize(
    ("odd", "same"),
    [
        ({"subscriptions": NAMED}, {"subscriptions": NAMED}),
        ({"replication": {"a": {"msgRateOut": 2.5}, "persistent://t/n/c": {"msgRateOut": 1}}}, {"msgRateOut": 5.5}),
        ({"publishers": [{"metadata": {"topic": "persistent://t/n/c"}}, {}, {"persistent://t/n/c": {}}]}, {}),
        ({"publishers": [{"metadata": '"},\\"persistent://t/n/c": {}'}, [[[[1]]]]]}, {}),
        ({"subscriptions": {"s": {"consumers": [1, [], {}]}}}, {"subscriptions": ONE}),
        ({"subscriptions": {"s": {"consumers": None, "msgBacklog": 1.5}}}, {"subscriptions": {}}),
        ({"replication": {"a": {"msgRateOut": "NaN", "msgThroughputOut": 3}}}, {"msgThroughputOut": 7.0}),
        ({"msgRateIn": "7", "producerCount": 1.0}, {"msgRateIn": None}),
        ({"msgRateOut": 1 << 70}, {"msgRateOut": 0}),
    ],
)
def test_an_odd_topic_is_read_between_others(odd: Any, same: Any, piece: int) -> None:
    found = {name: cells.cells() for name, cells in streamed(compact(of_three(odd)), piece).items()}
    assert found == whole_cells([of_three(same)], COST)


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_topics_of_a_broker_are_not_read_event_by_event(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(topic_statistics, "_TopicEvents")
    one, two = of_three({}), of_three({"subscriptions": {}}, "t/m")
    two["t/m"]["0x00000000_0xffffffff"]["non-persistent"] = {"non-persistent://t/m/x": {}, "non-persistent://t/m/y": {}}
    found = streamed(compact({**one, **two}), piece)
    assert {name: cells.cells() for name, cells in found.items()} == whole_cells([one, two], COST)


def test_namespaces_that_are_skipped_are_left_out() -> None:
    document = {name: json.loads(one_topic({"msgRateIn": 1.0}))["t/n"] for name in ("t/n", "pulsar/b:1", "t/m")}
    reader = fed(TopicTraffic(COST, lambda name: name.startswith("pulsar/")), json.dumps(document).encode())
    assert sorted(reader.namespaces) == ["t/m", "t/n"]


SMALL = Limits(size=100_000, token=20_000, depth=20, topics=3)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty, because the broker has no statistics yet"),
        (b"<html>", "not JSON (the error after 6 bytes is: "),
        (b'{"a": 1}', "not a broker-stats/topics document, because the value for a namespace is of type number"),
        (b"[" * 50_000, "not a broker-stats/topics document, because the value at the top is of type array"),
        (b'{"a":' * 50_000, "nested more than 20 levels deep"),
        (one_topic({"x": 1})[:-5] + b',"y":' + b"[" * 50_000, "nested more than 20 levels deep"),
        (b'{"' + b"a" * 60_000, "not readable, because a name or value has more than 20000 bytes"),
        (
            one_topic({})[:-5] + b'"x":"' + b"a" * 60_000,
            "not readable, because a name or value has more than 20000 bytes",
        ),
        (
            one_topic({})[:-5] + b'"x":' + b"1" * 60_000,
            "not readable, because a name or value has more than 20000 bytes",
        ),
        (b" " * 60_000, "not readable, because a name or value has more than 20000 bytes"),
        (
            b'{"t/n":{"b":{"d":{' + b",".join(b'"%d":{}' % n for n in range(20_000)) + b"}}}}",
            "more than 100000 bytes long",
        ),
        (b'{"t/n":{"b":{"d":{"a":{},"b":{},"c":{},"d":{}}}}}', "of more than 3 topics"),
    ],
)
@pytest.mark.parametrize("make", [TopicTraffic, TopicTrafficByBundle])
def test_what_is_no_sane_document_is_refused(make: Any, data: bytes, words: str) -> None:
    limits = replace(SMALL, topics=1 << 30) if "bytes long" in words else SMALL
    with pytest.raises(FormatError) as error:
        fed(make(COST, nothing, limits), data, piece=1000)
    assert str(error.value).startswith(words), error.value


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(FormatError, match="a name is not text"):
        position_of("\ud800")


def test_a_number_of_thousands_of_digits_is_no_number() -> None:
    data = one_topic({"msgRateIn": 0}).replace(b'"msgRateIn": 0', b'"msgRateIn": ' + b"9" * 5000)
    with pytest.raises(FormatError, match="not JSON"):
        fed(TopicTraffic(COST, nothing), data)


def test_events_are_no_more_than_of_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large piece is not turned into events at once: they take ten times its memory."""
    read, most = topic_statistics._TopicEvents._read, 0

    def watched(reader: Any, events: Any) -> None:
        nonlocal most
        most = max(most, len(events))
        read(reader, events)

    monkeypatch.setattr(topic_statistics._TopicEvents, "_read", watched)
    fed(TopicTraffic(COST, nothing), one_topic({"publishers": [{"a": 1}] * 200_000}))
    assert 0 < most <= SLICE_BYTES


# ---------------------------------------------------------------------------------------------------- by bundle


@given(documents(), st.integers(1, 3000))
def test_bundles_are_sums_of_their_topics(document: Any, piece: int) -> None:
    reader = fed(TopicTrafficByBundle(COST, nothing), json.dumps(document).encode(), piece)
    sums: dict[BundleId, list[Any]] = {}
    for namespace, bundles in document.items():
        for span, domains in bundles.items():
            bundle = full_bundle(f"{namespace}/{span}")
            assert bundle is not None
            loads = [topic_load(stats) for topics in domains.values() for stats in topics.values()]
            if loads:
                weight = 0.0
                for load in loads:
                    weight += COST.cost(load)
                sums[bundle] = [weight, len(loads), sum(load.sessions for load in loads)]
    assert {bundle: list(load) for bundle, load in reader.bundles.items()} == sums


REPORT = {
    "webServiceUrl": "http://b:8080",
    "cpu": {"usage": 3.0, "limit": 100.0},
    "lastStats": {
        "t/n/0x00000000_0x80000000": {
            "msgRateIn": 1.0,
            "msgThroughputIn": 10.0,
            "msgRateOut": 2.0,
            "msgThroughputOut": 20.0,
            "consumerCount": 3,
            "producerCount": 2,
            "topics": 4,
            "cacheSize": 99,
        },
        "t/n/0x80000000_0xffffffff": {"msgRateIn": "NaN", "topics": 1},
        "pulsar/b:8080/0x00000000_0xffffffff": {"msgRateIn": 9.0, "topics": 1},
        "odd": {"msgRateIn": 9.0},
    },
    "bundles": ["t/n/0x00000000_0x80000000"],
    "protocols": {"lastStats": {"x": {"msgRateIn": 7.0}}},
}


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_load_report_has_the_bundles(piece: int) -> None:
    data = json.dumps(REPORT).encode()
    reader = fed(BundleTraffic(COST, lambda name: name.startswith("pulsar/b")), data, piece)
    weight = 10.0 + 20.0 + 1024.0 + 2048.0 + 16.0 * 4 + 16.0 * 5
    assert reader.bundles == {
        BundleId("t/n", 0, HALF): BundleLoad(weight, 4, 5),
        BundleId("t/n", HALF, LAST): BundleLoad(COST.topic, 1, 0),
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}", "not a load report with statistics of bundles"),
        (b"[]", "not a load report, because the value at the top is of type list"),
        (b'"x"', "not a load report, because the value at the top is of type string"),
        (b"", "empty"),
        (b'{"lastStats": {', "not complete"),
        (b'{"a":' * 100, "nested more than 64"),
    ],
)
def test_what_is_no_load_report(data: bytes, words: str) -> None:
    with pytest.raises(FormatError) as error:
        fed(BundleTraffic(COST, nothing), data)
    assert str(error.value).startswith(words)


def test_bundles_are_moved_by_their_weight_and_not_cut() -> None:
    brokers = ("a:1", "b:1")
    low, high = BundleId("t/n", 0, HALF), BundleId("t/n", HALF, LAST)
    observed = Observed(brokers, boundaries={"t/n": BOUNDS}, owners={low: "a:1", high: "a:1"})
    observed.take_bundles({low: BundleLoad(3.0, 2, 5), high: BundleLoad(2.0, 1, 1)})
    observed.take_bundles({high: BundleLoad(1.0, 1, 1)})
    bundles = {bundle.id: bundle for bundle in model_of(observed).bundles}
    assert (bundles[low].weight, bundles[low].topics, bundles[low].clients) == (3.0, 2, 5)
    assert (bundles[high].weight, bundles[high].topics, bundles[high].clients) == (3.0, 2, 2)
    assert not bundles[low].cells
    proposal = plan(model_of(observed), Options())
    assert len(proposal.moves) == 1 and not proposal.splits


# ---------------------------------------------------------------------------------------------- usage and names


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["brk_lb_cpu_usage", "brk_lb_bandwidth_in_usage", "brk_lb_memory_usage", "x"]),
            st.floats(0, 200) | st.just("NaN"),
            max_size=3,
        ),
        max_size=4,
    ),
    st.integers(1, 500),
)
def test_usage_is_found_in_any_pieces(items: list[dict[str, Any]], piece: int) -> None:
    document = [{"metrics": each, "dimensions": {"brk_lb_cpu_usage": "no"}} for each in items]
    reader = fed(UsageFigures(), json.dumps(document).encode(), piece)
    assert usage_of(reader.report) == usage_of(document)


@given(st.lists(st.text(max_size=8)), st.integers(1, 100))
def test_names_become_positions(names: list[str], piece: int) -> None:
    reader = fed(TopicNames(), json.dumps(names).encode(), piece)
    assert list(reader.positions) == [position_of(name) for name in names]


@pytest.mark.parametrize("data", [b"{}", b"[1]", b'[["a"]]', b'[{"a": "b"}]', b'"a"', b"null"])
def test_what_is_no_list_of_names(data: bytes) -> None:
    with pytest.raises(FormatError, match="not a list of topics"):
        fed(TopicNames(), data)
