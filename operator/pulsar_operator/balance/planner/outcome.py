"""Balance of a placement, before and after a proposal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import fsum

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, ClusterModel
from pulsar_operator.balance.model.cuts import split_bundle
from pulsar_operator.balance.planner.bound import bound_of
from pulsar_operator.balance.planner.options import Mode, Options
from pulsar_operator.balance.planner.proposal import Balance, Move, Split


def outcome(model: ClusterModel, splits: Iterable[Split], moves: Iterable[Move]) -> ClusterModel:
    """Returns the model after the steps, in order. Raises KeyError for a bundle that does not exist, ValueError for an
    empty cut."""
    bundles: dict[BundleId, Bundle] = {bundle.id: bundle for bundle in model.bundles}
    for split in splits:
        for piece in split_bundle(bundles.pop(split.bundle), split.boundary):
            bundles[piece.id] = piece
    for move in moves:
        bundles[move.bundle] = replace(bundles[move.bundle], owner=move.destination)
    return replace(model, bundles=tuple(bundles.values()))


def as_asked(model: ClusterModel, options: Options) -> ClusterModel:
    """Returns the model in which the brokers of RemoveBrokers are draining."""
    if options.mode is not Mode.REMOVE_BROKERS:
        return model
    brokers = (replace(b, draining=True) if b.id in options.brokers else b for b in model.brokers)
    return replace(model, brokers=tuple(brokers))


def utilizations(brokers: Sequence[Broker], bundles: Iterable[Bundle]) -> dict[str, float]:
    """Returns the load / capacity of every broker, its base included; bundles of others count for nothing."""
    weights: dict[str | None, list[float]] = {broker.id: [] for broker in brokers}
    for bundle in bundles:
        if bundle.owner in weights:
            weights[bundle.owner].append(bundle.weight)
    return {broker.id: (fsum(weights[broker.id]) + broker.base) / broker.capacity for broker in brokers}


def balance_of(model: ClusterModel) -> Balance:
    """Returns how even a placement is. Bundles without a broker of the model do not count."""
    found = utilizations(model.brokers, model.bundles)
    capacity = fsum(broker.capacity for broker in model.brokers if not broker.draining)
    total = fsum(bundle.weight for bundle in model.bundles if bundle.owner in found)
    total += fsum(broker.base for broker in model.brokers if not broker.draining)
    return Balance(
        busiest=max(found.values(), default=0.0),
        mean=total / capacity if capacity else 0.0,
        bound=_bound(model) if capacity else 0.0,
        bundles=len(model.bundles),
    )


def level_of(model: ClusterModel) -> float:
    """Returns the load of the busiest broker if topics could be cut: the mean, or that of brokers to which namespaces
    are restricted. The bound is higher if a topic is hotter than a broker's share."""
    return _bound(model, liquid=True)


def _bound(model: ClusterModel, *, liquid: bool = False) -> float:
    """Returns the bound for what brokers carry now; a namespace that may go nowhere is taken as pinned."""
    known = {broker.id for broker in model.brokers}
    able = {broker.id for broker in model.brokers if not broker.draining}
    stranded = frozenset(namespace for namespace, allowed in model.allowed.items() if not allowed & able)
    # In order, so that sums of floats are the same whatever the order of the input.
    carried = tuple(
        bundle
        for bundle in sorted(model.bundles, key=lambda each: each.id)
        if bundle.owner in known and (bundle.id.namespace not in stranded or bundle.owner in able)
    )
    return bound_of(replace(model, bundles=carried, pinned=model.pinned | stranded), liquid=liquid)
