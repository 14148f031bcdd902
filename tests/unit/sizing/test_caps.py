"""Topics of a namespace weigh no more than it had in the busy hours; topics that no busy hour has count too."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import product
from math import floor
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spark.traffic import topics_of, traffic_table
from pulsar_sizing.job import topics
from pulsar_sizing.job.histogram import buckets_of, values_of
from pulsar_sizing.job.snapshot import DAILY, NAMESPACES, QUIET, WEIGHTS
from pulsar_sizing.job.totals import by_rank, totals
from tests.support.sizing_weeks import Week

Labs = Callable[..., Any]
Answer = Callable[[Any], dict[str, Any]]
Hours = dict[tuple[int, str, int], dict[int, int]]
"""Counts by bucket of an hour, a namespace and a topic of it."""
SHOP = "acme/shop"
UNITS = (24, 25, 48)
HISTOGRAM = st.dictionaries(st.integers(0, 800), st.integers(1, 4), min_size=1, max_size=4)
HOURS = st.dictionaries(
    st.tuples(st.sampled_from(UNITS), st.sampled_from((SHOP, "acme/till")), st.integers(0, 3)), HISTOGRAM, max_size=12
)


def of_namespaces(hours: Hours, at_once: int) -> dict[tuple[int, str], dict[int, int]]:
    """What the kernel says of each day and namespace, from batches of so many rows."""
    rows = [
        {"unit": unit, "namespace": name, "buckets": sorted(held), "counts": [held[b] for b in sorted(held)]}
        for (unit, name, _), held in hours.items()
    ]
    schema = pa.schema(
        [
            ("unit", pa.int64()),
            ("namespace", pa.string()),
            ("buckets", pa.list_(pa.int16())),
            ("counts", pa.list_(pa.int32())),
        ]
    )
    made = totals(by_rank(pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=at_once)))
    return {
        (row["day"], row["topic"]): dict(zip(row["buckets"], row["counts"], strict=True))
        for batch in made
        for row in batch.to_pylist()
    }


@given(HOURS, st.integers(1, 12))
def test_a_namespace_has_what_its_topics_have_rank_by_rank(hours: Hours, at_once: int) -> None:
    wanted: dict[tuple[int, str], dict[int, int]] = {}
    for unit in UNITS:
        for name in {name for at, name, _ in hours if at == unit}:
            mine = [held for (at, space, _), held in hours.items() if (at, space) == (unit, name)]
            samples = [sorted((b for b, n in held.items() for _ in range(n)), reverse=True) for held in mine]
            for rank in range(max(map(len, samples))):
                costs = [float(values_of(np.array([each[rank]]))[0]) for each in samples if rank < len(each)]
                bucket = buckets_of(np.array([sum(floor(64 * cost + 0.5) for cost in costs) / 64]))[0]
                day = wanted.setdefault((unit // 24, name), {})
                day[int(bucket)] = day.get(int(bucket), 0) + 1
    assert of_namespaces(hours, at_once) == wanted


@given(st.dictionaries(st.tuples(st.sampled_from(UNITS), st.just(SHOP), st.just(0)), HISTOGRAM, min_size=1))
def test_a_topic_alone_is_its_namespace(hours: Hours) -> None:
    wanted: dict[tuple[int, str], dict[int, int]] = {}
    for (unit, name, _), held in hours.items():
        day = wanted.setdefault((unit // 24, name), {})
        for bucket, count in held.items():
            day[bucket] = day.get(bucket, 0) + count
    assert of_namespaces(hours, 1) == wanted


def test_the_weights_of_a_namespace_are_scaled_down_to_its_cap(spark: Any) -> None:
    """Many namespaces in one pass, with weights from nothing to those of a broken counter."""
    rng = np.random.default_rng(39)
    own: dict[tuple[str, str, bool], tuple[int, float]] = {}
    most = {}
    for number in range(120):
        name = f"acme/n{number}"
        costs = [int(cost) for cost in 10 ** rng.uniform(0, 14, int(rng.integers(1, 9)))]
        for at, cost in enumerate(costs):
            own[name, f"persistent://{name}/t{at}", at != 3] = cost, 1.0
        if number % 4:
            most[name] = int(sum(costs) * rng.uniform(0, 1.5))
    weighed = [(t, crc32(t.encode()), busy, *told, name) for (name, t, busy), told in own.items()]
    columns = "topic string, position bigint, busy boolean, own bigint, times double, namespace string"
    found = topics.capped(
        spark.createDataFrame(weighed, columns), spark.createDataFrame(list(most.items()), "namespace string, cap long")
    ).collect()
    assert len(found) == len(own)
    by_namespace: dict[str, list[tuple[int, int]]] = {}
    scaled = 0
    for row in found:
        busy = (row["namespace"], row["topic"], True) in own
        mine = own[row["namespace"], row["topic"], busy][0]
        assert row["uncapped"] == mine
        assert 0 <= row["weight"] <= mine
        if busy:
            by_namespace.setdefault(row["namespace"], []).append((row["weight"], mine))
        else:
            assert row["weight"] == mine, "what no busy hour has is beside the cap"
    for name, pairs in by_namespace.items():
        weight, alone = (sum(side) for side in zip(*pairs, strict=True))
        cap = most.get(name, alone)
        assert weight <= cap or weight == alone <= cap
        assert weight >= min(cap, alone) - len(pairs), "and no less than that"
        scaled += alone > cap
        for one, other in ((a, b) for a in pairs for b in pairs):
            assert (one[0] + 1) * other[1] >= other[0] * one[1] * (1 - 1e-9), "by one factor"
    assert 10 < scaled < len(most)


def test_what_was_learned_counts_after_the_cap(spark: Any) -> None:
    columns = "topic string, position bigint, busy boolean, own bigint, times double, namespace string"
    rows = [
        (f"persistent://{SHOP}/{t}", 0, True, own, times, SHOP) for t, own, times in (("a", 60, 2.0), ("b", 40, 0.5))
    ]
    found = topics.capped(
        spark.createDataFrame(rows, columns), spark.createDataFrame([(SHOP, 50)], "namespace string, cap long")
    )
    assert {row["topic"][-1]: (row["weight"], row["uncapped"]) for row in found.collect()} == {
        "a": (60, 120),
        "b": (10, 20),
    }


def recorded(lab: Any) -> Week:
    """Two days with one round an hour."""
    lab.recording = replace(lab.recording, days=2, interval_seconds=3600)
    lab.record(0, 48)
    return Week("edited", lab.recording)


def read(outcome: Any, table: str) -> list[dict[str, Any]]:
    """Rows of a table that the snapshot of a run names."""
    tables, snapshot = outcome.job.tables, outcome.snapshot
    days = {*snapshot.days, *snapshot.quiet}
    folders = [tables.batch(WEIGHTS, snapshot.weights)] if table == WEIGHTS else tables.days(snapshot, table, days)
    found: list[dict[str, Any]] = tables.read(outcome.job.spark, table, folders).toArrow().to_pylist()
    return found


def weights_of(outcome: Any) -> Mapping[str, int]:
    """Weights by topic."""
    return {row["topic"]: row["weight"] for row in read(outcome, WEIGHTS)}


def test_a_switch_from_one_topic_to_another_counts_once(lab: Labs) -> None:
    """Clients leave topics of one kind for those of the other at the half of the window, within a busy hour."""
    one = lab()
    one.recording = replace(one.recording, days=2, topics=16, namespaces=1)
    one.record(0, 48)
    week, at = Week("edited", one.recording), one.recording.hours[24] + timedelta(minutes=10)

    def switched(table: Any) -> Any:
        rows = table.to_pylist()
        for row in rows:
            is_first = sorted(names).index(row["topic"]) % 2 == 0
            rate = 1e6 if is_first == (row["sample_time"] < at) else 0.0
            row |= {"bytes_in": rate, "bytes_out": rate, "messages_in": 0.0, "messages_out": 0.0}
        return traffic_table(rows)

    names = set(topics_of(one.recording).names)
    for hour in range(48):
        week.rows(one.root, hour, switched)
    at_once = 8 * 2e6 * 1.2
    found = one.run(capacity=at_once / 2 / 0.65)
    assert 0 in found.busy_hours
    weight = sum(broker.weight for broker in found.result.brokers)
    assert weight == pytest.approx(at_once, rel=0.03)
    assert found.result.verdict.verdict == "RightSized"
    rows = read(found, WEIGHTS)
    assert sum(row["weight"] for row in rows) == weight
    assert sum(row["uncapped"] for row in rows) == pytest.approx(2 * at_once, rel=0.03), "without cap it is twice"
    assert all(row["weight"] < row["uncapped"] for row in rows)


NIGHT, SPACE = 4, "tenant-0/namespace-0"
BATCH, BOTH = f"persistent://{SPACE}/weekly", f"persistent://{SPACE}/hourly"


def with_topic(table: Any, topic: str, cost: float) -> Any:
    """One more topic in an hour."""
    more = {"topic": topic, "position": crc32(topic.encode()), "namespace": SPACE}
    amounts = {"bytes_in": cost, "bytes_out": 0.0, "messages_in": 0.0, "messages_out": 0.0}
    row = traffic_table([table.to_pylist()[0] | more | amounts])
    return pa.concat_tables([table.cast(row.schema), row])


def test_a_batch_at_night_keeps_its_peak_for_the_window(lab: Labs) -> None:
    """A topic was there in one quiet hour of the first day alone; another one is small when the cluster is busy."""
    one = lab()
    week = recorded(one)
    week.rows(one.root, NIGHT, lambda table: with_topic(with_topic(table, BATCH, 5e7), BOTH, 5e7))
    week.rows(one.root, 24 + 16, lambda table: with_topic(table, BOTH, 1e3))
    found = one.run()
    assert NIGHT not in found.busy_hours and 16 in found.busy_hours
    weights = weights_of(found)
    assert weights[BATCH] == pytest.approx(1.2 * 5e7, rel=0.03), "beside the cap"
    assert weights[BOTH] < 2e4, "by what it has in busy hours"
    first = min(found.snapshot.days)
    assert {(row["day"], row["topic"]) for row in read(found, QUIET)} == {(first, BATCH), (first, BOTH)}
    assert BATCH not in {row["topic"] for row in read(found, DAILY)}
    # Absent for the whole window, it leaves.
    later = weights_of(one.run(start=one.recording.hours[24]))
    assert BATCH not in later and BOTH in later


def test_days_are_made_again_for_late_data_other_busy_hours_and_an_older_job(lab: Labs, answer: Answer) -> None:
    one = lab()
    week = recorded(one)
    first = one.run()
    names = set(topics_of(one.recording).namespaces)
    assert {(row["day"], row["namespace"]) for row in read(first, NAMESPACES)} == set(
        product(first.snapshot.days, names)
    )
    assert not read(first, QUIET)
    # An older job wrote no namespaces.
    shutil.rmtree(one.root / one.tables.folder / NAMESPACES)
    days = {day: each.model_copy(update={"digest": "older"}) for day, each in first.snapshot.days.items()}
    one.tables.publish(first.snapshot.model_copy(update={"days": days, "quiet": {}}))
    # Late data in a quiet hour.
    week.rows(one.root, NIGHT, lambda table: with_topic(table, BATCH, 1e6))
    later = one.run()
    assert NIGHT not in later.busy_hours
    assert set(weights_of(later)) == {*weights_of(first), BATCH}
    # So much of it that the hour becomes one of the busiest.
    week.rows(one.root, NIGHT, lambda table: with_topic(table, BOTH, 5e10))
    changed = one.run()
    assert NIGHT in changed.busy_hours
    assert BATCH in {row["topic"] for row in read(changed, DAILY)} and not read(changed, QUIET)
    assert answer(changed) == answer(one.run(full=True))
