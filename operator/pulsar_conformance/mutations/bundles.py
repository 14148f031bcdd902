"""What breaks the checks of bundles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin

NAMESPACE = r"^namespaces/[^/]+/[^/]+$"


def _by_topics(call: Callable[..., Any], method: str, path: str, body: Any = None, **query: Any) -> Any:
    return call(method, path, body, **{**query, "splitAlgorithmName": "topic_count_equally_divide"})


def _of_another(call: Callable[..., Any], method: str, path: str, *args: Any, **query: Any) -> Any:
    return call(method, path.replace("/bundle", "-another/bundle"), *args, **query)


def _splits(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "PUT" and path.endswith("/split")


def _asks_bundle(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "GET" and path.startswith("lookup/") and path.endswith("/bundle")


MUTATIONS = (
    Mutation(
        "bundle.lookup",
        "another",
        "a topic is looked up by another name's hash",
        (Rule("admin", "call", _of_another, _asks_bundle),),
    ),
    Mutation(
        "bundle.default",
        "seven",
        "the namespace is made with seven bundles",
        (change_admin("PUT", NAMESPACE, lambda _body: {"bundles": {"numBundles": 7}}),),
    ),
    Mutation(
        "bundle.boundaries",
        "default",
        "namespaces are made without saying how many bundles",
        (change_admin("PUT", NAMESPACE, lambda _body: None),),
    ),
    Mutation(
        "bundle.boundaries",
        "even",
        "only the number of bundles counts, not their boundaries",
        (change_admin("PUT", NAMESPACE, lambda body: {"bundles": {"numBundles": body["bundles"]["numBundles"]}}),),
    ),
    Mutation("bundle.split", "none", "the split is not made", (drop_admin("PUT", r"/split$"),)),
    Mutation("bundle.split", "topics", "the split is not at the middle", (Rule("admin", "call", _by_topics, _splits),)),
)
