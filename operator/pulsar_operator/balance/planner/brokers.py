"""What each broker carries before and after the steps of a proposal: for the people who approve it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import fsum

from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.outcome import utilizations
from pulsar_operator.balance.planner.proposal import BrokerLoad


def broker_loads(before: ClusterModel, after: ClusterModel, mean: float) -> tuple[BrokerLoad, ...]:
    """Every broker of ``before``, the busiest first. ``mean`` is the mean utilization, as in Balance."""
    used, bundles, clients = zip(*map(_of, (before, after)), strict=True)
    over = [{broker: share / mean if mean > 0 else 0.0 for broker, share in each.items()} for each in used]
    found = [
        BrokerLoad(
            broker.id,
            (over[0][broker.id], over[1][broker.id]),
            (bundles[0][broker.id], bundles[1][broker.id]),
            (clients[0][broker.id], clients[1][broker.id]),
        )
        for broker in before.brokers
    ]
    return tuple(sorted(found, key=lambda each: (-each.load[0], each.broker)))


def together(loads: Sequence[BrokerLoad], name: str) -> BrokerLoad:
    """Several brokers as one: the mean of their loads, the sums of the rest."""
    first, last = (fsum(each.load[n] for each in loads) / max(len(loads), 1) for n in (0, 1))
    bundles = sum(each.bundles[0] for each in loads), sum(each.bundles[1] for each in loads)
    clients = sum(each.clients[0] for each in loads), sum(each.clients[1] for each in loads)
    return BrokerLoad(name, (first, last), bundles, clients)


def _of(model: ClusterModel) -> tuple[dict[str, float], Counter[str | None], Counter[str | None]]:
    bundles: Counter[str | None] = Counter()
    clients: Counter[str | None] = Counter()
    for bundle in model.bundles:
        bundles[bundle.owner] += 1
        clients[bundle.owner] += bundle.clients
    return utilizations(model.brokers, model.bundles), bundles, clients
