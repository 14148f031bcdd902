"""Whether the bookies that are left have room for what is copied from one that leaves. Pure.

A copy of a ledger goes to a writable bookie that does not have that ledger yet, each such bookie as likely as the next
(class RackawareEnsemblePlacementPolicyImpl, replaceBookie). So what is on the bookie is counted by the other bookies of
its ledgers' ensembles, and is spread evenly over those that are left: each must have room for its share below the stop
line, which lies GUARD below the mark at which a bookie makes itself read-only. Racks and weights may spread it less
evenly, and clients write at the same time: the check is repeated during the copy, and it ends before a bookie is
expected to pass the line. The metadata of a ledger that is not closed does not have its size: such a ledger counts once
its topic is unloaded, which is before anything is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_operator.domain.bookkeeper.storage_facts import Space

GUARD: Final = 0.02
"""Share of its disks that each bookie keeps free below the mark: what is written between two looks."""
MARGIN: Final = 1.05
"""Additional room that must exist before a copy begins, so that concurrent writes do not end it."""
ENTRY: Final = 64
"""Bytes that an entry takes besides its content: its header, its digest and its place in the index."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

Peers = Mapping[frozenset[str], int]
"""Bytes of ledgers on a bookie, by the other bookies that have them."""


@dataclass(frozen=True)
class Shortage:
    """What has no room."""

    moved: int
    """Bytes to be copied."""
    room: int
    """Bytes below the stop line, of all bookies that are left."""
    bookies: int
    """How many are left."""
    bookie: str
    """The one that is the shortest of room."""
    takes: int
    """Bytes that it is expected to get."""
    has: int
    """Bytes below the stop line; negative where it is beyond."""


def unknown_of(peers: Peers, targets: frozenset[str], disks: Mapping[str, Space]) -> str | None:
    """A bookie that may get a share and does not say how full it is; None if there is none."""
    return next((each for each in sorted(_shares(peers, targets)) if each not in disks), None)


def shortage(
    peers: Peers, targets: frozenset[str], disks: Mapping[str, Space], mark: float, margin: float = 1.0
) -> Shortage | None:
    """The bookie that is shortest of room; None if all have room for their shares.

    ``targets`` are the writable bookies that are left, ``disks`` of all of them that get a share, ``mark`` the share of
    its disks at which a bookie makes itself read-only.
    """
    room = {each: int((mark - GUARD) * disks[each].total) - disks[each].used for each in targets if each in disks}
    found = [
        (room[each] - share, each, int(share))
        for each, share in _shares(peers, targets).items()
        if each in room and share * margin > room[each]
    ]
    if not found:
        return None
    _, bookie, takes = min(found)
    free = sum(max(0, each) for each in room.values())
    return Shortage(sum(peers.values()), free, len(targets), bookie, takes, room[bookie])


def _shares(peers: Peers, targets: frozenset[str]) -> dict[str, float]:
    """Returns the bytes that each bookie is expected to get. Data without a possible bookie is left to the check of
    ensembles."""
    found: dict[str, float] = {}
    for others, size in peers.items():
        eligible = sorted(targets - others)
        for each in eligible:
            found[each] = found.get(each, 0.0) + size / len(eligible)
    return {each: share for each, share in found.items() if share > 0}


def describe_shortage(short: Shortage, mark: float) -> str:
    """In words, with the numbers."""
    line = f"{100 * mark:g} % of their ledger disks, of which {100 * GUARD:g} % are kept free"
    left = f"{short.bookies} writable bookie is" if short.bookies == 1 else f"{short.bookies} writable bookies are"
    beyond = f"is {size_text(-short.has)} beyond" if short.has < 0 else f"has {size_text(short.has)}"
    return (
        f"{size_text(short.moved)} are to be copied from it, and {left} left with {size_text(short.room)} below the "
        f"mark at which they become read-only ({line}). Bookie {short.bookie} would get about "
        f"{size_text(short.takes)} and {beyond}"
    )


def size_text(size: int) -> str:
    """Bytes as people read them."""
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
