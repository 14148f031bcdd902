"""Converts answers of brokers to the model of the cluster. Pure; the calls are in controllers/core/traffic.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from sys import float_info
from typing import Any, NamedTuple

from pulsar_operator.balance.model.cells import MOST, CellBuffer, scaled
from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.model.load import figure
from pulsar_operator.balance.model.ranges import range_points

SYSTEM_NAMESPACE = "pulsar/system"


def is_own(namespace: str, brokers: Iterable[str]) -> bool:
    """Whether a namespace is Pulsar's own and bound to one broker: heartbeats (``pulsar/<broker id>``, in the older
    form ``pulsar/<cluster>/<broker id>``) and SLA monitors (Pulsar's class NamespaceService)."""
    tenant, _, rest = namespace.partition("/")
    return tenant == "sla-monitor" or (tenant == "pulsar" and rest.rsplit("/", 1)[-1] in set(brokers))


def boundaries_of(answer: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns boundaries as numbers, from ``GET /namespaces/{ns}/bundles``.

    Raises ValueError where they do not ascend from 0 to 0xffffffff, AttributeError or TypeError for another document.
    """
    found = tuple(int(str(each), 16) for each in answer.get("boundaries") or ())
    if len(found) < 2 or (found[0], found[-1]) != (0, MOST) or any(low >= up for low, up in pairwise(found)):
        raise ValueError("the namespace has no boundaries of bundles")
    return found


def full_bundle(text: str) -> BundleId | None:
    """Returns a bundle named ``tenant/namespace/0x..._0x...``, as ownedNamespaces has them; None for any other name."""
    namespace, _, hash_range = text.rpartition("/")
    if namespace.count("/") != 1:
        return None
    try:
        return BundleId(namespace, *range_points(hash_range))
    except ValueError:
        return None


@dataclass(frozen=True)
class Usage:
    """The resource a broker uses most of, and its processor."""

    share: float
    """Of its limit: 1 = all of it."""
    resource: str
    cpu: float | None = None
    """Used share of its CPU; None if not reported."""


CPU = "CPU"
CPU_METRIC = "brk_lb_cpu_usage"
RESOURCES = {
    CPU_METRIC: CPU,
    "brk_lb_bandwidth_in_usage": "network in",
    "brk_lb_bandwidth_out_usage": "network out",
}
"""Resources that traffic can exhaust, in percent of their limit (Pulsar's classes ModularLoadManagerImpl,
updateLoadBalancingMetrics, and BrokerLoadData, toMetrics: both load managers write the same names). Like Pulsar's
shedders by default, the heap is left out: it is full before a collection."""


def usage_of(metrics: Any) -> Usage | None:
    """Returns the most used resource in ``GET /broker-stats/metrics``, a list of dimensions with metrics; None where
    none is reported. The load report has the same figures, and answers with an error under the extensible load
    manager."""
    found: dict[str, float] = {}
    for name, words in RESOURCES.items():
        for value in _values(metrics, name):
            found[words] = max(found.get(words, 0.0), figure(value) / 100)
    if not found:
        return None
    resource = max(found, key=lambda each: found[each])
    return Usage(found[resource], resource, found.get(CPU))


def cpu_share(metrics: Any) -> float | None:
    """Returns the share of its CPU that a broker uses, 1 = all of it, by the same document, or by some items of its
    list.

    None where it is not reported, or what is reported is not a number of at least 0.
    """
    values = [value for value in _values(metrics, CPU_METRIC) if isinstance(value, int | float)]
    return max((value / 100 for value in values if 0 <= value < inf), default=None)


def _values(metrics: Any, name: str) -> Iterator[Any]:
    """Returns what a list of dimensions with metrics says of one metric."""
    for each in metrics if isinstance(metrics, list) else ():
        values = each.get("metrics") if isinstance(each, Mapping) else None
        if isinstance(values, Mapping) and name in values:
            yield values[name]


class BundleLoad(NamedTuple):
    """What is known of a whole bundle."""

    weight: float
    topics: int
    clients: int


NOTHING = BundleLoad(0.0, 0, 0)


@dataclass
class Observed:
    """The data read of one cluster; filled by the controller, then converted to the model."""

    brokers: tuple[str, ...]
    boundaries: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By namespace."""
    owners: dict[BundleId, str] = field(default_factory=dict)
    cells: dict[str, CellBuffer] = field(default_factory=dict)
    """By namespace: weights, and numbers of topics and clients, by position."""
    bundles: dict[BundleId, BundleLoad] = field(default_factory=dict)
    """Weights of bundles instead of cells, if no topics were requested: a bundle can then be moved and not be cut."""
    allowed: dict[str, frozenset[str]] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()
    """Namespaces whose permitted brokers are not known: they are neither cut nor moved."""
    unevaluated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By isolation policy, the expressions that leave them undecided."""
    anti_affinity: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """Namespaces of which Pulsar does not report the bundles, or the anti-affinity group, with the reason: they are
    neither cut nor moved, and neither are namespaces of any group."""
    cuts: dict[str, frozenset[int]] | None = None
    """Cuts recommended by the Spark job, by namespace; None if not known."""
    missing: list[str] = field(default_factory=list)
    """Why namespaces are not known, as messages: with any there is no proposal."""
    silent: dict[str, str] = field(default_factory=dict)
    """Brokers that did not answer, with the missing data, as messages: they are unknown, never idle."""
    unlisted: set[str] = field(default_factory=set)
    """Brokers among them that did not list their bundles."""

    @property
    def unknown(self) -> str:
        """Returns all that is not known, as a message; empty = nothing."""
        return "; ".join([*self.missing, *self.silent.values()])

    @property
    def unread_words(self) -> str:
        """Returns the namespaces that are left as they are because Pulsar does not report them, as a message; empty =
        none."""
        if not self.unread:
            return ""
        name, why = min(self.unread.items())
        return (
            f". {len(self.unread)} namespaces (such as {name}) are neither moved nor split, because the operator "
            f"cannot read them from Pulsar: {why}"
        )

    def stays(self, namespace: str) -> bool:
        """Whether the bundles of a namespace must stay where and as they are."""
        known = namespace not in self.undecided and namespace not in self.unread
        return namespace == SYSTEM_NAMESPACE or not known or (bool(self.unread) and namespace in self.anti_affinity)

    def add(self, namespace: str, position: int, weight: float, topics: int = 1, clients: int = 0) -> None:
        """Add the weight of topics at a position, and their producers and consumers."""
        self.cells.setdefault(namespace, CellBuffer()).add(position, weight, topics, clients)

    def take_cells(self, namespaces: Mapping[str, CellBuffer]) -> None:
        """Adds the counts of one broker, by namespace."""
        for name, cells in namespaces.items():
            self.cells.setdefault(name, CellBuffer()).extend(cells)

    def take_bundles(self, bundles: Mapping[BundleId, BundleLoad]) -> None:
        """Adds the counts of one broker, by bundle."""
        for bundle, load in bundles.items():
            weight, topics, clients = self.bundles.get(bundle, NOTHING)
            self.bundles[bundle] = BundleLoad(weight + load.weight, topics + load.topics, clients + load.clients)


def model_of(
    observed: Observed,
    *,
    draining: Iterable[str] = (),
    domains: Mapping[str, str] | None = None,
    carried: Mapping[BundleId, float] | None = None,
    capacities: Mapping[str, float] | None = None,
) -> ClusterModel:
    """Returns the model: every bundle of every observed namespace, with its cells and its owner.

    ``capacities`` are relative; missing ones are 1. ``carried`` are weights of bundles that moved a moment ago: they
    count until the brokers report as much.
    """
    drained = set(draining)
    bundles: list[Bundle] = []
    for namespace, boundaries in sorted(observed.boundaries.items()):
        bundles.extend(_bundles(namespace, boundaries, observed))
    known = carried or {}
    bundles = [_at_least(each, known[each.id]) if each.id in known else each for each in bundles]
    return ClusterModel(
        brokers=tuple(
            Broker(each, (capacities or {}).get(each, 1.0), (domains or {}).get(each), each in drained)
            for each in sorted(observed.brokers)
        ),
        bundles=tuple(bundles),
        allowed=dict(observed.allowed),
        anti_affinity=dict(observed.anti_affinity),
        pinned=frozenset(filter(observed.stays, observed.boundaries)),
    )


def _at_least(bundle: Bundle, weight: float) -> Bundle:
    """Returns a bundle with a weight that its cells do not show yet."""
    return bundle if bundle.weight >= weight else weighing(bundle, weight)


def weighing(bundle: Bundle, weight: float) -> Bundle:
    """Returns a bundle with another weight; the proportions of its cells stay."""
    if weight < float_info.min:
        weight = 0.0  # what is smaller has no halves
    if bundle.weight == weight:
        return bundle
    # Where it weighed nothing, nothing is known of the topics inside: the bundle can be moved and not be cut.
    return replace(
        bundle, weight=weight, cells=scaled(bundle.cells, bundle.weight, weight) if bundle.weight > 0 else ()
    )


def _bundles(namespace: str, boundaries: Sequence[int], observed: Observed) -> list[Bundle]:
    known = observed.cells.get(namespace)
    cells = known.cells() if known is not None else CellBuffer().cells()
    out: list[Bundle] = []
    for lower, upper in pairwise(boundaries):
        # The last bundle includes its upper boundary.
        last = len(cells) if upper == boundaries[-1] else cells.below(upper)
        inside = cells.between(min(cells.below(lower), last), last)
        ident = BundleId(namespace, lower, upper)
        if (load := observed.bundles.get(ident)) is not None:
            weight, topics, clients = load
            out.append(Bundle(ident, weight, observed.owners.get(ident), topics=topics, clients=clients))
            continue
        out.append(
            Bundle(
                id=ident,
                weight=sum(inside.weights()),
                owner=observed.owners.get(ident),
                cells=inside,
                topics=inside.topics(),
                clients=inside.clients(),
            )
        )
    return out
