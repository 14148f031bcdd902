"""From what the load asks for to replicas: blocks, windows, ramps, cool-down, limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.balance.autoscaling.blocks import MESSAGES, blocks
from pulsar_operator.balance.autoscaling.decide import decide
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.values import Need, Policy, Ramp, Workload
from tests.support.balancing.autoscaling import MINUTE, POLICY, TARGET, Brokers, pods, settled

LOADS = st.floats(0.0, 15.0)


def workload(
    replicas: int, *reasons: Reason, lost: int = 0, starting: int = 0, component: Component = Component.BOOKIE
) -> Workload:
    return Workload(replicas, frozenset(pods(replicas - lost - starting)), lost, blocks(component, reasons))


@pytest.mark.parametrize(
    ("need", "replicas", "desired", "reason", "limited_by"),
    [
        (Need(4, "load"), 4, 4, Reason.WITHIN_TARGET, None),
        (Need(6, "load"), 4, 6, Reason.SCALED_OUT, None),
        (Need(20, "load"), 4, 8, Reason.SCALED_OUT, "behavior.scaleUp"),
        (Need(99, "load"), 19, 20, Reason.SCALED_OUT, "maxReplicas"),
        (Need(99, "load"), 20, 20, Reason.AT_LIMIT, "maxReplicas"),
        (Need(1, "load"), 2, 2, Reason.AT_LIMIT, "minReplicas"),
        (Need(3, "load"), 4, 4, Reason.STABILIZING, "behavior.scaleDown.stabilizationWindowSeconds"),
        (Need(None, "no pod is ready"), 4, 4, Reason.NO_DATA, None),
        (Need(None, "no pod is ready"), 1, 2, Reason.SCALED_OUT, "minReplicas"),
        (Need(1, "load"), 1, 2, Reason.SCALED_OUT, "minReplicas"),
        (Need(3, "load"), 25, 20, Reason.SCALED_IN, "maxReplicas"),
        (Need(3, "load", floor=22), 25, 22, Reason.SCALED_IN, "maxReplicas"),
        (Need(3, "load", floor=30), 25, 25, Reason.AT_LIMIT, "maxReplicas"),
        (Need(3, "load", shrink_blocker="one is full"), 25, 25, Reason.AT_LIMIT, "maxReplicas"),
        (Need(4, "load", urgent=5), 4, 5, Reason.SCALED_OUT, None),
        (Need(4, "load", urgent=30), 4, 20, Reason.SCALED_OUT, "maxReplicas"),
        (Need(20, "load", urgent=21), 20, 20, Reason.AT_LIMIT, "maxReplicas"),
    ],
)
def test_first_observation(need: Need, replicas: int, desired: int, reason: Reason, limited_by: str | None) -> None:
    verdict, _ = decide(need, workload(replicas), POLICY, State(), 0.0)
    assert (verdict.desired, verdict.reason, verdict.limited_by) == (desired, reason, limited_by)
    assert verdict.message.endswith(".")


BROKER, PROXY, BOOKIE = Component.BROKER, Component.PROXY, Component.BOOKIE
UP, DOWN = "more", "fewer"
HELD = {
    (BROKER, UP): {Reason.PAUSED, Reason.CONFIGURATION_STORE_UNAVAILABLE},
    (BROKER, DOWN): {
        Reason.PAUSED,
        Reason.CONFIGURATION_STORE_UNAVAILABLE,
        Reason.ROLLOUT_IN_PROGRESS,
        Reason.REBALANCING,
    },
    (PROXY, UP): {Reason.PAUSED, Reason.CONFIGURATION_STORE_UNAVAILABLE},
    (PROXY, DOWN): {Reason.PAUSED, Reason.CONFIGURATION_STORE_UNAVAILABLE, Reason.ROLLOUT_IN_PROGRESS},
    (BOOKIE, UP): {Reason.PAUSED, Reason.DECOMMISSIONING_BOOKIE, Reason.REPLACING_VOLUME},
    (BOOKIE, DOWN): set(MESSAGES) - {Reason.REBALANCING},
}
"""What holds whom in which direction. Hardly anything holds growth: it is how a cluster gets out of overload."""


@pytest.mark.parametrize("reason", MESSAGES)
@pytest.mark.parametrize("direction", [UP, DOWN])
@pytest.mark.parametrize("component", [BROKER, PROXY, BOOKIE])
def test_what_each_reason_holds(component: Component, direction: str, reason: Reason) -> None:
    """Of each component, in each direction, once every window is over."""
    wanted = 6 if direction == UP else 3
    there = workload(4, reason, component=component)
    state = settled(wanted)
    seen = []
    for minute in range(60, 66):
        verdict, state = decide(Need(wanted, "load"), there, POLICY, state, minute * MINUTE)
        seen.append((verdict.desired, verdict.reason))
    if reason in HELD[component, direction]:
        assert set(seen) == {(4, reason)}
    else:
        assert seen[-1][0] == wanted
        assert seen[0] == ((wanted, Reason.SCALED_OUT) if direction == UP else (wanted, Reason.SCALED_IN))


@pytest.mark.parametrize("component", [BROKER, PROXY, BOOKIE])
@pytest.mark.parametrize("reason", MESSAGES)
def test_at_rest_and_without_data_what_holds_is_reported(component: Component, reason: Reason) -> None:
    holds = reason in HELD[component, DOWN]
    for need, otherwise in ((Need(4, "load"), Reason.WITHIN_TARGET), (Need(None, "nothing"), Reason.NO_DATA)):
        verdict, _ = decide(need, workload(4, reason, component=component), POLICY, settled(4), 3600.0)
        assert (verdict.desired, verdict.reason) == (4, reason if holds else otherwise)


@pytest.mark.parametrize(("reason", "minutes"), [(Reason.ROLLOUT_IN_PROGRESS, 5), (Reason.REBALANCING, 2)])
def test_a_need_for_more_has_to_last_while_load_moves(reason: Reason, minutes: int) -> None:
    """A topic that moved is counted by both brokers for a minute."""
    state, there, seen = settled(4), workload(4, reason, component=BROKER), []
    for minute in range(60, 60 + minutes + 2):
        verdict, state = decide(Need(6 if minute > 60 else 4, "load"), there, POLICY, state, minute * MINUTE)
        seen.append(verdict.desired)
    assert seen.index(6) == minutes + 1
    state, wavers = settled(4), []
    for minute in range(60, 120):
        need = Need(4 if minute % 2 else 6, "load")
        verdict, state = decide(need, there, POLICY, state, minute * MINUTE)
        wavers.append(verdict.desired)
    assert set(wavers) == {4}
    used = decide(Need(6, "load", used=True), there, POLICY, settled(4), 3600.0)[0].desired
    assert (used == 6) == (reason is Reason.REBALANCING), (
        "no two brokers use CPU for the same; one that starts uses more"
    )


def test_what_restarting_pods_say_is_no_need_for_fewer() -> None:
    """After a roll a whole window is waited for; a need that was seen while bundles moved counts."""
    for reason, held in ((Reason.ROLLOUT_IN_PROGRESS, True), (Reason.REBALANCING, False)):
        state = settled(4)
        for minute in range(60, 90):
            _, state = decide(Need(3, "load"), workload(4, reason, component=BROKER), POLICY, state, minute * MINUTE)
        verdict, _ = decide(Need(3, "load"), workload(4, component=BROKER), POLICY, state, 90 * MINUTE)
        assert (verdict.desired == 4) == held


def test_the_gravest_block_is_reported() -> None:
    verdict, _ = decide(Need(9, "load"), workload(4, Reason.ROLLOUT_IN_PROGRESS, Reason.PAUSED), POLICY, State(), 0.0)
    assert verdict.reason is Reason.PAUSED
    with pytest.raises(ValueError, match="Balanced does not prevent"):
        blocks(BROKER, [Reason.BALANCED])


def test_an_urgent_bookie_passes_all_but_a_pause() -> None:
    urgent = Need(4, "full", urgent=5)
    for reason in MESSAGES:
        verdict, _ = decide(urgent, workload(4, reason), POLICY, State(), 0.0)
        assert verdict.desired == (4 if reason is Reason.PAUSED else 5)


def test_a_minimum_that_is_raised_keeps_the_bookie_that_leaves() -> None:
    policy = replace(POLICY, least=5)
    kept = decide(Need(2, "load"), workload(4, Reason.DECOMMISSIONING_BOOKIE), policy, settled(4), 3600.0)[0]
    assert (kept.desired, kept.reason, kept.limited_by) == (5, Reason.SCALED_OUT, "minReplicas")
    assert decide(Need(None, "x"), workload(4, Reason.DECOMMISSIONING_BOOKIE), policy, State(), 0.0)[0].desired == 5
    for reason in HELD[BOOKIE, UP] - {Reason.DECOMMISSIONING_BOOKIE}:
        blocked = decide(
            Need(2, "load"), workload(4, Reason.DECOMMISSIONING_BOOKIE, reason), policy, settled(4), 3600.0
        )[0]
        assert (blocked.desired, blocked.reason) == (4, reason)


@pytest.mark.parametrize(("wanted", "desired", "reason"), [(2, 4, Reason.STABILIZING), (6, 6, Reason.SCALED_OUT)])
def test_none_leaves_while_pods_carry_more_than_they_say(wanted: int, desired: int, reason: Reason) -> None:
    """Pods that have just started say 0: that is no reason for fewer, whatever the windows, but none against more."""
    swift = replace(POLICY, down=Ramp(0.0, 9, 100, 0.0))
    young = replace(workload(4), unsure=1)
    verdict, state = decide(Need(wanted, "load"), young, swift, settled(wanted), 3600.0)
    assert (verdict.desired, verdict.reason) == (desired, reason)
    if wanted < 4:
        assert decide(Need(wanted, "load"), workload(4), swift, state, 3660.0)[0].desired < 4


def test_an_urgent_one_waits_for_no_window_and_no_cool_down() -> None:
    slow = replace(POLICY, up=Ramp(3600.0, 1, 1, 86400.0))
    verdict, state = decide(Need(4, "full", urgent=5), workload(4), slow, State(), 0.0)
    assert verdict.desired == 5
    assert decide(Need(5, "full", urgent=6), workload(5), slow, state, MINUTE)[0].desired == 6


def test_fewer_only_after_the_window_and_by_the_ramp() -> None:
    state, replicas, at = settled(10), 10, []
    for minute in range(60, 120):
        verdict, state = decide(Need(4, "load"), workload(replicas), POLICY, state, minute * MINUTE)
        if verdict.desired != replicas:
            at.append((minute - 60, verdict.desired))
        replicas = verdict.desired
    # 15 minutes after the last 10, one at a time, five minutes between two.
    assert at == [(15, 9), (20, 8), (25, 7), (30, 6), (35, 5), (40, 4)]


def test_fourteen_brokers_do_not_become_two_in_a_quarter_of_an_hour() -> None:
    """As an HPA did to a user (pulsar-helm-chart#391)."""
    found = Brokers(replicas=14).week([1.0] * 90)
    assert found[14] == 14
    assert found.index(2) == 60


def test_a_window_that_is_made_longer_is_waited_for() -> None:
    """Whoever sees brokers leave and asks for a day is not told that a day was seen: of it four hours are
    known."""
    patient = replace(POLICY, down=replace(POLICY.down, window=86400.0))
    state, now, hurried = settled(8, minutes=26 * 60), 26 * 60 * MINUTE, 0
    for _ in range(17):
        verdict, state = decide(Need(4, "load"), workload(8 - hurried), POLICY, state, now)
        hurried, now = 8 - verdict.desired, now + MINUTE
    assert hurried == 1
    for _ in range(19 * 60):
        verdict, state = decide(Need(4, "load"), workload(7), patient, state, now)
        assert (verdict.desired, verdict.reason) == (7, Reason.STABILIZING)
        now += MINUTE


def test_one_high_observation_begins_the_window_again() -> None:
    state = settled(6)
    for minute in range(60, 90):
        wanted = 6 if minute == 74 else 5
        verdict, state = decide(Need(wanted, "load"), workload(6), POLICY, state, minute * MINUTE)
        assert verdict.desired == (6 if minute < 90 else 5)


def test_upwards_the_least_of_the_window_counts() -> None:
    patient = replace(POLICY, up=Ramp(180.0, 4, 100, 60.0))
    state, found = settled(4, policy=patient), []
    for minute, wanted in enumerate((9, 7, 8, 9, 9), 60):
        verdict, state = decide(Need(wanted, "load"), workload(4), patient, state, minute * MINUTE)
        found.append((verdict.desired, verdict.reason))
    assert found[:3] == [(4, Reason.STABILIZING)] * 3
    assert found[3] == (7, Reason.SCALED_OUT)


def test_cool_down_upwards_and_none_after_a_change_downwards() -> None:
    slow = replace(POLICY, up=Ramp(0.0, 1, 1, 600.0))
    first, state = decide(Need(8, "load"), workload(4), slow, settled(4), 3600.0)
    second, state = decide(Need(8, "load"), workload(5), slow, state, 3660.0)
    assert (first.desired, second.desired) == (5, 5)
    assert second.limited_by == "behavior.scaleUp.cooldownSeconds"
    third, _ = decide(Need(8, "load"), workload(5), slow, state, 4200.0)
    assert third.desired == 6
    down = replace(settled(4), scaled=3600.0, upwards=False)
    assert decide(Need(8, "load"), workload(4), slow, down, 3660.0)[0].desired == 5


@pytest.mark.parametrize(
    ("need", "starting"),
    [(Need(3, "load", shrink_blocker="writes are slow"), 0), (Need(3, "load"), 1)],
    ids=["blocked", "starting"],
)
def test_none_leaves_while_something_is_against_it(need: Need, starting: int) -> None:
    verdict, _ = decide(need, workload(6, starting=starting), POLICY, settled(3), 3600.0)
    assert (verdict.desired, verdict.reason) == (6, Reason.STABILIZING)
    assert "No pod is removed" in verdict.message


@pytest.mark.parametrize(
    ("need", "desired", "known"),
    [
        (Need(8, "load", known=6), 8, 6),
        (Need(99, "load", known=6), 8, 6),  # as the ramp allows
        (Need(99, "load", known=9), 8, None),  # which is less than what was measured
        (Need(6, "load"), 6, None),
        (Need(4, "load", known=3), 4, 2),  # no change: what the last one was made from
        (Need(4, "load", plain=4), 4, 2),  # the load came
        (Need(3, "load"), 3, 2),  # one more than is known to be needed
        (Need(2, "load"), 3, 2),
    ],
)
def test_a_change_remembers_what_it_was_a_guess_above(need: Need, desired: int, known: int | None) -> None:
    before = replace(settled(need.replicas or 0), scaled=0.0, upwards=True, known=2, guessed=0.0)
    verdict, state = decide(need, workload(4), POLICY, before, 3601.0)
    assert (verdict.desired, state.known) == (desired, known)
    assert state.came == (need.plain == 4)


@pytest.mark.parametrize(
    ("known", "wanted", "after", "desired"),
    [
        (6, 6, 1800.0, 8),  # what was measured then is asked for still
        (6, 7, 1800.0, 8),
        (6, 5, 1800.0, 7),  # the load fell below it
        (6, 6, 3600.0, 8),
        (6, 6, 3601.0, 7),
        (None, 6, 1800.0, 7),  # no guess
        (6, 9, 1800.0, 9),  # more are added at any time
        (2, 2, 1800.0, 8),
        (2, 1, 1800.0, 7),  # also below the minimum of two
    ],
)
def test_a_guess_is_taken_back_when_the_load_falls_or_an_hour_later(
    known: int | None, wanted: int, after: float, desired: int
) -> None:
    then = 3600.0 - after
    guessed = replace(settled(wanted), scaled=then, upwards=True, known=known, guessed=None if known is None else then)
    verdict, _ = decide(Need(wanted, "load"), workload(8), POLICY, guessed, 3600.0)
    assert verdict.desired == desired
    if desired == 8:
        assert (verdict.reason, verdict.limited_by) == (Reason.STABILIZING, None)
        assert f"fewer than {known} pods are needed, or 3600 s after" in verdict.message


def test_what_was_added_for_load_that_did_not_come_leaves() -> None:
    """Also where what is kept free below the target would keep it: 2.8 brokers' worth of load are well on three, and
    ask nobody to leave four."""
    rises = Profile(3600.0, (1e9,) * 8 + (2.2e9,) + (1e9,) * 15)
    world = Brokers(replicas=3, profile=rises, now=7 * 3600.0)
    found = world.week([2.8 * TARGET] * 240)
    assert max(found) == 4, "it was foreseen"
    assert found.index(4) < 30
    assert found[found.index(4) + 60 :].index(3) <= 90, "an hour, and a window after what the record said"
    assert found[-1] == 3
    came = Brokers(replicas=3, profile=rises, now=7 * 3600.0)
    assert came.week([2.8 * TARGET] * 30 + [3.4 * TARGET] * 210)[-1] == 4, "it came"


@pytest.mark.parametrize(("starting", "stuck", "desired"), [(1, 1, 4), (2, 2, 4), (2, 1, 5), (1, 0, 5)])
def test_none_waits_for_a_pod_that_does_not_start(starting: int, stuck: int, desired: int) -> None:
    there = replace(workload(5, starting=starting), stuck=stuck)
    assert decide(Need(4, "load"), there, POLICY, settled(4), 3600.0)[0].desired == desired


def test_a_maximum_that_is_lowered_waits_for_no_guess() -> None:
    guessed = replace(settled(7), scaled=3000.0, upwards=True, known=6, guessed=3000.0)
    assert decide(Need(7, "load"), workload(8), replace(POLICY, most=7), guessed, 3600.0)[0].desired == 7


def test_after_a_gap_the_window_begins_again() -> None:
    """What the load was while nothing was measured is not known."""
    state = settled(3)
    verdict, state = decide(Need(3, "load"), workload(6), POLICY, state, 7200.0)
    assert verdict.reason is Reason.STABILIZING
    assert state.since == 7200.0


BARE = replace(POLICY, down=Ramp(0.0, 20, 100, 0.0), up=Ramp(0.0, 20, 100, 0.0))
"""The tolerance alone: no window, no cool-down, no ramp."""


@settings(max_examples=40, deadline=None)
@given(
    load=st.floats(0.5, 13.0),
    wobble=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=15),
    start=st.integers(2, 20),
    policy=st.sampled_from([POLICY, BARE]),
)
@example(load=3.5, wobble=[0.0, 1.0], start=5, policy=BARE)
@example(load=3.51, wobble=[0.0, 1.0], start=2, policy=BARE)
def test_a_load_within_the_tolerance_never_flaps(load: float, wobble: list[float], start: int, policy: Policy) -> None:
    """Whatever it does between itself and a tenth more: no change after one in the other direction, and none at all
    once every window has seen all of it."""
    world = Brokers(replicas=start, policy=policy)
    loads = [load * (1 + 0.0999 * wobble[minute % len(wobble)]) for minute in range(180)]
    found = world.week(loads)
    changes = [right - left for left, right in pairwise([start, *found]) if right != left]
    assert all(change > 0 for change in changes) or all(change < 0 for change in changes)
    assert len(set(found[130:])) == 1


