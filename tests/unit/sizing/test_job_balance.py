"""The balance as it is now, told by the sizing job: what brokers were seen to own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_operator.balance.sizing.size import NamespaceTraffic, size
from pulsar_sizing.job.conclude import Observed, Recorded, Today, _balance, conclude, loads_after, loads_today
from pulsar_sizing.job.request import Request

BROKERS = ("a:8080", "b:8080")


def test_a_namespace_nobody_serves_now_takes_nobody_below_the_mean() -> None:
    """It was recorded, and no broker reported it in the newest round."""
    cells = [Cell(1 << 20, 5.0), Cell(3 << 30, 5.0)]
    served = NamespaceTraffic("shop/orders", cells, (0, 1 << 31, 0xFFFFFFFF), ("a:8080", "a:8080"))
    traffic = [served, NamespaceTraffic("shop/asleep", cells, None, ())]
    for brokers, ratio in ((BROKERS[:1], 1.0), (BROKERS, 2.0)):
        able = [Broker(each) for each in brokers]
        plan = size(traffic, able)
        assert _balance(plan, loads_today(traffic, brokers), able).before == ratio


NOW = datetime(2026, 3, 2, tzinfo=UTC)
HOSTS = tuple(f"east-broker-{n}.east-broker-headless.pulsar.svc.cluster.local:8080" for n in range(3))
TOPICS = 24


def concluded(cpus: tuple[str | None, ...], covered: int = 24, **asked: Any) -> SizingResult:
    """Of equal topics in one bundle for each broker, with as many topics in each."""
    cells = [
        {"namespace": "shop/orders", "position": (n << 32) // TOPICS, "weight": 1e6, "topics": 1} for n in range(TOPICS)
    ]
    bounds = (0, (1 << 32) // 3, (2 << 32) // 3, 0xFFFFFFFF)
    observed = Observed(
        brokers=HOSTS,
        today={"shop/orders": Today(bounds, HOSTS)},
        cells=cells,
        hottest=[{"namespace": "shop/orders", "topic": "t", "weight": 1e6, "total": TOPICS * 1e6, "topics": TOPICS}],
        hot_topics=[],
        round=NOW,
    )
    told = {f"east-broker-{n}": cpu for n, cpu in enumerate(cpus) if cpu is not None}
    seen = Recorded(samples=1, completeness=1.0, expected=1, rejected={}, start=NOW, end=NOW, covered=covered)
    return conclude(Request("demo", "east", capacities=told, **asked), observed, seen, NOW)


def test_a_broker_gets_what_its_cpu_allows() -> None:
    """Eight topics each are even on equal brokers, and twice too much for one of half the size."""
    found = concluded(("500m", "1", "1500m"))
    assert [each.capacity for each in found.brokers] == pytest.approx([0.5, 1.0, 1.5])
    assert [each.utilization for each in found.brokers] == pytest.approx([2.0, 1.0, 2 / 3])
    assert found.balance.before == pytest.approx(2.0)
    assert found.balance.bound == pytest.approx(1.0)
    assert found.balance.after <= 1.05
    assert [loads_after(found)[host] for host in HOSTS] == pytest.approx([4e6, 8e6, 12e6])
    assert len(found.namespaces[0].boundaries) - 1 > 3, "the bundle of the small broker is cut"


@pytest.mark.parametrize("cpus", [(None, None, None), ("1", "1", "1"), ("1", "2", None)])
def test_brokers_of_which_not_all_are_known_are_equal(cpus: tuple[str | None, ...]) -> None:
    found = concluded(cpus)
    assert [each.capacity for each in found.brokers] == [1.0, 1.0, 1.0]
    assert (found.balance.before, found.balance.after) == pytest.approx((1.0, 1.0))


def test_the_verdict_counts_what_the_largest_broker_carries() -> None:
    """One topic of 1 MB/s fits the large broker and not an average one."""
    asked: dict[str, Any] = {"capacity": 0.9e6, "target": 0.9}
    assert "too much for any broker" in concluded(("1", "1", "1"), **asked).verdict.reason
    assert "too much for any broker" not in concluded(("500m", "1", "1500m"), **asked).verdict.reason


def test_an_older_result_has_equal_brokers() -> None:
    document = concluded((None,) * 3).model_dump(mode="json", by_alias=True)
    for broker in document["brokers"]:
        del broker["capacity"]
    assert [each.capacity for each in SizingResult.model_validate(document).brokers] == [1.0, 1.0, 1.0]


def test_the_hottest_topic_is_told_where_it_is_known_what_brokers_carry() -> None:
    told = concluded(("500m", "1", "1500m"), capacity=1e7).verdict.hottest
    assert told is not None
    assert (told.topic, told.weight, told.carries, told.target) == ("t", 1e6, 1.5e7, 0.7)
    assert concluded((None, None, None)).verdict.hottest is None


def test_too_few_covered_hours_recommend_nothing() -> None:
    """A night of recording says nothing of the day, and a cut is for ever."""
    found = concluded((None,) * 3, covered=23)
    assert found.namespaces == () and found.partitions == ()
    assert found.verdict.verdict == "Unknown"
    assert found.verdict.reason.startswith("Only 23 hours are covered, 24 are required.")
    assert concluded((None,) * 3, covered=23, min_coverage_hours=23).namespaces != ()
