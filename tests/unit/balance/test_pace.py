"""The pace of moves: by what they take, within bounds; and what a whole proposal takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.execution.pace import (
    CONNECTED_SECONDS,
    FIRST_UNLOAD,
    HOLD_SECONDS,
    IDLE_UNLOAD,
    LONGEST_PAUSE,
    Pace,
    about,
    averaged,
    duration_text,
    expected_seconds,
    next_check,
)
from pulsar_operator.balance.execution.steps import Step, disconnects
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.proposal import Move, Split

unloads = st.none() | st.floats(0.0, 120.0)
BUNDLE = BundleId("shop/orders", 0, 100)
SPLIT = Split(BUNDLE, 50, "")
MOVE = Move(BUNDLE, "b0", "b1", 100.0, "", topics=2, clients=4)
IDLE = Move(BUNDLE, "b0", "b1", 0.0, "", topics=2, clients=0)
shares = st.floats(0.1, 1.0)


@pytest.mark.parametrize(
    ("pace", "unload", "apart"),
    [
        (Pace(600), None, 0.1),
        (Pace(600), 0.02, 0.1),
        (Pace(600), 0.3, 0.6),
        (Pace(600), 8.0, 16.0),
        (Pace(600), 100.0, 130.0),
        (Pace(600, 1.0), 8.0, 8.0),
        (Pace(30), 0.3, 2.0),
        (Pace(30), 8.0, 16.0),
        (Pace(1), 8.0, 60.0),
    ],
)
def test_how_far_apart_moves_are(pace: Pace, unload: float | None, apart: float) -> None:
    assert pace.apart(unload) == pytest.approx(apart)


@given(st.integers(1, 600), shares, unloads)
def test_the_pace_keeps_its_bounds(most: int, share: float, unload: float | None) -> None:
    apart = Pace(most, share).apart(unload)
    assert apart >= 60 / most, "never faster than asked for"
    if unload is not None:
        assert apart >= min(unload / share, unload + LONGEST_PAUSE) * (1 - 1e-9), "clients have the rest of the time"
        assert apart <= max(60 / most, unload + LONGEST_PAUSE), "never stopped by a slow move"


@given(st.lists(st.floats(0.0, 120.0), min_size=1, max_size=30), st.floats(0.01, 120.0))
def test_the_average_stays_within_what_was_measured_and_forgets(found: list[float], after: float) -> None:
    value: float | None = None
    for seconds in found:
        value = averaged(value, seconds)
    assert value is not None and min(found) - 1e-9 <= value <= max(found) + 1e-9
    for _ in range(30):
        value = averaged(value, after)
    assert value == pytest.approx(after, abs=0.01)


@pytest.mark.parametrize(
    ("step", "reconnecting"),
    [
        (SPLIT, False),
        (MOVE, True),
        (IDLE, False),
        (replace(MOVE, clients=0), False),
        (replace(IDLE, clients=3), True),
        (replace(MOVE, clients=None), True),
        (replace(IDLE, clients=None), False),
    ],
)
def test_only_a_step_that_disconnects_clients_is_followed_by_a_pause(step: Step, reconnecting: bool) -> None:
    assert disconnects(step) is reconnecting
    assert Pace(600).after(step, 8.0) == pytest.approx(16.0 if reconnecting else 0.1)


@given(st.integers(0, 20), st.integers(0, 300), st.integers(0, 20), st.integers(1, 600), shares, unloads)
def test_what_is_expected_is_the_sum_of_the_steps(
    splits: int, moves: int, idle: int, most: int, share: float, unload: float | None
) -> None:
    pace = Pace(most, share)
    steps = [*[SPLIT] * splits, *[IDLE] * idle, *[MOVE] * moves]
    expected = expected_seconds(steps, pace, unload)
    took = FIRST_UNLOAD if unload is None else unload
    if not steps:
        assert expected == 0
    else:
        assert expected >= HOLD_SECONDS + max(moves - 1, 0) * max(took, 60 / most)
        assert expected - expected_seconds(steps, pace, unload, connected=True) == pytest.approx(
            HOLD_SECONDS - CONNECTED_SECONDS
        )
    for more in ([*steps, MOVE], [SPLIT, *steps]):
        assert expected_seconds(more, pace, unload) >= expected


def test_a_move_without_clients_takes_no_longer_than_one_with_clients() -> None:
    assert expected_seconds([IDLE], Pace(600), 8.0) == HOLD_SECONDS + IDLE_UNLOAD
    assert expected_seconds([IDLE], Pace(600), 0.2) == HOLD_SECONDS + 0.2


@given(st.floats(0.02, 60.0))
def test_a_move_is_seen_to_be_done_soon_after_it_is(took: float) -> None:
    looked, looks = next_check(0.0), 1
    while looked < took:
        looked, looks = looked + next_check(looked), looks + 1
    assert looked - took <= max(0.2, took / 4) and looks <= 10 + took, "soon, and not all the time"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0s"), (0.4, "0s"), (44.6, "45s"), (59.6, "1m"), (60.0, "1m"), (200.4, "3m20s"), (3599.0, "59m59s")),
        *((3600.0, "1h"), (7500.0, "2h5m"), (7199.0, "2h"), (360_000.0, "100h")),
    ],
)
def test_a_duration_as_text(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "1s"), (4.7, "5s"), (29.4, "29s"), (33.0, "35s"), (118.0, "2m"), (133.0, "2m10s"), (601.0, "10m")),
        *((3599.0, "1h"), (3700.0, "1h"), (7500.0, "2h5m")),
    ],
)
def test_an_estimate_is_reported_no_more_exactly_than_it_is(seconds: float, text: str) -> None:
    assert about(seconds) == f"about {text}"
