"""What the API server in memory holds, as what a copy of a whole world shares with the world."""

from __future__ import annotations

from typing import Any

from pulsar_operator.ports import Json
from tests.fakes import ssa

Id = tuple[str, str, str, str]
"""group, kind, namespace, name"""


class Stored(dict[Id, Json]):
    """Objects that are never changed; a copy of the whole world has the same ones."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Stored:
        return Stored(self)


class Owners(dict[Id, dict[str, ssa.Managers]]):
    """Who owns which fields of an object and of its status, in sets that are never changed."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Owners:
        return Owners({key: {part: dict(found) for part, found in parts.items()} for key, parts in self.items()})


class Shown(dict[Id, tuple[Json, Json]]):
    """Objects and their copies; a copy of the whole world begins without."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Shown:
        return Shown()


class Order(dict[tuple[str, str], list[Id]]):
    """Ids by group and kind, in order; a copy of the whole world begins without."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Order:
        return Order()
