"""Recurring drift is repaired immediately at first, then less and less often, so that two writers do not fight.

The state is in status.repairs, one record for each field that drifted, so that it survives a restart. An entry of a
list counts as its list. All functions are pure; times are in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from pulsar_operator.api.v1alpha1.logical import DriftEntry, RepairRecord
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.logical.plan import difference_text, field_of

FREE = 2
"""Number of repairs of a field that are made immediately."""
WAITS = (timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1))
"""Delays from one repair to the next, from the third on. The last one applies to all that follow."""
WINDOW = timedelta(hours=1)
"""A field that stayed correct for this long after its last repair is forgotten. It is not shorter than the longest
delay."""
SETTLE = timedelta(seconds=30)
"""Within this time, a repair that was not visible when it was read back is made again and counts as the same repair."""
MAX_RECORDS = 200
SHOWN = 3
"""Maximum number of differences of a field, and of fields, that a message names."""


def wait_after(times: int) -> timedelta:
    """Returns the delay from the last of ``times`` repairs to the next."""
    return timedelta() if times < FREE else WAITS[min(times - FREE, len(WAITS) - 1)]


def due(record: RepairRecord) -> datetime:
    """Returns when the field may be repaired again."""
    return _last(record) + wait_after(record.times)


def known(records: Iterable[RepairRecord], now: datetime) -> tuple[RepairRecord, ...]:
    """Returns the records that can be used. A record with a future time (the clock was set back) would delay a field
    without end."""
    return tuple(record for record in records if _readable(record) and _last(record) <= now + SETTLE)


def backed_off_fields(records: Iterable[RepairRecord], now: datetime, *, unseen: bool) -> frozenset[str]:
    """Returns the fields that are not repaired now. ``unseen`` means that a write of the last pass was not visible when
    it was read back."""
    return frozenset(r.field for r in records if now < due(r) and not (unseen and _settling(r, now)))


def counted(
    records: Iterable[RepairRecord], repaired: Collection[str], now: datetime, *, unseen: bool, wrong: Collection[str]
) -> tuple[RepairRecord, ...]:
    """Returns the records after a repair of these fields. ``wrong`` are the fields that still differed after the last
    pass: they did not stay correct, however long ago their last repair was."""
    out = {record.field: record for record in records}
    for field in repaired:
        old = out.get(field)
        if old is not None and unseen and _settling(old, now):
            continue
        if old is not None and field not in wrong and now - _last(old) >= WINDOW:
            old = None
        times = 1 if old is None else old.times + 1
        since = None if old is None else old.backed_off_since
        out[field] = RepairRecord(field=field, times=times, last_time=timestamp(now), backed_off_since=since)
    latest = sorted(out.values(), key=lambda r: (r.last_time, r.field), reverse=True)[:MAX_RECORDS]
    return tuple(sorted(latest, key=lambda r: r.field))


def settled(
    records: Iterable[RepairRecord], waiting: Collection[str], wrong: Collection[str], now: datetime
) -> tuple[RepairRecord, ...]:
    """Returns the records at the end of a pass that observed every field. ``wrong`` are the fields that differ from the
    spec, ``waiting`` those of them whose repair is delayed. A field that stayed correct long enough is forgotten."""
    kept = [record for record in records if record.field in wrong or now - _last(record) < WINDOW]
    begun = {"backed_off_since": timestamp(now)}
    return tuple(
        record.model_copy(update=begun) if record.field in waiting and record.backed_off_since is None else record
        for record in kept
    )


def backed_off_entries(drift: Iterable[DriftEntry], backed_off: Collection[str]) -> list[DriftEntry]:
    """Returns the differences that remain because the repair of their field is delayed."""
    return [entry for entry in drift if field_of(entry.field) in backed_off]


def explain(entries: Sequence[DriftEntry], records: Iterable[RepairRecord]) -> str:
    """Returns a message about fields that another writer keeps changing: how often, the next repair, the remedy.

    ``entries`` are differences of fields whose repair is delayed.
    """
    by_field = {record.field: record for record in records}
    parts = []
    fields = list(dict.fromkeys(field_of(entry.field) for entry in entries))
    for field in fields[:SHOWN]:
        record = by_field[field]
        its = [e for e in entries if field_of(e.field) == field]
        differences = "; ".join(map(difference_text, its[:SHOWN]))
        differences += f" and {len(its) - SHOWN} more differences" if len(its) > SHOWN else ""
        parts.append(
            f"{differences} (the operator repaired the field {record.times} times, and another writer changed it "
            f"again each time; the last repair was at {record.last_time}, and the next is not before "
            f"{timestamp(due(record))})"
        )
    if len(fields) > SHOWN:
        parts.append(f"and {len(fields) - SHOWN} more fields differ")
    return (
        f"{'. '.join(parts)}. Find the other writer and stop it, remove the field from the spec, or set "
        "spec.driftPolicy to Report"
    )


def _last(record: RepairRecord) -> datetime:
    return datetime.fromisoformat(record.last_time)


def _readable(record: RepairRecord) -> bool:
    try:
        return _last(record).tzinfo is not None
    except ValueError:
        return False


def _settling(record: RepairRecord, now: datetime) -> bool:
    return now - _last(record) < SETTLE
