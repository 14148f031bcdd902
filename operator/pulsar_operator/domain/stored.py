"""A stored status, as far as this version of the operator can read it.

Another version may have written it: after an upgrade, or back after one. What it says in a form that is not known any
more counts as never said, as a lost status does (docs/architecture.md); a pass must not fail on it for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

ModelT = TypeVar("ModelT", bound=BaseModel)


def parsed(model: type[ModelT], stored: Mapping[str, Any] | None) -> ModelT:
    """A stored status with the members that the model accepts, whole; the others have their defaults."""
    try:
        return model.model_validate(stored or {})
    except ValidationError:
        return model.model_validate(readable(model, stored))


def unreadable(model: type[BaseModel], stored: Mapping[str, Any] | None) -> frozenset[str]:
    """Names of the members of a stored status that the model does not accept."""
    return frozenset(stored or {}) - readable(model, stored).keys()


def readable(model: type[BaseModel], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The members of a stored status that the model accepts, whole; the others are left out."""
    left = dict(stored or {})
    while left:
        try:
            model.model_validate(left)
        except ValidationError as error:
            refused = {str(each["loc"][0]) for each in error.errors(include_url=False) if each["loc"]} & set(left)
            if not refused:
                return {}
            left = {name: value for name, value in left.items() if name not in refused}
        else:
            return left
    return left
