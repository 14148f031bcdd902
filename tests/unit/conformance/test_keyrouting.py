"""Hashes of keys against values published elsewhere."""

from __future__ import annotations

import pytest

from pulsar_conformance.kit.keyrouting import SCHEMES, java_string_hash, murmur3_hash, partition_of, sign_safe_mod


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello world", 1794106052),
        # The well-known text whose hash code is the smallest int of Java.
        ("polygenelubricants", -(2**31)),
        # One UTF-16 unit, and a surrogate pair: 0xD83D * 31 + 0xDE00.
        ("ß", 223),
        ("\U0001f600", 1772899),
    ],
)
def test_java_string_hash_is_hash_code_without_its_sign_bit(text: str, code: int) -> None:
    """Values of String.hashCode()."""
    assert java_string_hash(text) == code & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        # Vectors for MurmurHash3_x86_32 with seed 0.
        ("", 0x00000000),
        ("test", 0xBA6BD213),
        ("Hello, world!", 0xC0363E43),
        ("The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur3_hash_is_the_published_value_without_its_sign_bit(text: str, whole: int) -> None:
    """All tails but that of 2 bytes occur: 0, 1 and 3 bytes after whole words."""
    assert murmur3_hash(text) == whole & 0x7FFFFFFF


@pytest.mark.parametrize(("dividend", "divisor", "rest"), [(7, 4, 3), (0, 4, 0), (-1, 4, 3), (-8, 4, 0), (-9, 4, 3)])
def test_sign_safe_mod_is_never_negative(dividend: int, divisor: int, rest: int) -> None:
    """As Java's floorMod, not its % operator."""
    assert sign_safe_mod(dividend, divisor) == rest


def test_sign_safe_mod_names_a_wrong_divisor() -> None:
    """A topic without partitions has no partition to choose."""
    with pytest.raises(ValueError, match="divisor 0"):
        sign_safe_mod(1, 0)


def test_partition_of_differs_by_scheme() -> None:
    """Seen with Pulsar 4.0.8's Java client on seven partitions."""
    assert [partition_of(key, 7, "JavaStringHash") for key in ("hello", "key-1", "Größe", "日本")] == [0, 4, 4, 3]
    assert [partition_of(key, 7, "Murmur3_32Hash") for key in ("hello", "key-1", "Größe", "日本")] == [6, 6, 3, 3]
    assert set(SCHEMES) == {"JavaStringHash", "Murmur3_32Hash"}
