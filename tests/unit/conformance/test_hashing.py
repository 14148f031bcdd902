"""Hashes of keys and topics against values of Pulsar's own classes."""

from __future__ import annotations

from pulsar_conformance.kit.hashing import range_hash, ring_hash


def test_values_of_pulsar() -> None:
    assert range_hash("k1") == 24618
    assert ring_hash("k1") == 56817
