"""Ledgers whose copies are in fewer racks than desired: they are older than the racks, and are never moved. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.api.v1alpha1.cluster_status import PlacementStatus
from pulsar_operator.api.v1alpha1.racks import DEFAULT_RACK
from pulsar_operator.domain.bookkeeper.ledgers import Ledger
from pulsar_operator.domain.conditions import parse_time

PAUSE_SECONDS: Final = 600.0
"""Minimum seconds between two counts, regardless of changes, since bookies change one after another."""
AGAIN_SECONDS: Final = 24 * 3600.0
"""Seconds after which all ledgers are counted again, since retention deletes older ones."""


@dataclass(frozen=True)
class DesiredRacks:
    """The racks that the copies of ledgers are compared with."""

    racks: Mapping[str, str]
    """Racks by bookie id, of all bookies that brokers know."""
    minimum: int
    """Number of racks that the copies of an entry are distributed over."""

    @property
    def digest(self) -> str:
        """Returns a hash that changes if the count may change."""
        text = json.dumps([sorted(self.racks.items()), self.minimum])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def broken_by(self, ledger: Ledger) -> bool:
        """Whether copies of any entry of a ledger are in too few racks. Fewer copies need fewer racks. Bookies without
        a known rack are in the same rack, as for brokers."""
        unknown = f"/{DEFAULT_RACK}"
        return any(
            len({self.racks.get(bookie, unknown) for bookie in written}) < min(self.minimum, len(set(written)))
            for written in ledger.write_sets()
        )


def is_due(stored: PlacementStatus | None, digest: str, now: datetime) -> bool:
    """Whether ledgers must be counted: they never were, or for other racks, or too long ago."""
    counted = parse_time(stored.time) if stored is not None else None
    if stored is None or counted is None:
        return True
    return (now - counted).total_seconds() >= (AGAIN_SECONDS if stored.racks == digest else PAUSE_SECONDS)


def placement_message(found: PlacementStatus | None) -> str:
    """Returns the text that follows the racks in the condition; empty if there is nothing to report."""
    if found is None:
        return ""
    if found.against is None:
        return ". The number of ledgers with copies in too few racks is unknown, because not all ledgers could be read"
    if not found.against:
        return ""
    return (
        f". {found.against} of {found.ledgers} ledgers have copies in too few racks, because they were created "
        "before the racks were known. These copies stay there until retention deletes the ledgers"
    )
