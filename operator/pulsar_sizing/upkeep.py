"""Upkeep of the store by the collector: it deletes days past retention and what killed writers left.

Sorting and adding up are the job's work (job/pipeline.py): the collector writes landing files and deletes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pulsar_sizing import layout
from pulsar_sizing.schema import MARKERS, SCHEMA_VERSION, TRAFFIC
from pulsar_sizing.store import Store

RETENTION_DAYS = 14


@dataclass(frozen=True)
class Report:
    """What one upkeep deleted."""

    days: int = 0
    """Folders of days past retention."""
    leftovers: int = 0
    """Files of killed writers."""


def maintain(store: Store, instance: str, now: datetime, retention_days: int = RETENTION_DAYS) -> Report:
    """Delete the days of an instance that are older than `retention_days` whole days (UTC), and leftovers.

    Killed at any point it leaves whole files, and the next upkeep deletes the rest. Blocks. Raises OSError when the
    store cannot be listed.
    """
    leftovers, days = store.clean_temporary(now), 0
    for table in (TRAFFIC, MARKERS):
        above = f"{table}/v{SCHEMA_VERSION}/{layout.partition('instance', instance)}"
        for cluster in store.folders(above):
            for folder in store.folders(f"{above}/{cluster}"):
                day = layout.day_of(folder)
                if day is not None and (now.date() - day).days > retention_days:
                    store.delete_folder(f"{above}/{cluster}/{folder}")
                    days += 1
    return Report(days, leftovers)
