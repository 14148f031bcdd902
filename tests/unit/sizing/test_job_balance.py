"""The balance as it is now, told by the sizing job: what brokers were seen to own."""

from __future__ import annotations

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.sizing.size import NamespaceTraffic, size
from pulsar_sizing.job.conclude import _balance, loads_today

BROKERS = ("a:8080", "b:8080")


def test_a_namespace_nobody_serves_now_takes_nobody_below_the_mean() -> None:
    """It was recorded, and no broker reported it in the newest round."""
    cells = [Cell(1 << 20, 5.0), Cell(3 << 30, 5.0)]
    served = NamespaceTraffic("shop/orders", cells, (0, 1 << 31, 0xFFFFFFFF), ("a:8080", "a:8080"))
    traffic = [served, NamespaceTraffic("shop/asleep", cells, None, ())]
    for brokers, ratio in ((BROKERS[:1], 1.0), (BROKERS, 2.0)):
        plan = size(traffic, [Broker(each) for each in brokers])
        assert _balance(plan, loads_today(traffic, brokers)).before == ratio
