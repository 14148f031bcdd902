"""What a Spark task does: read one piece of an hour, add it up, write its rows of the state, and tell a few numbers.

Files are read with Arrow in the task's Python process, column by column, and never pass through Java: rows come in by
the million, and what goes out is one row a topic. A task that is repeated writes the same files again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.arrow import parquet
from pulsar_sizing.job.carried import CARRIED_SCHEMA
from pulsar_sizing.job.inventory import VanishedError
from pulsar_sizing.job.pieces import END, Piece
from pulsar_sizing.job.rows import COLUMNS, PLACEMENT_SCHEMA, TOPICS_SCHEMA, WORDS, reduced
from pulsar_sizing.store import Place, Store, Upload

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

GROUP_ROWS = 16_384
"""Topics in a row group of the state: about 5 MB of histograms."""


class DamagedError(Exception):
    """Files with a sound footer that turned out not to be readable."""

    def __init__(self, paths: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(paths)))
        self.paths = paths


@dataclass(frozen=True)
class Told:
    """What came of a piece."""

    unit: int
    samples: int = 0
    duplicates: int = 0
    costs: dict[str, int] = field(default_factory=dict)
    """By broker."""
    rejected: dict[str, int] = field(default_factory=dict)
    damaged: frozenset[str] = frozenset()
    """Files that turned out not to be readable: nothing of the piece counts."""
    vanished: str = ""
    """A file that went meanwhile: nothing counts."""


@dataclass(frozen=True)
class Target:
    """Where the state's rows go, folders below the root."""

    topics: str
    placement: str
    carried: str


def tell(place: Place, target: Target, model: CostModel, pieces: Iterator[Piece]) -> Iterator[Told]:
    """Work out pieces one after the other."""
    store = Store(place.root, s3=place.s3)
    yield from map(partial(_piece, store, target, model), pieces)


def _piece(store: Store, target: Target, model: CostModel, piece: Piece) -> Told:
    try:
        table = rows_of(store, piece)
    except VanishedError as error:
        return Told(piece.unit, vanished=str(error))
    except DamagedError as error:
        return Told(piece.unit, damaged=error.paths)
    found = reduced(table, piece.unit, model, piece.last_round)
    _write(store, f"{target.topics}/unit={piece.unit}/{piece.name}.parquet", found.topics, TOPICS_SCHEMA)
    _write(store, f"{target.placement}/unit={piece.unit}/{piece.name}.parquet", found.placement, PLACEMENT_SCHEMA)
    _write(store, f"{target.carried}/unit={piece.unit}/{piece.name}.parquet", found.carried, CARRIED_SCHEMA)
    return Told(piece.unit, found.samples, found.duplicates, found.costs, found.rejected)


def rows_of(store: Store, piece: Piece) -> Any:
    """The rows of a piece with COLUMNS; words as codes.

    Raises DamagedError for files that turn out not to be readable, VanishedError when one is gone.
    """
    tables: list[Any] = []
    damaged: set[str] = set()
    for path, numbers in piece.groups:
        try:
            tables.append(read(store, path, numbers))
        except FileNotFoundError:
            raise VanishedError(path) from None
        except (pa.ArrowException, OSError) as error:
            # An error number is the store's; a damaged page has none.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            damaged.add(path)
    if damaged:
        raise DamagedError(frozenset(damaged))
    return _within(pa.concat_tables(tables), piece)


def read(store: Store, path: str, numbers: tuple[int, ...], columns: tuple[str, ...] = COLUMNS) -> Any:
    """Columns of row groups of a traffic file; words as codes."""
    words = [name for name in columns if name in WORDS]
    with store.open(path) as stream:
        file = parquet.ParquetFile(stream, read_dictionary=words)
        return file.read_row_groups(numbers, columns=list(columns), use_threads=False).replace_schema_metadata(None)


def _within(table: Any, piece: Piece) -> Any:
    """The rows of a piece; one without time or position is before all others."""
    for name, (low, high) in (("position", piece.positions), ("sample_time", piece.times)):
        if (low, high) != (-1, END):
            values = compute.fill_null(table[name].cast(pa.int64()), -1)
            keep = compute.and_(
                compute.greater_equal(values, low) if low > -1 else pa.scalar(True), compute.less(values, high)
            )
            table = table.filter(keep)
    return table


def _write(store: Store, path: str, table: Any, schema: Any) -> None:
    if not table.num_rows:
        return
    words = [column.name for column in schema if pa.types.is_string(column.type) and column.name != "topic"]
    upload = Upload(store, path, schema, use_dictionary=[*words, "hour_of_day", "samples"])
    try:
        for start in range(0, table.num_rows, GROUP_ROWS):
            upload.write(table.slice(start, GROUP_ROWS))
        upload.commit()
    except BaseException:
        upload.abort()
        raise


def count_rejected(told: list[Told]) -> Counter[str]:
    """Rows left out by reason."""
    found: Counter[str] = Counter()
    for each in told:
        found.update(each.rejected)
    return found
