"""Statistics that no broker of sane mind sends: what is kept of them is bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

import msgspec
import pytest

from pulsar_operator.balance.model import topic_statistics
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import usage_of
from pulsar_operator.balance.model.pieces import FormatError
from pulsar_operator.balance.model.statistics import BundleTraffic, TopicTraffic, TopicTrafficByBundle, UsageFigures
from pulsar_operator.balance.model.topic_statistics import TopicsReader

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


class _Counting:
    """The decoder, and how many bytes it was given."""

    def __init__(self, decoder: Any) -> None:
        self._decoder, self.bytes = decoder, 0

    def decode(self, text: bytes) -> Any:
        """See msgspec.json.Decoder."""
        self.bytes += len(text)
        return self._decoder.decode(text)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("letter", ["n", "\u00e9"])
def test_long_names_of_a_place_are_not_read_again_with_every_piece(
    place: int, letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder takes milliseconds for them, in the event loop."""
    counting = _Counting(topic_statistics._DECODER)
    monkeypatch.setattr(topic_statistics, "_DECODER", counting)
    names = ["t/n", "0x00000000_0xffffffff", "persistent"]
    names[place] = letter * 500_000
    found: list[tuple[str, str, str]] = []
    reader = TopicsReader(lambda *topic: found.append(topic[:3]), lambda _: False)
    pieces = ["".join(f'{{"{name}":' for name in names) + '{"persistent://t/n/0":{}']
    pieces += [f',"persistent://t/n/{number}":{{}}' for number in range(1, 300)]
    for piece in [*pieces, "}}}}"]:
        reader.feed(piece.encode())
    reader.end()
    assert found == [(*names[:2], f"persistent://t/n/{number}") for number in range(300)]
    assert counting.bytes < 4 * reader.size


def test_the_names_of_a_place_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    encode = msgspec.json.encode

    def counted(name: str) -> bytes:
        encoded.append(name)
        return encode(name)

    monkeypatch.setattr(msgspec.json, "encode", counted)
    found: list[tuple[str, str, str]] = []
    reader = TopicsReader(lambda *topic: found.append(topic[:3]), lambda _: False)
    for place in ("", "a"):
        reader.feed(b'{"":{"":{"":{"persistent://0":{}' if not place else b'}}},"a":{"":{"":{"persistent://0":{}')
        for number in range(1, 50):
            reader.feed(f',"persistent://{number}":{{}}'.encode())
    reader.feed(b"}}}}")
    reader.end()
    assert found == [(place, "", f"persistent://{number}") for place in ("", "a") for number in range(50)]
    assert encoded == ["", "", "", "a", "", ""]
