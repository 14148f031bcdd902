"""A reader of protobuf messages, in binary and in text, for the few that BookKeeper keeps in ZooKeeper. Pure.

Strict, because what is misread here may cost data: a message that is cut short, has a wrong wire type, lacks a required
field or has a singular one twice is no message. One schema serves both forms. Sources: protobuf's encoding guide, class
TextFormat of protobuf-java 3.25 (what it prints, not all that it reads), DataFormats.proto of BookKeeper 4.17.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

Values = dict[str, Any]
"""A message by name of field: int, str or bytes, Values of a message inside it, a list of those of a repeated field.
An enum is its name. Optional fields that are absent have no key; repeated ones then have an empty list."""

MAX_DEPTH: Final = 8
_MAX_VARINT: Final = 10
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = MappingProxyType({_FIXED64: 8, _FIXED32: 4})


class UndecodableError(ValueError):
    """What is stored is not what it should be, or is of a form that is not known here: it says nothing, not "none"."""


class Type(StrEnum):
    """Types of fields, of those that BookKeeper uses."""

    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"
    BYTES = "bytes"
    ENUM = "enum"
    MESSAGE = "message"


_NUMERIC: Final = frozenset({Type.INT32, Type.INT64, Type.ENUM})


@dataclass(frozen=True)
class Field:
    """One field of a message."""

    number: int
    name: str
    type: Type
    required: bool = False
    repeated: bool = False
    message: Message | None = None
    """Of type MESSAGE: which."""
    values: tuple[str, ...] = ()
    """Of type ENUM: its names; the first is number 1, as in all enums of DataFormats.proto."""


@dataclass(frozen=True)
class Message:
    """A message and its fields."""

    name: str
    fields: tuple[Field, ...]

    @cached_property
    def by_number(self) -> Mapping[int, Field]:
        """Its fields by their numbers."""
        return MappingProxyType({each.number: each for each in self.fields})

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """Its fields by their names."""
        return MappingProxyType({each.name: each for each in self.fields})

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Names of the fields that must be there."""
        return tuple(each.name for each in self.fields if each.required)

    @cached_property
    def repeated(self) -> tuple[str, ...]:
        """Names of the fields that may be there more than once."""
        return tuple(each.name for each in self.fields if each.repeated)


def read_delimited(message: Message, data: bytes) -> Values:
    """A message with its length before it, which is all of the data. Raises UndecodableError."""
    length, begin = _varint(data, 0)
    if length != len(data) - begin:
        raise UndecodableError(f"{message.name} should have {length} bytes and has {len(data) - begin}")
    return read_binary(message, data[begin:])


def read_binary(message: Message, data: bytes, depth: int = 0) -> Values:
    """A message in binary form. Fields of numbers that the schema lacks are passed over: newer versions may add some.

    Raises UndecodableError.
    """
    found, position, end, fields = _Found(message), 0, len(data), message.by_number
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise UndecodableError(f"{message.name} has a field of number {number}")
        raw: int | bytes
        if wire == _VARINT:
            raw, position = _varint(data, position)
        elif wire in (_LENGTH, _FIXED64, _FIXED32):
            length, position = _varint(data, position) if wire == _LENGTH else (_FIXED_BYTES[wire], position)
            if length > end - position:
                raise UndecodableError(f"{message.name} ends within field {number}")
            raw, position = data[position : position + length], position + length
        else:
            raise UndecodableError(f"{message.name} has field {number} of wire type {wire}")
        field = fields.get(number)
        if field is not None:
            found.add(field, _binary_value(field, wire, raw, depth))
    return found.values()


def read_text(message: Message, data: bytes) -> Values:
    """A message in text form, as TextFormat prints it: each line ends with a newline, so that a cut is noticed.

    Raises UndecodableError, also for a field that the schema lacks, as TextFormat does.
    """
    text = as_text(data)
    if text and not text.endswith("\n"):
        raise UndecodableError(f"{message.name} does not end with a line")
    tokens = _Tokens(text, message.name)
    values = _text_message(message, tokens, 0)
    if tokens.next is not None:
        raise UndecodableError(f"{message.name} has {tokens.next[:20]!r} where a field should begin")
    return values


def as_text(data: bytes) -> str:
    """UTF-8 as text. Raises UndecodableError."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableError(f"not text: {error.reason} at byte {error.start}") from None


class _Found:
    """The fields met so far."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._values: Values = {name: [] for name in message.repeated}

    def add(self, field: Field, value: Any) -> None:
        if field.repeated:
            self._values[field.name].append(value)
        elif field.name in self._values:
            raise UndecodableError(f"{self._message.name} has {field.name} twice")
        else:
            self._values[field.name] = value

    def values(self) -> Values:
        for name in self._message.required:
            if name not in self._values:
                raise UndecodableError(f"{self._message.name} has no {name}")
        return self._values


