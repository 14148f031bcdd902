"""A sizing result for people: tables on the terminal, plots, and one HTML file (document.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import fsum
from pathlib import Path

from pulsar_operator.balance.model.names import short_brokers
from pulsar_operator.balance.model.ranges import boundary_texts
from pulsar_operator.balance.sizing.result import CostSizing, NamespaceSizing, SizingResult
from pulsar_sizing.job import plots
from pulsar_sizing.job.conclude import Today, bundle_weights, loads_after
from pulsar_sizing.job.document import Table, document
from pulsar_sizing.job.hours import Coverage
from pulsar_sizing.job.inventory import start_of
from pulsar_sizing.job.overload import OVERLOADED, Minutes

HOTTEST = 20
MOST_LINES = 30
MOST_CUTS = 8
"""Maximum number of cuts of a namespace in the table; result.json has all of them."""
RINGS = 20
"""Maximum number of namespaces, the heaviest ones, whose hash ring is plotted."""
DAYS = 31
"""Maximum number of days, the newest ones, whose coverage is plotted."""
UNKNOWN = "not known"
NO_MINUTES = (
    f"Minutes above {OVERLOADED:.0%} are not known without --capacity, which says how many bytes a second an average "
    "broker carries: traffic alone does not show it."
)
Heat = dict[str, list[float]]


@dataclass(frozen=True)
class Details:
    """What the report shows beside the result."""

    today: Mapping[str, Today] = field(default_factory=dict)
    """Bundles as they are, by namespace."""
    hottest: Heat = field(default_factory=dict)
    """Mean cost by hour of the day of the hottest topics."""
    minutes: Minutes | None = None
    """Unset if what brokers can carry is not known."""
    coverage: Coverage | None = None
    """None if the report has no coverage."""


def tables(result: SizingResult, found: Details) -> list[Table]:
    """The tables of the report; only those with rows."""
    made = [
        _brokers(result, found.minutes),
        _weights(result, found.today),
        _namespaces(result, found.today),
        _cuts(result, found.today),
        _hottest(result),
        _by_hour(found.hottest),
        _costs(result),
        Table(
            "Topics that need more partitions",
            ("topic", "now", "advised", "why"),
            [(a.topic, str(a.partitions_now), str(a.partitions), a.reason) for a in result.partitions],
        ),
        _coverage(result, found.coverage),
        Table("Left out", ("reason", "rows or files"), [(reason, str(n)) for reason, n in result.rejected.items()]),
    ]
    return [table for table in made if table.rows]


def bars(result: SizingResult) -> dict[str, plots.Bars]:
    """Weights of each broker by its id, now and recommended, and its fair share."""
    after = loads_after(result) if result.namespaces else {}
    mean = _fair(result)
    return {b.broker: plots.Bars(b.weight, after.get(b.broker, 0.0), mean * b.capacity) for b in result.brokers}


def weights_now(result: SizingResult, today: Mapping[str, Today]) -> dict[str, list[float]]:
    """Weight of each bundle as it is, by namespace; those whose bundles were not seen are absent."""
    return {
        each.namespace: bundle_weights(each.cells, boundary_texts(today[each.namespace].boundaries))
        for each in result.namespaces
        if each.namespace in today
    }


def weights_recommended(result: SizingResult) -> dict[str, list[float]]:
    """Weight of each recommended bundle, by namespace."""
    return {each.namespace: bundle_weights(each.cells, each.boundaries) for each in result.namespaces}


def _fair(result: SizingResult) -> float:
    """Weight for each unit of capacity, which is 1 on average."""
    room = fsum(broker.capacity for broker in result.brokers)
    return fsum(broker.weight for broker in result.brokers) / room if room else 0.0


def _brokers(result: SizingResult, minutes: Minutes | None) -> Table:
    short = short_brokers(broker.broker for broker in result.brokers)
    first = next(iter(short), "")
    end = first.removeprefix(short[first]) if first else ""
    note = f"Names are without {end}. " if end and all(each == short[each] + end for each in short) else ""
    note += minutes.words() if minutes else NO_MINUTES
    rows: list[Sequence[str]] = []
    for each, weight in zip(result.brokers, bars(result).values(), strict=True):
        now, after = (minutes.now, minutes.recommended) if minutes else ({}, {})
        recommended = weight.recommended if result.namespaces else None
        rows.append(
            (
                short[each.broker],
                f"{each.capacity:.2f}",
                _mega(each.weight),
                _mega(recommended),
                _mega(weight.fair * result.balance.bound),
                _ratio(each.weight, weight.fair),
                _ratio(recommended, weight.fair),
                _count(now.get(each.broker)) if minutes else UNKNOWN,
                "-" if not result.namespaces else _count(after.get(each.broker)) if minutes else UNKNOWN,
            )
        )
    heads = ("broker", "size", "now", "recommended", "bound", "now/fair", "recommended/fair")
    over = f"minutes above {OVERLOADED:.0%}"
    return Table("Load per broker, MB/s equivalents", (*heads, f"{over}, now", f"{over}, recommended"), rows, note)


def _weights(result: SizingResult, today: Mapping[str, Today]) -> Table:
    """How heavy bundles are, now beside recommended."""
    sides = [
        sorted((weight for each in found.values() for weight in each), reverse=True)
        for found in (weights_now(result, today), weights_recommended(result))
    ]
    places = {"heaviest": 0.0, "heaviest but a tenth": 0.1, "median": 0.5, "lightest": 1.0}
    rows: list[Sequence[str]] = [("number", *(str(len(side)) for side in sides))]
    for name, place in places.items():
        rows.append((name, *(_mega(side[round(place * (len(side) - 1))] if side else None) for side in sides)))
    rows.append(("heaviest over a broker's fair share", *(_ratio(max(s, default=None), _fair(result)) for s in sides)))
    return Table(
        "Weights of bundles, MB/s equivalents", ("bundles", "now", "recommended"), rows if result.namespaces else []
    )


def _namespaces(result: SizingResult, today: Mapping[str, Today]) -> Table:
    now, then = weights_now(result, today), weights_recommended(result)
    return Table(
        "Bundles of each namespace",
        ("namespace", "now", "recommended", "if new", "heaviest now", "heaviest recommended", "weight", "why"),
        [
            (
                each.namespace,
                str(each.bundles_now),
                str(len(each.boundaries) - 1),
                str(len(each.fresh_boundaries) - 1),
                _mega(max(now.get(each.namespace, ()), default=None)),
                _mega(max(then[each.namespace], default=None)),
                _mega(each.weight),
                each.reason,
            )
            for each in sorted(result.namespaces, key=lambda each: -each.weight)
        ],
        "Weights are in MB/s equivalents.",
    )


def rings(result: SizingResult, today: Mapping[str, Today]) -> list[plots.Ring]:
    """Returns the hash rings of the heaviest namespaces, those with recommended cuts first."""
    made = [
        plots.Ring(
            each.namespace,
            [(cell.position, cell.weight) for cell in each.cells],
            today[each.namespace].boundaries[1:-1] if each.namespace in today else (),
            [int(text, 16) for text in _new_cuts(each, today)],
        )
        for each in sorted(result.namespaces, key=lambda each: -each.weight)
    ]
    return sorted(made, key=lambda ring: not ring.cuts)[:RINGS]


def _new_cuts(each: NamespaceSizing, today: Mapping[str, Today]) -> list[str]:
    """Returns the recommended boundaries that do not exist today."""
    now = boundary_texts(today[each.namespace].boundaries) if each.namespace in today else ("0x00000000", "0xffffffff")
    return [text for text in each.boundaries if text not in set(now)]


def _cuts(result: SizingResult, today: Mapping[str, Today]) -> Table:
    rows: list[Sequence[str]] = []
    for each in sorted(result.namespaces, key=lambda each: -each.weight):
        cuts = _new_cuts(each, today)
        if cuts:
            more = f" and {len(cuts) - MOST_CUTS} more" if len(cuts) > MOST_CUTS else ""
            rows.append((each.namespace, str(len(cuts)), ", ".join(cuts[:MOST_CUTS]) + more))
    return Table("Recommended cuts", ("namespace", "cuts", "at"), rows, "A cut cannot be undone.")


def _coverage(result: SizingResult, found: Coverage | None) -> Table:
    rows: list[Sequence[str]] = []
    if found is not None:
        for day, hours in days_of(result, found).items():
            many = sum(share >= found.least for share in hours)
            rows.append((day, str(many), f"{fsum(min(share, 1.0) for share in hours) / 24:.1%}"))
    note = f"An hour is covered with at least {found.least:.1%} of its samples." if found else ""
    return Table("Coverage of each day", ("day, UTC", "hours covered", "samples there"), rows, note)


def days_of(result: SizingResult, found: Coverage) -> dict[str, list[float]]:
    """Returns, by recorded day, the share of its samples that each of the 24 hours has; 0 if nothing is known of it."""
    day, days = result.from_time.replace(hour=0), {}
    while day < result.to_time:
        days[f"{day:%Y-%m-%d}"] = [0.0] * 24
        day += timedelta(days=1)
    for unit, share in found.shares.items():
        hour = start_of(unit)
        if (text := f"{hour:%Y-%m-%d}") in days:
            days[text][hour.hour] = share
    return days


def _hottest(result: SizingResult) -> Table:
    hot = sorted(result.namespaces, key=lambda each: -each.hottest_weight)[:MOST_LINES]
    return Table(
        "Hottest topic of each namespace",
        ("topic", "weight, MB/s equivalents", "over a broker's fair share"),
        [(each.hottest_topic, _mega(each.hottest_weight), _ratio(each.hottest_weight, _fair(result))) for each in hot],
    )


def _by_hour(hottest: Heat) -> Table:
    rows: list[Sequence[str]] = []
    for topic, hours in hottest.items():
        busiest = max(range(len(hours)), key=lambda hour: hours[hour])
        rows.append((topic, f"{busiest:02d}", _mega(hours[busiest])))
    return Table("Busiest hour of the hottest topics", ("topic", "hour, UTC", "mean cost then, MB/s equivalents"), rows)


def _costs(result: SizingResult) -> Table:
    cost = result.cost
    rows = [(each.topic, f"{each.factor:.2f}", f"{each.error:.2f}") for each in cost.topics] if cost else []
    note = f"{cost.factors} topics have a factor, all others {cost.others:.2f}. " if cost else ""
    title = "What topics cost by the CPU of the brokers, for what their traffic says"
    return Table(title, ("topic", "factor", "standard error"), list(rows), note + _explained(cost))


def _explained(cost: CostSizing | None) -> str:
    if cost is None or cost.deviation is None or cost.learned is None:
        return ""
    return (
        f"Brokers' shares of the CPU are off their shares of the cost by {cost.deviation:.1%} on average, "
        f"{cost.learned:.1%} with what was learned ({cost.observations} hours of {cost.brokers} brokers)."
    )


def summary(result: SizingResult, coverage: Coverage | None = None) -> str:
    """The result in a few lines."""
    balance = result.balance
    now = sum(each.bundles_now for each in result.namespaces)
    recommended = sum(len(each.boundaries) - 1 for each in result.namespaces)
    lines = [
        f"Cluster {result.cluster} of instance {result.instance}",
        f"recorded     {result.from_time:%Y-%m-%d %H:%M} to {result.to_time:%Y-%m-%d %H:%M} UTC, "
        f"{result.samples} samples, {result.completeness:.1%} complete",
        *([f"coverage     {_covered(coverage)}"] if coverage else []),
        f"weights      percentile {result.percentile:g} of the busiest hours, times {result.growth:g}",
        f"brokers      {result.verdict.verdict}: {result.verdict.reason}",
    ]
    if explained := _explained(result.cost):
        lines.append(f"cost         {explained}")
    if result.namespaces:
        lines.append(f"bundles      {now} now, {recommended} recommended, namespaces: {len(result.namespaces)}")
        promise = f"busiest broker {balance.before:.3f} times the mean now, {balance.after:.3f} promised"
        lines.append(f"balance      {promise}, {balance.bound:.3f} is the bound")
    else:
        lines.append("bundles      no recommendation")
    return "\n".join(lines) + "\n"


def _covered(found: Coverage) -> str:
    least = f"at least {found.least:.1%} of their samples"
    return f"{found.covered} hours have {least}, {found.required} are required for a recommendation"


def text(result: SizingResult, found: Details) -> str:
    """The report for a terminal."""
    parts = [summary(result, found.coverage)]
    for table in tables(result, found):
        shown = table.rows[:MOST_LINES]
        widths = [max(len(line[i]) for line in [table.heads, *shown]) for i in range(len(table.heads))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in [table.heads, *shown]
        ]
        more = [f"... and {len(table.rows) - len(shown)} more"] if len(table.rows) > len(shown) else []
        note = [table.note] if table.note else []
        parts.append("\n".join([table.title, *(line.rstrip() for line in lines), *more, *note]) + "\n")
    return "\n".join(parts)


def drawings(result: SizingResult, found: Details) -> list[plots.Plot]:
    """Plots; only those there is something to show in."""
    made: list[plots.Plot] = []
    if result.namespaces:
        made.append(plots.loads(bars(result), result.balance.bound))
        sides = (weights_now(result, found.today), weights_recommended(result))
        now, recommended = ([weight for each in side.values() for weight in each] for side in sides)
        made.append(plots.bundles(now, recommended, _fair(result)))
        made.append(plots.cuts(rings(result, found.today), len(result.namespaces)))
    if found.hottest:
        made.append(plots.heat(list(found.hottest), list(found.hottest.values())))
    if found.coverage:
        days = list(days_of(result, found.coverage).items())[-DAYS:]
        made.append(plots.coverage(dict(days), found.coverage.least))
    return made


def write(folder: Path, result: SizingResult, found: Details) -> Path:
    """Write the plots, the result and report.html into a folder; the HTML's path."""
    folder.mkdir(parents=True, exist_ok=True)
    made = drawings(result, found)
    for plot in made:
        (folder / f"{plot.name}.png").write_bytes(plot.png())
    (folder / "result.json").write_text(result.model_dump_json(by_alias=True, indent=1))
    path = folder / "report.html"
    title = f"Bundles of cluster {result.cluster}"
    path.write_text(document(title, summary(result, found.coverage), made, tables(result, found)), encoding="utf-8")
    return path


def _mega(weight: float | None) -> str:
    return "-" if weight is None else f"{weight / 1e6:.2f}"


def _ratio(weight: float | None, fair: float) -> str:
    return "-" if weight is None or fair <= 0 else f"{weight / fair:.2f}"


def _count(minutes: float | None) -> str:
    return "-" if minutes is None else f"{minutes:.0f}"
