"""Copies of JSON: copy.deepcopy looks for shared parts and cycles, which JSON has none of, and is much slower."""

from __future__ import annotations

import copy
from typing import TypeVar

T = TypeVar("T")
PLAIN = frozenset({str, int, float, bool, type(None)})


def deepcopy(value: T) -> T:
    """A copy that shares nothing that could change."""
    kind = type(value)
    if kind is dict:
        # Most of what is in an object is text, for which a whole copy is quicker than one entry after another.
        out = value.copy()  # type: ignore[attr-defined]
        for key, each in value.items():  # type: ignore[attr-defined]
            if type(each) not in PLAIN:
                out[key] = deepcopy(each)
        return out  # type: ignore[no-any-return]
    if kind is list:
        return [each if type(each) in PLAIN else deepcopy(each) for each in value]  # type: ignore[attr-defined, return-value]
    return value if kind in PLAIN else copy.deepcopy(value)