# -------------------------------------------------------------------------------------------------------- binary


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned number of 64 bits at most, and where it ends."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1  # most are that small
    value = 0
    for index in range(_MAX_VARINT):
        if position + index >= len(data):
            raise UndecodableError("the data ends within a number")
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, position + index + 1
    raise UndecodableError("a number has more than 64 bits")


def _binary_value(field: Field, wire: int, raw: int | bytes, depth: int) -> Any:
    kind = field.type
    if wire != (_VARINT if kind in _NUMERIC else _LENGTH):
        raise UndecodableError(f"{field.name} has wire type {wire}")
    if isinstance(raw, int):
        signed = raw - (1 << 64) if raw >= 1 << 63 else raw
        return _enum(field, signed) if kind is Type.ENUM else _sized(field, signed)
    if kind is Type.STRING:
        return as_text(raw)
    if field.message is None:
        return raw
    if depth >= MAX_DEPTH:
        raise UndecodableError(f"{field.name} lies too deep")
    return read_binary(field.message, raw, depth + 1)


def _sized(field: Field, value: int) -> int:
    bits = 31 if field.type is Type.INT32 else 63
    if not -(1 << bits) <= value < 1 << bits:
        raise UndecodableError(f"{field.name} has more than {bits + 1} bits")
    return value


def _enum(field: Field, number: int) -> str:
    if not 1 <= number <= len(field.values):
        raise UndecodableError(f"{field.name} has the unknown value {number}")
    return field.values[number - 1]


# ---------------------------------------------------------------------------------------------------------- text

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>-?[0-9]+)|(?P<mark>[:{}]))\s*""",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_ESCAPE: Final = re.compile(rb"\\(?:([0-3][0-7]{2}|[0-7]{1,2})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_NAMED: Final = MappingProxyType(
    {
        b"a": b"\a",
        b"b": b"\b",
        b"f": b"\f",
        b"n": b"\n",
        b"r": b"\r",
        b"t": b"\t",
        b"v": b"\v",
        b"\\": b"\\",
        b"'": b"'",
        b'"': b'"',
        b"?": b"?",
    }
)


class _Tokens:
    """A text, token by token."""

    def __init__(self, text: str, name: str) -> None:
        self._tokens: Iterator[str] = _split(text, name)
        self._name = name
        self.next: str | None = next(self._tokens, None)

    def take(self) -> str:
        token = self.next
        if token is None:
            raise UndecodableError(f"{self._name} ends too early")
        self.next = next(self._tokens, None)
        return token


def _split(text: str, name: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UndecodableError(f"{name} has {text[position : position + 20]!r}, which is no text of protobuf")
        yield match["string"] or match["word"] or match["number"] or match["mark"]
        position = match.end()


def _text_message(message: Message, tokens: _Tokens, depth: int) -> Values:
    found = _Found(message)
    while tokens.next is not None and tokens.next != "}":
        name = tokens.take()
        field = message.by_name.get(name)
        if field is None:
            raise UndecodableError(f"{message.name} has an unknown field {name[:40]!r}")
        found.add(field, _text_value(field, tokens, depth))
    return found.values()


def _text_value(field: Field, tokens: _Tokens, depth: int) -> Any:
    if field.message is not None:
        if depth >= MAX_DEPTH:
            raise UndecodableError(f"{field.name} lies too deep")
        _expect(tokens, "{", field)
        value = _text_message(field.message, tokens, depth + 1)
        _expect(tokens, "}", field)
        return value
    _expect(tokens, ":", field)
    return _SCALARS[field.type](field, tokens.take())


def _expect(tokens: _Tokens, mark: str, field: Field) -> None:
    token = tokens.take()
    if token != mark:
        raise UndecodableError(f"{field.name} has {token[:20]!r} in place of {mark}")


def _text_number(field: Field, token: str) -> int:
    if not _NUMBER.fullmatch(token):
        raise UndecodableError(f"{field.name} has {token[:20]!r} in place of a number")
    return _sized(field, int(token))


def _text_enum(field: Field, token: str) -> str:
    if token not in field.values:
        raise UndecodableError(f"{field.name} has the unknown value {token[:20]!r}")
    return token


def _text_bytes(field: Field, token: str) -> bytes:
    if not token.startswith('"'):
        raise UndecodableError(f"{field.name} has {token[:20]!r} in place of a string")
    return _ESCAPE.sub(lambda match: _unescaped(field, match), token[1:-1].encode())


def _unescaped(field: Field, match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, named = match.groups()
    if octal is not None:
        return bytes([int(octal, 8)])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if named not in _NAMED:
        raise UndecodableError(f"{field.name} has an unknown escape")
    return _NAMED[named]


_SCALARS: Final[Mapping[Type, Callable[[Field, str], Any]]] = MappingProxyType(
    {
        Type.INT32: _text_number,
        Type.INT64: _text_number,
        Type.ENUM: _text_enum,
        Type.BYTES: _text_bytes,
        Type.STRING: lambda field, token: as_text(_text_bytes(field, token)),
    }
)
