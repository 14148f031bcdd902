"""Three brokers and a namespace all of whose traffic is on one of them: the start for whoever is to even it out.

Loads are read from outside, from each broker's own statistics: the same reading before and after, whoever worked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.error import HTTPError

from e2e.support.admin import ask, look_up
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl, KubectlError
from e2e.support.traffic import Traffic, topics_within
from pulsar_conformance.counting.client import CountingRun

FENCED = "Topic is already fenced"
SPACE = 1 << 32
NAMESPACE = "shop/skew"
BUNDLES = 12
BOUNDS = [n * SPACE // BUNDLES for n in range(BUNDLES)] + [SPACE - 1]
FOUR_EACH = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
"""Broker of each bundle, by number."""
TOPICS = 20
COUNTED = 50
"""Messages a second of the counting client."""
MESSAGE_BYTES = 1024.0
"""What a message costs beside its payload: the operator weighs traffic like this (docs/balancing.md)."""


def span(index: int, bounds: Sequence[int] = BOUNDS) -> str:
    """Range of a bundle as Pulsar writes it."""
    return f"0x{bounds[index]:08x}_0x{bounds[index + 1]:08x}"


def even_bounds(bundles: int) -> list[int]:
    """Boundaries of so many equal bundles."""
    return [n * SPACE // bundles for n in range(bundles)] + [SPACE - 1]


@dataclass(frozen=True)
class Start:
    """Bundles of the namespace, the brokers that own them, and the traffic."""

    bounds: Sequence[int]
    owners: Sequence[int]
    """Of each bundle the number of its broker."""
    rates: Mapping[str, float]
    """Messages a second of each topic."""
    counted: str
    """Topic of the counting client."""
    counted_rate: float
    least: float
    """Imbalance that the start has at least."""

    @property
    def published(self) -> float:
        """Messages a second in all."""
        return sum(self.rates.values()) + self.counted_rate


def imbalance(loads: Mapping[str, float]) -> float:
    """Load of the busiest broker over the mean of all; 1 is even. Raises ValueError without any load."""
    total = sum(loads.values())
    if total <= 0:
        raise ValueError(f"no broker has any load: {dict(loads)}")
    return max(loads.values()) * len(loads) / total


def load_of(stats: Mapping[str, Any], namespace: str) -> tuple[float, float]:
    """Load of a namespace in one broker's ``broker-stats/topics``, and the messages a second published into it.

    The load is bytes a second in and out and MESSAGE_BYTES for each message in or out.
    """
    load = published = 0.0
    for bundle in stats.get(namespace, {}).values():
        for topic in bundle.get("persistent", {}).values():
            load += float(topic["msgThroughputIn"]) + float(topic["msgThroughputOut"])
            load += MESSAGE_BYTES * (float(topic["msgRateIn"]) + float(topic["msgRateOut"]))
            published += float(topic["msgRateIn"])
    return load, published


@dataclass(frozen=True)
class Brokers:
    """The brokers of a cluster, each asked by its pod: behind the proxy nobody knows who answers."""

    kubectl: Kubectl
    kubernetes_namespace: str
    cluster: str
    admin_url: str
    ids: Sequence[str]

    def ask(self, broker: str, path: str) -> Any:
        """GET of admin REST at one broker; its answer, decoded where it is JSON."""
        pod = broker.split(".", 1)[0]
        text = self.kubectl.run(
            "get", "--raw", f"/api/v1/namespaces/{self.kubernetes_namespace}/pods/{pod}:8080/proxy/{path}"
        )
        try:
            return json.loads(text)
        except ValueError:
            return text

    def owned(self, broker: str, namespace: str = NAMESPACE) -> set[str]:
        """Bundles of a namespace a broker says it owns."""
        found = self.ask(broker, f"admin/v2/brokers/{self.cluster}/{broker}/ownedNamespaces")
        return {name for name in found if name.startswith(f"{namespace}/")}

    def owners(self, namespace: str = NAMESPACE) -> dict[str, str]:
        """Owner of each bundle of a namespace that has one."""
        return {bundle: broker for broker in self.ids for bundle in self.owned(broker, namespace)}

    def owners_now(self) -> dict[str, str]:
        """The same while bundles move: empty when a broker cannot say, which it answers with 500 for a moment."""
        try:
            return self.owners()
        except KubectlError:
            return {}

    def rates(self, namespace: str = NAMESPACE) -> dict[str, tuple[float, float]]:
        """Load and messages published a second of each broker, as its statistics say at the moment."""
        return {b: load_of(self.ask(b, "admin/v2/broker-stats/topics"), namespace) for b in self.ids}

    def loads(self, published: float, namespace: str = NAMESPACE) -> dict[str, float]:
        """Load of each broker once their statistics hold what is ``published`` a second; asserts that they do.

        A bundle that has just moved is in no broker's rates for a statistics period, one that was counted twice is in
        two: neither is a measurement.
        """
        found = self.rates(namespace)
        seen = sum(rate for _, rate in found.values())
        assert abs(seen - published) < 0.15 * published, f"{seen:.0f} messages/s in the statistics, not {published:.0f}"
        return {broker: load for broker, (load, _) in found.items()}

    def unevenness(self, published: float, *, within: float = 60) -> float:
        """Busiest broker over the mean, as soon as the statistics hold the whole traffic."""
        return eventually(lambda: imbalance(self.loads(published)), within=within, what="rates of the whole traffic")

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """Admin REST through the proxy; the answer, decoded."""
        return ask(self.admin_url, method, path, body)

    @contextmanager
    def dynamic(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Settings changed while brokers run, and given back."""
        try:
            for name, value in settings.items():
                self.admin("POST", f"brokers/configuration/{name}/{value}")
            yield
        finally:
            for name in self.admin("GET", "brokers/configuration/values"):
                if name in settings:
                    self.admin("DELETE", f"brokers/configuration/{name}")

    def place(self, index: int, broker: str, bounds: Sequence[int] = BOUNDS) -> None:
        """Bring a bundle of the skewed namespace to a broker."""
        (probe,) = topics_within(NAMESPACE, [(bounds[index], bounds[index + 1])], 1, prefix="probe")
        bundle = span(index, bounds)

        def placed() -> bool:
            if f"{NAMESPACE}/{bundle}" in self.owned(broker):
                return True
            look_up(self.admin_url, probe)
            self.admin("PUT", f"namespaces/{NAMESPACE}/{bundle}/unload?destinationBroker={broker}")
            look_up(self.admin_url, probe)
            return f"{NAMESPACE}/{bundle}" in self.owned(broker)

        eventually(placed, within=90, what=f"bundle {index} at {broker}")


