"""Figures of a run: one row each, with the bar beside it and whether it was met."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure."""

    who: str
    """operator, or peer."""
    size: int
    """Objects."""
    figure: str
    value: float
    unit: str
    most: float | None = None
    """The bar: the value may not be above it; None = there is none."""
    spread: tuple[float, float] | None = None
    """The least and the most of several runs, of which the value is the median."""

    @property
    def text(self) -> str:
        """The value as it is printed."""
        text = _short(self.value)
        return text if self.spread is None else f"{text} ({_short(self.spread[0])}-{_short(self.spread[1])})"

    @property
    def bar(self) -> str:
        """The bar in words."""
        return "" if self.most is None else f"<= {self.most:g} {self.unit}"

    @property
    def verdict(self) -> str:
        """met, missed, or nothing where there is no bar."""
        return "" if self.most is None else "met" if self.value <= self.most else "missed"


@dataclass
class Table:
    """All figures of a run, told as they come."""

    rows: list[Row] = field(default_factory=list)
    sized: str = "topics"
    """What the sizes are numbers of."""

    def say(
        self,
        who: str,
        size: int,
        figure: str,
        value: float | Sequence[float],
        unit: str,
        *,
        most: float | None = None,
    ) -> None:
        """Take a figure in, of one run or of each of several."""
        if isinstance(value, Sequence):
            row = Row(who, size, figure, statistics.median(value), unit, most, (min(value), max(value)))
        else:
            row = Row(who, size, figure, value, unit, most)
        self.rows.append(row)
        print(f"  {who:<8} {size:>6} {figure}: {row.text} {unit} {row.verdict}", flush=True)

    def value(self, who: str, size: int, figure: str) -> float | None:
        """A figure that was taken in."""
        return next((r.value for r in self.rows if (r.who, r.size, r.figure) == (who, size, figure)), None)

    def slopes(self, who: str, sizes: Iterable[int], figure: str) -> None:
        """How much more than in proportion a figure grew since the smallest size; 1 = in proportion."""
        first, *others = sorted(sizes)
        base = self.value(who, first, figure)
        for size in others:
            grown = self.value(who, size, figure)
            if base and grown is not None:
                share = grown / base * first / size
                self.say(who, size, f"slope of {figure!r} since {first}", share, "x linear", most=1.2)

    def write(self, path: Path) -> None:
        """The raw figures as CSV."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["who", self.sized, "figure", "value", "least", "most", "unit", "bar", "verdict"])
            for r in self.rows:
                ends = [f"{each:.4f}" for each in r.spread or ()] or ["", ""]
                writer.writerow([r.who, r.size, r.figure, f"{r.value:.4f}", *ends, r.unit, r.bar, r.verdict])

    def print(self) -> None:
        """The table."""
        wide = max((len(r.text) for r in self.rows), default=0) + 2
        print(f"\n{'who':<9}{self.sized:>10}  {'figure':<62}{'value':>{wide}}  {'unit':<12}{'bar':<18}")
        for r in self.rows:
            print(f"{r.who:<9}{r.size:>10}  {r.figure:<62}{r.text:>{wide}}  {r.unit:<12}{r.bar:<18}{r.verdict}")


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all is below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.2f}".rstrip("0").rstrip(".")
