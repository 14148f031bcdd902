"""Brokers that do not answer, in the simulator: never both on, few hand-overs, and the others stay even."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.balance import rolling, silence
from benchmarks.simulator.managers import ModularManager
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.shedders import ThresholdShedder
from benchmarks.simulator.silence import BothBalanceError, HandingOver, Silent
from benchmarks.simulator.state import Host
from benchmarks.simulator.traffic import Recording, Topic
from benchmarks.simulator.world import World, even_bundles

NAMES = tuple(f"b{number}:8080" for number in range(5))


def simulated(silent: Silent, minutes: int, *, hands_over: bool = True) -> tuple[World, HandingOver]:
    """Five brokers with all load on the first."""
    topics = [Topic(f"persistent://t/n/x-{number}", 10.0, number) for number in range(64)]
    made = Recording(topics)
    made.record(rolling.Steady(64), minutes)
    capacity = made.total_cost() / 2
    hosts = [Host(name, capacity, capacity) for name in NAMES]
    bundles = even_bundles(["t/n"], 20)
    placement = LeastLongTermMessageRate(Random(1).randrange)
    pulsar = ModularManager("Threshold", ThresholdShedder(), placement) if hands_over else None
    policy = HandingOver("now", placement, silent=silent, pulsar=pulsar)
    owners = {bundle: NAMES[0] if n < 16 else NAMES[n - 15] for n, bundle in enumerate(bundles)}
    world = World(made, hosts, bundles, policy, owners=owners)
    world.run()
    return world, policy


def test_without_one_broker_the_others_are_balanced() -> None:
    world, policy = simulated(lambda _: frozenset(NAMES[4:]), 60)
    assert (policy.handover.count, policy.minutes_without_balancer) == (0, 0)
    assert sum(owner == NAMES[4] for owner in world.state.owners.values()) == 1, "nothing is moved to it, or off it"
    assert world.account.minutes[-1].busiest < 0.6 * world.account.minutes[0].busiest


def test_as_it_was_one_silent_broker_stopped_everything() -> None:
    world, policy = simulated(lambda _: frozenset(NAMES[4:]), 60, hands_over=False)
    assert (world.account.unloads, policy.minutes_without_balancer, policy.with_pulsar) == (0, 60, 0)


def test_where_too_many_are_silent_pulsar_balances_and_then_the_operator_again() -> None:
    world, policy = simulated(lambda minute: frozenset(NAMES[2:]) if minute < 90 else frozenset(), 150)
    assert policy.handover.count == 1 and policy.handover.restored_at is None
    assert policy.minutes_without_balancer <= 20 and 80 <= policy.with_pulsar <= 90
    assert world.account.minutes[-1].ratio < 1.3


def test_a_minute_in_which_both_balance_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: HandingOver, *, operators: bool) -> None:
        self.settings_on, self.held = not operators, True

    monkeypatch.setattr(HandingOver, "_settle", at_once)
    with pytest.raises(BothBalanceError, match="minute 15"):
        simulated(lambda _: frozenset(NAMES[2:]), 60)


def test_the_benchmark_shows_who_was_silent_and_whether_its_bars_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert silence.silence("all answer", 1)(10) == frozenset()
    assert [len(silence.silence("four come and go", 1)(minute)) for minute in range(8)] == [4] * 5 + [0, 0, 4]
    assert len(silence.silence("all silent", 1)(silence.TO - 1)) == 10
    assert silence.silence("all silent", 1)(silence.TO) == frozenset()
    row = silence.Row("diurnal", "one silent", 1, "now", 0, 0, 0, 30, 31, 1.2, 5, 2)
    assert silence.bars([row])
    assert not silence.bars([silence.Row("diurnal", "one silent", 1, "now", 1, 0, 0, 30, 31, 1.2, 5, 2)])
    assert not silence.bars([silence.Row("diurnal", "four silent", 1, "now", 17, 0, 0, 30, 31, 1.2, 5, 2)])
    before = silence.Row("diurnal", "one silent", 1, "before", 0, 0, 480, 0, 0, 1.9, 400, 2)
    assert (
        "| diurnal | one silent | now | 0 (0-0) | 0 (0-0) | 0 (0-0) | 30 (30-30) | 1.20 (1.20-1.20) | 5 (5-5), 2 |"
        in (silence.table([before, row]))
    )
