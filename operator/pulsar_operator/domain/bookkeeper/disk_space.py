"""Decides whether the remaining bookies have room for the copies from a decommissioned one. Pure.

A copy of a ledger goes to a writable bookie that does not have the ledger yet, with the same probability for each
(class RackawareEnsemblePlacementPolicyImpl, replaceBookie). So the bytes on the bookie are counted by the other bookies
of the ensembles, and distributed evenly over the remaining ones. Each must have room for its share below the stop line,
which is GUARD below the threshold at which a bookie becomes read-only. Racks and weights may distribute copies less
evenly, and clients write in the meantime. The check is therefore repeated while copies are made, and copying stops
before a bookie is expected to exceed the line. The metadata of a ledger that is not closed does not contain its size.
Such a ledger counts once its topic is unloaded, which is before copies are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_operator.domain.bookkeeper.storage_facts import Space

GUARD: Final = 0.02
"""Share of its disks that each bookie keeps free below the threshold, for what is written between two checks."""
MARGIN: Final = 1.05
"""Factor by which the counted bytes are increased before copying begins, so that it need not stop for new writes."""
ENTRY: Final = 64
"""Bytes of an entry besides its content: its header, its digest and its place in the index."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

Peers = Mapping[frozenset[str], int]
"""Bytes of ledgers on a bookie, by the other bookies that have them."""


@dataclass(frozen=True)
class Shortage:
    """The missing room for copies."""

    moved: int
    """Bytes to be copied."""
    room: int
    """Bytes below the stop line of all remaining bookies."""
    bookies: int
    """Number of remaining bookies."""
    bookie: str
    """Id of the bookie that lacks the most room."""
    takes: int
    """Bytes that it is expected to get."""
    has: int
    """Bytes that it has below the stop line; negative if it is above the line."""


def unknown_of(peers: Peers, targets: frozenset[str], disks: Mapping[str, Space]) -> str | None:
    """Returns a bookie that may get a share and does not report its disk usage; None if there is none."""
    return next((each for each in sorted(_shares(peers, targets)) if each not in disks), None)


def shortage(
    peers: Peers, targets: frozenset[str], disks: Mapping[str, Space], mark: float, margin: float = 1.0
) -> Shortage | None:
    """Returns the missing room of the bookie that lacks the most; None if all have room for their shares.

    ``targets`` are the remaining writable bookies, ``disks`` those of all that get a share, and ``mark`` the share of
    its disks at which a bookie becomes read-only.
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
    """Returns the bytes that each bookie is expected to get. Ledgers without an eligible bookie are left out; the check
    of the ensembles reports them."""
    found: dict[str, float] = {}
    for others, size in peers.items():
        eligible = sorted(targets - others)
        for each in eligible:
            found[each] = found.get(each, 0.0) + size / len(eligible)
    return {each: share for each, share in found.items() if share > 0}


def describe_shortage(short: Shortage, mark: float) -> str:
    """Returns a message with the figures."""
    line = f"{100 * mark:g} % of their ledger disks, of which {100 * GUARD:g} % are kept free"
    left = (
        f"The {short.bookies} remaining writable bookie has"
        if short.bookies == 1
        else (f"The {short.bookies} remaining writable bookies have")
    )
    beyond = (
        (f"already is {size_text(-short.has)} above this mark") if short.has < 0 else f"has only {size_text(short.has)}"
    )
    return (
        f"{size_text(short.moved)} must be copied from the bookie. {left} {size_text(short.room)} of space below "
        f"the mark at which they become read-only ({line}). Bookie {short.bookie} would receive about "
        f"{size_text(short.takes)}, but {beyond}"
    )


def size_text(size: int) -> str:
    """Returns a readable size with its unit."""
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
