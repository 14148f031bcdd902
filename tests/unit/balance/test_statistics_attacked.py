"""Statistics that no broker of sane mind sends: what is kept of them is bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from math import isfinite

import pytest

from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import usage_of
from pulsar_operator.balance.model.pieces import FormatError
from pulsar_operator.balance.model.statistics import BundleTraffic, TopicTraffic, TopicTrafficByBundle, UsageFigures

MIB = 1 << 20


def nobody(namespace: str) -> bool:
    return False


def kept(reader: object, head: bytes, pieces: Iterator[bytes]) -> int:
    """Bytes that a reader holds after a document without an end."""
    reader.feed(head)  # type: ignore[attr-defined]
    tracemalloc.start()
    try:
        for piece in pieces:
            reader.feed(piece)  # type: ignore[attr-defined]
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_usage_without_an_end_is_not_kept() -> None:
    item = b'{"metrics": {"brk_lb_cpu_usage": 7.5}, "dimensions": {}},'
    assert kept(UsageFigures(), b"[", iter([item * 1000] * 40)) < MIB // 4


def test_a_long_text_in_place_of_a_figure_is_not_kept() -> None:
    item = b'{"metrics": {"brk_lb_cpu_usage": "' + b"9" * 500_000 + b'"}, "dimensions": {}},'
    reader = UsageFigures()
    assert kept(reader, b"[", iter([item] * 8)) < MIB
    reader.feed(b'{"metrics": {"brk_lb_cpu_usage": 50}}]')
    reader.end()
    assert usage_of(reader.report) is not None


def test_fields_of_a_bundle_without_an_end_are_not_kept() -> None:
    def pieces() -> Iterator[bytes]:
        for at in range(40):
            yield b"".join(b'"field-%d-%d": 1,' % (at, each) for each in range(1000))

    head = b'{"lastStats": {"public/default/0x00000000_0xffffffff": {'
    assert kept(BundleTraffic(CostModel(), nobody), head, pieces()) < MIB // 4


@pytest.mark.parametrize("text", ['"x",', '{"consumers":[{}]},', '{"persistent://t/n/x":{}},'])
def test_a_topic_without_an_end_is_not_kept(text: str) -> None:
    head = b'{"t/n":{"0x00000000_0xffffffff":{"persistent":{"persistent://t/n/x":{"publishers":['
    assert kept(TopicTraffic(CostModel(), nobody), head, iter([text.encode() * 5000] * 100)) < 2 * MIB


@pytest.mark.parametrize("make", [BundleTraffic, TopicTraffic, TopicTrafficByBundle])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"null",
        b"NaN",
        b"[]",
        b'"x"',
        b"{",
        b'{"a"',
        b'{"a": {"b": NaN}}',
        b'{"a": {"b": {"persistent": {"t": {"msgRateIn": Infinity}}}}}',
        b'{"lastStats": {"a/b/0x00000000_0xffffffff": {"msgRateIn": -Infinity}}}',
        b'{"a":' * 200,
        b"[" * 5000,
        b'{"\\ud800": {"x": {"persistent": {"\\ud800": {}}}}}',
        b'{"a": 1e999}',
        b"\x00\xff",
        b"{}{}",
        b'{"lastStats": []',
        b'{"lastStats": {"x": 1e400',
    ],
)
def test_garbage_is_a_format_error(make: Callable[..., TopicTraffic], text: bytes) -> None:
    reader = make(CostModel(), nobody)
    try:
        reader.feed(text)
        reader.end()
    except FormatError:
        return
    assert text.startswith(b"{")


@pytest.mark.parametrize(
    "number", ["-1", "1e999", "-1e999", "9" * 5000, "1e-999", "1e13", '"12"', '"nan"', '"inf"', "true", "[1]", "{}"]
)
@pytest.mark.parametrize("field", ["msgRateIn", "msgThroughputOut", "producerCount"])
def test_no_figure_makes_a_topic_heavier_than_traffic_can_be(field: str, number: str) -> None:
    for make, head, tail in (
        (TopicTraffic, '{"a/b": {"0x00000000_0xffffffff": {"persistent": {"persistent://a/b/t": {', "}}}}}"),
        (TopicTrafficByBundle, '{"a/b": {"0x00000000_0xffffffff": {"persistent": {"persistent://a/b/t": {', "}}}}}"),
        (BundleTraffic, '{"lastStats": {"a/b/0x00000000_0xffffffff": {', "}}}"),
    ):
        reader = make(CostModel(), nobody)
        try:
            reader.feed(f'{head}"{field}": {number}{tail}'.encode())
            reader.end()
        except FormatError:
            continue
        if isinstance(reader, TopicTraffic):
            weights = [w for each in reader.namespaces.values() for w in each.cells().weights()]
        else:
            weights = [load.weight for load in reader.bundles.values()]
        assert len(weights) == 1 and isfinite(weights[0]) and 0 <= weights[0] < 1e16
