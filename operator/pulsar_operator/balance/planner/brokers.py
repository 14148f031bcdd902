"""The load of each broker before and after the steps of a proposal, for the people who approve it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from pulsar_operator.balance.model.cluster import Broker, ClusterModel
from pulsar_operator.balance.planner.proposal import BrokerLoad


@dataclass(frozen=True)
class Sums:
    """Loads of brokers, by id."""

    load: Mapping[str, float]
    """Weights of their bundles, and their own base."""
    bundles: Mapping[str, int]
    clients: Mapping[str, int]


def sums_of(model: ClusterModel) -> Sums:
    """Returns what the brokers of a model carry; the order of its bundles does not matter."""
    weights = {broker.id: [broker.base] for broker in model.brokers}
    bundles, clients = Counter[str](), Counter[str]()
    for bundle in model.bundles:
        if bundle.owner in weights:
            weights[bundle.owner].append(bundle.weight)
            bundles[bundle.owner] += 1
            clients[bundle.owner] += bundle.clients
    return Sums({broker: fsum(each) for broker, each in weights.items()}, bundles, clients)


def broker_loads(model: ClusterModel, before: Sums, after: Sums, mean: float) -> tuple[BrokerLoad, ...]:
    """Returns every broker of a model, the busiest first. ``mean`` is the mean utilization, as in Balance."""

    def share(sums: Sums, broker: Broker) -> float:
        return sums.load[broker.id] / broker.capacity / mean if mean > 0 else 0.0

    found = [
        BrokerLoad(
            broker.id,
            (share(before, broker), share(after, broker)),
            (before.bundles.get(broker.id, 0), after.bundles.get(broker.id, 0)),
            (before.clients.get(broker.id, 0), after.clients.get(broker.id, 0)),
        )
        for broker in model.brokers
    ]
    return tuple(sorted(found, key=lambda each: (-each.load[0], each.broker)))


def together(loads: Sequence[BrokerLoad], name: str) -> BrokerLoad:
    """Several brokers as one: the mean of their loads, the sums of the rest."""
    first, last = (fsum(each.load[n] for each in loads) / max(len(loads), 1) for n in (0, 1))
    bundles = sum(each.bundles[0] for each in loads), sum(each.bundles[1] for each in loads)
    clients = sum(each.clients[0] for each in loads), sum(each.clients[1] for each in loads)
    return BrokerLoad(name, (first, last), bundles, clients)
