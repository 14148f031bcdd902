"""Checks of models and options before a plan."""

from __future__ import annotations

from collections import Counter
from math import fsum, isfinite

from pulsar_operator.balance.model.cells import weights_of
from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel
from pulsar_operator.balance.planner.options import Mode, Options

NEAR = 1e-6
"""Relative error of a sum of floats, and of a bundle's weight that was scaled."""
NOTHING = 1e-12
"""Share of all traffic that is too small to be an error: numbers next to 0 have few digits."""


def check_input(model: ClusterModel, options: Options) -> None:
    """Raise ValueError, naming field, value and remedy."""
    _check_brokers(model)
    _check_bundles(model)
    _check_options(model, options)


def _check_brokers(model: ClusterModel) -> None:
    names = Counter(broker.id for broker in model.brokers)
    for broker in model.brokers:
        if names[broker.id] > 1:
            raise ValueError(f"broker {broker.id} is listed twice. List each broker once")
        if not (isfinite(broker.capacity) and broker.capacity > 0):
            raise ValueError(f"the capacity of broker {broker.id} is {broker.capacity}, but must be a positive number")
        if not (isfinite(broker.base) and broker.base >= 0):
            raise ValueError(f"the base of broker {broker.id} is {broker.base}, but must be 0 or a positive number")


def _check_bundles(model: ClusterModel) -> None:
    before: BundleId | None = None
    for bundle in sorted(model.bundles, key=lambda each: each.id):
        if not (isfinite(bundle.weight) and bundle.weight >= 0):
            raise ValueError(f"the weight of bundle {bundle.id} is {bundle.weight}, but must be 0 or a positive number")
        if before and before.namespace == bundle.id.namespace and before.upper > bundle.id.lower:
            raise ValueError(f"bundle {bundle.id} overlaps {before}. Read the boundaries of the namespace again")
        before = bundle.id
    total = model.weight
    for bundle in model.bundles:
        _check_cells(bundle, total)
    least = min((broker.capacity for broker in model.brokers), default=1.0)
    if not isfinite(total / least):
        raise ValueError(
            f"the weights sum to {total:.6g}, which is too much for a capacity of {least}. Scale one of them"
        )


def _check_cells(bundle: Bundle, total: float) -> None:
    """Checks that the cells of a bundle are complete: cuts are planned on the cells, moves on the weight."""
    if not bundle.cells:
        return
    for index, weight in enumerate(weights_of(bundle.cells)):
        if not weight >= 0:
            position = bundle.cells[index].position
            raise ValueError(
                f"the weight of bundle {bundle.id} at {position:#010x} is {weight}, but must not be negative"
            )
    inside = fsum(weights_of(bundle.cells))
    if abs(inside - bundle.weight) > NEAR * bundle.weight + NOTHING * total:
        raise ValueError(
            f"bundle {bundle.id} weighs {bundle.weight:.6g}, but its cells weigh {inside:.6g}. Take both from one "
            "observation"
        )


def _check_options(model: ClusterModel, options: Options) -> None:
    unknown = sorted(options.brokers - {broker.id for broker in model.brokers})
    if unknown:
        raise ValueError(f"brokers {', '.join(unknown)} are not brokers of the cluster. Name existing brokers")
    named = options.mode in (Mode.ADD_BROKERS, Mode.REMOVE_BROKERS)
    if named != bool(options.brokers):
        raise ValueError(
            f"mode is {options.mode} and brokers are {', '.join(sorted(options.brokers)) or 'unset'}, but only "
            "AddBrokers and RemoveBrokers take brokers, and both require them"
        )
    budget = options.budget
    for name, value in (
        ("tolerance", options.tolerance),
        ("maxMoves", budget.max_moves),
        ("maxTrafficMovedPercent", budget.max_moved_percent),
        ("spent share of maxTrafficMovedPercent", budget.spent_percent),
        ("maxSplits", budget.max_splits),
        ("maxBundles", budget.max_bundles),
    ):
        if not (isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}, but must be 0 or a positive number")
