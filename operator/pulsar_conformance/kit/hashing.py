"""Pulsar's hashes and what the broker does with them: which consumer a key or a topic belongs to.

The rules are those of Pulsar 4.0: classes Murmur3_32Hash, StickyKeyConsumerSelectorUtils,
ConsistentHashingStickyKeyConsumerSelector, HashRangeAutoSplitStickyKeyConsumerSelector and
AbstractDispatcherSingleActiveConsumer.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence

Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""Ranges of hashes by consumer, both ends included."""

LAST_HASH = 65535
FAILOVER_POINTS = 100
"""Points of a consumer on the ring of a Failover subscription."""
_WORD = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """32 bit Murmur3 with seed 0, without its sign bit."""
    found = 0
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        found ^= _scrambled(int.from_bytes(data[at : at + 4], "little"))
        found = ((found << 13 | found >> 19) * 5 + 0xE6546B64) & _WORD
    if whole < len(data):
        found ^= _scrambled(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    found = ((found ^ found >> 16) * 0x85EBCA6B) & _WORD
    found = ((found ^ found >> 13) * 0xC2B2AE35) & _WORD
    return (found ^ found >> 16) & 0x7FFFFFFF


def _scrambled(word: int) -> int:
    word = word * 0xCC9E2D51 & _WORD
    return (word << 15 | word >> 17) * 0x1B873593 & _WORD


def ring_hash(key: str) -> int:
    """A key's place on the ring of consistent hashing, 1 to 65535."""
    return murmur3(key.encode()) % LAST_HASH + 1


def range_hash(key: str) -> int:
    """A key's hash for split and for sticky ranges: 1 to 65535, since 0 means "not set" to the broker."""
    return murmur3(key.encode()) % (LAST_HASH + 1) or 1


def ring_ranges(names: Sequence[str], points: int) -> Ranges:
    """The hashes of consumers that joined in this order, with this number of points each; no name occurs twice.

    A hash belongs to the next point at or after it. Of two consumers with the same point the first one has it.
    """
    ring: dict[int, str] = {}
    for name in names:
        for point in range(points):
            ring.setdefault(ring_hash(f"{name}\0{0}\0{point}"), name)
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    low = 1
    ends = [*sorted(ring.items()), (LAST_HASH, ring[min(ring)])]
    for place, (high, name) in enumerate(ends):
        if place + 1 < len(ends) and ends[place + 1][1] == name:
            continue
        if low <= high:
            found[name].append((low, high))
        low = high + 1
    return found


def split_ranges(names: Sequence[str]) -> Ranges:
    """The hashes of consumers that joined in this order: each takes the lower half of the biggest range there is."""
    ends = {LAST_HASH + 1: names[0]}
    for name in names[1:]:
        marks = [0, *sorted(ends)]
        biggest = max(range(1, len(marks)), key=lambda at: (marks[at] - marks[at - 1], -at))
        ends[marks[biggest] - (marks[biggest] - marks[biggest - 1]) // 2] = name
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    low = 0
    for high, name in sorted(ends.items()):
        found[name].append((low, min(high, LAST_HASH)))
        low = high + 1
    return found


def owner(ranges: Ranges, place: int) -> str:
    """The consumer whose ranges hold a hash; "" when none does."""
    for name, owned in ranges.items():
        if any(low <= place <= high for low, high in owned):
            return name
    return ""


def gaps(ranges: Ranges) -> list[str]:
    """Where ranges leave out hashes of 1 to 65535 or hold them twice, as a message; empty when they do neither."""
    found: list[str] = []
    expected = 1
    for low, high in sorted(one for owned in ranges.values() for one in owned):
        if max(low, 1) != expected:
            found.append(
                f"{'no consumer has' if low > expected else 'two consumers have'} "
                f"{min(low, expected)} to {max(low, expected) - 1}"
            )
        expected = high + 1
    if expected <= LAST_HASH:
        found.append(f"no consumer has {expected} to {LAST_HASH}")
    return found


def failover_choice(topic: str, names: Iterable[str]) -> str:
    """The active consumer of a Failover subscription on a topic that is no partition: the hash of its name decides."""
    ring = {murmur3(f"{name}{point}".encode()): name for name in sorted(names) for point in range(FAILOVER_POINTS)}
    places = sorted(ring)
    return ring[places[bisect.bisect_left(places, murmur3(topic.encode())) % len(places)]]