@settings(max_examples=60, deadline=None)
@given(loads=st.lists(LOADS, min_size=30, max_size=120), start=st.integers(1, 24))
def test_limits_and_ramps_hold_whatever_comes(loads: list[float], start: int) -> None:
    world, times = Brokers(replicas=start), []
    before = start
    for minute, load in enumerate(loads):
        after = world.look(load).desired
        assert POLICY.least <= after <= POLICY.most
        if POLICY.least <= before <= POLICY.most:
            assert after - before <= POLICY.up.most(before)
            assert before - after <= POLICY.down.most(before)
        if after < before <= POLICY.most:
            assert all(minute * MINUTE - when >= POLICY.down.cooldown for when in times[-1:])
            needed = max(loads[max(minute - 15, 0) : minute + 1]) / TARGET
            assert after >= min(needed, before), "no more goes than the busiest minute of the window allows"
        if after != before:
            times.append(minute * MINUTE)
        before = after


@settings(max_examples=40, deadline=None)
@given(
    loads=st.lists(LOADS, min_size=20, max_size=60),
    ages=st.lists(st.sampled_from([0.0, 30.0, 120.0, 120.1, 600.0, -1.0, float("nan")]), min_size=60, max_size=60),
)
def test_stale_inputs_never_decide(loads: list[float], ages: list[float]) -> None:
    world = Brokers(replicas=5)
    for load, age in zip(loads, ages, strict=False):
        before, state = world.replicas, world.state
        verdict = world.look(load, age=age)
        if not 0 <= age <= 2 * POLICY.interval:
            assert (verdict.desired, verdict.reason) == (before, Reason.NO_DATA)
            assert world.state == state
        else:
            assert verdict.reason is not Reason.NO_DATA


