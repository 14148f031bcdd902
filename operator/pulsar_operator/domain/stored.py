"""Reads a stored status as far as this version of the operator can parse it.

Another version may have written it, after an upgrade or a downgrade. Values in an unknown form count as absent, as in
a lost status (docs/architecture.md), since they must not fail every pass. Where a decision depends on a value,
unknown is not absent: `unreadable` names the values that could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from pulsar_operator.api.v1alpha1.base import Rows

ModelT = TypeVar("ModelT", bound=BaseModel)


def parsed(model: type[ModelT], stored: Mapping[str, Any] | None) -> ModelT:
    """Returns the model with the stored values that it accepts. The rest has its defaults."""
    try:
        return model.model_validate(stored or {})
    except ValidationError:
        return model.model_validate(readable(model, stored))


def unreadable(model: type[BaseModel], stored: Mapping[str, Any] | None) -> frozenset[str]:
    """Returns the names of the members that the model does not accept, including lists with such an entry, and
    ``member.row`` for a row in `Rows`."""
    return _read(model, stored)[1]


def readable(model: type[BaseModel], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the members of a stored status that the model accepts. A rejected member is left out as a whole, except
    for lists and `Rows`, of which only the rejected entries and rows are left out."""
    return _read(model, stored)[0]


def _read(model: type[BaseModel], stored: Mapping[str, Any] | None) -> tuple[dict[str, Any], frozenset[str]]:
    left, lost = dict(stored or {}), set[str]()
    while left:
        try:
            model.model_validate(left)
        except ValidationError as error:
            refused = [each["loc"] for each in error.errors(include_url=False) if each["loc"]]
            names = {str(loc[0]) for loc in refused} & set(left)
            if not names:
                return {}, frozenset(stored or {})
            for name in names:
                of_name = [loc[1:] for loc in refused if str(loc[0]) == name]
                whole, rows = _without(model, name, left.pop(name), of_name)
                if whole is not None:
                    left[name] = whole
                lost |= {f"{name}.{row}" for row in rows} or {name}
        else:
            break
    return left, frozenset(lost)


def _without(
    model: type[BaseModel], name: str, value: Any, refused: Iterable[tuple[int | str, ...]]
) -> tuple[Any, frozenset[str]]:
    """Returns a member without the entries or rows that are refused, and the names of those rows; None if the whole
    member is left out."""
    firsts = {loc[0] if loc else None for loc in refused}
    if isinstance(value, list) and all(isinstance(each, int) for each in firsts):
        return [each for number, each in enumerate(value) if number not in firsts], frozenset()
    if isinstance(value, Mapping) and firsts <= value.keys() and _has_rows(model, name):
        return {key: each for key, each in value.items() if key not in firsts}, frozenset(map(str, firsts))
    return None, frozenset()


def _has_rows(model: type[BaseModel], name: str) -> bool:
    """Whether a member has type `Rows`, including optional members."""
    field = next((each for key, each in model.model_fields.items() if name in (key, each.alias)), None)
    types = (field.annotation, *get_args(field.annotation)) if field is not None else ()
    return any(isinstance(each, type) and issubclass(each, Rows) for each in types)
