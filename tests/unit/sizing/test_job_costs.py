"""From recorded hours to factors: what brokers carried, which hours are evidence, and what weights become."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_operator.balance.sizing.result import CostSizing, TopicCost
from pulsar_sizing.job.carried import CARRIED_SCHEMA, LEAST, Hour, carried, read
from pulsar_sizing.job.costs import MOST_TOLD, Factors, Observed, applied, evidence, observed, section
from pulsar_sizing.job.inventory import MILLION
from pulsar_sizing.job.regression import Factor, Learned
from pulsar_sizing.job.state import BrokerHour, HourState, Manifest
from pulsar_sizing.job.weights import Weights
from pulsar_sizing.store import Place

A, B, C = "a:8080", "b:8080", "c:8080"


def rows(*content: tuple[str, str | None, int]) -> list[dict[str, Any]]:
    """The table that rows (topic, broker, cost) come to."""
    names = sorted({topic for topic, *_ in content})
    brokers = sorted({broker for _, broker, _ in content if broker})
    found = carried(
        names,
        np.array([names.index(topic) for topic, *_ in content], np.int64),
        brokers,
        np.array([brokers.index(b) if b else len(brokers) for _, b, _ in content], np.int64),
        np.array([cost for *_, cost in content], np.int64),
    )
    assert found.schema == CARRIED_SCHEMA
    return [tuple(row.values()) for row in found.to_pylist()]  # type: ignore[misc]


def test_partitions_of_a_topic_are_one_and_brokers_keep_their_parts() -> None:
    told = rows(("t-partition-0", A, 5), ("t-partition-1", B, 7), ("u", A, 1), ("t-partition-0", A, 5), ("u", None, 9))
    assert told == [("t", A, 10), ("t", B, 7), ("u", A, 1)]


def test_a_light_topic_is_left_out_and_its_broker_keeps_the_cost_elsewhere() -> None:
    edge = ("edge", A, 1)
    assert ("edge", A, 1) in rows(("heavy", A, LEAST - 1), edge)
    assert rows(("heavy", A, LEAST), edge) == [("heavy", A, LEAST)]
    assert rows() == []


def save(folder: Path, name: str, *content: tuple[str, str, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    columns = dict(zip(CARRIED_SCHEMA.names, zip(*content, strict=True), strict=True))
    pq.write_table(pa.table(columns, schema=CARRIED_SCHEMA), folder / name)  # type: ignore[no-untyped-call]


def test_pieces_of_an_hour_are_added_up(tmp_path: Path) -> None:
    save(tmp_path / "unit=7", "one.parquet", ("t", A, 5), ("u", A, 1))
    save(tmp_path / "unit=7", "two.parquet", ("t", A, 5), ("t", B, 2))
    place = Place(str(tmp_path), None)
    hours = read(place, [(7, 13, "unit=7"), (8, 5, "unit=8")])
    assert hours == [Hour(7, ["t", "t", "u"], [A, B, A], [10, 2, 1]), Hour(8, [], [], [])]
    assert read(place, [(7, LEAST + 13, "unit=7")])[0].topics == ["t", "t"], "a light one of the whole hour"


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


def test_state_of_an_older_job_is_read_and_has_no_evidence() -> None:
    old = '{"version": 2, "hours": {"5": {"digest": "d", "brokers": {"a:8080": {"expected": 3, "answered": 3}}}}}'
    assert observed(Manifest.model_validate_json(old).hours[5], {}) == {}


def test_observations_have_the_heaviest_topics_by_broker() -> None:
    hours = {n: {A: Observed(0.5, 10.0, 6), B: Observed(0.25, 20.0, 3)} for n in (1, 2)}
    told = [Hour(1, ["t", "t", "u"], [A, B, C], [12, 30, 6]), Hour(2, ["v", "t"], [B, B], [3, 6])]
    found = evidence(hours, told)
    assert found.names == ("t", "v"), "nothing is known of broker c"
    assert found.hours.tolist() == [1, 1, 2, 2] and found.brokers.tolist() == [0, 1, 0, 1]
    assert found.cpu.tolist() == [0.5, 0.25] * 2 and found.cost.tolist() == [10.0, 20.0] * 2
    assert found.topics.tolist() == [[2.0, 0.0], [10.0, 0.0], [0.0, 0.0], [2.0, 1.0]]


def test_weights_are_multiplied_by_the_factor_of_the_topic() -> None:
    names = [f"persistent://a/b/{name}" for name in ("t", "t-partition-3", "u")]
    found = Weights(pa.array(names), np.arange(3), np.array([100, 10, 5]))
    factors = Factors({names[0]: 2.5}, 0.5)
    assert applied(found, factors).weights.tolist() == [250, 25, 3]
    assert applied(found, Factors()) is found


def test_the_result_tells_the_strongest() -> None:
    factors = {f"t{n:02d}": Factor(1 + n / 10, 0.1) for n in range(30)} | {"less": Factor(0.3, 0.05)}
    told = section(Learned(factors, 0.9, 3, 500, 0.2, 0.1))
    assert told is not None and len(told.topics) == MOST_TOLD and told.factors == 31
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
