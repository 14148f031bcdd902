"""The benchmark of scalers: others by their published rules, a world that loses nothing, a bound that holds."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks.autoscaling import __main__ as bench
from benchmarks.autoscaling import bookies, brokers
from benchmarks.autoscaling.figures import Flaps, Run
from benchmarks.autoscaling.placement import Placement
from benchmarks.autoscaling.scalers import Hpa, Ours, Published, Seen
from benchmarks.autoscaling.tables import better_on_both, level_and_better
from benchmarks.autoscaling.traces import BOOKIES, BOTH, NAMES, trace
from pulsar_operator.balance.autoscaling import brokers as shipped
from pulsar_operator.balance.autoscaling.bookies import Disk


def test_the_forecast_is_what_the_job_makes_of_the_week_before() -> None:
    week = trace("daily", 1)
    found = brokers.profile_of(week)
    assert (len(found.weights), found.step) == (168, 3600.0)
    assert found.at(10.5 * 3600) == pytest.approx(brokers.COST * week.recorded[40:44].mean())
    ours, *_ = brokers.scalers(week, forecast=False)
    assert isinstance(ours, Ours) and ours.profile is None


def seen(
    usage: list[float | None], *, minute: int = 0, replicas: int | None = None, youngest: int = 99, lost: int = 0
) -> Seen:
    """Brokers that use so much of their CPU; None = ready, and does not tell. More replicas = those are not ready."""
    told = {ordinal: share for ordinal, share in enumerate(usage) if share is not None}
    count = len(usage) if replicas is None else replicas
    return Seen(minute, count, frozenset(range(len(usage))), told, 30.0, lost, youngest)


@pytest.mark.parametrize(
    ("usage", "replicas", "wanted"),
    [
        ([1.0] * 4, 4, 8),  # "200m, and the desired value is 100m": doubled
        ([0.549] * 4, 4, 4),  # within the tolerance
        ([0.56] * 4, 4, 5),
        ([0.9] * 4, 6, 8),  # two are not ready: idle, where more are to come
        ([0.6] * 4, 6, 6),  # which takes the change back here
        ([0.9, 0.9, None, None], 4, 4),  # 180 % of the target, and 90 % with two idle ones: within the tolerance
        ([1.0, 1.0, 1.0, None], 4, 6),
        ([None] * 4, 4, 4),
    ],
)
def test_hpa(usage: list[float | None], replicas: int, wanted: int) -> None:
    """The documentation's examples and rules, with a target of 50 %."""
    assert Hpa(0.5).replicas(seen(usage, replicas=replicas)) == wanted


def test_hpa_takes_pods_that_do_not_report_for_as_wanted_downwards() -> None:
    """0.1, 0.1 and two of 0.5: 60 % of the target, for four."""
    hpa = Hpa(0.5)
    for minute in range(6):
        found = hpa.replicas(seen([0.1, 0.1, None, None], minute=minute))
    assert found == 3


def test_hpa_waits_five_minutes_downwards() -> None:
    hpa, found = Hpa(0.5), []
    for minute in range(8):
        usage = 0.5 if minute < 2 else 0.25
        found.append(hpa.replicas(seen([usage] * 4, minute=minute)))
    assert found == [4, 4, 4, 4, 4, 4, 2, 2]


@pytest.mark.parametrize(
    ("usage", "youngest", "wanted"),
    [
        ([0.81, 0.9, 0.99], 99, 4),
        ([0.79, 0.99, 0.99], 99, 3),
        ([0.29, 0.2, 0.1], 99, 2),
        ([0.31, 0.1, 0.1], 99, 3),
        ([0.9, 0.9, 0.9], 4, 3),
        ([0.9, 0.9, None], 99, 3),
        ([0.1, 0.1], 99, 2),
    ],
)
def test_published_rule_of_brokers(usage: list[float | None], youngest: int, wanted: int) -> None:
    assert Published().replicas(seen(usage, youngest=youngest)) == wanted


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ([0.74] * 5, 4),
        ([0.76, 0.1, 0.1, 0.1], 4),
        ([0.74] * 3, 3),
        ([0.93, 0.8, 0.8], 4),
        ([0.93, 0.8, 0.8, 0.8], 4),
        ([0.96, 0.8, 0.8], 4),
    ],
)
def test_published_rule_of_bookies(shares: list[float], wanted: int) -> None:
    disks = {ordinal: Disk(share, 1.0, share < bookies.READ_ONLY) for ordinal, share in enumerate(shares)}
    there = bookies.Seen(0, len(shares), disks, frozenset(disks), 30.0, False, False, 0)
    assert bookies.Published().replicas(there) == wanted


