"""What pods say of their load, as figures of the targets: rates from two readings, ages, what is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.balance.autoscaling.policy import Measured, traffic_growth
from pulsar_operator.balance.autoscaling.pressure import doubt
from pulsar_operator.balance.autoscaling.values import Signal, Workload
from pulsar_operator.domain.dataplane.observed.pod_counters import parse
from pulsar_operator.domain.dataplane.scaling.pod_loads import (
    Reading,
    Readings,
    added,
    figures,
    measured,
    names_of,
    reading,
)
from tests.support.balancing.autoscaling import POLICY

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PAGES = Path(__file__).parent.parent / "rollout" / "loads"


def at(seconds: float, cpu: float, started: float | None = None, **gauges: float) -> Reading:
    return Reading(BEGIN + timedelta(seconds=seconds), gauges, {"cpuPercent": cpu}, started)


def silent(seconds: float) -> Reading:
    """A page without the counter."""
    return Reading(BEGIN + timedelta(seconds=seconds), {}, {})


def after(*readings: Reading) -> Readings:
    found: Readings = ()
    for each in readings:
        found = added(found, each)
    return found


@pytest.mark.parametrize(
    ("readings", "wanted"),
    [
        ([at(0, 100)], None),
        ([at(0, 100), at(30, 130)], None),
        ([at(0, 100), at(60, 130)], 0.5),
        ([at(0, 100), at(30, 130), at(60, 190)], 1.5),
        ([at(0, 0), at(60, 60), at(120, 180)], 2.0),
        ([at(0, 100), at(60, 130), at(90, 1)], None),
        ([at(0, 100), at(60, 130), at(90, 1), at(150, 7)], 0.1),
        ([at(0, 100), at(400, 500)], None),
        ([at(60, 100), at(0, 130)], None),
        ([at(0, 10, 1), at(60, 40, 1)], 0.5),
        ([at(0, 10, 1), at(60, 40, 2)], None),
        ([at(0, 10, 1), at(60, 40, 2), at(120, 100, 2)], 1.0),
        ([at(0, 10, 1), at(60, 40)], 0.5),
        ([at(0, 100), at(60, 130), silent(90)], None),
        ([at(0, 100), silent(30), at(60, 130)], 0.5),
    ],
    ids=[
        "one",
        "too close",
        "two",
        "the youngest far enough",
        "a minute",
        "began anew",
        "since",
        "too old",
        "set back",
        "one process",
        "another process with more",
        "since another process",
        "no time of a process",
        "absent",
        "absent once",
    ],
)
def test_rate_of_a_counter(readings: list[Reading], wanted: float | None) -> None:
    assert figures(after(*readings)).get("cpuPercent") == (None if wanted is None else pytest.approx(wanted))


def test_of_all_pods_the_oldest_figure_counts() -> None:
    pods = {"a": after(at(0, 0, topics=3), at(60, 30, topics=4)), "b": after(at(0, 0, topics=5)), "c": ()}
    found = measured(pods, BEGIN + timedelta(seconds=70))
    assert found["topics"] == ({"a": 4, "b": 5}, 70)
    assert found["cpuPercent"] == ({"a": 0.5}, 10)


def test_a_sum_of_which_a_part_is_missing_is_not_known() -> None:
    page = ["pulsar_broker_rate_in 4", "pulsar_broker_topics_count 2", 'pulsar_broker_producers_count{cluster="x"} 1']
    found = reading(Component.BROKER, BEGIN, parse(page, names_of(Component.BROKER)))
    assert (found.gauges, found.counters) == ({"topics": 2}, {})


@pytest.mark.parametrize(
    ("rate", "wanted"), [("NaN", None), ("-3", None), ("+Inf", None), ("1e999", None), ("x", None), ("0", 4.0)]
)
def test_what_is_no_amount_is_not_known(rate: str, wanted: float | None) -> None:
    page = [f"pulsar_broker_rate_in {rate}", "pulsar_broker_rate_out 4", "process_cpu_seconds_total 1"]
    found = reading(Component.BROKER, BEGIN, parse(page, names_of(Component.BROKER)))
    assert found.gauges.get("messagesPerSecond") == wanted


def test_a_counter_that_began_anew_between_two_pages_without_it_makes_no_decision() -> None:
    found = figures(after(at(0, 100), silent(30), at(60, 1)))
    signal = Signal("cpuPercent", {"a": found["cpuPercent"]}, 1.0, 0.7, 0.0)
    assert doubt(signal, Workload(1, frozenset("a")), POLICY) is not None


BOOKIE = Path(__file__).parent.parent / "rollout" / "counters" / "bookie-read-only.txt"
ADDED = "bookkeeper_server_ADD_ENTRY"


def written(quantile: str, value: str, thread: int = 0, success: str = "true") -> str:
    """A line as BookKeeper writes it (class PrometheusTextFormat, writeQuantile)."""
    labels = f'success="{success}",quantile="{quantile}", threadPool="ForceWriteThread",thread="{thread}"'
    return f"{ADDED}{{{labels}}} {value}"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([written("0.99", "12.5")], 12.5),
        ([written("0.99", "12.5"), written("0.99", "40", 1), written("0.99", "3", 2)], 40.0),
        (
            [
                written("0.99", "2"),
                written("0.99", "900", success="false"),
                written("1.0", "70"),
                written("0.999", "60"),
            ],
            2.0,
        ),
        ([written("0.99", "NaN")], 0.0),
        ([written("0.99", "NaN"), written("0.99", "4", 1)], 4.0),
        ([written("0.99", "-Infinity")], 0.0),
    ],
    ids=["one thread", "the slowest of three", "of writes that succeed", "none in the minute", "one idle", "never"],
)
def test_how_long_writes_to_a_bookie_take(lines: list[str], wanted: float) -> None:
    page = [*lines, f'{ADDED}_count{{success="true", threadPool="ForceWriteThread",thread="0"}} 313']
    found = reading(Component.BOOKIE, BEGIN, parse(page, names_of(Component.BOOKIE)))
    assert found.gauges == {"writeLatencyMilliseconds": wanted}


def test_a_page_that_counts_no_writes_does_not_say_how_long_they_take() -> None:
    found = reading(Component.BOOKIE, BEGIN, parse([written("0.99", "NaN")], names_of(Component.BOOKIE)))
    assert found.gauges == {}


def test_writes_of_a_bookie_are_where_they_are_looked_for() -> None:
    """A page of Pulsar 4.0.8: 313 entries went through the journal, and none is in the series of requests."""
    lines = BOOKIE.read_text(encoding="utf-8").splitlines()
    found = reading(Component.BOOKIE, BEGIN, parse(lines, names_of(Component.BOOKIE)))
    assert found.gauges.keys() == {"writeLatencyMilliseconds"}
    assert any(line.startswith(f'{ADDED}_count{{success="true"') and line.endswith(" 313") for line in lines)


@pytest.mark.parametrize(
    ("component", "gauges", "counters"),
    [
        (
            Component.BROKER,
            {"bandwidthPercent": 901.165 + 901.112, "messagesPerSecond": 2 * 1.703, "topics": 2, "sessions": 3},
            {"cpuPercent": 20.49},
        ),
        (Component.PROXY, {"connections": 2}, {"bandwidthPercent": 23501}),
    ],
)
def test_what_a_component_said(component: Component, gauges: dict[str, float], counters: dict[str, float]) -> None:
    """Pages of Pulsar 4.0.8: a standalone with one producer and one consumer, a proxy without zero copy before it."""
    lines = (PAGES / f"{component.value}.txt").read_text(encoding="utf-8").splitlines()
    found = reading(component, BEGIN, parse(lines, names_of(component)))
    assert found.gauges == pytest.approx(gauges) and found.counters == pytest.approx(counters)
    assert found.started == (1795624176.579 if component is Component.BROKER else None)


def carries(seconds: float, bytes_: float, messages: float = 0.0) -> Reading:
    gauges = {"bandwidthPercent": bytes_, "messagesPerSecond": messages}
    return Reading(BEGIN + timedelta(seconds=seconds), gauges, {})


@pytest.mark.parametrize(
    ("pods", "gone", "times"),
    [
        ({"a": [100.0, 100.0, 100.0], "b": [50.0, 50.0, 50.0]}, [], 1.0),
        ({"a": [100.0, 100.0, 200.0], "b": [50.0, 50.0, 100.0]}, [], 2.0),
        ({"a": [100.0, 100.0, 150.0], "b": [100.0, 100.0, 50.0]}, [], 1.0),  # moved
        ({"a": [100.0, 100.0, 50.0], "b": [50.0]}, [], 0.5),  # one that just started says nothing of before
        ({"a": [100.0, 100.0, 200.0]}, [[100.0, 100.0]], 1.0),  # one left, and the other has what it had
        ({"a": [100.0]}, [], None),
        ({"a": [0.0, 0.0, 100.0]}, [], None),
        ({}, [], None),
    ],
)
def test_by_how_much_traffic_grew(pods: dict[str, list[float]], gone: list[list[float]], times: float | None) -> None:
    """Against the minutes before, of those that were there."""

    def of(values: list[float], last: float) -> Readings:
        first = last - 60 * (len(values) - 1)
        return after(*(carries(first + 60 * number, value) for number, value in enumerate(values)))

    now = BEGIN + timedelta(seconds=600)
    there = {pod: of(values, 600.0) for pod, values in pods.items()}
    found = measured(there, now, [of(values, 480.0) for values in gone])
    loads = {name: Measured(values, age) for name, (values, age) in found.items()}
    grew = traffic_growth(loads)
    assert (grew and grew.times) == (None if times is None else pytest.approx(times))


def test_traffic_is_bytes_and_messages() -> None:
    found = figures(after(carries(0, 1000.0, 10.0), carries(60, 1000.0, 10.0)))
    assert (found["traffic"], found["trafficBefore"]) == (1000 + 10 * 1024, 1000 + 10 * 1024)


def test_a_counter_of_cpu_that_stands_still_is_not_known() -> None:
    """A process that answers uses CPU: the page is of long ago."""
    assert "cpuPercent" not in figures(after(at(0, 7.0), at(60, 7.0)))
    assert figures(after(at(0, 7.0), at(60, 7.6)))["cpuPercent"] == pytest.approx(0.01)


def test_a_pod_that_is_silent_for_long_does_not_make_the_others_old() -> None:
    now = BEGIN + timedelta(seconds=500)
    lately, long_ago = after(at(400, 1.0), at(470, 8.0)), after(at(0, 1.0), at(60, 8.0))
    values, age = measured({"a": lately, "b": long_ago}, now)["cpuPercent"]
    assert (set(values), age) == ({"a"}, 30.0)
    values, age = measured({"b": long_ago}, now)["cpuPercent"]
    assert (set(values), age) == ({"b"}, 440.0), "its age is told where there is no other"
