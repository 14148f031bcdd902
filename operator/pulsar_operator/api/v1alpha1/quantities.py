"""Numbers of bytes as Kubernetes quantities: 256Mi, or a plain integer; compared by value.

The notation is that of apimachinery's resource.Quantity (https://kubernetes.io/docs/reference/kubernetes-api/
common-definitions/quantity/).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

KIBI: Final = 2**10
MEBI: Final = 2**20

SUFFIXES: Final = {
    **{"": Decimal(1), "n": Decimal(10) ** -9, "u": Decimal(10) ** -6, "m": Decimal(10) ** -3},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
"""Factors of the suffixes; a number may have a decimal exponent in place of one."""

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)([A-Za-z]{0,2})")


def quantity(value: Any) -> Decimal | None:
    """The number a quantity means; None for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value)
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None or found[2] not in SUFFIXES or (found[2] and "e" in found[1].lower()):
        return None
    return Decimal(found[1]) * SUFFIXES[found[2]]


def byte_size(value: Any) -> int:
    """The bytes a quantity or an integer means. Raises ValueError."""
    found = quantity(value)
    if found is None or found != found.to_integral_value():
        raise ValueError("the value must be a whole number of bytes, as a quantity such as 256Mi or as an integer")
    return int(found)


def size_text(size: int) -> str | int:
    """The shortest exact notation: 256Mi for 268435456, and the number where none is whole."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        factor = int(SUFFIXES[suffix])
        if size >= factor and size % factor == 0:
            return f"{size // factor}{suffix}"
    return size


def cel_size(path: str) -> str:
    """A CEL expression for the bytes at a path; -1 for what is no size, which a rule of the field itself refuses.

    asInteger() of the API server's quantities fails on 100Ti and 1.5Gi, which resource.Quantity keeps as decimals, so
    it goes by floating point, which is exact up to 2^53.
    """
    number = f"int(quantity({path}).asApproximateFloat() + 0.5)"
    below, least = f"quantity({path}).isLessThan(quantity('8Ei'))", f"!quantity({path}).isLessThan(quantity('0'))"
    in_range = f"isQuantity({path}) && {least} && {below}"
    return f"(type({path}) == int ? {path} : ({in_range} ? {number} : -1))"


class ByteSize:
    """Metadata of an ``int`` field of bytes that is written as a quantity: ``Annotated[int, ByteSize(ge=0, le=...)]``.

    In Python the value is an integer; in JSON it is the shortest exact notation.
    """

    def __init__(self, *, ge: int, le: int = 2**63 - 1, whole: int = 1) -> None:
        """``whole`` is what sizes above 0 must be a multiple of; -1 as ``ge`` means that -1 is no limit."""
        self._ge, self._le, self._whole = ge, le, whole

    @property
    def rule(self) -> str:
        """The message of the CEL rule: what is allowed."""
        least = "-1 (no limit)" if self._ge == -1 else size_text(self._ge)
        most = "" if self._le == 2**63 - 1 else f" and at most {size_text(self._le)}"
        whole = "" if self._whole == 1 else f", in multiples of {size_text(self._whole)}"
        return f"the value must be a number of bytes, such as 256Mi, of at least {least}{most}{whole}"

    def check(self, value: Any) -> int:
        """The bytes of a value. Raises ValueError saying what is allowed."""
        size = byte_size(value)
        if not self._ge <= size <= self._le or (size > 0 and size % self._whole):
            raise ValueError(self.rule)
        return size

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """An integer, from an integer or a quantity."""
        return core_schema.no_info_plain_validator_function(
            self.check, serialization=core_schema.plain_serializer_function_ser_schema(size_text, when_used="json")
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """int-or-string, with the range as a CEL rule: a bound of the schema would not hold for text."""
        size, text = cel_size("self"), "" if self._ge >= 0 else "self == '-1' || "
        whole = "" if self._whole == 1 else f" && ({size} <= 0 || {size} % {self._whole} == 0)"
        most = "" if self._le == 2**63 - 1 else f" && {size} <= {self._le}"
        exact = f"isQuantity(self) && quantity(self).compareTo(quantity(string({size}))) == 0"
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            "x-kubernetes-validations": [
                {
                    "rule": f"(type(self) == int || {text}{exact}) && {size} >= {self._ge}{most}{whole}",
                    "message": self.rule,
                }
            ],
        }
