"""The text of a counted message: who sent it, which number it has and when, padded to the wanted size."""

from __future__ import annotations

from typing import NamedTuple

_MARK = b"counting"
_SEPARATOR = b"|"


class Stamp(NamedTuple):
    """What identifies one message. Numbers count from 0 for each producer and key.

    ``micros`` is the publish time in microseconds since the ledger was made, by its own clock.
    """

    run: str
    producer: int
    key: int
    number: int
    micros: int


def encode(stamp: Stamp, size: int = 0) -> bytes:
    """The message's bytes: readable, at least ``size`` long unless the stamp alone is longer."""
    head = b"|".join((_MARK, *(str(part).encode() for part in stamp), b""))
    return head.ljust(size, b".")


def decode(data: bytes) -> Stamp | None:
    """The stamp of a counted message, None for any other."""
    parts = data.split(_SEPARATOR, 6)
    if len(parts) != 7 or parts[0] != _MARK:
        return None
    try:
        producer, key, number, micros = (int(part) for part in parts[2:6])
        return Stamp(parts[1].decode(), producer, key, number, micros)
    except ValueError:
        return None
