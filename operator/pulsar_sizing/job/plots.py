"""Plots of a sizing result, without a display: as PNG, or as SVG that takes its colours from the page it is in."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import sqrt
from typing import Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from pulsar_operator.balance.model.names import fitted, short_brokers, short_topics
from pulsar_operator.balance.model.ranges import HASH_SPACE
from pulsar_sizing.job.palette import LIGHT, Palette

MEGA = 1e6
WIDTH = 7.2
"""Inches; ten points of text are legible on a page as wide as a phone that scrolls the plot."""
MOST_BROKERS = 40
MOST_LETTERS = 44
HOURS: Final = range(24)
BINS: Final = 128
"""Parts of the hash ring whose weight is shown."""


@dataclass(frozen=True)
class Bars:
    """One broker: weights in byte-equivalents a second."""

    now: float
    recommended: float
    fair: float
    """Its share of the load by what it can carry."""


@dataclass(frozen=True)
class Ring:
    """The hash ring of one namespace."""

    namespace: str
    cells: Sequence[tuple[int, float]]
    """Position and weight."""
    now: Sequence[int]
    """Boundaries of today between bundles; empty where they are not known."""
    cuts: Sequence[int]
    """Recommended boundaries that do not exist today."""


@dataclass(frozen=True)
class Plot:
    """One plot; ``figure`` draws it in the colours of a palette."""

    name: str
    """Of its file, without ending."""
    words: str
    """What it shows, for who cannot see it."""
    figure: Figure

    def png(self) -> bytes:
        """Returns the plot as a separate picture, on a white page."""
        out = io.BytesIO()
        self.figure.savefig(out, format="png", dpi=110)
        return out.getvalue()

    def svg(self) -> str:
        """As an element of an HTML page, whose variables (palette.variables) give it its colours."""
        out = io.StringIO()
        with mpl.rc_context({"svg.hashsalt": self.name}):
            self.figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        text = out.getvalue()
        text = text[text.index("<svg") :]
        # Comments repeat the labels, which are names from the cluster; the style would be that of the whole page.
        text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
        box = re.search(r'viewBox="[^"]*"', text)
        assert box is not None
        text = re.sub(r"^<svg[^>]*>", f'<svg {box[0]} role="img" aria-label="{escape(self.words)}">', text)
        # Ids are those of the whole page, where other plots are too.
        text = re.sub(r' id="', f' id="{self.name}-', text).replace("url(#", f"url(#{self.name}-")
        text = text.replace('xlink:href="#', f'href="#{self.name}-')
        for name, colour in asdict(LIGHT).items():
            text = text.replace(colour, f"var(--{name})")
        return text


def loads(brokers: Mapping[str, Bars], bound: float, palette: Palette = LIGHT) -> Plot:
    """Bars of weight by broker, now and recommended, with what is fair and the bound (times what is fair)."""
    shown = sorted(sorted(brokers, key=lambda name: -brokers[name].now)[:MOST_BROKERS])
    short = short_brokers(brokers)
    figure, axes = _figure(0.42 * len(shown) + 1.6, palette)
    rows = [len(shown) - 1 - row for row in range(len(shown))]
    bars = [brokers[name] for name in shown]
    axes.barh([r + 0.2 for r in rows], [b.now / MEGA for b in bars], 0.36, label="now", color=palette.now)
    recommended = [b.recommended / MEGA for b in bars]
    axes.barh([r - 0.2 for r in rows], recommended, 0.36, label="recommended", color=palette.recommended)
    low, high = [r - 0.45 for r in rows], [r + 0.45 for r in rows]
    axes.vlines([b.fair / MEGA for b in bars], low, high, color=palette.ink, linewidth=1.2, label="fair share")
    if bound > 1:
        most = [b.fair * bound / MEGA for b in bars]
        axes.vlines(most, low, high, color=palette.ink, linewidth=1.2, linestyle=(0, (2, 2)), label="bound")
    axes.set_yticks(rows, fitted([short[name] for name in shown], MOST_LETTERS), parse_math=False)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("weight, MB/s equivalents")
    _legend(figure, axes, palette)
    more = f" The {len(shown)} busiest of {len(brokers)}." if len(shown) < len(brokers) else ""
    return Plot("load-per-broker", f"Load of each broker, now and with the recommended bundles.{more}", figure)


def bundles(now: Sequence[float], recommended: Sequence[float], fair: float, palette: Palette = LIGHT) -> Plot:
    """Weights of all bundles, the heaviest first: as they are beside those recommended, on one scale.

    ``fair`` is a broker's fair share.
    """
    figure, (left, right) = _figure(3.2, palette, columns=2)
    for axes, weights, label, colour in (
        (left, now, "now", palette.now),
        (right, recommended, "recommended", palette.recommended),
    ):
        order = [weight / MEGA for weight in sorted(weights, reverse=True)]
        axes.stairs(order, [n + 0.5 for n in range(len(order) + 1)], fill=True, color=colour)
        axes.axhline(fair / MEGA, color=palette.ink, linewidth=1.2)
        axes.set_title(f"{label}: {len(order)} bundle{'s' if len(order) != 1 else ''}", color=palette.ink, fontsize=10)
        axes.set_xlabel("bundle, heaviest first")
        axes.xaxis.get_major_locator().set_params(integer=True)
    left.set_ylabel("weight, MB/s equivalents")
    # Room above the line for its words, also where no bundle is heavier than it.
    left.set_ylim(0, 1.12 * max((*now, *recommended, fair)) / MEGA or 1)
    left.annotate(
        "a broker's fair share", (1, fair / MEGA), (-4, 3), xycoords=("axes fraction", "data"), ha="right",
        textcoords="offset points", fontsize=8, color=palette.ink,
    )  # fmt: skip
    words = "Weights of the bundles as they are, and beside them of those recommended, the heaviest first."
    return Plot("bundle-weights", words, figure)


def heat(topics: Sequence[str], rows: Sequence[Sequence[float]], palette: Palette = LIGHT) -> Plot:
    """Mean cost of each topic by hour of the day; rows as topics, 24 values each. The fuller the more: by the square
    root, since the hottest topic often has many times as much as the next ones, whose busy hours would not be seen."""
    figure, axes = _figure(0.26 * len(topics) + 1.6, palette)
    most = max((value for row in rows for value in row), default=0.0)
    for number, row in enumerate(rows):
        for hour, value in enumerate(row):
            _box(axes, hour, number, palette.recommended, sqrt(value / most) if most > 0 else 0.0)
    _by_hour(axes, len(rows))
    short = short_topics(topics)
    labels = fitted([short[topic] for topic in topics], MOST_LETTERS)
    axes.set_yticks([n + 0.5 for n in range(len(topics))], labels, parse_math=False)
    # Short lines: the names leave the axes little of the width.
    full = f"full colour: {most / MEGA:.2f} MB/s equivalents\nhalf as full: a quarter of that"
    axes.set_xlabel(f"hour of the day, UTC\n{full}")
    return Plot("hot-topics", "Mean cost of the hottest topics by hour of the day.", figure)


def coverage(days: Mapping[str, Sequence[float]], least: float, palette: Palette = LIGHT) -> Plot:
    """Plots which hours are covered. ``days`` has, by day, the share of its samples that each of 24 hours has. An hour
    is covered from the share ``least``."""
    figure, axes = _figure(0.26 * len(days) + 1.4, palette)
    for number, hours in enumerate(days.values()):
        for hour, share in enumerate(hours):
            if share >= least:
                _box(axes, hour, number, palette.recommended, 1.0)
            elif share > 0:
                # At most half of the height, so that colour is not the only difference.
                _box(axes, hour, number, palette.now, 1.0, height=0.5 * share)
    _by_hour(axes, len(days))
    axes.set_yticks([n + 0.5 for n in range(len(days))], list(days))
    axes.set_xlabel("hour of the day, UTC")
    handles = [Rectangle((0, 0), 1, 1, facecolor=colour) for colour in (palette.recommended, palette.now)]
    labels = ["covered", "some samples, by their share (empty: none)"]
    figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False, labelcolor=palette.ink, fontsize=9)
    return Plot("coverage", f"Hours that are covered: those with at least {least:.0%} of their samples.", figure)


def cuts(rings: Sequence[Ring], many: int, palette: Palette = LIGHT) -> Plot:
    """Plots the hash ring of namespaces: the weight, the boundaries now and the recommended cuts. ``many`` is the
    number of namespaces in the result, of which not all may be plotted."""
    figure, axes = _figure(0.4 * len(rings) + 1.6, palette)
    for number, ring in enumerate(rings):
        bins = [0.0] * BINS
        for position, weight in ring.cells:
            bins[min(position * BINS // HASH_SPACE, BINS - 1)] += weight
        most = max(bins)
        for place, weight in enumerate(bins):
            if weight > 0:
                _box(axes, place, number, palette.muted, 0.75 * sqrt(weight / most))
    for points, side, colour, label in (
        ("now", (0.0, 0.5), palette.now, "boundary now"),
        ("cuts", (0.5, 1.0), palette.recommended, "recommended cut"),
    ):
        places = [(point * BINS / HASH_SPACE, n) for n, ring in enumerate(rings) for point in getattr(ring, points)]
        low, high = ([n + edge for _, n in places] for edge in side)
        axes.vlines([x for x, _ in places], low, high, color=colour, linewidth=1.8, label=label)
    axes.hlines(range(1, len(rings)), 0, BINS, color=palette.line, linewidth=0.8)
    axes.set_xlim(0, BINS)
    axes.set_ylim(len(rings), 0)
    axes.grid(visible=False)
    labels = fitted([ring.namespace for ring in rings], MOST_LETTERS)
    axes.set_yticks([n + 0.5 for n in range(len(rings))], labels, parse_math=False)
    axes.set_xticks([BINS * n / 4 for n in range(5)], ["0", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"])
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("position on the hash ring\nfuller colour: a larger part of the namespace's weight")
    _legend(figure, axes, palette)
    shown = f" Shown are {len(rings)} of {many} namespaces." if len(rings) < many else ""
    return Plot("cuts", f"Bundles on the hash ring: boundaries now and recommended cuts.{shown}", figure)


def _box(axes: Any, left: float, row: int, colour: str, alpha: float, height: float = 1.0) -> None:
    """Adds a field to a grid whose rows are counted from the top. If it is lower than a row, it stands at the bottom of
    the row."""
    low = row + 1 - height
    axes.add_patch(Rectangle((left, low), 1, height, facecolor=colour, alpha=alpha, linewidth=0))


def _by_hour(axes: Any, rows: int) -> None:
    """Sets the axes of a grid: the hours of a day, and ``rows`` rows from the top."""
    axes.set_xlim(0, len(HOURS))
    axes.set_ylim(rows, 0)
    axes.set_xticks([hour + 0.5 for hour in HOURS[::3]], [f"{hour:02d}" for hour in HOURS[::3]])
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(visible=False)


def _figure(height: float, palette: Palette, columns: int = 1) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor=palette.page)
    FigureCanvasAgg(figure)
    found = figure.subplots(1, columns, sharey=True)
    for axes in figure.axes:
        axes.set_facecolor("none")
        axes.set_axisbelow(True)
        axes.grid(color=palette.line, linewidth=0.8)
        axes.tick_params(color=palette.line, labelcolor=palette.ink, labelsize=9)
        axes.xaxis.label.set_color(palette.muted)
        axes.yaxis.label.set_color(palette.muted)
        for side in axes.spines.values():
            side.set_color(palette.line)
    return figure, found


def _legend(figure: Figure, axes: Any, palette: Palette) -> None:
    """Above the plot, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper left", ncols=len(labels), frameon=False, labelcolor=palette.ink, fontsize=9
    )
