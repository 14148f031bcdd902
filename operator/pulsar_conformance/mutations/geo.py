"""What breaks the checks of several clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.mutations.failures import LOST, NOTHING, TWICE
from pulsar_conformance.mutations.storage import lost
from pulsar_conformance.tamper import Mutation, Rule, drop, drop_admin, override, without


class _Swapped:
    """One message is sent after the one that follows it."""

    def __init__(self, first: str) -> None:
        self._first, self._delayed = first.encode(), dict[int, Callable[[], Any]]()

    def __call__(self, call: Callable[..., Any], data: bytes, **options: Any) -> Any:
        producer = id(call.__self__)  # type: ignore[attr-defined]
        if data == self._first:
            self._delayed[producer] = lambda: call(data, **options)
            return None
        sent = call(data, **options)
        if producer in self._delayed:
            self._delayed.pop(producer)()
        return sent


class _Both:
    """A namespace of one cluster is made with the clusters of the one that was made before it."""

    def __init__(self) -> None:
        self._clusters: list[str] = []

    def __call__(self, call: Callable[..., Any], method: str, path: str, body: Any = None, **query: Any) -> Any:
        if len(body["replication_clusters"]) > 1:
            self._clusters = body["replication_clusters"]
        return call(method, path, {**body, "replication_clusters": self._clusters}, **query)


def _makes_a_namespace(method: str, path: str, *_args: Any, **_query: Any) -> bool:
    return method == "PUT" and path.startswith("namespaces/")


def _sent_twice(call: Callable[..., Any], data: bytes, **options: Any) -> Any:
    call(data, **options)
    return call(data, **options)


def _of_its_own(call: Callable[..., Any], topic: str, subscription: str, **options: Any) -> Any:
    return call(topic, f"{subscription}-anew", **options)


STAYS = override("producer", "send_async", disable_replication=True)

MUTATIONS = (
    Mutation(
        "geo.replication",
        "stays",
        "messages are for the cluster alone that they are published in",
        (override("producer", "send", disable_replication=True),),
    ),
    Mutation("geo.replication", "lost", "one message is lost on the way", (lost("m7"),)),
    Mutation(
        "geo.replication",
        "twice",
        "one message comes twice",
        (Rule("producer", "send", _sent_twice, lambda data, **_options: data == b"r7"),),
    ),
    Mutation("geo.replication", "swapped", "two messages change places", (Rule("producer", "send", _Swapped("m7")),)),
    Mutation(
        "geo.selective",
        "everywhere",
        "a message for no other cluster is for all",
        (without("producer", "send", "disable_replication"),),
    ),
    Mutation(
        "geo.selective",
        "unnamed",
        "the producer's choice of clusters does not count",
        (without("producer", "send", "replication_clusters"),),
    ),
    Mutation(
        "geo.selective",
        "shared",
        "the namespace of one cluster is one of both",
        (Rule("admin", "call", _Both(), _makes_a_namespace),),
    ),
    Mutation(
        "geo.replicated_subscription",
        "alone",
        "the subscription is not replicated",
        (without("client", "subscribe", "replicate_subscription_state_enabled"),),
    ),
    Mutation(
        "geo.replicated_subscription", "unacknowledged", "no acknowledgement leaves", (drop("consumer", "acknowledge"),)
    ),
    Mutation(
        "geo.replicated_subscription",
        "anew",
        "the other cluster begins with the first message",
        (
            Rule(
                "client",
                "subscribe",
                _of_its_own,
                lambda *_args, **options: "replicate_subscription_state_enabled" not in options,
            ),
        ),
    ),
    Mutation("geo.replicated_subscription", "lost", "one message that was left is lost", (lost("left 7"),)),
    Mutation("geo.shared_policies", "no-tenant", "the tenant is not made", (drop_admin("PUT", r"^tenants/"),)),
    Mutation("geo.shared_policies", "old", "the other cluster's policy is kept nowhere", (drop_admin("POST", "TTL$"),)),
    Mutation(
        "geo.shared_policies", "ungrown", "the partition is added nowhere", (drop_admin("POST", r"/partitions$"),)
    ),
    *(
        mutation
        for name in ("remote_down", "configstore_outage")
        for mutation in (
            Mutation(f"geo.{name}", "kept", "nothing happens to any process", (NOTHING,)),
            Mutation(f"geo.{name}", "lost", "one message is acknowledged to its sender and kept nowhere", (LOST,)),
            Mutation(f"geo.{name}", "twice", "one message is stored twice", (TWICE,)),
            Mutation(f"geo.{name}", "stays", "messages are for the cluster alone that they are published in", (STAYS,)),
        )
    ),
)
