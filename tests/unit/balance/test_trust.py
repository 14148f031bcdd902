"""Which figures of the brokers are believed, and from when on a broker uses too much: balance/execution/trust.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from pulsar_operator.balance.execution.driver import OVERLOADED
from pulsar_operator.balance.execution.trust import HOUR, Judged, Records, distrusted, judge, noted, until
from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.model.observation import Usage
from tests.support.balancing.planning import cluster

A, B, C, D = "a:8080", "b:8080", "c:8080", "d:8080"
EVEN = {A: 10.0, B: 10.0, C: 10.0, D: 10.0}
MINUTE = 60.0
NEXT = Random(4)
Figures = Callable[[int, str], float | None]


def model(loads: Mapping[str, float], bundles: int = 1) -> ClusterModel:
    return cluster({broker: [load / bundles] * bundles for broker, load in loads.items()})


@dataclass
class Watched:
    """Looks at brokers whose CPU breathes a little, as any does."""

    figures: Figures
    loads: Callable[[int], Mapping[str, float]] = lambda minute: {each: 10.0 + 0.2 * (minute % 7) for each in EVEN}
    bundles: Callable[[int], int] = lambda minute: 1
    current: bool = True
    records: Records = field(default_factory=Records)
    chance: Random = field(default_factory=lambda: Random(1))

    def look(self, minute: int) -> Judged:
        usages = {}
        for broker in EVEN:
            figure = self.figures(minute, broker)
            if figure is not None:
                usages[broker] = Usage(figure, "CPU", figure)
        now, observed = minute * MINUTE, model(self.loads(minute), self.bundles(minute))
        self.records = noted(self.records, now, usages)
        judged, self.records = judge(self.records, now, MINUTE, observed, usages, OVERLOADED, current=self.current)
        return judged

    def run(self, minutes: int) -> list[Judged]:
        return [self.look(minute) for minute in range(minutes)]

    def breathing(self, share: float) -> float:
        return share * (1 + self.chance.gauss(0, 0.005))


def honest(share: float = 0.5) -> Figures:
    chance = Random(2)
    return lambda minute, broker: share * (1 + chance.gauss(0, 0.005))


def breath() -> float:
    """Next to nothing, another each time."""
    return NEXT.gauss(0, 0.001)


def but(broker: str, figure: Figures, share: float = 0.5) -> Figures:
    """All brokers but one report what their traffic takes."""
    plain = honest(share)
    return lambda minute, each: figure(minute, each) if each == broker else plain(minute, each)


@pytest.mark.parametrize("every", [50, 20, 7])
def test_single_minutes_in_which_a_processor_is_busy_overload_nobody(every: int) -> None:
    """2, 5 and 15 % of the minutes, as garbage collections are."""
    plain = honest(0.55)
    found = Watched(but(A, lambda minute, each: plain(minute, each) + 0.35 * (minute % every == 3))).run(600)
    assert not any(judged.over for judged in found)


def test_noise_overloads_nobody() -> None:
    chance = Random(3)
    found = Watched(lambda minute, broker: 0.6 * max(0.0, 1 + chance.gauss(0, 0.2))).run(600)
    assert not any(judged.over for judged in found)


def test_load_that_traffic_explains_counts_at_once() -> None:
    """A flash crowd: the broker's CPU and its traffic double in one minute."""
    rises = Watched(
        but(A, lambda minute, each: 0.9 if minute >= 10 else 0.45, 0.45),
        lambda minute: {**EVEN, A: 20.0 if minute >= 10 else 10.0},
    )
    found = rises.run(11)
    assert [bool(judged.over) for judged in found] == [False] * 10 + [True]
    assert found[-1].over == {A: 10 * MINUTE}


def test_load_that_no_traffic_explains_counts_when_it_lasts() -> None:
    """A neighbour that stays: minutes, not one look, and not hours."""
    found = Watched(but(A, lambda minute, each: (0.95 if minute >= 10 else 0.5) + breath())).run(40)
    first = next(minute for minute, judged in enumerate(found) if A in judged.over)
    assert 13 <= first <= 25
    assert all(set(judged.over) <= {A} for judged in found), "nobody else is overloaded by it"
    assert found[-1].over == {A: first * MINUTE}


def test_a_network_that_is_full_counts_by_itself() -> None:
    usages = {each: Usage(0.9 if each == A else 0.3, "network out") for each in EVEN}
    records = noted(Records(), 0.0, usages)
    judged, _ = judge(records, 0.0, MINUTE, model(EVEN), usages, OVERLOADED)
    assert judged.over == {A: 0.0}
    assert judged.used[A] == Usage(0.9, "network out")