def test_placement_loses_nothing() -> None:
    placement = Placement(4, np.random.default_rng(1))
    for broker in (4, 5, 6):
        placement.join(broker)
        assert placement.shares[-1] == 0
        while placement.changing:
            assert placement.work(5) <= 5
        assert placement.shares.sum() == pytest.approx(1.0)
        assert placement.shares[-1] == pytest.approx(1 / len(placement.brokers), rel=0.1)
    before = placement.moved
    placement.leave(0)
    placement.drift()
    assert placement.brokers == [1, 2, 3, 4, 5, 6]
    assert placement.shares.sum() == pytest.approx(1.0)
    assert placement.moved > before
    placement.drain([5, 6])
    while not (placement.empty(5) and placement.empty(6)):
        assert 0 < placement.work(20) <= 20
    assert placement.changing and placement.shares[-2:] == pytest.approx([0.0, 0.0])
    placement.leave(6)
    placement.leave(5)
    assert not placement.changing and placement.shares.sum() == pytest.approx(1.0)


def test_brokers_come_and_go_at_the_pace_that_ships() -> None:
    """Of 4,000 bundles 600 a minute; meanwhile the operator is told that bundles move."""
    week = trace("batch-4k", 1, 1440)
    world = brokers.World(week)
    first = world.there
    world.scale(2 * first, 0)
    minutes = 0
    for minute in range(1, 120):
        before = world.placement.moved
        world.advance(minute)
        assert world.placement.moved - before <= brokers.MOVES == 600
        minutes += world.seen(minute).moving
        if minute > brokers.READY and not world.moving:
            break
    assert 2 <= minutes <= 25
    world.scale(first, minute)
    assert world.there == 2 * first
    while world.there != first:
        minute += 1
        world.advance(minute)
        assert world.moving or world.there == first


def test_a_fault_of_metrics_is_the_same_for_every_scaler() -> None:
    for name in ("noisy", "spiky", "scaled", "silent", "frozen", "glitch", "drift"):
        week = trace(name, 1, 2880)
        one, other = brokers.World(week), brokers.World(week)
        told, changed = [], 0
        for minute in range(2880):
            one.advance(minute)
            other.advance(minute)
            told = [one.seen(minute), other.seen(minute)]
            assert told[0] == told[1]
            right = np.minimum(week.load[minute] * one.placement.shares, 1.0)
            pairs = zip(one.placement.brokers, right, strict=True)
            changed += any(abs(told[0].usage.get(each, 9.0) - share) > 0.15 for each, share in pairs)
        assert changed, name


@pytest.mark.parametrize(
    ("changes", "flaps"),
    [
        ([(0, 1, 10.0, 0), (30, -1, 10.5, 0)], 1),
        ([(0, 1, 10.0, 0), (30, 1, 10.5, 0)], 0),
        ([(0, 1, 10.0, 0), (61, -1, 10.5, 0)], 0),
        ([(0, 1, 10.0, 0), (30, -1, 8.0, 0)], 0),
        ([(0, 1, 10.0, 1), (30, -1, 10.0, 0)], 0),
    ],
)
def test_flaps(changes: list[tuple[int, int, float, int]], flaps: int) -> None:
    counted = Flaps(60)
    for change in changes:
        counted.change(*change)
    assert (counted.changes, counted.flaps) == (len(changes), flaps)


def test_the_bound_holds_and_chance_is_the_same() -> None:
    """Nobody who violates nothing has fewer hours; the same seed is the same week."""
    week = trace("step", 1, 1440)
    assert (week.load == trace("step", 1, 1440).load).all()
    assert (week.load != trace("step", 2, 1440).load).any()
    found = [brokers.run(week, scaler) for scaler in brokers.scalers(week)]
    assert {run.bound for run in found} == {found[0].bound}
    assert all(run.hours >= run.bound for run in found if not run.violated)
    assert brokers.run(week, brokers.scalers(week)[1]) == found[1]


def test_ours_is_the_function_that_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    class CalledError(Exception):
        pass

    def called(*_: object) -> None:
        raise CalledError

    monkeypatch.setattr(shipped, "decide", called)
    week = trace("daily", 1, 1440)
    with pytest.raises(CalledError):
        brokers.run(week, brokers.scalers(week)[0])


def test_better_and_level() -> None:
    def run(violated: int, hours: float) -> list[Run]:
        return [Run("brokers", "daily", 1, "x", violated, hours, 0, 0, 0, 0.0, 1.0)]

    ours = run(10, 100.0)
    assert better_on_both(run(9, 99.0), ours)
    assert not better_on_both(run(10, 99.0), ours)
    assert level_and_better(run(10, 99.0), ours)
    assert not level_and_better(run(10, 100.0), ours)
    assert not level_and_better(run(9, 101.0), ours)


def test_a_day_of_each_ends_in_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--seeds", "1", "--traces", "daily", "--days", "2", "--jobs", "1", "--out", str(tmp_path)])
    with (tmp_path / "autoscaling.csv").open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert [(row["world"], row["scaler"]) for row in rows] == [
        *(("brokers", name) for name in ("operator", "HPA 50%", "HPA 60%", "HPA 70%", "HPA 80%", "0.3/0.8")),
        *(("bookies", name) for name in ("operator", "0.75/0.92")),
    ]
    shown = capsys.readouterr().out
    assert "bound" in shown
    assert "better on both" in shown
    assert len(NAMES) == 22 and set(BOOKIES) | set(BOTH) < set(NAMES)
