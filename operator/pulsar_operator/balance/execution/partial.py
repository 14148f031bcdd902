"""Balancing among the brokers that answer, while others do not. Pure.

A broker that does not answer is unknown, neither idle nor removed: its bundles are neither moved nor cut, nothing is
moved to it, and it counts in no mean and no bound. The others are balanced among themselves, as long as not too much is
unknown. Knowledge of its bundles is kept for a while, so that one observation without an answer loses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Final

from pulsar_operator.balance.execution.driver import Memory
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel

MOST_UNKNOWN: Final = 1 / 3
"""Share of the brokers, or of the load when they last answered, above which nothing is decided."""
KEPT_SECONDS: Final = 600.0
"""Seconds for which knowledge of a silent broker's bundles is kept: the time over which weights are smoothed, after
which older figures mean no more than the first new one."""


@dataclass(frozen=True)
class Silence:
    """What is known of brokers that do not answer, from their last answers. An empty one, after a restart, is safe:
    then only the number of brokers shows how much is unknown."""

    since: Mapping[str, float] = field(default_factory=dict)
    """Time at which a broker was first observed not to answer, in seconds."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """Weight of the bundles of each broker when it last answered."""
    owners: Mapping[BundleId, str] = field(default_factory=dict)
    """Brokers of bundles when they last answered."""


def answering(model: ClusterModel, silent: Collection[str], *, unlisted: bool) -> ClusterModel:
    """Returns the part of a model that is known without some brokers.

    ``unlisted``: whether one of them did not list its bundles; it may then have a bundle that no broker lists.
    Namespaces of an anti-affinity group stay where they are: a part of the group may be on an unknown broker.
    """
    if not silent:
        return model
    known = tuple(broker for broker in model.brokers if broker.id not in silent)
    unowned = (None,) if unlisted else ()
    out = {*silent, *unowned}
    bundles = tuple(bundle for bundle in model.bundles if bundle.owner not in out)
    return replace(model, brokers=known, bundles=bundles, pinned=model.pinned | frozenset(model.anti_affinity))


def too_much(known: Silence, brokers: Collection[str], silent: Collection[str]) -> str | None:
    """Returns why nothing can be decided without the silent brokers among the registered ones, as a message; None if it
    can."""
    if not silent:
        return None
    if len(brokers) - len(silent) < 2:
        return "fewer than two brokers answer"
    if len(silent) > MOST_UNKNOWN * len(brokers):
        return f"{len(silent)} of {len(brokers)} brokers do not answer, which is more than a third"
    loads = {broker: known.loads.get(broker, 0.0) for broker in brokers}
    total, unknown = fsum(loads.values()), fsum(loads[broker] for broker in silent)
    if total > 0 and unknown > MOST_UNKNOWN * total:
        return f"the brokers that do not answer had {unknown / total:.0%} of the load, which is more than a third"
    return None


def heard(known: Silence, now: float, model: ClusterModel, memory: Memory, silent: Collection[str]) -> Silence:
    """Returns what is known after observing the answering part of a model, with its smoothed weights."""
    loads = {broker.id: 0.0 for broker in model.brokers}
    owners = {bundle: broker for bundle, broker in known.owners.items() if broker in silent}
    for bundle in model.bundles:
        if bundle.owner in loads:
            loads[bundle.owner] += memory.weights.get(bundle.id, bundle.weight)
            owners[bundle.id] = bundle.owner
    loads |= {broker: load for broker, load in known.loads.items() if broker in silent}
    since = {broker: min(known.since.get(broker, now), now) for broker in silent}
    return Silence(since, loads, owners)


def kept(before: Memory, after: Memory, known: Silence, now: float) -> Memory:
    """Returns the memory after an observation, with earlier knowledge of bundles and brokers that do not answer for a
    while."""
    still = {broker for broker, since in known.since.items() if now - since <= KEPT_SECONDS}
    if not still:
        return after
    bundles = {bundle for bundle, broker in known.owners.items() if broker in still}
    weights = {bundle: weight for bundle, weight in before.weights.items() if bundle in bundles}
    factors = {bundle: factor for bundle, factor in before.learned.factors.items() if bundle in bundles}
    bases = {broker: base for broker, base in before.learned.bases.items() if broker in still}
    learned = replace(
        after.learned, factors=factors | dict(after.learned.factors), bases=bases | dict(after.learned.bases)
    )
    return replace(after, weights=weights | dict(after.weights), learned=learned)
