"""The converter from pydantic's JSON Schema to structural schemas, one construct at a time."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import Quantity
from pulsar_operator.crdschema import UnsupportedSchemaError, defaulted, structural


class Colour(StrEnum):
    """Colours."""

    RED = "Red"
    BLUE = "Blue"


class Inner(BaseModel):
    """An inner struct."""

    size: Annotated[int, Field(ge=1, le=9)] = 3
    label: str | None = None


class Middle(BaseModel):
    """A struct with a struct."""

    inner: Inner = Inner()


class Recursive(BaseModel):
    """Refers to itself."""

    child: Recursive | None = None


def field_schema(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """The structural schema of one field of that type."""
    model = type("Probe", (BaseModel,), {"__annotations__": {"probe": annotation}, "probe": default})
    return structural(model)["properties"]["probe"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        pytest.param(str, ..., {"type": "string"}, id="string"),
        pytest.param(str | None, None, {"type": "string"}, id="optional"),
        pytest.param(bool, False, {"type": "boolean", "default": False}, id="false-is-a-default"),
        pytest.param(int, 0, {"type": "integer", "format": "int64", "default": 0}, id="unbounded-int"),
        pytest.param(
            Annotated[int, Field(ge=-1, le=2**31 - 1)],
            ...,
            {"type": "integer", "format": "int32", "minimum": -1, "maximum": 2**31 - 1},
            id="int32",
        ),
        pytest.param(
            Annotated[int, Field(ge=0, le=2**31)],
            ...,
            {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**31},
            id="one-more-than-int32",
        ),
        pytest.param(
            Annotated[int, Field(ge=0, le=5, json_schema_extra={"format": "int64"})],
            ...,
            {"type": "integer", "format": "int64", "minimum": 0, "maximum": 5},
            id="stated-format",
        ),
        pytest.param(
            Annotated[int, Field(gt=0, lt=9)],
            ...,
            {
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": True,
            },
            id="exclusive-bounds",
        ),
        pytest.param(Literal["x"], ..., {"type": "string", "enum": ["x"]}, id="const"),
        pytest.param(
            Colour,
            Colour.RED,
            {"type": "string", "enum": ["Red", "Blue"], "default": "Red", "description": "Colours. Defaults to Red."},
            id="enum",
        ),
        pytest.param(
            Annotated[list[str], Field(max_length=3)],
            ...,
            {"type": "array", "maxItems": 3, "items": {"type": "string"}},
            id="list",
        ),
        pytest.param(
            set[str],
            ...,
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            id="set",
        ),
        pytest.param(
            Annotated[dict[str, int], Field(max_length=4)] | None,
            None,
            {
                "type": "object",
                "maxProperties": 4,
                "additionalProperties": {"type": "integer", "format": "int64"},
            },
            id="map",
        ),
        pytest.param(
            dict[str, Any],
            ...,
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="opaque",
        ),
        pytest.param(
            list[dict[str, Any]],
            ...,
            {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            id="list-of-opaque",
        ),
        pytest.param(
            Annotated[str, Field(description="Two\n    lines.", pattern="^a$", min_length=1)],
            ...,
            {"type": "string", "description": "Two lines.", "pattern": "^a$", "minLength": 1},
            id="description-on-one-line",
        ),
    ],
)
def test_conversion(annotation: Any, default: Any, expected: dict[str, Any]) -> None:
    assert field_schema(annotation, default) == expected


def test_quantity_is_int_or_string_without_type() -> None:
    found = field_schema(Quantity | None, None)
    assert found["x-kubernetes-int-or-string"] is True
    assert "type" not in found
    assert "anyOf" not in found
    assert found["maxLength"] == 32


def test_references_are_inlined_and_the_fields_own_description_wins() -> None:
    class Outer(BaseModel):
        """Outer."""

        model_config = ConfigDict(use_attribute_docstrings=True)

        inner: Inner | None = None
        other: Annotated[Inner, Field(description="Another one.")]

    found = structural(Outer)
    inner = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "default": 3},
            "label": {"type": "string"},
        },
    }
    assert found["properties"]["inner"] == inner | {"description": "An inner struct."}
    assert found["properties"]["other"] == inner | {"description": "Another one."}
    assert found["required"] == ["other"]


@pytest.mark.parametrize(
    ("annotation", "default", "description"),
    [
        pytest.param(int, 3, "About it. Defaults to 3.", id="number"),
        pytest.param(bool, False, "About it. Defaults to false.", id="bool"),
        pytest.param(Quantity, "10Gi", "About it. Defaults to 10Gi.", id="quantity"),
        pytest.param(Colour, Colour.RED, "About it. Defaults to Red.", id="enum"),
        pytest.param(Inner, Inner(), "About it. If unset, each field has its default.", id="struct"),
        pytest.param(list[str], [], "About it.", id="empty-list"),
        pytest.param(int | None, None, "About it.", id="optional"),
        pytest.param(int, ..., "About it.", id="required"),
    ],
)
def test_a_description_ends_with_the_default(annotation: Any, default: Any, description: str) -> None:
    described = Annotated[annotation, Field(description="About it.")]
    assert field_schema(described, default)["description"] == description


def test_a_default_is_stated_in_lists_and_not_in_status() -> None:
    class Item(BaseModel):
        """An item."""

        model_config = ConfigDict(use_attribute_docstrings=True)

        size: int = 3
        """Size."""

    (size,) = field_schema(list[Item])["items"]["properties"].values()
    assert size == {"type": "integer", "format": "int64", "description": "Size. Defaults to 3."}
    assert structural(Item, defaults=False)["properties"]["size"]["description"] == "Size."


def test_entries_of_a_list_have_no_description_beside_that_of_the_field() -> None:
    described = Annotated[list[Inner], Field(description="Sizes.")]
    found = field_schema(described)
    assert found["description"] == "Sizes."
    assert "description" not in found["items"]


def test_a_description_that_repeats_the_default_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match="which the generator appends"):
        field_schema(Annotated[int, Field(description="Size. Defaults to 3.")], 3)


def test_default_of_a_struct_is_what_its_fields_default_to() -> None:
    assert field_schema(Inner, Inner())["default"] == {"size": 3}
    assert field_schema(Middle, Middle())["default"] == {"inner": {"size": 3}}
    assert defaulted(structural(Middle)) == {"inner": {"size": 3}}


def test_default_of_a_struct_that_differs_from_its_fields_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"Probe\.probe: its default .* separate type"):
        field_schema(Inner, Inner(size=4))


def test_a_list_has_no_defaults() -> None:
    schema = field_schema(list[Middle], [])
    assert "'default'" not in str(schema["items"])
    assert schema["default"] == []


def test_status_has_no_defaults() -> None:
    assert "'default'" not in str(structural(Middle, defaults=False))


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        pytest.param(float, "type 'number' is not allowed", id="float"),
        pytest.param(int | bool, "union of types", id="union"),
        pytest.param(int | str, "union of types", id="int-or-string-unmarked"),
        pytest.param(Any, "type None is not allowed", id="any"),
        pytest.param(None, "type 'null' is not allowed", id="null"),
        pytest.param(tuple[str, int], "keyword prefixItems", id="tuple"),
        pytest.param(Annotated[int, Field(multiple_of=2)], "keyword multipleOf", id="unknown-keyword"),
        pytest.param(Annotated[str, Field(json_schema_extra={"format": "hostname"})], "format hostname", id="format"),
        pytest.param(Annotated[str, Field(examples=["x"])], "keyword examples", id="examples"),
        pytest.param(Annotated[int, Field(gt=0, ge=1)], "both exclusiveMinimum and minimum", id="two-bounds"),
        pytest.param(
            Annotated[str, Field(json_schema_extra={"x-kubernetes-int-or-string": True})],
            "int-or-string needs the type int | str",
            id="int-or-string-on-string",
        ),
        pytest.param(list, "array needs one schema|type None", id="untyped-list"),
    ],
)
def test_construct_without_a_counterpart_is_refused_with_its_path(annotation: Any, words: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=words) as error:
        field_schema(annotation)
    assert "Probe.probe" in str(error.value)


def test_recursion_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match="Recursive refers to itself"):
        structural(Recursive)


def test_struct_without_fields_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match="object without fields"):
        structural(type("Empty", (BaseModel,), {}))


def test_a_struct_may_keep_members_that_it_does_not_name() -> None:
    class Open(BaseModel):
        """Open."""

        model_config = ConfigDict(extra="allow")
        name: str

    assert structural(Open) == {
        "description": "Open.",
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_fields_and_a_schema_for_the_rest_are_refused() -> None:
    class Open(BaseModel):
        """Open."""

        model_config = ConfigDict(json_schema_extra={"additionalProperties": {"type": "string"}})
        name: str

    with pytest.raises(UnsupportedSchemaError, match="exclude each other"):
        structural(Open)
