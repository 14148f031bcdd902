"""The worked example of the documents: 3 brokers with 20 bundles each, and 20 hot bundles on one of them with 90 % of
the traffic."""

from __future__ import annotations

from e2e.support.skew import NAMESPACE, Start, even_bounds
from e2e.support.traffic import topics_within

BUNDLES = 60
HOT = 20
HOT_RATE = 27.0
"""Messages a second of a topic in a hot bundle; every bundle has a topic in each of its halves."""
COLD_RATE = 1.5
"""Of a topic in one of the 40 other bundles, which have a tenth of the traffic together."""


def worked_example() -> Start:
    """As the documents have it; one topic of a hot bundle is counted."""
    bounds = even_bounds(BUNDLES)
    rates: dict[str, float] = {}
    for index in range(BUNDLES):
        lower, upper = bounds[index], bounds[index + 1]
        middle = lower + (upper - lower) // 2
        for half in ((lower, middle), (middle, upper)):
            (topic,) = topics_within(NAMESPACE, [half], 1, prefix=f"w{index}-")
            rates[topic] = HOT_RATE if index < HOT else COLD_RATE
    counted = next(iter(rates))
    del rates[counted]
    owners = [index // HOT for index in range(BUNDLES)]
    return Start(bounds, owners, rates, counted, HOT_RATE, 2.55)
