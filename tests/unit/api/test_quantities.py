"""Byte sizes: every notation of a quantity by its value, and the shortest exact notation back."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from pulsar_operator.api.v1alpha1.quantities import MEBI, ByteSize, byte_size, quantity, size_text


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        (0, 0),
        (-1, -1),
        ("-1", -1),
        ("256Mi", 268435456),
        ("1Gi", 2**30),
        ("1.5Gi", 3 * 2**29),
        ("1k", 1000),
        ("5M", 5_000_000),
        ("2e3", 2000),
        ("1000m", 1),
        ("+1Ki", 1024),
        (".5Ki", 512),
        ("8Ei", 2**63),
    ],
)
def test_the_value_of_a_notation(text: object, bytes_: int) -> None:
    assert byte_size(text) == bytes_


@pytest.mark.parametrize(
    "text", ["", "Mi", "1 Mi", "1mi", "1KiB", "1e3Mi", "lots", "1.5", "1m", True, 1.5, None, "0x10"]
)
def test_what_is_no_size_says_what_is(text: object) -> None:
    with pytest.raises(ValueError, match="such as 256Mi"):
        byte_size(text)


@given(st.integers(-1, 2**63 - 1))
def test_there_and_back(size: int) -> None:
    assert byte_size(size_text(size)) == size


def test_the_shortest_notation() -> None:
    assert [size_text(size) for size in (0, 1000, 1024, 1025, 2**20, 1536 * 2**20, 2**30)] == [
        *(0, 1000, "1Ki", 1025, "1Mi", "1536Mi", "1Gi")
    ]


def test_a_quantity_need_not_be_whole() -> None:
    assert quantity("250m") == Decimal("0.25") and quantity("x") is None


class Kept(BaseModel):
    """Like retention: Pulsar keeps megabytes."""

    size: Annotated[int, ByteSize(ge=-1, le=10 * MEBI, whole=MEBI)]


def test_a_field_is_an_integer_in_python_and_a_quantity_in_json() -> None:
    kept = Kept.model_validate({"size": "2048Ki"})
    assert kept.size == 2 * MEBI and kept == Kept(size=2 * MEBI)
    assert kept.model_dump(mode="json") == {"size": "2Mi"} and kept.model_dump() == {"size": 2 * MEBI}
    assert [Kept(size=size).model_dump(mode="json")["size"] for size in (-1, 0)] == [-1, 0]


@pytest.mark.parametrize("size", [-2, 1, "1500Ki", "11Mi", "much"])
def test_what_a_field_refuses(size: object) -> None:
    with pytest.raises(ValidationError, match="such as 256Mi"):
        Kept.model_validate({"size": size})