@contextmanager
def skew(brokers: Brokers) -> Iterator[list[str]]:
    """A namespace of twelve bundles, four at each of three brokers; yields topics of the first broker's bundles."""
    with placed(brokers, BOUNDS, FOUR_EACH):
        yield hot_topics()


@contextmanager
def placed(brokers: Brokers, bounds: Sequence[int], owners: Sequence[int]) -> Iterator[None]:
    """The namespace with such bundles, each at the broker of its number."""
    eventually(lambda: _made(brokers, bounds), within=120, what=f"{NAMESPACE} with its {len(owners)} bundles")
    try:
        for index, number in enumerate(owners):
            brokers.place(index, brokers.ids[number], bounds)
        yield
    finally:
        remove(brokers)


def hot_topics() -> list[str]:
    """Topics of the bundles of the first broker."""
    return topics_within(NAMESPACE, [(BOUNDS[n], BOUNDS[n + 1]) for n in range(4)], TOPICS)


def skewed_start() -> Start:
    """All traffic on one broker, no two topics alike."""
    topics = hot_topics()
    return Start(BOUNDS, FOUR_EACH, rates_of(topics[:-1]), topics[-1], COUNTED, 2.5)


def _made(brokers: Brokers, bounds: Sequence[int]) -> bool:
    """The namespace is there with its own bundles, not with those of one of that name that was deleted before.

    A broker that reads bundles while the namespace is being deleted writes them again (class NamespaceBundleFactory,
    copyToLocalPolicies), and the new namespace has them, splits included.
    """
    boundaries = [f"0x{b:08x}" for b in bounds]
    bundles = {"boundaries": boundaries, "numBundles": len(bounds) - 1}
    try:
        brokers.admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": bundles})
    except HTTPError as error:
        if error.code != 409:
            raise
    found = brokers.admin("GET", f"namespaces/{NAMESPACE}/bundles")["boundaries"]
    if found == boundaries:
        return True
    remove(brokers)
    raise AssertionError(f"{NAMESPACE} was made with other bundles: {found}")


