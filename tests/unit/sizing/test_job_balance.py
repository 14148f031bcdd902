"""The balance as it is now, told by the sizing job: what brokers were seen to own."""

from __future__ import annotations

from pulsar_operator.balance.model import Broker, Cell
from pulsar_operator.balance.sizing import NamespaceTraffic, size
from pulsar_sizing.job.conclude import _balance, loads_today

BROKERS = ("a:8080", "b:8080")


def test_traffic_of_a_bundle_nobody_owns_takes_nobody_below_the_mean() -> None:
    cells = [Cell(1 << 20, 5.0), Cell(3 << 30, 5.0)]
    traffic = [NamespaceTraffic("shop/orders", cells, (0, 1 << 31, 0xFFFFFFFF), ("a:8080", None))]
    plan = size(traffic, [Broker("a:8080")])
    assert _balance(plan, loads_today(traffic, ["a:8080"])).before == 1.0
    assert _balance(size(traffic, [Broker(b) for b in BROKERS]), loads_today(traffic, BROKERS)).before == 2.0
