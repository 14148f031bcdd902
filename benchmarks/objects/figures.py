"""Figures of a run: one row each, with the bar beside it and whether it was met."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure."""

    who: str
    """operator, or peer."""
    size: int
    """Topics."""
    figure: str
    value: float
    unit: str
    most: float | None = None
    """The bar: the value may not be above it; None = there is none."""

    @property
    def text(self) -> str:
        """The value as it is printed."""
        return f"{self.value:.2f}".rstrip("0").rstrip(".")

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

    def say(self, who: str, size: int, figure: str, value: float, unit: str, *, most: float | None = None) -> None:
        """Take a figure in."""
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
            writer.writerow(["who", "topics", "figure", "value", "unit", "bar", "verdict"])
            for r in self.rows:
                writer.writerow([r.who, r.size, r.figure, f"{r.value:.4f}", r.unit, r.bar, r.verdict])

    def print(self) -> None:
        """The table."""
        print(f"\n{'who':<9}{'topics':>7}  {'figure':<58}{'value':>10}  {'unit':<12}{'bar':<18}")
        for r in self.rows:
            print(f"{r.who:<9}{r.size:>7}  {r.figure:<58}{r.text:>10}  {r.unit:<12}{r.bar:<18}{r.verdict}")
