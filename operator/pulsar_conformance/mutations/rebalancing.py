"""What breaks the checks of load over several brokers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, drop, drop_admin

FIRST = b"\x00\x00\x00\x00"
TOPIC = re.compile(r"topic-\d+$")


def _of_one_name(call: Callable[..., Any], method: str, path: str, *args: Any, **query: Any) -> Any:
    return call(method, TOPIC.sub("topic-0", path), *args, **query)


def _is_lookup(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "GET" and path.startswith("lookup/")


def _split_first(call: Callable[..., Any], method: str, path: str, *_args: Any, **_query: Any) -> Any:
    first = "_".join(call(method, path)["boundaries"][:2])
    call("PUT", path.replace("/bundles", f"/{first}/split"), splitAlgorithmName="range_equally_divide")
    return call(method, path)


def _asks_bundles(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "GET" and path.endswith("/bundles")


def _answered(_call: Callable[..., Any], _data: bytes, callback: Callable[..., None], **_options: Any) -> None:
    """The sender gets a confirmation, and the message is not sent."""
    callback(pulsar.Result.Ok, None)


def _first(data: bytes, *_args: Any, **_options: Any) -> bool:
    return data[:4] == FIRST


class _Elsewhere:
    """Unloads of a bundle to another destination than its first one; namespaces have different names."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def __call__(self, method: str, path: str, *_args: Any, destinationBroker: str = "", **_query: Any) -> bool:  # noqa: N803
        if method != "PUT" or not path.endswith("/unload"):
            return False
        return self._first.setdefault(path, destinationBroker) != destinationBroker


MUTATIONS = (
    Mutation(
        "rebalancing.even_bundles",
        "one_name",
        "all names are looked up by one name's hash",
        (Rule("admin", "call", _of_one_name, _is_lookup),),
    ),
    Mutation(
        "rebalancing.split_by_threshold",
        "few",
        "the consumers that make the bundle exceed its limit are not there",
        (
            Rule(
                "client",
                "subscribe",
                lambda _call, *_args, **_options: None,
                lambda _topic, subscription, **_options: subscription.startswith("more-"),
            ),
        ),
    ),
    Mutation(
        "rebalancing.split_by_threshold",
        "lost",
        "the first message of each topic is acknowledged to its sender and kept nowhere",
        (
            Rule(
                "producer",
                "send",
                lambda _call, *_args, **_options: None,
                lambda data, *_args, **_options: data.endswith(b" 0"),
            ),
        ),
    ),
    Mutation(
        "rebalancing.shedding",
        # Right after other traffic the minute before still counts: bundles move, and no message has arrived.
        "calm",
        "the broker has no traffic",
        (Rule("producer", "send_async", _answered),),
    ),
    Mutation(
        "rebalancing.shedding",
        "lost",
        "the first message of each topic is acknowledged to its sender and kept nowhere",
        (Rule("producer", "send_async", _answered, _first),),
    ),
    Mutation(
        "rebalancing.shedding",
        "split",
        "a bundle is split too",
        (Rule("admin", "call", _split_first, _asks_bundles),),
    ),
    *(
        Mutation(
            f"rebalancing.{name}",
            "calm",
            "the broker has no traffic",
            (Rule("producer", "send_async", _answered),),
        )
        for name in ("shedding_overloaded", "shedding_extensible")
    ),
    *(
        Mutation(
            f"rebalancing.{name}",
            "lost",
            "the first message of each topic is acknowledged to its sender and kept nowhere",
            (Rule("producer", "send_async", _answered, _first),),
        )
        for name in ("shedding_overloaded", "shedding_extensible")
    ),
    Mutation("rebalancing.worked_example", "whole", "no bundle is split", (drop_admin("PUT", r"/split$"),)),
    Mutation(
        "rebalancing.worked_example",
        "kept",
        "no bundle leaves the broker it was brought to first",
        (Rule("admin", "call", lambda _call, *_args, **_query: None, _Elsewhere()),),
    ),
    Mutation(
        "rebalancing.worked_example",
        "even",
        "the hot topics get one message as the others do",
        (Rule("producer", "send_async", _answered, lambda data, *_args, **_options: data[:4] != FIRST),),
    ),
    Mutation("rebalancing.scale_out", "same", "the number of brokers stays", (drop("brokers", "scale"),)),
    Mutation(
        "rebalancing.scale_out",
        "lost",
        "the first message of each topic is acknowledged to its sender and kept nowhere",
        (Rule("producer", "send_async", _answered, _first),),
    ),
)
