"""Values that are never changed, which copies of a world may share."""

from __future__ import annotations

from typing import Any, Self


class Value:
    """Base of a frozen class of immutable fields: its copy is itself."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
