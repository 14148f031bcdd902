"""Copies that the operator ended because the other bookies had no room: when the next one may begin. Pure.

Room may run out as soon as a copy begins, and be free again once it ended. Each copy that ends doubles the delay before
the next one, so that a bookie is not made read-only again and again for nothing. The record is in a znode beside the
record (decommission_record.py), which is deleted when the bookie stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.domain.conditions import parse_time, timestamp

ENDED_PATH: Final = "/pulsar-operator/ended-copies"
FIRST_SECONDS: Final = 300
"""Delay after the first copy that ended."""
MOST_SECONDS: Final = 4 * 3600
"""The longest delay."""
FORGOTTEN: Final = timedelta(days=1)
"""Age at which an end no longer counts."""


@dataclass(frozen=True)
class EndedCopies:
    """The ended copies of one bookie."""

    times: int
    last: datetime

    @property
    def again(self) -> datetime:
        """When the next copy may begin."""
        # Bounded before it is a power: the record may say anything.
        return self.last + timedelta(seconds=min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(self.times - 1, 20)))


def parse_ended(data: bytes, now: datetime) -> dict[str, EndedCopies]:
    """Parses the znode into the ends that still count, by bookie id. An unreadable entry delays nothing."""
    try:
        found = {str(bookie): _ended(each) for bookie, each in json.loads(data or b"{}").items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return {bookie: each for bookie, each in found.items() if each and timedelta() <= now - each.last < FORGOTTEN}


def _ended(each: Mapping[str, object]) -> EndedCopies | None:
    times, last = each["times"], parse_time(str(each["last"]))
    return EndedCopies(times, last) if type(times) is int and times > 0 and last is not None else None


def ended_data(ended: Mapping[str, EndedCopies]) -> bytes:
    """Returns the content of the znode."""
    found = {bookie: {"times": each.times, "last": timestamp(each.last)} for bookie, each in sorted(ended.items())}
    return json.dumps(found).encode()


def with_another(ended: Mapping[str, EndedCopies], bookie: str, now: datetime) -> dict[str, EndedCopies]:
    """Returns the record after a copy of that bookie ended now."""
    before = ended.get(bookie)
    return {**ended, bookie: EndedCopies(1 if before is None else before.times + 1, now)}
