"""Strict parsing of the protobuf messages that BookKeeper stores in ZooKeeper. Pure.

A misread message may cost data. In binary form protobuf uses the last of several values of a singular field, treats a
value of a wrong type or enum as an unknown field, and truncates a number with too many bits. So a message must
serialize to the bytes that it was parsed from, and no unknown field may have the number of a known one. In text form
protobuf refuses all of that. Source of the messages: DataFormats.proto of BookKeeper 4.17.2.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import message_factory, proto, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

_FORMATS: Final = """
name: "DataFormats.proto" syntax: "proto2"
message_type { name: "UnderreplicatedLedgerFormat"
  field { number: 1 name: "replica" type: TYPE_STRING label: LABEL_REPEATED }
  field { number: 2 name: "ctime" type: TYPE_INT64 label: LABEL_OPTIONAL }
}
message_type { name: "LedgerMetadataFormat"
  enum_type { name: "State"
    value { name: "OPEN" number: 1 } value { name: "IN_RECOVERY" number: 2 } value { name: "CLOSED" number: 3 } }
  enum_type { name: "DigestType" value { name: "CRC32" number: 1 } value { name: "HMAC" number: 2 }
    value { name: "CRC32C" number: 3 } value { name: "DUMMY" number: 4 } }
  nested_type { name: "Segment"
    field { number: 1 name: "ensembleMember" type: TYPE_STRING label: LABEL_REPEATED }
    field { number: 2 name: "firstEntryId" type: TYPE_INT64 label: LABEL_REQUIRED } }
  nested_type { name: "cMetadataMapEntry"
    field { number: 1 name: "key" type: TYPE_STRING label: LABEL_OPTIONAL }
    field { number: 2 name: "value" type: TYPE_BYTES label: LABEL_OPTIONAL } }
  field { number: 1 name: "quorumSize" type: TYPE_INT32 label: LABEL_REQUIRED }
  field { number: 2 name: "ensembleSize" type: TYPE_INT32 label: LABEL_REQUIRED }
  field { number: 3 name: "length" type: TYPE_INT64 label: LABEL_REQUIRED }
  field { number: 4 name: "lastEntryId" type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { number: 5 name: "state" type: TYPE_ENUM type_name: ".LedgerMetadataFormat.State" label: LABEL_REQUIRED }
  field { number: 6 name: "segment" type: TYPE_MESSAGE type_name: ".LedgerMetadataFormat.Segment"
    label: LABEL_REPEATED }
  field { number: 7 name: "digestType" type: TYPE_ENUM type_name: ".LedgerMetadataFormat.DigestType"
    label: LABEL_OPTIONAL }
  field { number: 8 name: "password" type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { number: 9 name: "ackQuorumSize" type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { number: 10 name: "ctime" type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { number: 11 name: "customMetadata" type: TYPE_MESSAGE type_name: ".LedgerMetadataFormat.cMetadataMapEntry"
    label: LABEL_REPEATED }
  field { number: 12 name: "cToken" type: TYPE_INT64 label: LABEL_OPTIONAL }
}
"""
_NO_ESCAPE: Final = re.compile(r"""(?<!\\)(?:\\\\)*\\(?![abfnrtvx0-7?'"\\])""")
"""A backslash before a character that it does not escape; text_format would keep it."""
_FILE: Final = text_format.Parse(_FORMATS, FileDescriptorProto())
_KINDS: Final[Mapping[str, Any]] = message_factory.GetMessages([_FILE], pool=DescriptorPool())


class UndecodableError(ValueError):
    """Stored data is invalid or in an unknown format. The content is then unknown, not empty."""


def read_delimited(name: str, data: bytes) -> Any:
    """Parses a binary message of that name that is preceded by its length and is all of the data. Raises
    UndecodableError."""
    try:
        found = proto.parse_length_prefixed(_KINDS[name], io.BytesIO(data))
    except (DecodeError, ValueError) as error:
        raise UndecodableError(f"the data is not {name} ({error})") from None
    if found is None:
        raise UndecodableError(f"the data of {name} is empty")
    again = io.BytesIO()
    _check(found)
    proto.serialize_length_prefixed(found, again)
    if again.getvalue() != data:
        raise UndecodableError(f"{name} has a field twice, out of order or out of range")
    return found


def read_text(name: str, data: bytes) -> Any:
    """Parses a message of that name in TextFormat. Each line must end with a newline, so that a truncation is detected.
    Raises UndecodableError."""
    text = as_text(data)
    if text and not text.endswith("\n"):
        raise UndecodableError(f"{name} does not end with a line")
    if _NO_ESCAPE.search(text):
        raise UndecodableError(f"{name} has an unknown escape")
    try:
        found = text_format.Parse(text, _KINDS[name]())
    except (text_format.ParseError, ValueError, RecursionError) as error:
        raise UndecodableError(f"the data is not {name} ({error})") from None
    _check(found)
    return found


def as_text(data: bytes) -> str:
    """Returns UTF-8 as text. Raises UndecodableError."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableError(f"the value is not text ({error.reason} at byte {error.start})") from None


def _check(message: Any) -> None:
    """Raises UndecodableError if the message, or one inside it, lacks a field or has a value of another type."""
    kind = message.DESCRIPTOR
    if not message.IsInitialized():
        raise UndecodableError(f"{kind.name} has no {', '.join(message.FindInitializationErrors())}")
    for each in UnknownFieldSet(message):
        if each.field_number in kind.fields_by_number:
            raise UndecodableError(f"{kind.name} has no {kind.fields_by_number[each.field_number].name}")
    for field, value in message.ListFields():
        for each in value if field.is_repeated else (value,):
            if field.message_type is not None:
                _check(each)
            elif field.type == field.TYPE_STRING and not isinstance(each, str):
                raise UndecodableError(f"{kind.name} has a {field.name} that is not text")
