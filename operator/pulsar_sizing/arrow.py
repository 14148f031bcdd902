"""pyarrow as the rest uses it, and Arrow schemas of the tables that schema.py describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from pulsar_sizing.schema import MARKER_COLUMNS, MARKERS, TRAFFIC, TRAFFIC_COLUMNS, Column

fs: Any = pyarrow.fs
parquet: Any = pyarrow.parquet
"""pyarrow has no annotations; calls of these two modules are not type-checked."""

TYPES = {
    "timestamp[ms, UTC]": pa.timestamp("ms", tz="UTC"),
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}
"""By the type's name in schema.py."""


def schema_of(columns: Sequence[Column]) -> Any:
    """The pyarrow.Schema of a table's columns."""
    return pa.schema([pa.field(c.name, TYPES[c.type], nullable=not c.required) for c in columns])


def table_schema(table: str) -> Any:
    """The pyarrow.Schema of ``traffic`` or ``markers``."""
    return schema_of({TRAFFIC: TRAFFIC_COLUMNS, MARKERS: MARKER_COLUMNS}[table])
