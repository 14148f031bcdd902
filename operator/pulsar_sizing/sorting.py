"""The rows of an hour in order of position, however many they are: all samples of a topic lie together.

Who adds them up need not sort them, and who wants some positions reads few row groups. Too many rows for the memory are
sorted in runs, each put aside under ``_tmp`` in batches by range of positions, and then range by range. What a killed
run leaves there goes with a later upkeep, like everything under ``_tmp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from math import ceil
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from pulsar_sizing.store import Store

ipc: Any = pyarrow.ipc
"""pyarrow has no annotations; calls of this module are not type-checked."""

SORT_ROWS: Final = 131_072
"""Rows sorted at once: about 270 MB above the process, nearly whatever the size of the hour."""
ROW_GROUP_ROWS: Final = 131_072
"""About; a row group ends where a position does."""
ORDER: Final = ("position", "topic", "sample_time", "broker")
POSITIONS: Final = 1 << 32


def in_order(store: Store, schema: Any, tables: Iterable[Any], rows: int, most: int = SORT_ROWS) -> Iterator[Any]:
    """Row groups of all rows of some tables, `rows` in all, ascending by what there is of ORDER."""
    order = [(name, "ascending") for name in ORDER if name in schema.names]
    if rows <= most or "position" not in schema.names:
        held = list(tables)
        if held:
            yield from _row_groups(pa.concat_tables(held).sort_by(order))
        return
    parts = ceil(rows / most)
    edges = [number * POSITIONS // parts for number in range(1, parts)]
    names: list[str] = []
    try:
        for run in _runs(tables, most):
            names.append(store.temporary("sorted.arrow"))
            _put_aside(store, names[-1], run.sort_by(order), edges)
        with ExitStack() as opened:
            readers = [ipc.open_file(opened.enter_context(store.open(name))) for name in names]
            for part in range(parts):
                batches = [reader.get_batch(part) for reader in readers]
                yield from _row_groups(pa.Table.from_batches(batches).sort_by(order))
    finally:
        for name in names:
            store.delete(name)


def _runs(tables: Iterable[Any], most: int) -> Iterator[Any]:
    held: list[Any] = []
    for table in tables:
        held.append(table)
        if sum(each.num_rows for each in held) >= most:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _put_aside(store: Store, name: str, run: Any, edges: list[int]) -> None:
    """One batch for each range of positions, empty or not."""
    cuts = [0, *np.searchsorted(run["position"].to_numpy(), edges).tolist(), run.num_rows]
    run = run.combine_chunks()
    options = ipc.IpcWriteOptions(compression="zstd")
    with store.create(name) as stream, ipc.new_file(stream, run.schema, options=options) as writer:
        for low, high in pairwise(cuts):
            batches = run.slice(low, high - low).to_batches()
            writer.write_batch(batches[0] if batches else pa.RecordBatch.from_pylist([], run.schema))


def _row_groups(table: Any) -> Iterator[Any]:
    begin = 0
    positions = table["position"].to_numpy() if "position" in table.schema.names else None
    while begin < table.num_rows:
        end = min(begin + ROW_GROUP_ROWS, table.num_rows)
        if positions is not None:
            end = int(np.searchsorted(positions, positions[end - 1], side="right"))
        yield table.slice(begin, end - begin)
        begin = end
