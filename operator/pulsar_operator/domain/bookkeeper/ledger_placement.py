"""Ledgers whose copies are in fewer racks than required: they were written before there were enough racks, and never
moved. Pure."""

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
"""Between two counts, whatever changes: bookies come and go one after another."""
AGAIN_SECONDS: Final = 24 * 3600.0
"""After which all ledgers are counted again: retention takes out those that were made before."""


@dataclass(frozen=True)
class DesiredRacks:
    """What ledgers are held against."""

    racks: Mapping[str, str]
    """Rack by the bookie's id, of all that brokers know."""
    minimum: int
    """Racks that the copies of an entry are spread over."""

    @property
    def digest(self) -> str:
        """Changes with what would change the count."""
        text = json.dumps([sorted(self.racks.items()), self.minimum])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def broken_by(self, ledger: Ledger) -> bool:
        """Whether copies of some of a ledger's entries are in too few racks; fewer copies need fewer racks. Bookies of
        unknown racks count as one rack, as for brokers."""
        unknown = f"/{DEFAULT_RACK}"
        return any(
            len({self.racks.get(bookie, unknown) for bookie in written}) < min(self.minimum, len(set(written)))
            for written in ledger.write_sets()
        )


def is_due(stored: PlacementStatus | None, digest: str, now: datetime) -> bool:
    """Whether ledgers are to be counted: never done, of other racks, or long ago."""
    counted = parse_time(stored.time) if stored is not None else None
    if stored is None or counted is None:
        return True
    return (now - counted).total_seconds() >= (AGAIN_SECONDS if stored.racks == digest else PAUSE_SECONDS)


def placement_message(found: PlacementStatus | None) -> str:
    """What follows the racks in the condition; empty where there is nothing to say."""
    if found is None:
        return ""
    if found.against is None:
        return "; the number of ledgers with copies in too few racks is unknown: not all ledgers could be read"
    if not found.against:
        return ""
    return (
        f"; {found.against} of {found.ledgers} ledgers have copies in too few racks: they were made before, and stay "
        "where they are until retention takes them out"
    )
