"""Plots of a sizing result as PNG bytes, without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#3b6ea8", "#d9822b", "#666666"
MEGA = 1e6


def loads(before: Mapping[str, float], after: Mapping[str, float], bound: float) -> bytes:
    """Bars of weight by broker, before and after, with the mean and the bound (times the mean)."""
    figure, axes = _figure(10, 4)
    names = sorted(before)
    mean = sum(before.values()) / max(len(before), 1)
    places = range(len(names))
    axes.bar([p - 0.2 for p in places], [before[n] / MEGA for n in names], 0.4, label="before", color=ORANGE)
    axes.bar([p + 0.2 for p in places], [after.get(n, 0.0) / MEGA for n in names], 0.4, label="after", color=BLUE)
    axes.axhline(mean / MEGA, color=GREY, linewidth=1, label="mean")
    if bound > 1:
        axes.axhline(mean * bound / MEGA, color="black", linestyle="--", linewidth=1, label="bound")
    axes.set_xticks(list(places), [_short(name) for name in names], rotation=30, ha="right")
    axes.set_ylabel("weight, MB/s equivalents")
    axes.set_title("Load per broker")
    axes.legend()
    return _png(figure)


def bundles(before: Sequence[float], after: Sequence[float]) -> bytes:
    """Weights of all bundles, heaviest first, as they are and as recommended."""
    figure, axes = _figure(10, 4)
    for weights, label, color in ((before, "now", ORANGE), (after, "recommended", BLUE)):
        order = sorted(weights, reverse=True)
        axes.step(range(1, len(order) + 1), [w / MEGA for w in order], where="mid", color=color, label=label)
    axes.set_xlabel("bundle, heaviest first")
    axes.set_ylabel("weight, MB/s equivalents")
    axes.set_title("Bundle weights")
    axes.legend()
    return _png(figure)


def heat(topics: Sequence[str], rows: Sequence[Sequence[float]]) -> bytes:
    """Mean cost of each topic by hour of the day; rows as topics, 24 values each."""
    figure, axes = _figure(10, max(2.5, 0.35 * len(topics) + 1.5))
    image = axes.imshow([[value / MEGA for value in row] for row in rows], aspect="auto", cmap="viridis")
    axes.set_yticks(range(len(topics)), [_short(topic, 60) for topic in topics], fontsize=7)
    axes.set_xticks(range(0, 24, 2), [f"{hour:02d}" for hour in range(0, 24, 2)])
    axes.set_xlabel("hour of the day, UTC")
    axes.set_title("Hottest topics by hour")
    figure.colorbar(image, label="mean cost, MB/s equivalents")
    return _png(figure)


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def _short(name: str, most: int = 30) -> str:
    return name if len(name) <= most else "…" + name[-most + 1 :]
