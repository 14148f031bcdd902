"""Ledgers that were abandoned with a bookie that lost its volume, kept beside the data: condition Replicated is not
True while such a ledger still names that bookie, and no user must confirm the same ledger twice. Pure.

The auditor does not report it: it regards a bookie as healthy that is up again under the referenced id, even if it is
empty.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan

GIVEN_UP_PATH: Final = "/pulsar-operator/given-up-ledgers"
LISTED: Final = 1000
"""Ledgers of one bookie that are listed; more are counted."""
NAMED: Final = 20
"""Ledgers of one bookie that are checked in one pass, and that a message names."""


@dataclass(frozen=True)
class GivenUp:
    """Ledgers that named a bookie when what it had was given up."""

    ledgers: tuple[int, ...] = ()
    """By id, those that still name it as far as they were checked."""
    more: int = 0
    """How many others there were."""

    @property
    def count(self) -> int:
        """All of them."""
        return len(self.ledgers) + self.more


def parse_given_up(data: bytes) -> dict[str, GivenUp] | None:
    """What znode GIVEN_UP_PATH says, by the bookie's id; None where it cannot be read."""
    try:
        return {
            str(bookie): GivenUp(tuple(sorted(int(each) for each in of["ledgers"])), int(of["more"]))
            for bookie, of in json.loads(data or b"{}").items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def given_up_data(found: Mapping[str, GivenUp]) -> bytes:
    """Content of the znode."""
    fields = {bookie: {"ledgers": list(of.ledgers), "more": of.more} for bookie, of in sorted(found.items())}
    return json.dumps(fields).encode()


def with_given_up(found: Mapping[str, GivenUp], bookie: str, scan: LedgerScan) -> dict[str, GivenUp]:
    """The record once the ledgers that name a bookie are given up."""
    before = found.get(bookie, GivenUp())
    named = set(numbers_of(scan)) | set(before.ledgers)
    ledgers = tuple(sorted(named)[:LISTED])
    count = max(scan.naming, len(named), before.count)
    return {**found, bookie: GivenUp(ledgers, count - len(ledgers))}


def numbers_of(scan: LedgerScan) -> tuple[int, ...]:
    """Ids of the ledgers of a scan that are listed in it."""
    return tuple(row.ledger for row in (*scan.not_closed, *scan.closed))


def pruned(found: Mapping[str, GivenUp], ended: Mapping[str, Collection[int]]) -> dict[str, GivenUp]:
    """The record without ledgers that name the bookie no longer, by the bookie's id."""
    left = {
        bookie: GivenUp(tuple(each for each in of.ledgers if each not in ended.get(bookie, ())), of.more)
        for bookie, of in found.items()
    }
    return {bookie: of for bookie, of in left.items() if of.count}


def given_up_text(found: Mapping[str, GivenUp]) -> str:
    """What is said of it, with the remedy: for the condition."""
    texts = []
    for bookie, of in sorted(found.items()):
        shown = ", ".join(map(str, of.ledgers[:NAMED]))
        rest = of.count - min(len(of.ledgers), NAMED)
        listed = f": {shown}{f' and {rest} more' if rest else ''}" if shown else ""
        noun = "1 ledger names" if of.count == 1 else f"{of.count} ledgers name"
        texts.append(f"{noun} bookie {bookie}, which lost what they had there{listed}")
    unlisted = any(not of.ledgers for of in found.values())
    remedy = "Their entries were given up by confirmation LoseLedgers. Delete their topics, or wait for their retention"
    if unlisted:
        remedy += f"; once none of these ledgers is left, delete znode {GIVEN_UP_PATH}"
    return f"{'. '.join(texts)}. {remedy}"
