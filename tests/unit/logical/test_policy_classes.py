"""The policy table against the fields of Pulsar's own classes: nothing is missing, and nothing is made up."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from pulsar_operator.domain.policies import NAMESPACE_POLICIES, UNMANAGED_KEYS, UNMANAGED_MEMBERS
from tests.fakes.pulsar_policies import new_namespace
from tests.support.policies.class_file import field_names
from tests.support.policies.classes import (
    LOCAL_FIELDS,
    NAMESPACE_FIELDS,
    TOPIC_FIELDS,
    keys_read,
    rows_without_field,
    unknown_local,
    unknown_of_namespace,
    unknown_of_topic,
)


def test_every_field_of_a_namespace_is_read_or_excused() -> None:
    assert unknown_of_namespace(NAMESPACE_FIELDS) == set()
    assert unknown_of_namespace(new_namespace()) == set()
    read = keys_read()
    assert read <= NAMESPACE_FIELDS, "a row reads what Pulsar does not have"
    assert not read & set(UNMANAGED_KEYS), "excused and read"
    fields = {row.field for row in NAMESPACE_POLICIES}
    assert all(row in fields if row else name in UNMANAGED_KEYS for name, row in LOCAL_FIELDS.items())


def test_every_field_of_a_topic_is_read_or_excused() -> None:
    assert rows_without_field() == set()
    assert not set(TOPIC_FIELDS) & set(UNMANAGED_MEMBERS), "excused and read"


def test_a_new_policy_is_named() -> None:
    assert unknown_of_namespace([*NAMESPACE_FIELDS, "brand_new"]) == {"brand_new"}
    assert unknown_local([*LOCAL_FIELDS, "brandNew"]) == {"brandNew"}
    assert unknown_of_topic([*TOPIC_FIELDS, *UNMANAGED_MEMBERS, "brandNew"]) == {"brandNew"}


def test_field_names_come_from_a_class_file(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return b"\x01" + struct.pack(">H", len(value)) + value.encode()

    long = b"\x05" + bytes(8)  # counts as two constants
    constants = text("kept") + long + text("SHARED") + text("I")
    fields = struct.pack(">HHHHHI", 0x0002, 1, 5, 1, 5, 2) + b"\0\0" + struct.pack(">HHHH", 0x0009, 4, 5, 0)
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, 6) + constants + struct.pack(">HHHH", 1, 0, 0, 0)
    jar = tmp_path / "a.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("x/Y.class", head + struct.pack(">H", 2) + fields)
        archive.writestr("x/Z.class", bytes(8))
    assert field_names(jar, "x.Y") == {"kept"}
    with pytest.raises(KeyError):
        field_names(jar, "x.None")
    with pytest.raises(ValueError, match="no class file"):
        field_names(jar, "x.Z")
