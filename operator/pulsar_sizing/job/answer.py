"""One Spark job over the state of the busy hours: weights of all topics, and a bounded answer of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute
from pyspark import SparkContext

from pulsar_sizing.arrow import parquet
from pulsar_sizing.job import weights
from pulsar_sizing.job.cells import Cells, folded, joined
from pulsar_sizing.job.compute import TASKS_A_CORE
from pulsar_sizing.job.costs import Factors, applied
from pulsar_sizing.job.pieces import POSITIONS, positions_of
from pulsar_sizing.job.rows import PLACEMENT_SCHEMA, TOPICS_SCHEMA
from pulsar_sizing.job.state import PLACEMENT, SUMMARY, HourState, Manifest, State
from pulsar_sizing.store import Place, Store

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

SHARD_TOPICS: Final = 16_384
"""Topics that a task holds at once, with their histograms of some 21 hours: about 200 MB."""
T = TypeVar("T")
READ: Final = ("topic", "position", "buckets", "counts")
READ_SCHEMA: Final = pa.schema([TOPICS_SCHEMA.field(name) for name in READ])


@dataclass(frozen=True)
class Shard:
    """Topics in a half-open range of positions, and the files of the state that may have some."""

    low: int
    high: int
    busy: tuple[str, ...]
    newest: tuple[str, ...]


@dataclass(frozen=True)
class Heaviest:
    """All topics, as far as the planner needs them."""

    namespaces: dict[str, weights.Top]
    hot: list[tuple[str, int]]
    """Topics near or above a broker's share, with all their partitions."""


def placement(store: Store, state: State, manifest: Manifest, unit: int) -> list[dict[str, Any]]:
    """Bundles and brokers of an hour's last round: rows (namespace, bundle, broker, topics)."""
    tables = [PLACEMENT_SCHEMA.empty_table()]
    for folder in state.folders(manifest, PLACEMENT, [unit]):
        for name in store.names(folder):
            with store.open(f"{folder}/{name}") as stream:
                tables.append(parquet.read_table(stream, partitioning=None).cast(PLACEMENT_SCHEMA))
    keys = ["namespace", "bundle", "broker"]
    found = pa.concat_tables(tables).group_by(keys).aggregate([("topics", "sum")])
    rows: list[dict[str, Any]] = found.rename_columns([*keys, "topics"]).to_pylist()
    return rows


def heaviest(
    spark: SparkContext,
    store: Store,
    shards: Sequence[Shard],
    percentile: float,
    growth: float,
    walls: Mapping[str, Sequence[int]],
    brokers: int,
    factors: Factors,
) -> Heaviest:
    """Weigh all topics. What comes to this process is bounded by namespaces and brokers, see weights.py."""
    if not shards:
        return Heaviest({}, [])
    weigh = partial(_weighed, store.place, percentile, growth, factors)
    answers = _of_each(spark, shards, partial(_answer, weigh, dict(walls), brokers))
    found = {
        name: _together([each.tops[name] for each in answers if name in each.tops], walls.get(name, ()))
        for name in sorted({name for each in answers for name in each.tops})
    }
    limit = weights.SHARE_OF_ADVICE * sum(top.total for top in found.values()) / max(brokers, 1)
    hot = [(topic, weight) for each in answers for topic, weight in each.hot if weight > limit]
    bases = frozenset(weights.partitioned_name(topic) for topic, _ in hot)
    if bases - {topic for topic, _ in hot}:
        # Weighed anew and not kept from the first look: what Spark keeps it serializes with classes of its machine
        # learning, and the job's image has none of that.
        hot = [pair for each in _of_each(spark, shards, partial(_related, weigh, bases)) for pair in each]
    return Heaviest(found, sorted(hot))


def _of_each(spark: SparkContext, shards: Sequence[Shard], work: Callable[[Shard], T]) -> list[T]:
    """What work says of each shard, one after the other in each of Spark's tasks; a single one needs no task."""
    if len(shards) == 1:
        return [work(shards[0])]
    return spark.parallelize(shards, min(len(shards), TASKS_A_CORE * spark.defaultParallelism)).map(work).collect()