@settings(max_examples=40, deadline=None)
@given(loads=st.lists(LOADS, min_size=20, max_size=150), start=st.integers(2, 20))
def test_a_restarted_operator_decides_the_same(loads: list[float], start: int) -> None:
    """One that starts anew at every look, with what stands in status."""
    assert Brokers(replicas=start, restarts=True).week(loads) == Brokers(replicas=start).week(loads)


RISES = Profile(3600.0, (1e9,) * 2 + (3e9,) + (1e9,) * 21)
"""A peak that was recorded, and does not come."""


@settings(max_examples=80, deadline=None)
@given(
    load=st.floats(0.5, 18.0),
    wobble=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=15),
    start=st.integers(2, 20),
    policy=st.sampled_from([POLICY, BARE]),
    profile=st.sampled_from([None, RISES]),
    restarts=st.booleans(),
)
@example(load=4.6, wobble=[0.0], start=4, policy=POLICY, profile=None, restarts=True)
@example(load=4.6, wobble=[1.0, 0.0], start=4, policy=BARE, profile=None, restarts=False)
@example(load=2.7, wobble=[0.0], start=4, policy=BARE, profile=RISES, restarts=False)
def test_a_load_that_nobody_could_see_is_guessed_once_an_hour(
    load: float, wobble: list[float], start: int, policy: Policy, profile: Profile | None, restarts: bool
) -> None:
    """Brokers that use all of their CPU, and a record of a peak, ask for more than a load that keeps its height needs:
    that is not taken back within the hour, and not asked for again where no record says so."""
    world = Brokers(replicas=start, policy=policy, profile=profile, restarts=restarts, limited=True)
    found = world.week([load * (1 + 0.0999 * wobble[minute % len(wobble)]) for minute in range(240)])
    changes = [(at, right - left) for at, (left, right) in enumerate(pairwise([start, *found])) if right != left]
    for (then, before), (at, after) in pairwise(changes):
        if before > 0 > after:
            assert at - then > 60
        if before < 0 < after:
            assert profile is not None
