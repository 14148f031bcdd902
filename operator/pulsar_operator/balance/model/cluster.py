"""The input of the planner: brokers, bundles with their weight and owner, and restrictions. All values, no I/O.

Weights are costs (`load.CostModel.cost`), in byte-equivalents per second. A broker's load is the sum of the weights of
its bundles and its own base; its utilization is load / capacity. The cluster is balanced when the utilizations are
equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple


class BundleId(NamedTuple):
    """One bundle: a namespace and a hash range [lower, upper); the last one of a namespace includes 0xffffffff."""

    namespace: str
    """``tenant/namespace``."""
    lower: int
    upper: int

    @property
    def range(self) -> str:
        """Returns the range as Pulsar writes it: ``0x%08x_0x%08x`` (Pulsar's class NamespaceBundle)."""
        return f"0x{self.lower:08x}_0x{self.upper:08x}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"


class Cell(NamedTuple):
    """The smallest unit that a cut can separate: the topics at one position of the hash space."""

    position: int
    weight: float
    topics: int = 1
    clients: int = 0
    """Producers and consumers of these topics."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle as observed."""

    id: BundleId
    weight: float
    owner: str | None
    """Broker id; None if no broker serves it (no client has requested its topics)."""
    cells: Sequence[Cell] = ()
    """Its topics by position, ascending: a tuple, or `cells.Cells`. If empty, they are not known, and the bundle can
    only be moved, not cut."""
    topics: int = 0
    clients: int = 0
    """Producers and consumers, which reconnect when it moves; 0 if they are not counted."""

    @property
    def reconnects(self) -> int:
        """Returns what a move interrupts: topics that one broker closes and another loads, and clients that
        reconnect."""
        return self.topics + self.clients


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that serves or may serve bundles."""

    id: str
    """``host:webPort``, as GET /admin/v2/brokers lists it."""
    capacity: float = 1.0
    """Relative: a broker of capacity 2 should carry twice the load of one of capacity 1. Positive."""
    domain: str | None = None
    """Failure domain, for anti-affinity."""
    draining: bool = False
    """Whether all its bundles are moved away and it takes none (scale-in, rollout)."""
    base: float = 0.0
    """Load that does not come from bundles and stays, in the unit of weights."""


@dataclass(frozen=True)
class ClusterModel:
    """One observed state of a cluster. Raises ValueError where the weights add up to more than a float can hold."""

    brokers: tuple[Broker, ...]
    bundles: tuple[Bundle, ...]
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Brokers that may serve a namespace, by namespace; if a namespace is missing, every broker may (see
    isolation.allowed_brokers)."""
    anti_affinity: Mapping[str, str] = field(default_factory=dict)
    """By namespace: its anti-affinity group; two namespaces of a group should not share a domain (or broker)."""
    pinned: frozenset[str] = frozenset()
    """Namespaces whose bundles are counted and never moved, such as pulsar/system."""

    def __post_init__(self) -> None:
        try:
            fsum(bundle.weight for bundle in self.bundles)
        except OverflowError:
            heaviest = max(self.bundles, key=lambda bundle: bundle.weight)
            raise ValueError(
                f"the weights of {len(self.bundles)} bundles add up to more than a number can hold, and the "
                f"heaviest is {heaviest.id} with {heaviest.weight:.6g}. No traffic is that large, so check the "
                "source of the weights"
            ) from None
        except ValueError:
            pass  # infinite ones of both signs: the planner reports which

    @property
    def weight(self) -> float:
        """Of all bundles."""
        return fsum(bundle.weight for bundle in self.bundles)
