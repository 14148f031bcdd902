"""What breaks the checks of bundles that are split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule

FIRST = b"\x00\x00\x00\x00"


def _answered(_call: Callable[..., Any], _data: bytes, callback: Callable[..., None], **_options: Any) -> None:
    """The sender gets a confirmation, and the message is not sent."""
    callback(pulsar.Result.Ok, None)


def _small(call: Callable[..., Any], data: bytes, callback: Callable[..., None], **options: Any) -> None:
    call(data[:4], callback, **options)


class _Remembered:
    """Look-ups of a namespace's topics are answered as the first one was."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}

    def __call__(self, call: Callable[..., Any], method: str, path: str, *args: Any, **query: Any) -> Any:
        namespace = path.rsplit("/", 1)[0]
        if namespace not in self._first:
            self._first[namespace] = call(method, path, *args, **query)
        return self._first[namespace]


def _is_lookup(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "GET" and path.startswith("lookup/")


class _OneTopic:
    """Producers and consumers of a namespace all use the topic that was asked for first."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def __call__(self, call: Callable[..., Any], topic: str | list[str], *args: Any, **options: Any) -> Any:
        name = topic if isinstance(topic, str) else topic[0]
        return call(self._first.setdefault(name.rsplit("/", 1)[0], name), *args, **options)


MUTATIONS = (
    Mutation(
        "rebalancing.split_by_topics",
        "few",
        "each bundle has one topic",
        (Rule("client", "subscribe", _OneTopic()), Rule("client", "create_producer", _OneTopic())),
    ),
    Mutation(
        "rebalancing.split_by_topics",
        "stays",
        "no half is at another broker than the bundle was",
        (Rule("admin", "call", _Remembered(), _is_lookup),),
    ),
    Mutation(
        "rebalancing.split_by_rate",
        "calm",
        "no message goes out",
        (Rule("producer", "send_async", _answered),),
    ),
    Mutation(
        "rebalancing.split_by_rate",
        "lost",
        "the first message is acknowledged to its sender and kept nowhere",
        (Rule("producer", "send_async", _answered, lambda data, *_args, **_options: data[:4] == FIRST),),
    ),
    Mutation(
        "rebalancing.split_by_bandwidth",
        "small",
        "the same number of messages has few bytes",
        (Rule("producer", "send_async", _small),),
    ),
)
