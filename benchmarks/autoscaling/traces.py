"""Seeded weeks, minute by minute: what brokers are asked for, what is measured of it, and which broker is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
    STUCK = 4
    """The figures of the begin, which say that they are new."""


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
    bundles: int = 256
    stored: float = 5.0
    """Disks' worth of data that the week before keeps, with all copies."""
    days_kept: int = 2
    """After which what is stored is deleted; two days of it are stored in the beginning."""
    trims: tuple[int, ...] = ()
    """Minutes at which half of what is stored is deleted."""
    added: Floats | None = None
    """Share of its CPU that a pod's figure has on top, by minute; None = none."""
    scaled: Floats | None = None
    """Factor by which a pod's figure is wrong, by minute; not a number = it tells nothing; None = all are right."""


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
    added: Floats | None = None
    scaled: Floats | None = None
    trims: list[int] = field(default_factory=list)


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


def _batches(week: _Week) -> None:
    """A job every 80 minutes."""
    height, minutes = week.chance.uniform(2.0, 3.0), int(week.chance.integers(10, 21))
    for begin in range(int(week.chance.integers(0, 80)), len(week.load), 80):
        week.load[begin : begin + minutes] *= height


def _glitches(week: _Week) -> None:
    """Every other hour all CPU is in use for a minute: collections of garbage, a page of metrics that was late."""
    week.added = np.zeros((len(week.load), PODS))
    for begin in range(int(week.chance.integers(0, 120)), len(week.load), 120):
        week.added[begin] = 1.0


def _spiky(week: _Week) -> None:
    """One broker-minute of twenty has 35 points on top."""
    week.added = np.where(week.chance.random((len(week.load), PODS)) < 0.05, 0.35, 0.0)


def _noisy(week: _Week) -> None:
    week.scaled = np.maximum(1.0 + week.chance.normal(0.0, 0.2, (len(week.load), PODS)), 0.0)


def _windows(week: _Week, count: int, hours: int) -> list[slice]:
    return [slice(begin, begin + 60 * hours) for begin in _times(week.chance, count, len(week.load))]


def _frozen(week: _Week) -> None:
    """Six hours each, and nothing says so."""
    for window in _windows(week, 5, 6):
        week.telemetry[window] = Telemetry.STUCK


def _scaled(week: _Week) -> None:
    """A hundred times what is used: of all brokers, then of one."""
    week.scaled = np.ones((len(week.load), PODS))
    for number, window in enumerate(_windows(week, 6, 2)):
        week.scaled[window, 1 if number % 2 else slice(None)] = 100.0


def _silent(week: _Week) -> None:
    """One broker does not tell for eight hours."""
    week.scaled = np.ones((len(week.load), PODS))
    for window in _windows(week, 5, 8):
        week.scaled[window, 1] = np.nan


def _drifting(week: _Week) -> None:
    """Figures grow by a fifth within the week, without the load."""
    week.scaled = np.repeat(np.linspace(1.0, 1.2, len(week.load))[:, None], PODS, axis=1)


def _import(week: _Week) -> None:
    """Twice in the week eight hours in which four times as much is written."""
    for window in _windows(week, 2, 8):
        week.load[window] *= 4.0


def _surge(week: _Week) -> None:
    """Growth that accelerates: to four times within the week, most of it in the last days."""
    week.load *= 1 + 3 * np.linspace(0.0, 1.0, len(week.load)) ** 3


def _trimmed(week: _Week) -> None:
    """Every other day half of what is stored is deleted at once."""
    for begin in range(DAY, len(week.load), 2 * DAY):
        week.trims.append(begin)


def _promised(chance: np.random.Generator, minutes: int) -> Floats:
    """Two jobs a day of two hours each, of the week before; they are gone."""
    found = np.ones(minutes)
    for begin in _times(chance, 2 * minutes // DAY, minutes):
        found[begin : begin + 120] = chance.uniform(1.5, 2.5)
    return found


EVENTS: dict[str, tuple[Callable[[_Week], None], float]] = {
    "daily": (_daily, 0.3),
    "step": (_steps, 1.0),
    "spike": (_spikes, 0.7),
    "growth": (_growth, 0.8),
    "flash": (_crowds, 0.7),
    "broken": (_broken, 0.3),
    "death": (_deaths, 0.3),
    "batch": (_batches, 0.8),
    "batch-4k": (_batches, 0.8),
    "flash-4k": (_crowds, 0.7),
    "promised": (_daily, 1.0),
    "glitch": (_glitches, 0.3),
    "spiky": (_spiky, 0.3),
    "noisy": (_noisy, 0.3),
    "frozen": (_frozen, 0.3),
    "scaled": (_scaled, 0.3),
    "silent": (_silent, 0.3),
    "drift": (_drifting, 0.3),
    "import": (_import, 0.7),
    "surge": (_surge, 0.8),
    "trimmed": (_trimmed, 0.7),
    "kept": (_daily, 0.7),
}
"""What happens, and the load of the night for that of noon."""
NAMES = tuple(EVENTS)
BOOKIES = ("import", "surge", "trimmed", "kept")
"""Traces of bookies alone."""
BOTH = ("daily", "step", "spike", "growth", "flash", "broken", "death")
"""Those of brokers and bookies; the rest are of brokers."""
KEPT: dict[str, int] = {"kept": 5}
"""Days for which what is written stays; two where none is said."""
STORED: dict[str, float] = {"import": 1.3, "surge": 3.0, "kept": 3.0}
"""Disks' worth of data that the week before keeps; 5 where none is said."""
MANY = 4000
"""Bundles of the traces whose names end so."""


def trace(name: str, seed: int, minutes: int = MINUTES) -> Trace:
    """The week of a name and a seed: the same for every scaler."""
    events, low = EVENTS[name]
    chance = np.random.default_rng([seed, NAMES.index(name)])
    size, phase = chance.uniform(4.0, 9.0), chance.uniform(0, DAY)
    shape = _days(minutes, low, phase) if low < 1 else np.ones(minutes)
    known = shape * _promised(chance, minutes) if name == "promised" else shape
    before = size * known * _noise(chance, minutes) * chance.uniform(0.9, 1.1)
    week = _Week(
        chance, size * shape * _noise(chance, minutes), np.zeros(minutes, np.int8), np.zeros(minutes, np.bool_)
    )
    events(week)
    quarters = before[: minutes // QUARTER * QUARTER].reshape(-1, QUARTER).mean(axis=1)
    measured = 1.0 + chance.normal(0.0, MEASUREMENT, (minutes, PODS))
    return Trace(
        name,
        seed,
        week.load,
        quarters,
        week.telemetry,
        week.away,
        measured,
        MANY if name.endswith("-4k") else 256,
        STORED.get(name, 5.0),
        KEPT.get(name, 2),
        tuple(week.trims),
        week.added,
        week.scaled,
    )
