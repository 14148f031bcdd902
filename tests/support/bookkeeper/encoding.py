"""A tiny encoder of ledger metadata, written from the format alone and not from what reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

STATES = {"OPEN": 1, "IN_RECOVERY": 2, "CLOSED": 3}


def varint(number: int) -> bytes:
    """A number of 64 bits; negative ones as their complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number_field(number: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that is bytes, text or a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def framed(body: bytes, version: str = "3") -> bytes:
    """A message as a znode has it."""
    return f"BookieMetadataFormatVersion\t{version}\n".encode() + varint(len(body)) + body


def ledger_body(
    *,
    state: str = "OPEN",
    quorums: tuple[int, int, int] = (2, 2, 2),
    segments: Iterable[tuple[int, Sequence[str]]] = (),
    last: int = -1,
    length: int = 0,
    custom: Mapping[str, bytes] | None = None,
    ctime: int | None = None,
    password: bytes = b"",
) -> bytes:
    """The message; ``quorums`` are ensemble, write and ack."""
    ensemble, write, ack = quorums
    body = number_field(1, write) + number_field(2, ensemble) + number_field(3, length) + number_field(4, last)
    body += number_field(5, STATES[state])
    for first, bookies in segments:
        members = b"".join(bytes_field(1, bookie.encode()) for bookie in bookies)
        body += bytes_field(6, members + number_field(2, first))
    body += number_field(7, 3) + bytes_field(8, password) + number_field(9, ack)
    if ctime is not None:
        body += number_field(10, ctime)
    for key, value in (custom or {}).items():
        body += bytes_field(11, bytes_field(1, key.encode()) + bytes_field(2, value))
    return body + number_field(12, 0)


def ledger(bookies: Sequence[str], state: str = "OPEN", last: int = -1, topic: str | None = None) -> bytes:
    """Metadata of a ledger of one segment, as a znode has it; ``topic`` is the name of a managed ledger."""
    custom = {"application": b"pulsar", "component": b"managed-ledger"}
    return framed(
        ledger_body(
            state=state,
            quorums=(len(bookies), len(bookies), len(bookies)),
            segments=[(0, bookies)],
            last=last,
            custom={} if topic is None else {**custom, "pulsar/managed-ledger": topic.encode()},
        )
    )
