"""What breaks the check of two instances: each makes the two share something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.mutations.storage import lost
from pulsar_conformance.tamper import Mutation, Rule

PLACES = ("allowedClusters", "replication_clusters")


class _OneList:
    """Each instance lists the clusters of those that were asked before it."""

    def __init__(self) -> None:
        self._clusters: set[str] = set()

    def __call__(self, call: Callable[..., Any], *args: Any, **query: Any) -> Any:
        self._clusters.update(call(*args, **query))
        return sorted(self._clusters)


class _OneStore:
    """Whatever is set in an instance is set in the one where something was set first."""

    def __init__(self) -> None:
        self._first: Callable[..., Any] | None = None

    def __call__(self, call: Callable[..., Any], *args: Any, **query: Any) -> Any:
        self._first = self._first or call
        return self._first(*args, **query)


class _Replicated:
    """What is sent by a producer is sent by those too that sent before it."""

    def __init__(self) -> None:
        self._sends: dict[int, Callable[..., Any]] = {}

    def __call__(self, call: Callable[..., Any], data: bytes, **options: Any) -> Any:
        self._sends[id(call.__self__)] = call  # type: ignore[attr-defined]
        return [send(data, **options) for send in self._sends.values()][-1]


def _accepted(_call: Callable[..., Any], *_args: Any, **_query: Any) -> None:
    """Answered as if it were done."""


def _names_two(method: str, start: str) -> Callable[..., bool]:
    def found(verb: str, path: str, body: Any = None, **_query: Any) -> bool:
        if verb != method or not path.startswith(start):
            return False
        clusters = body if isinstance(body, list) else [one for place in PLACES for one in (body or {}).get(place, ())]
        return len(clusters) > 1

    return found


def _is(method: str, end: str) -> Callable[..., bool]:
    return lambda verb, path, *_args, **_query: verb == method and path.endswith(end)


MUTATIONS = (
    Mutation(
        "geo.foreign_cluster",
        "listed",
        "an instance lists the cluster of the other",
        (Rule("admin", "call", _OneList(), _is("GET", "clusters")),),
    ),
    *(
        Mutation(
            "geo.foreign_cluster",
            f"{what}-names-it",
            f"a {what} may name the cluster of the other instance",
            (Rule("admin", "call", _accepted, _names_two(method, start)),),
        )
        for what, method, start in (
            ("tenant", "PUT", "tenants/"),
            ("namespace", "PUT", "namespaces/"),
            ("replication", "POST", "namespaces/"),
            ("topic", "POST", "persistent/"),
        )
    ),
    Mutation(
        "geo.foreign_cluster",
        "one-policy",
        "the policies of a namespace are those of the same name in the other instance",
        (Rule("admin", "call", _OneStore(), _is("POST", "/messageTTL")),),
    ),
    Mutation(
        "geo.foreign_cluster",
        "replicated",
        "messages of one instance arrive in the other",
        (Rule("producer", "send", _Replicated()),),
    ),
    Mutation("geo.foreign_cluster", "lost", "one message is lost on the way", (lost("f7"),)),
)