def shards(store: Store, state: State, manifest: Manifest, busy: Sequence[int], newest: int | None) -> list[Shard]:
    """Shards of about SHARD_TOPICS topics. `busy` and `newest` are hours since 1970 of the manifest."""
    # What the busy hours know the newest one does not add to.
    units = [*busy, *([] if newest is None or newest in busy else [newest])]
    # From what was recorded and not from how it was read, so that the same recording has the same shards.
    topics = max((_topics(manifest.hours[unit]) for unit in units), default=0)
    if not topics:
        return []
    count = max(1, ceil(topics / SHARD_TOPICS))
    edges = [n * POSITIONS // count for n in range(count + 1)]
    of_busy = _files(store, state.folders(manifest, SUMMARY, busy))
    of_newest = _files(store, state.folders(manifest, SUMMARY, units[len(busy) :]))
    return [
        Shard(low, high, *(tuple(p for p, a, b in files if a < high and b > low) for files in (of_busy, of_newest)))
        for low, high in itertools.pairwise(edges)
    ]


def _topics(hour: HourState) -> int:
    return ceil(hour.samples / max(hour.rounds, 1))


def _files(store: Store, folders: Sequence[str]) -> list[tuple[str, int, int]]:
    """Paths with the half-open range of positions that their names tell."""
    return [(f"{folder}/{name}", *positions_of(name)) for folder in folders for name in store.names(folder)]


def _weighed(
    place: Place, percentile: float, growth: float, factors: Factors, shard: Shard, names: str = ""
) -> weights.Weights:
    store = Store(place.root, s3=place.s3)
    busy, newest = (read_state(store, paths, shard.low, shard.high, names) for paths in (shard.busy, shard.newest))
    return applied(weights.topic_weights(busy, newest, percentile, growth), factors)


def _answer(
    weigh: Callable[[Shard], weights.Weights], walls: Mapping[str, Sequence[int]], brokers: int, shard: Shard
) -> weights.Answer:
    return weights.answer(weigh(shard), walls, brokers)


def _related(
    weigh: Callable[[Shard, str], weights.Weights], bases: frozenset[str], shard: Shard
) -> list[tuple[str, int]]:
    names = f"^(?:{'|'.join(map(re.escape, sorted(bases)))})(?:$|-partition-)"
    return weights.related(weigh(shard, names), bases)


def read_state(store: Store, paths: Sequence[str], low: int, high: int, names: str = "") -> Any:
    """Rows of the state's summaries with a position in [low, high): topic, position, buckets, counts.

    Only of topics that have the regular expression `names` in their name: row groups without any are read no further.
    """
    return pa.concat_tables([READ_SCHEMA.empty_table(), *_parts(store, paths, low, high, names)])


def _parts(store: Store, paths: Sequence[str], low: int, high: int, names: str) -> Iterator[Any]:
    for path in paths:
        with store.open(path) as stream:
            file = parquet.ParquetFile(stream)
            index = file.schema_arrow.names.index("position")
            spans = [file.metadata.row_group(n).column(index).statistics for n in range(file.num_row_groups)]
            wanted = [n for n, span in enumerate(spans) if span.min < high and span.max >= low]
            if names:
                wanted = [n for n in wanted if compute.any(_match(_columns(file, [n], ["topic"]), names)).as_py()]
            if wanted:
                table = _columns(file, wanted, READ)
                inside = compute.and_(
                    compute.greater_equal(table["position"], low), compute.less(table["position"], high)
                )
                table = table.filter(compute.and_(inside, _match(table, names)) if names else inside)
                yield table.cast(READ_SCHEMA)


def _columns(file: Any, groups: Sequence[int], names: Sequence[str]) -> Any:
    return file.read_row_groups(groups, columns=list(names), use_threads=False)


def _match(table: Any, names: str) -> Any:
    return compute.match_substring_regex(table["topic"], names)


def _together(parts: Sequence[weights.Top], walls: Sequence[int]) -> weights.Top:
    """A namespace from its shards, ascending by position."""
    top = max(parts, key=lambda each: (each.weight, each.topic))
    cells: Cells = folded(joined([each.cells for each in parts]), walls)
    total, topics = sum(each.total for each in parts), sum(each.topics for each in parts)
    return weights.Top(top.topic, top.weight, total, topics, cells)