@pytest.mark.parametrize(
    ("figure", "why"),
    [
        (lambda minute, each: 0.5, "has reported the same CPU use of 50.0% for"),
        (lambda minute, each: 50.0 + minute / 100, "reports that it uses 5060% of its CPU"),
        (
            lambda minute, each: 0.005 + minute / 1e6,
            "reports that it uses 0.5% of its CPU although its traffic requires about 5",
        ),
        (lambda minute, each: None, "reports no CPU use"),
    ],
)
def test_a_figure_that_cannot_be_true_decides_nothing_and_is_named(figure: Figures, why: str) -> None:
    watched = Watched(but(A, figure))
    found = watched.run(61)
    doubts = distrusted(watched.records, 60 * MINUTE)
    assert set(doubts) == {A} and doubts[A].startswith(why)
    late = found[10:]
    assert all(A not in judged.used and A not in judged.errors and not judged.over for judged in late)
    assert all(set(judged.used) == {B, C, D} for judged in late)


def test_a_figure_is_named_once_it_was_distrusted_for_minutes_and_believed_when_it_is_true_again() -> None:
    watched = Watched(but(A, lambda minute, each: 50.0 if 10 <= minute < 20 else 0.5 + breath()))
    named, believed = [], []
    for minute in range(30):
        judged = watched.look(minute)
        named.append(A in distrusted(watched.records, minute * MINUTE))
        believed.append(A in judged.used)
    assert [minute for minute in range(30) if named[minute]] == list(range(15, 20))
    assert [minute for minute in range(30) if not believed[minute]] == list(range(10, 20))


def test_all_figures_that_stand_still_are_distrusted() -> None:
    watched = Watched(lambda minute, broker: {A: 0.9, B: 0.3, C: 0.4, D: 0.5}[broker])
    found = watched.run(30)
    assert not any(judged.used or judged.over for judged in found[5:])
    assert set(distrusted(watched.records, 29 * MINUTE)) == set(EVEN)


def test_an_idle_broker_may_stand_still() -> None:
    watched = Watched(but(A, lambda minute, each: 0.66), lambda minute: {**EVEN, A: 0.0})
    assert all(A in judged.used for judged in watched.run(30))


@pytest.mark.parametrize("change", [0.02 / 60, -0.015 / 60])
def test_a_figure_that_drifts_is_distrusted_within_hours_and_until_it_stands(change: float) -> None:
    plain = honest()
    watched = Watched(but(A, lambda minute, each: plain(minute, each) + change * min(minute, 600)))
    found = watched.run(1100)
    first = next(minute for minute, judged in enumerate(found) if judged.drifting)
    assert first <= 250
    assert all(judged.drifting == {A} and A not in judged.used for judged in found[first:600])
    assert "its traffic did not" in distrusted(watched.records, 600 * MINUTE).get(A, "its traffic did not")
    assert not any(judged.drifting for judged in found[900:])


@pytest.mark.parametrize(
    ("figures", "loads"),
    [
        # A neighbour that is there all the time.
        (but(A, lambda minute, each: 0.9 + breath()), lambda minute: EVEN),
        # Traffic that costs twice as much as the others', and swells.
        (
            lambda minute, each: (0.4 if each == A else 0.2) * (1 + minute / 600) + breath(),
            lambda minute: {each: 10.0 * (1 + minute / 600) for each in EVEN},
        ),
        # All brokers: a unit of traffic costs more and more.
        (lambda minute, each: 0.3 + minute / 2400 + breath(), lambda minute: EVEN),
    ],
)
def test_what_is_no_drift(figures: Figures, loads: Callable[[int], Mapping[str, float]]) -> None:
    watched = Watched(figures, loads)
    assert not any(judged.drifting for judged in watched.run(600))
    assert not watched.records.doubts


def test_other_bundles_are_no_drift() -> None:
    """What a broker uses beyond its traffic changes with what it carries."""
    plain = honest()
    watched = Watched(
        but(A, lambda minute, each: plain(minute, each) + 0.02 * (minute // 60)),
        bundles=lambda minute: 1 + minute // 60,
    )
    assert not any(judged.drifting for judged in watched.run(600))


def test_recorded_traffic_is_not_held_against_the_figures_of_now() -> None:
    watched = Watched(but(A, lambda minute, each: 0.005 + minute / 1e6), current=False)
    watched.run(30)
    assert not watched.records.doubts


def test_brokers_that_are_gone_are_forgotten() -> None:
    watched = Watched(honest())
    watched.run(70)
    usages = {B: Usage(0.5, "CPU", 0.5)}
    judged, records = judge(
        noted(watched.records, 71 * MINUTE, usages), 71 * MINUTE, MINUTE, model({B: 1.0}), usages, OVERLOADED
    )
    assert {broker for broker, _ in records.figures} == {B} and set(judged.used) == {B}
    assert set(records.trends) | set(records.doubts) <= {B}


def test_a_clock_that_was_set_back_is_not_waited_for() -> None:
    watched = Watched(but(A, lambda minute, each: None if each == A and minute > 60 else 0.95))
    watched.run(90)
    back = until(watched.records, 0.0)
    assert all(each.since <= 0 and (each.over or 0) <= 0 for each in back.figures.values())
    assert all(each.began <= 0 for each in back.trends.values()) and all(d.since <= 0 for d in back.doubts.values())
    assert HOUR == 3600
