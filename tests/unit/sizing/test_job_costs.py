"""From recorded hours to factors: what brokers carried, which hours are evidence, and what weights become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_operator.balance.sizing.result import CostSizing, TopicCost
from pulsar_sizing.job.costs import (
    LEAST,
    MOST_REPORTED,
    Factors,
    Hour,
    Observed,
    evidence,
    factors_for,
    observed,
    section,
)
from pulsar_sizing.job.hours import BrokerHour, HourState
from pulsar_sizing.job.ingest import heavy
from pulsar_sizing.job.inventory import MILLION
from pulsar_sizing.job.regression import Factor, Learned

A, B, C = "a:8080", "b:8080", "c:8080"


def carried(spark: Any, *content: tuple[int, str, str | None, int]) -> list[tuple[Any, ...]]:
    """The heavy topics of rows (hour, topic, broker, cost)."""
    rows = spark.createDataFrame(content, "unit bigint, topic string, broker string, cost bigint")
    costs: Counter[int] = Counter()
    for unit, _, owner, cost in content:
        costs[unit] += cost if owner else 0
    of_hours = spark.createDataFrame(list(costs.items()), "unit bigint, hour_cost bigint")
    return sorted(tuple(row) for row in heavy(rows, of_hours).collect())


def test_heavy_topics_are_those_of_an_hour_with_all_their_partitions(spark: Any) -> None:
    edge = LEAST // 2
    told = carried(
        spark,
        (1, "t-partition-0", A, edge),
        (1, "t-partition-1", B, edge - 1),
        (1, "t-partition-0", None, 9),
        (1, "edge", A, 1),
        (2, "t-partition-0", A, edge),
        (2, "t-partition-1", A, edge),
        (2, "light", A, 1),
    )
    assert told == [(1, "edge", A, 1), (1, "t", A, edge), (1, "t", B, edge - 1), (2, "t", A, LEAST)]


def hour(**brokers: BrokerHour) -> HourState:
    return HourState(digest="", brokers={f"{name}:8080": each for name, each in brokers.items()})


def broker(cpu: float, told: int = 60, answered: int = 60, cost: int = 600) -> BrokerHour:
    return BrokerHour(expected=60, answered=answered, cost=cost, told=told, cpu=round(cpu * told * MILLION))


@pytest.mark.parametrize(
    ("third", "counts"),
    [
        (broker(0.3), True),
        (broker(0.3, told=48), True),
        (broker(0.3, told=47), False),
        (broker(0.3, told=0), False),
        (broker(0.95), False),
        (broker(0.3, cost=0), False),
        (BrokerHour(expected=60), False),
        (BrokerHour(cost=100), False),
    ],
)
def test_a_broker_is_evidence_where_nearly_all_samples_tell_its_cpu(third: BrokerHour, counts: bool) -> None:
    found = observed(hour(a=broker(0.5), b=broker(0.25, answered=60), c=third), {})
    assert found.keys() == ({A, B, C} if counts else {A, B})
    assert found[A] == Observed(0.5, 10.0, 60)


def test_hours_of_one_broker_and_idle_ones_tell_nothing() -> None:
    assert observed(hour(a=broker(0.5)), {}) == {}
    assert observed(hour(a=broker(0.09), b=broker(0.1)), {}) == {}
    assert observed(hour(a=broker(0.05), b=broker(0.2)), {}).keys() == {A, B}


def test_a_broker_of_twice_the_size_uses_twice_the_cpu() -> None:
    both = hour(a=broker(0.5), b=broker(0.5), c=broker(0.5))
    assert {name: each.cpu for name, each in observed(both, {A: 0.5, B: 1.5}).items()} == {A: 0.25, B: 0.75}


def test_observations_have_the_heaviest_topics_by_broker() -> None:
    hours = {n: {A: Observed(0.5, 10.0, 6), B: Observed(0.25, 20.0, 3)} for n in (1, 2)}
    told = [Hour(1, ["t", "t", "u"], [A, B, C], [12, 30, 6]), Hour(2, ["v", "t"], [B, B], [3, 6])]
    found = evidence(hours, told)
    assert found.names == ("t", "v"), "nothing is known of broker c"
    assert found.hours.tolist() == [1, 1, 2, 2] and found.brokers.tolist() == [0, 1, 0, 1]
    assert found.cpu.tolist() == [0.5, 0.25] * 2 and found.cost.tolist() == [10.0, 20.0] * 2
    assert found.topics.tolist() == [[2.0, 0.0], [10.0, 0.0], [0.0, 0.0], [2.0, 1.0]]


def test_topics_have_the_factor_of_all_their_partitions_or_of_the_others() -> None:
    names = [f"persistent://a/b/{name}" for name in ("t", "t-partition-3", "u")]
    assert factors_for(pa.array(names), Factors({names[0]: 2.5}, 0.5)).tolist() == [2.5, 2.5, 0.5]
    assert factors_for(pa.array(names), Factors()).tolist() == [1.0] * 3


def test_the_result_tells_the_strongest() -> None:
    factors = {f"t{n:02d}": Factor(1 + n / 10, 0.1) for n in range(30)} | {"less": Factor(0.3, 0.05)}
    told = section(Learned(factors, 0.9, 3, 500, 0.2, 0.1))
    assert told is not None and len(told.topics) == MOST_REPORTED and told.factors == 31
    assert told.topics[:2] == (
        TopicCost(topic="t29", factor=3.9, error=0.1),
        TopicCost(topic="t28", factor=3.8, error=0.1),
    )
    assert "less" in {each.topic for each in told.topics}
    assert section(Learned()) is None
    assert section(Learned(brokers=2, observations=4)) == CostSizing(brokers=2, observations=4)


def test_the_job_learns_what_a_topic_costs(lab: Callable[..., Any]) -> None:
    """One topic costs three times what it says; brokers tell their CPU in a day and a half of markers."""
    one = lab()
    assert one.record(0, 36, days=2, dearest=3.0) > 0
    found = one.run().result
    for path in one.files("markers"):
        pq.write_table(pq.ParquetFile(path).read().drop_columns(["cpu"]), path, store_schema=False)  # type: ignore[no-untyped-call]
    unlearned = one.run().result
    assert unlearned.cost is None, "markers of an older collector"
    told = found.cost
    assert told is not None and told.brokers == 2 and told.observations == 72
    assert told.deviation is not None and told.learned is not None and told.learned < told.deviation / 2
    dear, cheap = (pick(told.topics, key=lambda each: each.factor) for pick in (max, min))
    assert 2.0 < dear.factor / cheap.factor < 4.0
    before, after = ([broker.weight for broker in each.brokers] for each in (unlearned, found))
    assert after[1] / after[0] > 1.2 * before[1] / before[0], "the broker with the dear topic has more"
    assert sum(after) == pytest.approx(sum(before), rel=0.1)
