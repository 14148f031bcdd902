"""Seeded weeks, minute by minute: what brokers are asked for, what is measured of it, and which broker is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MINUTES = 7 * 1440
DAY = 1440
QUARTER = 15
PODS = 64
"""Most pods of which measurements are made."""
NOISE, NOISE_MEMORY = 0.02, 10.0
"""Of the load: standard deviation, and minutes in which it forgets."""
MEASUREMENT = 0.02
"""Standard deviation of a pod's figure."""


class Telemetry(IntEnum):
    """What reaches the scaler."""

    WELL = 0
    NONE = 1
    HALF = 2
    """Every other pod tells nothing."""
    FROZEN = 3
    """The figures of the begin, which grow old."""


@dataclass(frozen=True)
class Trace:
    """One week."""

    name: str
    seed: int
    load: Floats
    """By minute, in brokers that are fully used."""
    recorded: Floats
    """Of the week before, by quarter of an hour; it knows the days and none of the events."""
    telemetry: NDArray[np.int8]
    away: NDArray[np.bool_]
    """Minutes in which one pod is not ready."""
    measured: Floats
    """Factor of each pod's figure, by minute."""


def _noise(chance: np.random.Generator, minutes: int) -> Floats:
    """1 with noise that forgets."""
    keep = np.exp(-1.0 / NOISE_MEMORY)
    steps = chance.normal(0.0, NOISE * np.sqrt(1 - keep**2), minutes)
    out, value = np.empty(minutes), 0.0
    for minute in range(minutes):
        value = value * keep + steps[minute]
        out[minute] = value
    return 1.0 + out


def _days(minutes: int, low: float, phase: float) -> Floats:
    """From ``low`` at night to 1 at noon, weekends quieter."""
    time = np.arange(minutes)
    wave = (0.5 - 0.5 * np.cos(2 * np.pi * (time - phase) / DAY)) ** 1.5
    weekend = np.where(time // DAY % 7 >= 5, 0.75, 1.0)
    return (low + (1 - low) * wave) * weekend


def _times(chance: np.random.Generator, count: int, minutes: int) -> list[int]:
    """Begins of events, one in each part of the week."""
    part = minutes // count
    return [index * part + int(chance.integers(part // 8, part // 2)) for index in range(count)]


@dataclass
class _Week:
    """What an event changes."""

    chance: np.random.Generator
    load: Floats
    telemetry: NDArray[np.int8]
    away: NDArray[np.bool_]


def _daily(_: _Week) -> None:
    pass


def _steps(week: _Week) -> None:
    times = _times(week.chance, 4, len(week.load))
    for begin, end in zip(times, [*times[1:], len(week.load)], strict=True):
        week.load[begin:end] *= week.chance.uniform(0.5, 2.0)


def _spikes(week: _Week) -> None:
    for begin in _times(week.chance, 14, len(week.load)):
        week.load[begin : begin + int(week.chance.integers(4, 16))] *= week.chance.uniform(1.6, 2.5)


def _growth(week: _Week) -> None:
    week.load *= np.exp(np.linspace(0.0, np.log(2.5), len(week.load)))


def _crowds(week: _Week) -> None:
    for begin in _times(week.chance, 4, len(week.load)):
        time = np.arange(len(week.load) - begin, dtype=float)
        height, memory = week.chance.uniform(2.0, 4.0), week.chance.uniform(60.0, 120.0)
        week.load[begin:] *= 1 + height * np.minimum(time / 10, 1.0) * np.exp(-np.maximum(time - 10, 0) / memory)


def _broken(week: _Week) -> None:
    for number, begin in enumerate(_times(week.chance, 9, len(week.load))):
        week.telemetry[begin : begin + int(week.chance.integers(30, 181))] = 1 + number % 3


def _deaths(week: _Week) -> None:
    for begin in _times(week.chance, 10, len(week.load)):
        week.away[begin : begin + int(week.chance.integers(20, 241))] = True


EVENTS: dict[str, tuple[Callable[[_Week], None], float]] = {
    "daily": (_daily, 0.3),
    "step": (_steps, 1.0),
    "spike": (_spikes, 0.7),
    "growth": (_growth, 0.8),
    "flash": (_crowds, 0.7),
    "broken": (_broken, 0.3),
    "death": (_deaths, 0.3),
}
"""What happens, and the load of the night for that of noon."""
NAMES = tuple(EVENTS)


def trace(name: str, seed: int, minutes: int = MINUTES) -> Trace:
    """The week of a name and a seed: the same for every scaler."""
    events, low = EVENTS[name]
    chance = np.random.default_rng([seed, NAMES.index(name)])
    size, phase = chance.uniform(4.0, 9.0), chance.uniform(0, DAY)
    shape = _days(minutes, low, phase) if low < 1 else np.ones(minutes)
    before = size * shape * _noise(chance, minutes) * chance.uniform(0.9, 1.1)
    week = _Week(
        chance, size * shape * _noise(chance, minutes), np.zeros(minutes, np.int8), np.zeros(minutes, np.bool_)
    )
    events(week)
    quarters = before[: minutes // QUARTER * QUARTER].reshape(-1, QUARTER).mean(axis=1)
    measured = 1.0 + chance.normal(0.0, MEASUREMENT, (minutes, PODS))
    return Trace(name, seed, week.load, quarters, week.telemetry, week.away, measured)
