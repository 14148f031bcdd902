"""How many bookies: disks, growth, latency, those that take writes; and that none leaves that is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.autoscaling import BookieAutoscaling
from pulsar_operator.api.v1alpha1.scaling_status import ScalingHistoryStatus
from pulsar_operator.balance.autoscaling import bookies
from pulsar_operator.balance.autoscaling.blocks import blocks
from pulsar_operator.balance.autoscaling.bookies import BookieFacts, BookieTargets, Disk, Refused
from pulsar_operator.balance.autoscaling.history import State, to_status
from pulsar_operator.balance.autoscaling.policy import policy_of
from pulsar_operator.balance.autoscaling.trend import Trend, sampled, trend
from pulsar_operator.balance.autoscaling.values import Need, Workload

SPEC = BookieAutoscaling(min_replicas=3, max_replicas=12)
POLICY = policy_of(SPEC, 300.0)
TARGETS = BookieTargets(writable=3)
GB = 1e9
DAY = 86400.0


def facts(
    *shares: float, slope: float | None = 0.0, lost: int = 0, starting: int = 0, age: float = 60.0
) -> BookieFacts:
    """Bookies with disks of 100 GB, this full; below 0 = read-only."""
    disks = {f"bookie-{n}": Disk(abs(share) * 100 * GB, 100 * GB, share >= 0) for n, share in enumerate(shares)}
    workload = Workload(len(shares) + lost + starting, frozenset(disks), lost)
    return BookieFacts(workload, disks, age, grown(slope), TARGETS)


def grown(slope: float | None, hours: float = 48.0) -> Trend | None:
    """Growth that was sampled for so long, and goes on."""
    return None if slope is None else Trend(slope, hours * 3600, slope, min(hours, 5.0) * 3600)


def need(*shares: float, slope: float | None = 0.0, starting: int = 0) -> Need:
    return bookies.need(facts(*shares, slope=slope, starting=starting), POLICY)


@pytest.mark.parametrize(
    ("first", "shares", "floor"),
    [
        (100, [0.3] * 4, 2),  # 60 % of each
        (1000, [0.05, 0.7, 0.7, 0.7], 4),  # 20 % of all; the 70 GB of one would fill the two small ones
        (1000, [0.05, 0.35, 0.35, 0.6], 3),
        (1000, [0.05, 0.35, 0.35, -0.6], 3),
        (1000, [0.05, -0.3, -0.7, 0.3], 1),  # nothing is copied to what is read-only
        (1000, [-0.05, -0.3, 0.6, 0.6], 4),
    ],
)
def test_what_leaves_fits_on_each_disk(first: int, shares: list[float], floor: int) -> None:
    there = facts(*shares)
    large = Disk(abs(shares[0]) * first * GB, first * GB, shares[0] >= 0)
    found = bookies.need(replace(there, disks={**there.disks, "bookie-0": large}), POLICY)
    assert found.floor == floor


@pytest.mark.parametrize(
    ("shares", "slope", "wanted"),
    [
        ([0.7] * 4, 0.0, 4),
        ([0.81] * 4, 0.0, 4),  # within the tolerance of 75 %
        ([0.84] * 4, 0.0, 5),
        ([0.5] * 4, 25 * GB / DAY, 4),  # full in 6.4 days
        ([0.7] * 4, 50 * GB / DAY, 5),  # full in 1.6 days
        ([0.7] * 4, 100 * GB / DAY, 5),  # one, and a look at what follows
        ([0.55] * 4, 100 * GB / DAY, 4),  # there is room, and so time to look again
        ([0.7] * 4, -50 * GB / DAY, 4),
        ([0.5] * 4, 0.0, 4),  # three would be 67 % full
        ([0.4] * 4, 0.0, 3),  # 53 %
        ([0.4] * 4, 50 * GB / DAY, 4),  # but not for three days
        ([0.4] * 4, None, 3),  # held, see below
    ],
)
def test_disks_and_days(shares: list[float], slope: float | None, wanted: int) -> None:
    assert need(*shares, slope=slope).replicas == wanted


def test_hours_of_an_import_are_not_three_days() -> None:
    """Eight hours in which a disk's worth is written an hour, onto eight that are 13 % full: they end at a quarter. The
    slope of four hours, made three days, would ask for thirty."""
    samples, used, state, asked = (), 8 * 13 * GB, State(), 0
    for minute in range(0, 24 * 60, 5):
        used += (12 * GB / 12) if 8 * 60 <= minute < 16 * 60 else 0.0
        samples = sampled(samples, minute * 60.0, used)
        there = replace(facts(*[used / (800 * GB)] * 8), trend=trend(samples))
        verdict, state = bookies.decide(there, replace(POLICY, most=40, least=8), state, minute * 60.0)
        asked = max(asked, verdict.desired)
    assert used / (800 * GB) < 0.26
    assert asked == 8


@pytest.mark.parametrize(("hours", "ahead"), [(4.0, 6.0), (24.0, 36.0), (48.0, 72.0), (100.0, 72.0)])
def test_growth_reaches_no_further_than_it_was_sampled(hours: float, ahead: float) -> None:
    found = Trend(GB / 3600, hours * 3600, GB / 3600, 4 * 3600.0)
    assert found.ahead(3 * DAY) == pytest.approx(ahead * GB)
    assert Trend(GB / 3600, hours * 3600, 0.0, 4 * 3600.0).ahead(3 * DAY) == 0.0, "it is over"
    assert Trend(0.0, hours * 3600, GB / 3600, 4 * 3600.0).ahead(3 * DAY) == pytest.approx(6 * GB), "it begins"


@pytest.mark.parametrize(
    ("shares", "starting", "urgent"),
    [
        ([0.91] * 4, 0, 7),  # all are full: a whole ensemble
        ([0.91, 0.7, 0.7, 0.7], 0, 5),
        ([0.91, 0.7, 0.7, 0.3], 0, None),  # one has room: it was added for this
        ([0.91, 0.7, 0.7], 1, None),  # or starts
        ([0.91, 0.3, 0.3], 0, 4),  # but two of three are no ensemble
        ([-0.96, 0.7, 0.7, 0.7], 0, 5),  # read-only since it is full
        ([-0.5, -0.5, 0.5, 0.5], 0, 5),  # read-only for another reason
        ([-0.5, -0.5, -0.5, 0.5], 0, 6),
        ([0.89] * 4, 0, None),
    ],
)
def test_urgent(shares: list[float], starting: int, urgent: int | None) -> None:
    assert need(*shares, starting=starting).urgent == urgent


def test_a_full_disk_asks_at_once_and_only_once() -> None:
    """No window, no cool-down; and no second one while the first starts, nor while it has room."""
    verdict, state = bookies.decide(facts(0.92, 0.72, 0.72, 0.72), POLICY, State(scaled=0.0, upwards=True), 60.0)
    assert (verdict.desired, verdict.reason) == (5, Reason.SCALED_OUT)
    assert "90% full" in verdict.message
    for look, there in enumerate((facts(0.92, 0.72, 0.72, 0.72, starting=1), facts(0.93, 0.72, 0.72, 0.72, 0.05)), 1):
        verdict, state = bookies.decide(there, POLICY, state, 60.0 + 300.0 * look)
        assert verdict.desired == 5


@pytest.mark.parametrize(
    ("reason", "number"),
    [
        (Reason.UNDER_REPLICATED, 5),
        (Reason.ROLLOUT_IN_PROGRESS, 5),
        (Reason.DECOMMISSIONING_BOOKIE, 5),
        (Reason.REPLACING_VOLUME, 5),
        (Reason.CONFIGURATION_STORE_UNAVAILABLE, 5),
        (Reason.PAUSED, 4),
    ],
)
def test_a_full_disk_asks_also_while_something_goes_on_that_ends_where_there_is_room(
    reason: Reason, number: int
) -> None:
    """What is not urgent waits for its window, and for a bookie that leaves."""
    full, nearly = facts(0.92, 0.72, 0.72, 0.72), facts(*[0.84] * 4)
    for there, wanted in ((full, number), (nearly, 4)):
        held = replace(there, workload=replace(there.workload, blocks=blocks(Component.BOOKIE, [reason])))
        verdict, _ = bookies.decide(held, POLICY, State(), 0.0)
        holds = reason in (Reason.PAUSED, Reason.DECOMMISSIONING_BOOKIE, Reason.REPLACING_VOLUME)
        assert verdict.desired == wanted
        assert verdict.reason is (Reason.SCALED_OUT if wanted == 5 else reason if holds else Reason.STABILIZING)


def test_bookies_that_crash_are_not_followed_by_more_each_minute() -> None:
    """One was added for a full disk and never comes up: the next one is asked for after the cool-down."""
    crashed = facts(0.92, 0.72, 0.72, 0.72, lost=1)
    added = State(scaled=1000.0, upwards=True)
    cooldown = POLICY.up.cooldown
    assert bookies.decide(crashed, POLICY, added, 1600.0)[0].desired == 5
    assert bookies.decide(crashed, POLICY, added, 1000.0 + cooldown)[0].desired == 6
    assert bookies.decide(crashed, POLICY, State(), 1600.0)[0].desired == 6


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (facts(*[0.2] * 6, slope=None), "is not known yet"),
        (facts(0.8, *[0.1] * 5), "a bookie is 80% full"),
        (facts(*[0.2] * 3, *[-0.2] * 3), "ensembles require 3"),
    ],
)
def test_none_leaves(there: BookieFacts, words: str) -> None:
    found = bookies.need(there, POLICY)
    assert found.replicas is not None and found.replicas < 6
    assert words in found.shrink_blocker


def refused(reason: Reason = Reason.DECOMMISSION_REFUSED) -> Refused:
    return Refused(reason, "Bookie b cannot be removed: too few would be left.", 7, 1000.0)


@pytest.mark.parametrize(
    ("reason", "generation", "now", "holds"),
    [
        (Reason.DECOMMISSION_REFUSED, 7, 1000.0, True),
        (Reason.DECOMMISSION_REFUSED, 7, 1000.0 + DAY - 1, True),
        (Reason.DECOMMISSION_REFUSED, 7, 1000.0 + DAY, False),
        (Reason.DECOMMISSION_REFUSED, 8, 1001.0, False),
        (Reason.DECOMMISSION_REFUSED, 7, 0.0, False),
        (Reason.DECOMMISSION_STUCK, 7, 1000.0 + 30 * DAY, True),
        (Reason.DECOMMISSION_STUCK, 8, 1001.0, False),
    ],
)
def test_how_long_a_refusal_holds(reason: Reason, generation: int, now: float, holds: bool) -> None:
    """A time to come is no time: what somebody wrote into the status keeps nothing for ever."""
    assert refused(reason).applies(generation, now) is holds


def test_a_refusal_holds_those_that_would_leave_and_nothing_else() -> None:
    calm = replace(POLICY, down=replace(POLICY.down, window=0.0, cooldown=0.0))
    there = replace(facts(*[0.2] * 6), refused=refused())
    verdict, _ = bookies.decide(there, calm, State(), 5000.0)
    assert (verdict.desired, verdict.reason) == (6, Reason.DECOMMISSION_REFUSED)
    assert "too few would be left" in verdict.message and "for a day" in verdict.message
    assert bookies.decide(replace(there, refused=None), calm, State(), 5000.0)[0].desired == 5
    full = replace(facts(*[0.92] * 4), refused=refused())
    assert bookies.decide(full, calm, State(), 5000.0)[0].reason is Reason.SCALED_OUT
    assert bookies.decide(replace(facts(*[0.7] * 4), refused=refused()), calm, State(), 0.0)[0].reason == "WithinTarget"


@pytest.mark.parametrize(("most", "limit"), [(12, None), (3, "maxReplicas")])
def test_a_refusal_puts_the_number_back_and_begins_all_windows_again(most: int, limit: str | None) -> None:
    verdict, state = bookies.taken_back(refused(Reason.DECOMMISSION_STUCK), 4, 3, replace(POLICY, most=most))
    assert (verdict.desired, verdict.reason, verdict.limited_by) == (4, Reason.DECOMMISSION_STUCK, limit)
    assert "restored from 3 to 4" in verdict.message and "until the specification changes" in verdict.message
    assert state.since is None and state.highs == state.lows == () and (state.scaled, state.upwards) == (1000.0, False)


def test_latency() -> None:
    """Too long: one more. More than half of what it may be: none leaves. Not told: no decision."""

    def slow(seconds: float | None) -> BookieFacts:
        there = facts(*[0.2] * 5)
        disks = {pod: replace(disk, latency=seconds) for pod, disk in there.disks.items()}
        return replace(there, disks=disks, targets=replace(TARGETS, latency=0.02))

    assert bookies.need(slow(0.03), POLICY).replicas == 6
    told = {each.name: each for each in bookies.need(slow(0.03), POLICY).inputs}["writeLatencyMilliseconds"]
    assert (told.value, told.target) == (30.0, 20.0)
    assert bookies.need(slow(0.021), POLICY).replicas == 2, "within the tolerance"
    assert "half of their target latency" in bookies.need(slow(0.015), POLICY).shrink_blocker
    assert bookies.need(slow(0.005), POLICY).shrink_blocker == ""
    assert bookies.need(slow(None), POLICY).replicas is None
    assert bookies.need(slow(float("nan")), POLICY).replicas is None


@pytest.mark.parametrize(
    "there",
    [
        facts(*[0.5] * 4, age=601.0),
        facts(*[0.5] * 4, age=-1.0),
        facts(1.2, 0.5, 0.5),
        facts(float("nan"), 0.5, 0.5),
        facts(0.5, 0.5, 0.5, slope=float("inf")),
        replace(facts(*[0.95] * 4), workload=Workload(5, frozenset(f"bookie-{n}" for n in range(5)))),
        replace(facts(0.95, 0.95, 0.95), disks={f"bookie-{n}": Disk(0.0, 0.0, True) for n in range(3)}),
        replace(facts(0.95, 0.95, 0.95), disks={f"bookie-{n}": Disk(10**400, 10**400, True) for n in range(3)}),
    ],
)
def test_missing_is_not_empty(there: BookieFacts) -> None:
    """Neither more nor fewer, also where those that tell are full."""
    verdict, state = bookies.decide(there, POLICY, State(), 0.0)
    assert (verdict.desired, verdict.reason) == (there.workload.replicas, Reason.NO_DATA)
    assert state.since is None


@settings(max_examples=100, deadline=None)
@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=6),
    slope=st.sampled_from([-(2.0**62), 0.0, 1e9, 2.0**62]),
    total=st.sampled_from([1, GB, 2**63]),
)
def test_status_has_room_for_whatever_is_asked_for(shares: list[float], slope: float, total: int) -> None:
    """Samples that a stranger wrote make a growth that asks for more bookies than status could remember: the pass would
    fail for ever."""
    there = facts(*shares, slope=slope)
    there = replace(there, disks={pod: Disk(each.share * total, total, True) for pod, each in there.disks.items()})
    verdict, state = bookies.decide(there, POLICY, State(), 1e9)
    assert verdict.reason is not Reason.NO_DATA
    ScalingHistoryStatus.model_validate(to_status(state))


def test_a_lower_maximum_lets_no_data_go() -> None:
    """180 GB below 60 % of three disks of 100 GB, but not of two."""
    low = replace(POLICY, least=1, most=2)
    verdict, _ = bookies.decide(replace(facts(*[0.3] * 6), targets=BookieTargets()), low, State(), 0.0)
    assert verdict.desired == 3
    assert verdict.limited_by == "maxReplicas"


@settings(max_examples=150, deadline=None)
@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=10),
    slope=st.floats(-1e6, 1e6),
    readonly=st.sets(st.integers(0, 9)),
)
def test_what_leaves_fits_below_the_low_mark(shares: list[float], slope: float, readonly: set[int]) -> None:
    """Once all windows agree: whoever leaves, the rest is below the low mark, and not full within the days wanted."""
    there = facts(*[-share if n in readonly else share for n, share in enumerate(shares)], slope=slope)
    calm = replace(POLICY, down=replace(POLICY.down, window=0.0, cooldown=0.0))
    verdict, _ = bookies.decide(there, calm, State(), 0.0)
    assert 3 <= verdict.desired <= max(12, len(shares))
    if verdict.desired < len(shares):
        used = sum(shares) * 100 * GB
        assert len(shares) - verdict.desired == 1
        assert used <= 0.6 * verdict.desired * 100 * GB + 1
        assert used + slope * 3 * DAY <= 0.9 * verdict.desired * 100 * GB + 1
        assert max(shares) <= 0.75
