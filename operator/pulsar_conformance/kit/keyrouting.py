"""How clients hash a key to choose a partition.

The rules are those of Pulsar's Java client: classes JavaStringHash, Murmur3_32Hash, MathUtils (signSafeMod) and
RoundRobinPartitionMessageRouterImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pulsar_conformance.kit.hashing import murmur3


def java_string_hash(text: str) -> int:
    """String.hashCode() of Java without its sign bit: over UTF-16 code units, as its specification says."""
    units = text.encode("utf-16-be")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return found & 0x7FFFFFFF


def murmur3_hash(text: str) -> int:
    """Murmur3 with 32 bits and seed 0 of the text's UTF-8 bytes, without its sign bit."""
    return murmur3(text.encode())


def sign_safe_mod(dividend: int, divisor: int) -> int:
    """The remainder, which is never negative. Raises ValueError for a divisor that is not positive."""
    if divisor <= 0:
        raise ValueError(f"divisor {divisor}: give the number of partitions, 1 or more")
    return dividend % divisor


SCHEMES: Mapping[str, Callable[[str], int]] = {"JavaStringHash": java_string_hash, "Murmur3_32Hash": murmur3_hash}
"""By the Java client's names of them (enum HashingScheme)."""


def partition_of(key: str, partitions: int, scheme: str) -> int:
    """The partition of a key, from 0 on."""
    return sign_safe_mod(SCHEMES[scheme](key), partitions)
