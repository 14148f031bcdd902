"""A sizing result for people: tables on the terminal, plots, and one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_operator.balance.model.ranges import boundary_texts
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import plots
from pulsar_sizing.job.conclude import Today, bundle_weights, loads_after
from pulsar_sizing.job.inventory import unit_of
from pulsar_sizing.job.state import SUMMARY, Manifest, State
from pulsar_sizing.store import spark_paths

HOTTEST = 20
MOST_LINES = 30
Heat = dict[str, list[float]]
Table = tuple[str, Sequence[str], list[Sequence[str]]]


def heat(spark: SparkSession, state: State, manifest: Manifest, result: SizingResult) -> Heat:
    """Mean cost by hour of the day of the topics with the highest mean cost, in the result's time."""
    units = range(unit_of(result.from_time), unit_of(result.to_time))
    paths = state.paths(manifest, SUMMARY, units)
    if not paths:
        return {}
    summary = spark.read.parquet(*spark_paths(paths)).select("topic", "hour_of_day", "samples", "cost")
    totals = summary.groupBy("topic").agg(F.sum("cost").alias("total"))
    top = totals.orderBy(F.desc("total"), "topic").limit(HOTTEST)
    rows = (
        summary.join(top, on="topic", how="inner")
        .groupBy("topic", "total", "hour_of_day")
        .agg((F.sum("cost") / F.sum("samples")).alias("cost"))
        .collect()
    )
    found: Heat = {}
    for row in sorted(rows, key=lambda row: (-row["total"], row["topic"])):
        found.setdefault(row["topic"], [0.0] * 24)[row["hour_of_day"]] = row["cost"]
    return found


def tables(result: SizingResult) -> list[Table]:
    """The tables of the report: title, heads, rows."""
    after = loads_after(result) if result.namespaces else {}
    mean = sum(broker.weight for broker in result.brokers) / max(len(result.brokers), 1)
    bound = mean * result.balance.bound
    hot = sorted(result.namespaces, key=lambda each: -each.hottest_weight)[:MOST_LINES]
    found: list[Table] = [
        (
            "Load per broker, MB/s equivalents",
            ("broker", "before", "after", "bound", "before/mean"),
            [
                (b.broker, _mega(b.weight), _mega(after.get(b.broker)), _mega(bound), f"{b.utilization:.2f}")
                for b in result.brokers
            ],
        ),
        (
            "Bundles",
            ("namespace", "now", "recommended", "if new", "weight", "why"),
            [
                (
                    each.namespace,
                    str(each.bundles_now),
                    str(len(each.boundaries) - 1),
                    str(len(each.fresh_boundaries) - 1),
                    _mega(each.weight),
                    each.reason,
                )
                for each in sorted(result.namespaces, key=lambda each: -each.weight)
            ],
        ),
        (
            "Hottest topic of each namespace",
            ("topic", "weight", "share of a broker"),
            [
                (e.hottest_topic, _mega(e.hottest_weight), f"{e.hottest_weight / mean:.1%}" if mean else "-")
                for e in hot
            ],
        ),
        (
            "Topics that need more partitions",
            ("topic", "now", "advised", "why"),
            [(a.topic, str(a.partitions_now), str(a.partitions), a.reason) for a in result.partitions],
        ),
        ("Left out", ("reason", "rows or files"), [(reason, str(n)) for reason, n in result.rejected.items()]),
    ]
    return [table for table in found if table[2]]


def summary(result: SizingResult) -> str:
    """The result in a few lines."""
    balance = result.balance
    now = sum(each.bundles_now for each in result.namespaces)
    wanted = sum(len(each.boundaries) - 1 for each in result.namespaces)
    lines = [
        f"Cluster {result.cluster} of instance {result.instance}",
        f"recorded     {result.from_time:%Y-%m-%d %H:%M} to {result.to_time:%Y-%m-%d %H:%M} UTC, "
        f"{result.samples} samples, {result.completeness:.1%} complete",
        f"weights      percentile {result.percentile:g} of the busiest hours, times {result.growth:g}",
        f"brokers      {result.verdict.verdict}: {result.verdict.reason}",
    ]
    if result.namespaces:
        lines.append(f"bundles      {now} now, {wanted} recommended, namespaces: {len(result.namespaces)}")
        promise = f"busiest broker {balance.before:.3f} times the mean now, {balance.after:.3f} promised"
        lines.append(f"balance      {promise}, {balance.bound:.3f} is the bound")
    else:
        lines.append("bundles      no recommendation")
    return "\n".join(lines) + "\n"


def text(result: SizingResult) -> str:
    """The report for a terminal."""
    parts = [summary(result)]
    for title, heads, rows in tables(result):
        shown = rows[:MOST_LINES]
        widths = [max(len(line[i]) for line in [heads, *shown]) for i in range(len(heads))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *shown]
        ]
        more = [f"... and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
        parts.append("\n".join([title, *(line.rstrip() for line in lines), *more]) + "\n")
    return "\n".join(parts)


def images(result: SizingResult, today: Mapping[str, Today], hottest: Heat) -> dict[str, bytes]:
    """Plots by file name; only those there is something to show in."""
    found: dict[str, bytes] = {}
    if result.namespaces:
        before = {broker.broker: broker.weight for broker in result.brokers}
        found["load-per-broker.png"] = plots.loads(before, loads_after(result), result.balance.bound)
        after = [w for each in result.namespaces for w in bundle_weights(each.cells, each.boundaries)]
        now = [
            weight
            for each in result.namespaces
            if each.namespace in today
            for weight in bundle_weights(each.cells, boundary_texts(today[each.namespace].boundaries))
        ]
        found["bundle-weights.png"] = plots.bundles(now, after)
    if hottest:
        found["hot-topics.png"] = plots.heat(list(hottest), list(hottest.values()))
    return found


def write(folder: Path, result: SizingResult, today: Mapping[str, Today], hottest: Heat) -> Path:
    """Write the plots, the result and report.html into a folder; the HTML's path."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = images(result, today, hottest)
    for name, data in pictures.items():
        (folder / name).write_bytes(data)
    (folder / "result.json").write_text(result.model_dump_json(by_alias=True, indent=1))
    path = folder / "report.html"
    path.write_text(html(result, pictures))
    return path


def html(result: SizingResult, pictures: dict[str, bytes]) -> str:
    """The report as one document; names from the cluster are escaped, nothing is loaded from elsewhere."""
    body = [f"<h1>Bundles of cluster {escape(result.cluster)}</h1><pre>{escape(summary(result))}</pre>"]
    for name, data in pictures.items():
        body.append(f'<img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">')
    for title, heads, rows in tables(result):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        body.append(f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{lines}</table>")
    style = (
        "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:70em}img{max-width:100%;display:block}"
        "table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Bundle sizing</title><style>{style}</style>'
        + "\n".join(body)
        + "</html>\n"
    )


def _mega(weight: float | None) -> str:
    return "-" if weight is None else f"{weight / 1e6:.2f}"
