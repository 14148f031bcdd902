"""Ledgers that were given up with a bookie that lost its volume. The record is in the metadata store. Pure.

Condition Replicated is not True while such a ledger still names that bookie, and no person is asked about the same
ledger twice. The auditor does not report these ledgers: it considers a bookie healthy that is registered with the id in
the ledger, even if the bookie is empty.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan

GIVEN_UP_PATH: Final = "/pulsar-operator/given-up-ledgers"
LISTED: Final = 1000
"""Maximum number of recorded ledgers of one bookie. Further ones are only counted."""
NAMED: Final = 20
"""Maximum number of ledgers of one bookie that one pass checks, and that a message names."""


@dataclass(frozen=True)
class GivenUp:
    """Ledgers that named a bookie when its data was given up."""

    ledgers: tuple[int, ...] = ()
    """Ids of the ledgers that still name it, as of the last check."""
    more: int = 0
    """Number of further ledgers."""

    @property
    def count(self) -> int:
        """Returns the number of all ledgers."""
        return len(self.ledgers) + self.more


def parse_given_up(data: bytes) -> dict[str, GivenUp] | None:
    """Parses the content of znode GIVEN_UP_PATH, by bookie id. Returns None if it cannot be parsed."""
    try:
        return {
            str(bookie): GivenUp(tuple(sorted(int(each) for each in of["ledgers"])), int(of["more"]))
            for bookie, of in json.loads(data or b"{}").items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def given_up_data(found: Mapping[str, GivenUp]) -> bytes:
    """Returns the content of the znode."""
    fields = {bookie: {"ledgers": list(of.ledgers), "more": of.more} for bookie, of in sorted(found.items())}
    return json.dumps(fields).encode()


def with_given_up(found: Mapping[str, GivenUp], bookie: str, scan: LedgerScan) -> dict[str, GivenUp]:
    """Returns the record after the ledgers that name a bookie were given up."""
    before = found.get(bookie, GivenUp())
    named = set(numbers_of(scan)) | set(before.ledgers)
    ledgers = tuple(sorted(named)[:LISTED])
    count = max(scan.naming, len(named), before.count)
    return {**found, bookie: GivenUp(ledgers, count - len(ledgers))}


def numbers_of(scan: LedgerScan) -> tuple[int, ...]:
    """Returns the ids of the ledgers that a scan lists."""
    return tuple(row.ledger for row in (*scan.not_closed, *scan.closed))


def pruned(found: Mapping[str, GivenUp], ended: Mapping[str, Collection[int]]) -> dict[str, GivenUp]:
    """Returns the record without the ``ended`` ledgers, which no longer name the bookie, by bookie id."""
    left = {
        bookie: GivenUp(tuple(each for each in of.ledgers if each not in ended.get(bookie, ())), of.more)
        for bookie, of in found.items()
    }
    return {bookie: of for bookie, of in left.items() if of.count}


def given_up_text(found: Mapping[str, GivenUp]) -> str:
    """Returns the message for the condition, with the remedy."""
    texts = []
    for bookie, of in sorted(found.items()):
        shown = ", ".join(map(str, of.ledgers[:NAMED]))
        rest = of.count - min(len(of.ledgers), NAMED)
        listed = f": {shown}{f' and {rest} more' if rest else ''}" if shown else ""
        noun = "1 ledger references" if of.count == 1 else f"{of.count} ledgers reference"
        texts.append(f"{noun} bookie {bookie}, which lost its entries of these ledgers{listed}")
    unlisted = any(not of.ledgers for of in found.values())
    remedy = (
        "The entries were given up with confirmation LoseLedgers. Delete the topics of the ledgers, or wait until "
        "retention deletes the ledgers"
    )
    if unlisted:
        remedy += (
            ". The operator does not know the IDs of all these ledgers. After all of them are deleted, delete znode "
            f"{GIVEN_UP_PATH} in the metadata store of the cluster"
        )
    return f"{'. '.join(texts)}. {remedy}"
