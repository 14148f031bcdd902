"""The pace of moves: by what they take, within bounds; and what a whole proposal takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.execution.pace import (
    FIRST_UNLOAD,
    HOLD_SECONDS,
    LONGEST_PAUSE,
    Pace,
    averaged,
    expected_seconds,
    in_words,
    next_look,
)

unloads = st.none() | st.floats(0.0, 120.0)
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


@given(st.integers(0, 20), st.integers(0, 3000), st.integers(1, 600), shares, unloads)
def test_what_is_expected_is_the_sum_of_the_steps(
    splits: int, moves: int, most: int, share: float, unload: float | None
) -> None:
    pace = Pace(most, share)
    expected = expected_seconds(splits, moves, pace, unload)
    took = FIRST_UNLOAD if unload is None else unload
    assert expected >= HOLD_SECONDS + max(moves - 1, 0) * max(took, 60 / most)
    assert expected_seconds(splits, moves + 1, pace, unload) >= expected
    assert expected_seconds(splits + 1, moves, pace, unload) > expected


@given(st.floats(0.02, 60.0))
def test_a_move_is_seen_to_be_done_soon_after_it_is(took: float) -> None:
    looked, looks = next_look(0.0), 1
    while looked < took:
        looked, looks = looked + next_look(looked), looks + 1
    assert looked - took <= max(0.2, took / 4) and looks <= 10 + took, "soon, and not all the time"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0s"), (0.4, "0s"), (44.6, "45s"), (59.6, "1m"), (60.0, "1m"), (200.4, "3m20s"), (3599.0, "59m59s")),
        *((3600.0, "1h"), (7500.0, "2h5m"), (7199.0, "2h"), (360_000.0, "100h")),
    ],
)
def test_a_duration_in_words(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