def remove(brokers: Brokers) -> None:
    """The namespace with its topics is gone."""

    def removed() -> bool:
        try:
            brokers.admin("DELETE", f"namespaces/{NAMESPACE}?force=true")
        except HTTPError as error:
            if error.code == 404:
                return True
            if FENCED in str(error):
                _free(brokers)
        return False

    brokers.admin("POST", "brokers/configuration/forceDeleteNamespaceAllowed/true")
    # What is stuck in Pulsar's deletion answers after a minute, and only then the next try counts.
    eventually(removed, within=240, what="the namespace is gone")
    brokers.admin("DELETE", "brokers/configuration/forceDeleteNamespaceAllowed")


def _free(brokers: Brokers) -> None:
    """Unload the bundles of a namespace of which a topic stays fenced for ever, because a reader of the broker's own
    connected while it was deleted (apache/pulsar#15451)."""
    found = brokers.admin("GET", f"namespaces/{NAMESPACE}/bundles")["boundaries"]
    for lower, upper in pairwise(found):
        # One without owner is not found, the stuck one answers after a minute.
        with suppress(OSError):
            brokers.admin("PUT", f"namespaces/{NAMESPACE}/{lower}_{upper}/unload")


def rates_of(topics: Sequence[str]) -> dict[str, float]:
    """Messages a second of each topic: no two are the same."""
    return {topic: 20.0 + 4 * n for n, topic in enumerate(topics)}


@contextmanager
def loaded(service_url: str, brokers: Brokers, start: Start) -> Iterator[tuple[CountingRun, float]]:
    """The bundles at their brokers and the traffic on all topics, one of them counted; yields the run and how uneven
    the load is.

    Raises AssertionError at the end when any of the traffic failed.
    """
    with (
        placed(brokers, start.bounds, start.owners),
        Traffic(service_url, start.rates) as traffic,
        CountingRun(service_url, start.counted, rate=start.counted_rate) as run,
    ):
        before = brokers.unevenness(start.published, within=120)
        assert before > start.least, f"the start is not skewed: {before:.2f}"
        yield run, before
    assert traffic.failures() == []


@dataclass(frozen=True)
class Attempt:
    """How one way of evening out ended."""

    name: str
    seconds: float
    """Until it was done: the last move of Pulsar's load manager, or all its time where it moved nothing."""
    before: float
    measured: float
    moves: int
    splits: int
    publish_pause: float
    lost: int
    promised: str = "-"


def table(bound: float, attempts: Sequence[Attempt]) -> str:
    """The attempts side by side: busiest broker over the mean, what was done for it, what producers felt."""
    head = ("", "before", "promised", "measured", "bound", "time", "moves", "splits", "longest publish pause", "lost")
    rows = [
        (
            one.name,
            f"{one.before:.2f}",
            one.promised,
            f"{one.measured:.2f}",
            f"{bound:.2f}",
            f"{one.seconds:.0f} s",
            str(one.moves),
            str(one.splits),
            f"{one.publish_pause:.2f} s",
            str(one.lost),
        )
        for one in attempts
    ]
    wide = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    return "\n".join(
        "  ".join(f"{text:<{wide[0]}}" if n == 0 else f"{text:>{wide[n]}}" for n, text in enumerate(row))
        for row in (head, *rows)
    )
