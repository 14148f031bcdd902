"""The report and the command line, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pulsar_operator.balance.sizing.result import (
    BrokerSizing,
    CellWeight,
    CostSizing,
    ExpectedBalance,
    NamespaceSizing,
    SizingResult,
    TopicCost,
    Verdict,
)
from pulsar_sizing.job import cli, report
from pulsar_sizing.job.conclude import Today, loads_after, placed
from pulsar_sizing.job.hours import Coverage
from pulsar_sizing.job.inventory import unit_of
from pulsar_sizing.job.overload import Minutes
from pulsar_sizing.job.request import RequestError

START = datetime(2026, 3, 2, tzinfo=UTC)
HOSTILE = "persistent://acme/shop/<script>alert(1)</script>"


def result(**changes: Any) -> SizingResult:
    values: dict[str, Any] = {
        "instance": "demo",
        "cluster": "east",
        "generated_time": START,
        "from_time": START,
        "to_time": START + timedelta(days=7),
        "samples": 1000,
        "completeness": 0.987,
        "percentile": 95.0,
        "growth": 1.2,
        "namespaces": (
            NamespaceSizing(
                namespace="acme/shop",
                bundles_now=1,
                boundaries=("0x00000000", "0x80000000", "0xffffffff"),
                fresh_boundaries=("0x00000000", "0x80000000", "0xffffffff"),
                weight=9e6,
                hottest_topic=HOSTILE,
                hottest_weight=5e6,
                cells=(CellWeight(position=5, weight=5e6), CellWeight(position=1 << 31, weight=4e6)),
                reason="1 bundle cut into 2",
            ),
        ),
        "partitions": (),
        "brokers": (
            BrokerSizing(broker="a:8080", weight=9e6, utilization=2.0),
            BrokerSizing(broker="b:8080", weight=0.0, utilization=0.0),
        ),
        "verdict": Verdict(verdict="RightSized", brokers_now=2, brokers=2, reason="well"),
        "balance": ExpectedBalance(before=2.0, after=10 / 9, bound=10 / 9),
        "rejected": {"file_unreadable": 3},
    }
    return SizingResult(**(values | changes))


COVERAGE = Coverage(23, 24, 0.8, {unit_of(START) + n: 1.0 for n in range(23)} | {unit_of(START) + 30: 0.6})
TODAY = {"acme/shop": Today((0, 0xFFFFFFFF), ("a:8080",))}


def test_the_report_says_what_was_found() -> None:
    text = report.text(result(), report.Details(TODAY))
    for part in (
        "98.7% complete",
        "1 now, 2 recommended",
        "2.000 times the mean now, 1.111 promised",
        "file_unreadable",
    ):
        assert part in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith(("a ", "b "))}
    assert rows == {
        "a": ["1.00", "9.00", "5.00", "5.00", "2.00", "1.11", *("not", "known") * 2],
        "b": ["1.00", "0.00", "4.00", "5.00", "0.00", "0.89", *("not", "known") * 2],
    }
    assert "minutes above 85%, now" in text and "minutes above 85%, recommended" in text
    assert "Names are without :8080. Minutes above 85% are not known without --capacity" in text
    assert sorted(loads_after(result()).values()) == [4e6, 5e6]
    assert placed(result()) == {"acme/shop": Today((0, 1 << 31, 0xFFFFFFFF), ("a:8080", "b:8080"))}


def test_without_recommendation_the_report_says_why() -> None:
    why = Verdict(verdict="Unknown", brokers_now=2, brokers=2, reason="Only 10 % of the traffic is there")
    text = report.text(result(namespaces=(), verdict=why), report.Details())
    assert "no recommendation" in text
    assert "Only 10 % of the traffic is there" in text


def test_the_report_says_how_much_is_covered() -> None:
    found = report.text(result(), report.Details(TODAY, coverage=COVERAGE))
    assert "coverage     23 hours have at least 80.0% of their samples, 24 are required for a recommendation" in found
    (table,) = (t for t in report.tables(result(), report.Details(coverage=COVERAGE)) if t.title.startswith("Coverage"))
    assert [tuple(row) for row in table.rows[:3]] == [
        ("2026-03-02", "23", "95.8%"),
        ("2026-03-03", "0", "2.5%"),
        ("2026-03-04", "0", "0.0%"),
    ]
    assert len(table.rows) == 7, "a day of which nothing is there is shown too"
    assert "coverage" not in report.summary(result())


def test_the_report_says_where_to_cut() -> None:
    def cuts(today: Any, **changes: Any) -> list[tuple[str, ...]]:
        found = report.tables(result(**changes), report.Details(today))
        return [tuple(row) for table in found if table.title == "Recommended cuts" for row in table.rows]

    assert cuts(TODAY) == cuts({}) == [("acme/shop", "1", "0x80000000")]
    (each,) = result().namespaces
    many = ["0x00000000", *(f"0x{n:08x}" for n in range(1, 12)), "0xffffffff"]
    ((_, number, words),) = cuts(TODAY, namespaces=(each.model_copy(update={"boundaries": tuple(many)}),))
    assert number == "11" and words.endswith("0x00000008 and 3 more")
    assert cuts({"acme/shop": Today((0, 1 << 31, 0xFFFFFFFF), (None, None))}) == []
    (ring,) = report.rings(result(), TODAY)
    assert (ring.now, ring.cuts) == ((), [1 << 31])


def test_bundles_are_weighed_side_by_side() -> None:
    found = {table.title: table for table in report.tables(result(), report.Details(TODAY))}
    rows = {row[0]: tuple(row[1:]) for row in found["Weights of bundles, MB/s equivalents"].rows}
    assert rows["number"] == ("1", "2")
    assert rows["heaviest"] == ("9.00", "5.00")
    assert rows["lightest"] == ("9.00", "4.00")
    assert rows["heaviest over a broker's fair share"] == ("2.00", "1.11")
    (namespace,) = found["Bundles of each namespace"].rows
    assert tuple(namespace[:7]) == ("acme/shop", "1", "2", "2", "9.00", "5.00", "9.00")
    unseen = {table.title: table for table in report.tables(result(), report.Details())}
    assert unseen["Bundles of each namespace"].rows[0][4:6] == ("-", "5.00")


def test_what_a_broker_can_carry_and_for_how_long_it_had_too_much_is_beside_its_load() -> None:
    brokers = (
        BrokerSizing(broker="a:8080", weight=9e6, utilization=4 / 3, capacity=1.5),
        BrokerSizing(broker="b:8080", weight=0.0, utilization=0.0, capacity=0.5),
    )
    minutes = Minutes(600.0, {"a:8080": 420.0, "b:8080": 0.0}, {"a:8080": 3.0, "b:8080": 0.0})
    tables = report.tables(result(brokers=brokers), report.Details(TODAY, {}, minutes))
    assert [tuple(row) for row in tables[0].rows] == [
        ("a", "1.50", "9.00", "9.00", "7.50", "1.33", "1.33", "420", "3"),
        ("b", "0.50", "0.00", "0.00", "2.50", "0.00", "0.00", "0", "0"),
    ]
    assert "of 600 recorded ones" in tables[0].note


WHERE = ["size", "--root", "/data", "--instance", "demo", "--cluster", "east"]


def test_options_come_from_the_command_line_before_the_environment() -> None:
    env = {"PULSAR_SIZING_GROWTH": "1.5", "PULSAR_SIZING_FULL": "true", "PULSAR_SIZING_CONF": "spark.a=1 spark.b=2"}
    options = cli.parser(env).parse_args([*WHERE, "--percentile", "99", "--from", "2026-03-02"])
    request = cli.request_of(options)
    assert (request.growth, request.percentile, request.full, request.start) == (1.5, 99.0, True, START)
    assert cli.settings_of(options.conf) == {"spark.a": "1", "spark.b": "2"}
    assert cli.request_of(cli.parser(env).parse_args([*WHERE, "--growth", "2"])).growth == 2
    named = {"PULSAR_SIZING_ROOT": "/data", "PULSAR_SIZING_INSTANCE": "demo", "PULSAR_SIZING_CLUSTER": "east"}
    assert cli.parser(named).parse_args(["report"]).root == "/data"


def test_what_brokers_can_carry_comes_from_the_environment_too() -> None:
    env = {"PULSAR_SIZING_CAPACITIES": "east-broker-0=500m, east-broker-1=2,"}
    options = cli.parser(env).parse_args(WHERE)
    assert cli.request_of(options).capacities == {"east-broker-0": "500m", "east-broker-1": "2"}
    assert cli.request_of(cli.parser({"PULSAR_SIZING_CAPACITIES": ""}).parse_args(WHERE)).capacities == {}
    with pytest.raises(SystemExit, match="2"):
        cli.parser({}).parse_args([*WHERE, "--capacities", "a=1,a=2"])


def test_a_moment_is_utc_unless_it_says_otherwise() -> None:
    assert cli.moment("2026-03-02T05:00") == START + timedelta(hours=5)
    assert cli.moment("2026-03-02T05:00+02:00") == datetime(2026, 3, 2, 5, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    "more, words",
    [
        (["--growth", "0"], "growth is 0.0: must be between"),
        (["--conf", "x=1"], "--conf is 'x=1'"),
        (["--from", "2026-03-02T00:30"], "whole hour"),
        (["--capacities", "a=much"], "capacities has a=much: must be NAME=CPU"),
        (["--capacities", "a=0"], "an amount of CPU above 0"),
        (["--capacities", "a"], "capacities has a="),
        (["--capacities", "=1"], "capacities has =1"),
    ],
)
def test_wrong_use_is_said_before_spark_starts(more: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*WHERE, *more]) == cli.EXIT_USAGE
    assert words in capsys.readouterr().err


def test_a_wrong_word_in_the_environment_is_said() -> None:
    with pytest.raises(RequestError, match="must be true or false"):
        cli.parser({"PULSAR_SIZING_FULL": "maybe"})


def test_what_was_learned_of_costs_is_told() -> None:
    topics = (TopicCost(topic=HOSTILE, factor=2.25, error=0.125),)
    cost = CostSizing(
        brokers=3, observations=500, deviation=0.123, learned=0.045, factors=1, others=0.875, topics=topics
    )
    found = report.text(result(cost=cost), report.Details())
    assert f"{HOSTILE}  2.25    0.12" in found
    assert "by 12.3% on average, 4.5% with what was learned (500 hours of 3 brokers)" in found
    assert "all others 0.88" in found
    read = SizingResult.model_validate_json(result(cost=cost).model_dump_json(by_alias=True))
    assert read.cost == cost
    without = result().model_dump(mode="json", by_alias=True, exclude={"cost"})
    assert SizingResult.model_validate(without).cost is None, "of an older job"
    few = report.summary(result(cost=CostSizing(brokers=3, observations=5)))
    assert "cost " not in few
